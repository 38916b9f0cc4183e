#!/bin/sh
# luajit.sh -- LuaJIT for Windows x64, cross-built from Debian's source package.
# In: a folder. Out: luajit/src/luajit.exe and lua51.dll in it; nothing is done where they are there. Fails when the source
# cannot be had or does not build: the log is luajit.log.
folder=$1
[ -f "$folder/luajit/src/luajit.exe" ] && exit 0
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial" && cd "$folder" || exit 1
if [ ! -d luajit ]; then
  release=$(. /etc/os-release 2>/dev/null; echo "$VERSION_CODENAME")
  echo "deb-src http://deb.debian.org/debian ${release:-stable} main" >sources.list
  options="-o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$PWD/lists
    -o Dir::Cache=$PWD/cache"
  apt-get $options update -qq >/dev/null 2>&1
  apt-get $options source --download-only luajit >/dev/null 2>&1
  dpkg-source --no-check -x luajit_*.dsc luajit >/dev/null 2>&1 ||
    { echo "windows: no source of Debian's luajit (apt-get source), or no dpkg-dev"; exit 1; }
fi
make -s -C luajit HOST_CC=gcc CROSS=x86_64-w64-mingw32- TARGET_SYS=Windows >luajit.log 2>&1 ||
  { tail -5 luajit.log; echo "windows: LuaJIT did not build: $folder/luajit.log"; exit 1; }
