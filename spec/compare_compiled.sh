#!/bin/sh
# compare_compiled.sh -- do other people's programs do the same with every function compiled (compile_all.lua)?
# In: a folder that keeps their sources, which Debian has: the programs of Lua 5.1, and Lua's own tests as a project in Go
# brings them. SEEDS: how many rounds. Out: a line for each program whose output or exit status differs; how many ran.
# Where the sources cannot be had it says so, and that is no failure. None of them becomes part of this project.
#
# What differs though all is well: `func` of debug.getinfo and what setfenv returns are not the compiled function; what is
# printed of the time.
folder=$1
here=$(cd "$(dirname "$0")/.." && pwd)
SEEDS=${SEEDS:-3}
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" && cd "$folder" || exit 1
if [ ! -d lua-5.1.5 ] || [ ! -d gopher-lua ]; then
  release=$(. /etc/os-release 2>/dev/null; echo "$VERSION_CODENAME")
  echo "deb-src http://deb.debian.org/debian ${release:-stable} main" >sources.list
  options="-o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$PWD/lists
    -o Dir::Cache=$PWD/cache"
  apt-get $options update -qq >/dev/null 2>&1
  apt-get $options source --download-only lua5.1 >/dev/null 2>&1
  apt-get $options source --download-only golang-github-yuin-gopher-lua >/dev/null 2>&1
  for f in *.orig.tar.*; do [ -f "$f" ] && tar xf "$f"; done
fi
list=$(ls lua-5.1.5/test/*.lua gopher-lua/_lua5.1-tests/*.lua gopher-lua/_glua-tests/*.lua 2>/dev/null |
  grep -v -e trace-calls -e /fib.lua -e /luac.lua -e /all.lua -e /main.lua -e /big.lua -e /db.lua -e /gc.lua -e /checktable.lua)
[ -n "$list" ] || { echo "test-programs: skipped, since this machine has no sources of Debian's lua5.1"; exit 0; }

export TYCHO_LOG=0 SOFT=1 LUA_PATH="$here/build/?.lua;$here/build/?/init.lua;$here/?.lua;;" LUA_CPATH="$here/build/?.so;;"
out=$PWD
run() { # file, mode, seed, seconds, where to
  (cd "$(dirname "$1")" && timeout "$4" luajit "$here/spec/compile_all.lua" "$2" "$3" 2 "$(basename "$1")") \
    >"$5.all" 2>&1 </dev/null
  echo "status $?" >>"$5.all"
  sed -e 's/0x[0-9a-f]*/0x/g' -e 's/[0-9.]* sec/sec/' -e 's/[0-9][0-9]:[0-9][0-9]:[0-9][0-9]//' "$5.all" >"$5"
}
ran=0 differ=0 left=0
for f in $list; do
  run "$f" plain 1 10 "$out/plain"
  run "$f" plain 1 10 "$out/again"
  if ! cmp -s "$out/plain" "$out/again" || grep -q 'status 124' "$out/plain"; then left=$((left + 1)); continue; fi
  for seed in $(seq 1 "$SEEDS"); do
    for mode in parts $((2 + seed * 3)); do
      run "$f" "$mode" "$seed" 100 "$out/compiled"
      ran=$((ran + 1))
      cmp -s "$out/plain" "$out/compiled" && continue
      differ=$((differ + 1))
      echo "$f, $mode, seed $seed: $(diff "$out/plain" "$out/compiled" | sed -n '2p')"
    done
  done
done
echo "test-programs: $ran runs, $differ differ, $left programs left out: slow, or another output each time"
