#!/bin/sh
# test.sh -- specs and fuzzers of the library for Windows, under Wine; a training run whose bits are Linux's; the C API's
# claims, and its example with the static library and with the DLL.
#   N=10000 SEED=1 test.sh FOLDER [names, as grad or fuzz_lua: all others are left out]
# In: what `make windows` puts into FOLDER, spec/oracle.dll and programs there. Out: a row for each spec and fuzzer, below it what failed;
# its output is kept in FOLDER/test. Exit status 1 where one failed.
#
# Specs are left out that need what Windows or this harness has not: a POSIX shell and a C compiler within the test
# (bench, docs, editors, embed, evaluate_all, examples, export, host_examples, hosts, install, levels, meta, packages,
# profile, repl, x64), hooks, devices or states made in C (far, hooks, threads), signals and forks (interrupt, pool),
# /proc (checked, collect, files_memory, memory, pages), libraries that are not looked for here (linalg: OpenBLAS;
# image: libpng, libturbojpeg; dist: MPI; cuda_trouble: drivers made in C; toolkit: headers). CLAIMS are those of other specs, for the same reasons and for libzip; the last ones are
# files that Windows does not replace while they are mapped, and rights and links that it does not have.
folder=$(cd "$1" && pwd) || exit 1
shift
here=$(cd "$(dirname "$0")/../.." && pwd)
mkdir -p "$folder/test" "$folder/tmp"
cd "$here" || exit 1

LEFT="bench docs editors embed evaluate_all examples export host_examples hosts install levels meta packages profile repl
  x64 far hooks threads interrupt pool checked collect files_memory memory pages linalg image dist cuda_trouble toolkit"
CLAIMS="gives in ONNX Runtime
composites det
composites inv
jvp inverse
one example cholesky
one example det
one example eigh
one example inv
one example lstsq
one example qr
one example solve
one example slogdet
one example svd
examples: det
examples: solve
each example: det
each example: solve
orthogonal rows
a call: newton
other libraries: polyfit
begins as it was, and is a parameter again
its C libraries beside
beyond an edge of the image
the table of guard instructions
of capture goes to stderr
of capture is off by
whatever TYCHO_LOG says
without ffi
a folder of pictures
npz
may hold nothing
cannot be written whole
whatever the system can do
costs no memory: what a file states
whenever its process is killed
states more members
memory that is used up anywhere
gives nil and a message
where a link leads
keeps links
asks the terminal itself
shown by the command
help is matched by specs
beside 200,000 objects"
# By their share of N, in thousandths, as in run.lua.
FUZZERS="fuzz:255 fuzz_lua:160 fuzz_cells:120 fuzz_library:140 fuzz_alias:50 fuzz_vmap:20 fuzz_grad:15 fuzz_lifetimes:50
  fuzz_sizes:10 fuzz_scan:10 fuzz_forward:10 fuzz_keys:120"

windows() { printf 'Z:%s' "$1" | tr / '\\'; }
export WINEDEBUG=-all WINEPREFIX="$folder/wine" TYCHO_LOG=0
export WINEPATH="$(windows "$folder/luajit/src");$(windows "$folder")" BUSTED_LUA="Z:/usr/share/lua/5.1/?.lua;Z:/usr/share/lua/5.1/?/init.lua"
unset DISPLAY
native() { LUA_PATH="build/?.lua;build/?/init.lua" LUA_CPATH="build/?.so" luajit "$@"; }
wine_lua() {
  LUA_PATH="$(windows "$folder")\\?.lua;$(windows "$folder")\\?\\init.lua;.\\?.lua" LUA_CPATH="$(windows "$folder")\\?.dll" \
    timeout -k 5 900 wine "$folder/luajit/src/luajit.exe" "$@" </dev/null
}

failed=0
row() { # name, command ...: a row, and what the command says where it fails
  log="$folder/test/$1.log" name=$1
  shift
  "$@" >"$log" 2>&1
  status=$?
  tr -d '\r' <"$log" >"$log.text" && mv "$log.text" "$log"
  if [ $status = 0 ]; then
    echo "$name: $(grep -E '[0-9]+ passed' "$log" | tail -1)"
  else
    failed=$((failed + 1))
    echo "$name: FAILED, exit status $status"
    sed 's/^/    /' "$log" | head -60
  fi
}

learned() {
  rm -f "$folder"/tmp/*.safetensors
  native spec/windows/learned.lua "$folder/tmp" linux && wine_lua spec/windows/learned.lua "Z:$folder/tmp" windows &&
    cmp "$folder/tmp/linux ж 日本 é.safetensors" "$folder/tmp/windows ж 日本 é.safetensors" && echo "1 passed"
}

program() { # name of one in FOLDER/spec, arguments
  p="$folder/spec/$1.exe"
  shift
  timeout -k 5 200 wine "$p" "$@" </dev/null
}

# In a folder of their own: their files' names have letters of no code page.
claims() {
  cd "$folder/tmp" || return 1
  n=0 names=$(program claims | tr -d '\r') wrong=0
  for c in $names; do
    program claims "$c" || { wrong=1; echo "FAILED: $c"; }
    n=$((n + 1))
  done
  cd "$here" && [ $wrong = 0 ] && [ $n -gt 20 ] && echo "$n passed"
}

# What it says where OpenBLAS is not found.
absent() {
  wine_lua -e 'local ty = require "tycho"
    for name, f in pairs { svd = ty.linalg.svd, inv = ty.linalg.inv, polyfit = function(x) return ty.polyfit(x[1], x[1], 1) end,
      matrix_norm = function(x) return ty.linalg.matrix_norm(x, 2) end } do
      local ok, why = pcall(f, ty.eye(3))
      assert(not ok and why:find(name .. ": needs LAPACK of OpenBLAS: there is no libopenblas.dll beside"), why)
    end
    local on, why = ty.blas(true)
    assert(not on and why:find "there is no libopenblas.dll", why)' && echo "2 passed"
}

example() {
  model="examples/embed/model.lua" weights="examples/embed/model.safetensors"
  cc examples/embed/main.c -Ibuild/include build/libtycho.a -lm -ldl -lpthread -o "$folder/spec/example" &&
    want=$("$folder/spec/example" $model $weights) || return 1
  for kind in static shared; do
    got=$(program example_$kind $model $weights | tr -d '\r')
    [ "$got" = "$want" ] || { echo "$kind: $got"; return 1; }
  done
  echo "2 passed"
}

chosen() { # name, names: whether it is among them, or there are none
  name=$1
  shift
  [ $# = 0 ] && return 0
  for n in "$@"; do [ "$n" = "$name" ] && return 0; done
  return 1
}

IFS='
'
out="" # busted's options: a pattern of Lua's each
for c in $CLAIMS; do out="$out
--filter-out=$c"; done
unset IFS
spec() {
  IFS='
'
  set -- $out "$1"
  unset IFS
  wine_lua spec/windows/busted.lua -o spec/report.lua "--lpath=./?.lua" "$@"
}

chosen learned "$@" && row learned learned
chosen claims "$@" && row claims claims
chosen example "$@" && row example example
chosen absent "$@" && row absent absent
for f in $FUZZERS; do
  chosen "${f%:*}" "$@" || continue
  n=$((N * ${f#*:} / 1000))
  row "${f%:*}" wine_lua "spec/${f%:*}.lua" $((n > 0 ? n : 1)) "$SEED"
done
for f in spec/*_spec.lua; do
  f=$(basename "$f" _spec.lua)
  case $f in cuda | gpu) continue ;; esac # the software GPU is POSIX's
  case " $(echo $LEFT) " in *" $f "*) [ $# = 0 ] && continue ;; esac
  chosen "$f" "$@" || continue
  row "$f" spec "spec/${f}_spec.lua"
done
[ $failed = 0 ] || { echo "test-windows: $failed failed"; exit 1; }
