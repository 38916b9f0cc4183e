#!/bin/sh
# What `make hosts` runs on: Debian's packages, and in build/hosts (given as $1) what would take their place: OpenResty's
# LuaJIT with nginx's module, and a Python with a LuaJIT of today.
set -u
folder=$1
sudo=""; [ "$(id -u)" = 0 ] || sudo=sudo
packages="love neovim nginx libnginx-mod-http-ndk wrk sysbench curl lua5.1 python3-venv"
apart="luajit2 libluajit2-5.1-2 libnginx-mod-http-lua lua-resty-core lua-resty-lrucache"
missing=""
for p in $packages; do
  dpkg-query -W -f='${db:Status-Status}' "$p" 2>/dev/null | grep -qx installed || missing="$missing $p"
done
if [ -n "$missing" ] || [ ! -e "$folder/openresty" ]; then $sudo apt-get update -qq >/dev/null; fi
if [ -n "$missing" ]; then
  echo "hosts: installing by apt-get:$missing"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
mkdir -p "$folder"
if [ ! -e "$folder/openresty" ]; then
  echo "hosts: unpacking into $folder: $apart"
  mkdir -p "$folder/unpack" && (cd "$folder/unpack" && for p in $apart; do apt-get download -qq "$p" 2>/dev/null; done
    for d in *.deb; do dpkg -x "$d" root; done; mv root ../openresty)
  rm -rf "$folder/unpack"
fi
if [ ! -x "$folder/python/bin/python" ]; then
  echo "hosts: a Python with lupa"
  python3 -m venv "$folder/python" && "$folder/python/bin/pip" install -q lupa 2>&1 | grep -v notice
fi
exit 0
