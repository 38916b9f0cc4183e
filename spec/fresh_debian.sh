#!/bin/sh
# fresh_debian.sh -- what `make deb` made, luarocks and `make install`, in a Debian 12 that has nothing else: `make test-packages`.
# In: the folder of the packages; CHROOT, where the system is made anew (/tmp/tycho-bookworm). Out: what was run and printed;
# fails at the first thing that is not as it should be. Needs root, debootstrap and Debian's archive.
set -eu
packages=$1
root=${CHROOT:-/tmp/tycho-bookworm}
suite=bookworm
cd "$(dirname -- "$0")/.."

# Mounts are seen by this process and its children alone, and end with them.
[ "${FRESH_DEBIAN:-}" = "$$" ] || FRESH_DEBIAN=$$ exec unshare --mount sh spec/fresh_debian.sh "$packages"

say() { printf '\n--- %s\n' "$*"; }
fail() { printf 'test-packages: %s\n' "$*" >&2; exit 1; }
chroot=$(command -v chroot)
# No variable but PATH is set.
inside() { env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$chroot" "$root" "$@"; }
user() { env -i PATH=/usr/local/bin:/usr/bin:/bin "$chroot" --userspec=65534:65534 "$root" sh -c "cd /tmp && $1"; }
install_packages() { inside apt-get install -y -qq "$@" >"$root/tmp/apt.log" 2>&1 || { tail -20 "$root/tmp/apt.log"; fail "apt-get install $*"; }; }

# expect "what it prints" 'command'
expect() {
  printf '$ %s\n' "$2"
  out=$(user "$2" 2>&1) || { printf '%s\n' "$out"; fail "it failed"; }
  printf '%s\n' "$out"
  [ "$out" = "$1" ] || fail "expected: $1"
}

# The n-th block of a kind in the README.
block() { awk -v fence="\`\`\`$1" '/^```/ { if (on) exit; if ($0 == fence) { on = 1; next } } on' README.md; }

works() {
  expect "$(block text)" 'luajit first.lua'
  expect "$(block text)" 'tycho first.lua'
  expect "" "luajit -e 'require \"tycho\"'"
  expect "6" "tycho -e 'print(ty.ones(2, 3):sum():item())'"
  expect "6" "echo 'print(ty.ones(2, 3):sum():item())' | tycho"
  expect "tycho $version" "tycho --version | cut -d, -f1"
  expect "true" "tycho -e 'print(jit.compile(function(x) return x:exp() end)(ty.ones(3)):equal(ty.ones(3):exp()))'"
}

# What the libraries are for that are loaded when first used.
libraries() {
  expect "true" "tycho -e 'print(ty.blas(true))'"
  expect "-2" "tycho -e 'print((\"%.0f\"):format(ty.linalg.det(ty.tensor {{1, 2}, {3, 4}}):item()))'"
  expect "true" "tycho -e 'print(pcall(require(\"ffi\").load, \"libedit.so.2\"))' | cut -f1"
  for kind in png jpg; do
    expect "8	8" "tycho -e 'assert(ty.save(\"a.$kind\", ty.ones(3, 8, 8))) local x = assert(ty.load \"a.$kind\") print(x:size(2), x:size(3))'"
  done
  expect "1" "tycho -e 'assert(ty.save(\"a.npz\", {a = ty.ones(2)}, {compress = true})) print(assert(ty.load \"a.npz\").a:get(1))'"
}

# What examples/embed prints, by its model in Lua.
by_lua='local agent = assert(loadfile "model.lua")(assert(ty.load_weights "model.safetensors"))
for i, state in ipairs {{0.1, -0.4, 0.7, 0.2}, {1, 2, 3, 4}, {-1, 0, 1, 0}} do
  local y = agent:forward(ty.tensor {state}, 0.5)
  print(("frame %d: action %d, chances %a %a"):format(i - 1, y.action:get(1), y.chance:get(1, 1), y.chance:get(1, 2)))
end'

# examples/embed from a folder, built by the line in its head; after $2, with a rpath, where the system does not look.
embeds() {
  line=$(sed -n 's/^\*\* *\(cc main\.c .*pkg-config.*\) -o embed && .*/\1/p' examples/embed/main.c)
  [ -n "$line" ] || fail "no line for cc in examples/embed/main.c"
  user "rm -rf embed && cp -r $1 embed"
  expect "" "cd embed && ${2:-}$line -o embed ${2:+-Wl,-rpath,\$(pkg-config --variable=libdir tycho)}"
  expect "$chances" "cd embed && ./embed 2>/dev/null"
}

gone() {
  left=$(find "$root/usr" "$root/etc" -iname '*tycho*' ! -path '*/dpkg/*')
  [ -z "$left" ] || fail "left behind: $left"
  user "luajit -e 'require \"tycho\"'" 2>/dev/null && fail "it is there still"
  echo "(nothing of it is left)"
}

version=$(sed -n 's/^#define TY_VERSION "\(.*\)"/\1/p' core/base/base.h)
[ -n "$version" ] || fail "no version in core/base/base.h"

say "a fresh Debian 12 in $root"
rm -rf "$root"
debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 || { tail -20 "$root.log"; fail "debootstrap"; }
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/"
block lua >"$root/tmp/first.lua"
cp "$packages"/tycho_*.deb "$packages"/lua-tycho_*.deb "$root/tmp/"
mkdir "$root/tmp/c"
for name in libtycho0 libtycho-dev; do cp "$packages/${name}_"*.deb "$root/tmp/c/$name.deb"; done
mkdir "$root/tmp/source"
tar -c --exclude=./build --exclude=./.git . | tar -x --no-same-owner -C "$root/tmp/source"
inside apt-get update -qq

say "apt-get install ./tycho.deb ./lua-tycho.deb"
(cd "$root/tmp" && ls *.deb)
install_packages $(cd "$root" && ls -d ./tmp/*.deb | sed 's/^\.//')
sed -n 's/^Setting up \(luajit\|libluajit\|lua-tycho\|tycho\|libopenblas0-p\|libedit2\|libpng\|libturbo\|libzip\)/  &/p' "$root/tmp/apt.log"
works
libraries
printf '$ tycho /usr/share/doc/tycho/examples/digits_mlp.lua\n'
user "tycho /usr/share/doc/tycho/examples/digits_mlp.lua" | tr '\r' '\n' | tail -3
chances=$(user "cp -r source/examples/embed by_lua && cd by_lua && tycho -e '$by_lua'")
for file in share/man/man1/tycho.1.gz share/lua/5.1/tycho/meta.lua share/vim/addons/after/ftplugin/lua/tycho.vim; do
  test -f "$root/usr/$file" || fail "no /usr/$file"
done

say "apt-get purge"
inside apt-get purge -y -qq tycho lua-tycho >/dev/null 2>&1
gone

say "apt-get install ./libtycho-dev.deb ./libtycho0.deb"
install_packages gcc libc6-dev /tmp/c/libtycho-dev.deb /tmp/c/libtycho0.deb
embeds /usr/share/doc/libtycho-dev/examples/embed
expect "libtycho.so.${version%%.*}" "readelf -d embed/embed | sed -n 's/.*NEEDED.*\[\(libtycho.*\)\]/\1/p'"
inside apt-get purge -y -qq libtycho-dev libtycho0 >/dev/null 2>&1
gone

say "luarocks make"
install_packages make luarocks libluajit-5.1-dev
rock() { inside sh -c "cd /tmp/source && luarocks --lua-version 5.1 $*" >"$root/tmp/rock.log" 2>&1 || { tail -20 "$root/tmp/rock.log"; fail "luarocks $*"; }; }
rock make LUA_INCDIR=/usr/include/luajit-2.1
grep installed "$root/tmp/rock.log"
works
rock remove tycho
gone

say "and into a tree of its own"
rock make --tree /opt/rocks LUA_INCDIR=/usr/include/luajit-2.1
expect "6" "/opt/rocks/bin/tycho -e 'print(ty.ones(2, 3):sum():item())'"
expect "6" "eval \"\$(luarocks --lua-version 5.1 --tree /opt/rocks path)\" && luajit -e 'print(require(\"tycho\").ones(2, 3):sum():item())'"

rock remove --tree /opt/rocks tycho

say "make install"
inside sh -c "cd /tmp/source && make -s install" >"$root/tmp/make.log" 2>&1 || { tail -20 "$root/tmp/make.log"; fail "make install"; }
sed -n '/^install:/,$p' "$root/tmp/make.log"
works
embeds /tmp/source/examples/embed
inside make -s -C /tmp/source uninstall
gone

say "make install for one user, beside the system's libraries"
inside sh -c "cd /tmp/source && make -s install PREFIX=/opt/tycho LIBDIR=/opt/tycho/lib64" | sed -n '/^install:/,$p'
expect "6" "/opt/tycho/bin/tycho -e 'print(ty.ones(2, 3):sum():item())'"
embeds /tmp/source/examples/embed "export PKG_CONFIG_PATH=/opt/tycho/lib64/pkgconfig; "
inside make -s -C /tmp/source uninstall PREFIX=/opt/tycho LIBDIR=/opt/tycho/lib64
[ -z "$(find "$root/opt/tycho" ! -type d)" ] || fail "left behind: $(find "$root/opt/tycho" ! -type d)"

say "all of it works"
