#!/bin/sh
# fresh_debian.sh -- what `make deb` made, then a luarocks install, in a Debian 12 that has nothing else: `make test-packages`.
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

gone() {
  left=$(find "$root/usr" "$root/etc" -iname '*tycho*' ! -path '*/dpkg/*')
  [ -z "$left" ] || fail "left behind: $left"
  user "luajit -e 'require \"tycho\"'" 2>/dev/null && fail "it is there still"
  echo "(nothing of it is left)"
}

version=$(sed -n 's/^#define VERSION "\(.*\)"/\1/p' core/lua/lua_settings.c)

say "a fresh Debian 12 in $root"
rm -rf "$root"
debootstrap --variant=minbase "$suite" "$root" >"$root.log" 2>&1 || { tail -20 "$root.log"; fail "debootstrap"; }
mount -t proc proc "$root/proc"
cp /etc/resolv.conf "$root/etc/"
block lua >"$root/tmp/first.lua"
cp "$packages"/tycho_*.deb "$packages"/lua-tycho_*.deb "$root/tmp/"
inside apt-get update -qq

say "apt-get install ./tycho.deb ./lua-tycho.deb"
(cd "$root/tmp" && ls *.deb)
install_packages $(cd "$root" && ls -d ./tmp/*.deb | sed 's/^\.//')
sed -n 's/^Setting up \(luajit\|libluajit\|lua-tycho\|tycho\|libopenblas0-p\|libedit2\|libpng\|libturbo\|libzip\)/  &/p' "$root/tmp/apt.log"
works
libraries
printf '$ tycho /usr/share/doc/tycho/examples/digits_mlp.lua\n'
user "tycho /usr/share/doc/tycho/examples/digits_mlp.lua" | tr '\r' '\n' | tail -3
for file in share/man/man1/tycho.1.gz share/lua/5.1/tycho/meta.lua share/vim/addons/after/ftplugin/lua/tycho.vim; do
  test -f "$root/usr/$file" || fail "no /usr/$file"
done

say "apt-get purge"
inside apt-get purge -y -qq tycho lua-tycho >/dev/null 2>&1
gone

say "luarocks make"
install_packages gcc libc6-dev make luarocks libluajit-5.1-dev
mkdir "$root/tmp/source"
tar -c --exclude=./build --exclude=./.git . | tar -x --no-same-owner -C "$root/tmp/source"
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

say "all of it works"
