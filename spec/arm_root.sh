#!/bin/sh
# arm_root.sh -- what `make test-arm` runs on: Debian's LuaJIT for arm64, with what it and busted load, unpacked into a folder.
# In: the folder. Out: FOLDER/root, a system that qemu-aarch64 -L finds libraries in; FOLDER/bin/luajit, which runs it. apt gets
# lists, caches and a state of its own there: the system's packages stay as they are.
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
packages="luajit libluajit-5.1-2 libluajit-5.1-common libc6 libgcc-s1 lua-filesystem lua-system lua-term
  libopenblas0-pthread libgfortran5"
[ -x "$folder/bin/luajit" ] && exit 0

apt="$folder/apt"
mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/packages" "$folder/bin"
: >"$apt/status"
private() {
  apt-get -qq -o Dir::State="$apt" -o Dir::State::status="$apt/status" -o Dir::State::lists="$apt/lists" \
    -o Dir::Cache="$apt/cache" -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= "$@"
}
echo "test-arm: unpacking into $folder/root:" $packages
private update >"$apt/log" 2>&1 || { cat "$apt/log"; exit 1; }
(cd "$apt/packages" && private download $packages >>"$apt/log" 2>&1) || { cat "$apt/log"; exit 1; }
for d in "$apt/packages"/*.deb; do dpkg -x "$d" "$folder/root"; done
# The name that the package's scripts would make.
ln -s openblas-pthread/libopenblas.so.0 "$folder/root/usr/lib/aarch64-linux-gnu/libopenblas.so.0"

printf '#!/bin/sh\nexec qemu-aarch64 -L "%s/root" "%s/root/usr/bin/luajit" -O-fuse "$@"\n' "$folder" "$folder" >"$folder/bin/luajit.new"
chmod +x "$folder/bin/luajit.new"
mv "$folder/bin/luajit.new" "$folder/bin/luajit"
rm -rf "$apt"
