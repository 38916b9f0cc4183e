# Tycho. Each target works as the first command after a clone; it installs and builds what is missing.
#
#   make demo     trains a classifier of hand-written digits      make bench    speed, each row beside its floor
#   make test     all specs and the fuzzers                       make fuzz     the fuzzers alone: N=10000 SEED=1
#   make build    build/                                          make lint     warnings, clang-format, luacheck
#   make deps     the system's packages that are missing          make asan     the same under AddressSanitizer
#   make mutate   plants faults, tells which the tests catch      make fuzz-files  file formats: SECONDS=30
#   make coverage what they never run, by folder                  make size     bytes of core.so, by folder
#   make test-export  exported C by many compilers, and for ARM   make bench-export  it beside Tycho: at most 2 x
#   make test-long claims over many cases, all of them
#   make test-arm aarch64 by a cross compiler and qemu: x86-64's bits
#   make test-cuda specs on a software GPU; ptxas takes its texts
#   make test-gpu all that a CUDA card is to prove                make bench-cuda  it beside PyTorch and JAX
#   make test-far specs on a second device                        make install, uninstall  PREFIX=/usr/local
#   make docs     the site: DOCS=build/docs                       make pictures a session at the prompt, as SVG
#   make bench-dist  several processes beside MPI itself         make deps-dist  Open MPI and MPICH, for these and the specs
#   make test-net  three hosts, with delays, losses and faults
#   make hosts    LÖVE, Neovim, nginx ... run a training step
#   make clean                                                    make bench-ops  every function beside NumPy, PyTorch
#   make deb      Debian packages in build/deb                    make test-packages  they and luarocks, in a fresh Debian
#   make windows  core.dll, files.dll, tycho.dll, cross-built      make test-windows  specs and fuzzers under Wine
#   make meta     definitions for language servers                make tsan     threads of the C API, ThreadSanitizer
#   make help     this list
ifeq ($(origin CC),default)
CC      := gcc
endif
PREFIX  ?= /usr/local
DESTDIR ?=
# Random programs: N of a seed that every commit changes, and FIXED of one that stays.
N       ?= 6000
FIXED   ?= 2000
SEED    ?= $(shell printf '%d' 0x$$(git rev-parse --short=7 HEAD 2>/dev/null || echo 1))

B       := build
LUAJIT  := luajit
BUSTED  := busted --lua=/usr/bin/luajit
LUAINC  ?= -I/usr/include/luajit-2.1 -I/usr/local/include/luajit-2.1
PACKAGES := libc6-dev luajit libluajit-5.1-dev lua-busted lua-check clang-format libopenblas0-pthread
# Loaded when they are first used: what releases of Debian and its relatives call them.
LIBRARIES := libzip4/libzip5/libzip4t64 libpng16-16/libpng16-16t64 libturbojpeg0/libturbojpeg libedit2

WARN    := -Wall -Wextra -Werror
# Hosts call from threads whose stacks are small. A sanitizer makes frames larger.
FRAMES  := -Wframe-larger-than=4096 -Wvla
CFLAGS  ?= -O2 -g1
override CFLAGS += -std=c11 $(WARN) -ffp-contract=off -fno-math-errno -fvisibility=hidden -fPIC \
           -D_GNU_SOURCE -Icore -I. $(LUAINC)
COMMA   := ,
# What CC builds for, and the tools beside it.
TARGET  := $(shell $(CC) -dumpmachine 2>/dev/null)
tool     = $(shell $(CC) -print-prog-name=$(1))
# Relative relocations as bits, 30 KB less: needs ld 2.38 (older ones leave it out) and a C library that reads them.
LDFLAGS += -shared -Wl,-z,nodelete -Wl,-z,noseparate-code $(addprefix -Wl$(COMMA)-z$(COMMA),\
           $(if $(findstring x86_64,$(TARGET)),pack-relative-relocs))
LIBS    := -lm -ldl -lpthread
JOBS     = $(if $(findstring j,$(MAKEFLAGS)),,-j2) # a -j from the command line holds

# What is of the operating system; of these files one is empty anywhere. core/file has them too.
SYSTEM  := system system_windows processor fma_windows
# One folder a level (core/README), in the order in which a call flows.
SOURCES := $(wildcard core/*/*.c core/*/*/*.c)
OBJECTS := $(SOURCES:core/%.c=$(B)/obj/%.o)
FILES   := $(filter $(B)/obj/file/%,$(OBJECTS)) $(addprefix $(B)/obj/base/,mem_guard.o $(SYSTEM:=.o))
OBJ     := $(filter-out $(B)/obj/file/% $(B)/obj/embed/% $(B)/obj/device/cuda/% $(B)/obj/dist/%,$(OBJECTS))
# With copies of what it stands on: it shares nothing with core.so but what Device says.
CUDA    := $(filter $(B)/obj/device/cuda/%,$(OBJECTS)) $(addprefix $(B)/obj/base/,mem.o mem_guard.o text.o $(SYSTEM:=.o)) \
  $(addprefix $(B)/obj/ir/,type.o tables.o program.o)
# Messages between ranks, by MPI.
DIST    := $(filter $(B)/obj/dist/%,$(OBJECTS)) $(addprefix $(B)/obj/base/,mem.o mem_guard.o text.o $(SYSTEM:=.o)) \
  $(addprefix $(B)/obj/ir/,type.o tables.o)
EMBED   := $(filter $(B)/obj/embed/%,$(OBJECTS)) $(B)/obj/embed/modules.o
LUA     := $(patsubst lua/tycho/%,$(B)/tycho/%,$(wildcard lua/tycho/*.lua lua/tycho/*/*.lua))
RUN     := LUA_PATH="$(CURDIR)/$(B)/?.lua;$(CURDIR)/$(B)/?/init.lua;;" LUA_CPATH="$(CURDIR)/$(B)/?.so;;"

# Specs and fuzzers compile what cannot be captured: the lines that tell of it are for users.
TEST    := TYCHO_LOG=0 $(RUN)

all: build

# --- what the system must have

deps:
	@missing=""; libraries=""; \
	if command -v dpkg-query >/dev/null; then \
	  have=$$(dpkg-query -W -f='$${Package} $${db:Status-Status}\n' $(PACKAGES) $(subst /, ,$(LIBRARIES)) 2>/dev/null); \
	  for p in $(PACKAGES); do \
	    echo "$$have" | grep -qx "$$p installed" || missing="$$missing $$p"; \
	  done; \
	  for names in $(LIBRARIES); do \
	    echo "$$have" | grep -qxE "($$(echo $$names | tr / '|')) installed" || libraries="$$libraries $$names"; \
	  done; \
	  [ -z "$$missing$$libraries" ] && exit 0; \
	  sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; \
	  $$sudo apt-get update -qq >/dev/null; \
	  for names in $$libraries; do \
	    for p in $$(echo $$names | tr / ' '); do \
	      if apt-cache show $$p >/dev/null 2>&1; then missing="$$missing $$p"; break; fi; \
	    done; \
	  done; \
	  echo "deps: installing by $${sudo:+sudo }apt-get:$$missing"; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; \
	else \
	  for p in $(LUAJIT) busted luacheck clang-format; do \
	    command -v $$p >/dev/null || missing="$$missing $$p"; \
	  done; \
	  [ -z "$$missing" ] && exit 0; \
	  echo "deps: not a Debian system. Please install LuaJIT 2.1 with its headers, busted, luacheck,"; \
	  echo "deps: clang-format and OpenBLAS; not found:$$missing"; exit 1; \
	fi

# --- the library

build: deps
	@$(MAKE) --no-print-directory $(JOBS) library

# A module that has moved would go on being loaded from its old place.
STALE   := $(filter-out $(LUA),$(wildcard $(B)/tycho/*.lua $(B)/tycho/*/*.lua))

library: modules embedded

modules: $(B)/tycho/core.so $(B)/tycho/files.so $(B)/tycho/cuda.so $(B)/tycho/dist.so $(LUA)
	@$(if $(STALE),rm -f $(STALE),:)

$(B)/obj/%.o: core/%.c Makefile
	@mkdir -p $(@D)
	@echo "cc  $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) $(FRAMES) -MMD -MP -c $< -o $@

# Nothing unwinds through what knows no Lua: no tables for it. Guards are calls of Lua's API: straight to it.
$(filter-out $(B)/obj/lua/% $(B)/obj/file/% $(B)/obj/embed/% $(B)/obj/dist/%,$(OBJECTS)): override CFLAGS += -fno-asynchronous-unwind-tables
$(filter $(B)/obj/lua/% $(B)/obj/embed/%,$(OBJECTS)): override CFLAGS += -fno-plt
# See the head of attend.c.
$(B)/obj/device/cpu/attend.o: override CFLAGS += -fno-builtin
# What runs once where a plan is made, or seldom: small before fast.
SELDOM  := compile/lower_value device/cpu/x64_ops lua/lua_export lua/lua_linalg lua/lua_solve lua/lua_complex lua/lua_explain record/complex \
  record/complex_view ir/graph ir/fold compile/lower compile/plan compile/plan_memory compile/fuse record/loop lua/lua_graph \
  lua/lua_capture lua/lua_range lua/lua_profile lua/lua_print lua/lua_account lua/lua_settings lua/lua_open device/cpu/x64_body \
  device/cpu/x64_asm engine/dump engine/shape_range engine/range_tape engine/range_decided engine/traced_plan lua/lua_random \
  record/vmap record/capture record/grad_attend device/cpu/fft_plan device/cpu/x64 device/cpu/blas engine/compile engine/remade \
  engine/replace_graph lua/lua_vmap lua/lua_loop lua/lua_places lua/lua_index lua/lua_probe lua/lua_recorded lua/lua_signal
$(SELDOM:%=$(B)/obj/%.o): override CFLAGS += -Os

$(B)/tycho/core.so: $(OBJ) | $(B)/tycho
	@echo "ld  $@"
	@$(CC) $(OBJ) $(LDFLAGS) $(LIBS) -o $@

# File formats: a shared object of its own, which is loaded when it is first used.
$(B)/tycho/files.so: $(FILES) | $(B)/tycho
	@echo "ld  $@"
	@$(CC) $(FILES) $(LDFLAGS) $(LIBS) -o $@

# The CUDA device: its driver is found when it is first used.
$(B)/tycho/cuda.so: $(CUDA) | $(B)/tycho
	@echo "ld  $@"
	@$(CC) $(CUDA) $(LDFLAGS) $(LIBS) -o $@

# Messages between ranks: MPI is found when it is first used.
$(B)/tycho/dist.so: $(DIST) | $(B)/tycho
	@echo "ld  $@"
	@$(CC) $(DIST) $(LDFLAGS) $(LIBS) -o $@

# The C API: the same objects, whose calls of Lua go through embed/lua_table.c, and the Lua files, in one object that
# shows nothing but ty_*.
VERSION := $(shell sed -n 's/^\#define TY_VERSION "\(.*\)"/\1/p' core/base/base.h)
# Programs ask for libtycho.so.0, its soname: the first number of the version counts up when they must be built again.
SONAME  := libtycho.so.$(firstword $(subst ., ,$(VERSION)))
SHARED  := libtycho.so.$(VERSION)
embedded: $(B)/libtycho.a $(B)/libtycho.so $(B)/include/tycho.h $(B)/include/tycho.hpp

$(B)/obj/embed/modules.c: core/embed/modules.lua $(wildcard lua/tycho/*.lua lua/tycho/*/*.lua)
	@mkdir -p $(@D)
	@$(LUAJIT) $^ >$@

$(B)/obj/embed/modules.o: $(B)/obj/embed/modules.c
	@echo "cc  $<"
	@$(CC) $(CFLAGS) -c $< -o $@

LIBTYCHO := $(OBJ) $(filter $(B)/obj/file/%,$(FILES)) $(filter $(B)/obj/device/cuda/%,$(CUDA)) $(EMBED)
# Of what nm tells: names of Lua's API that are asked for, each with the one that is called in its place.
HOST_NAMES := sed -n 's/^ *U \(luaL\?_[A-Za-z_]*\|luaJIT_[a-z]*\)$$/\1 ty_host_\1/p'
$(B)/libtycho.o: $(LIBTYCHO)
	@echo "ld  $@"
	@$(CC) -r -nostdlib $(filter-out %/lua_table.o,$^) -o $(B)/engine.o
	@$(call tool,nm) -u $(B)/engine.o | $(HOST_NAMES) >$(B)/lua.names
	@$(call tool,objcopy) --redefine-syms=$(B)/lua.names $(B)/engine.o
	@$(CC) -r -nostdlib $(B)/engine.o $(filter %/lua_table.o,$^) -o $@
	@$(call tool,objcopy) --localize-hidden -L luaopen_tycho_core -L luaopen_tycho_files -L luaopen_tycho_cuda $@
	@rm -f $(B)/engine.o

$(B)/libtycho.a: $(B)/libtycho.o
	@rm -f $@
	@$(call tool,ar) rcs $@ $<

$(B)/$(SHARED): $(B)/libtycho.o
	@echo "ld  $@"
	@$(CC) $< $(LDFLAGS) -Wl,-soname,$(SONAME) $(LIBS) -o $@

$(B)/libtycho.so: $(B)/$(SHARED)
	@ln -sf $(SHARED) $(B)/$(SONAME) && ln -sf $(SONAME) $@

$(B)/include/%: core/%
	@mkdir -p $(@D)
	@cp $< $@

$(B)/tycho/%.lua: lua/tycho/%.lua
	@mkdir -p $(@D)
	@cp $< $@

$(B)/tycho:
	@mkdir -p $@

-include $(OBJECTS:.o=.d)

# --- where the system finds it

LUADIR  := $(PREFIX)/share/lua/5.1
LUACDIR := $(PREFIX)/lib/lua/5.1
LIBDIR  := $(PREFIX)/lib
BINDIR  := $(PREFIX)/bin
MANDIR  := $(PREFIX)/share/man/man1
FOLDERS := $(sort $(patsubst lua/tycho/%,%,$(dir $(wildcard lua/tycho/*.lua lua/tycho/*/*.lua))))
BARE    := env -u LUA_PATH -u LUA_CPATH

install: build
	@$(MAKE) --no-print-directory copied
	@[ -n "$(DESTDIR)" ] || { ldconfig 2>/dev/null || true; $(MAKE) --no-print-directory installed; }

# For packagers: builds what is not built, installs no packages, looks at nothing outside of DESTDIR.
STRIPPED = -s --strip-program=$(call tool,strip)
STRIP   ?= $(STRIPPED)
copied: copied-modules copied-embedded

# The Lua module and the command.
copied-modules: modules
	@install -d "$(DESTDIR)$(LUACDIR)/tycho" "$(DESTDIR)$(BINDIR)" "$(DESTDIR)$(MANDIR)"
	@install $(STRIP) -m 755 $(B)/tycho/core.so $(B)/tycho/files.so $(B)/tycho/cuda.so $(B)/tycho/dist.so "$(DESTDIR)$(LUACDIR)/tycho/"
	@for d in '' $(FOLDERS); do \
	  install -d "$(DESTDIR)$(LUADIR)/tycho/$$d" && install -m 644 lua/tycho/$$d*.lua "$(DESTDIR)$(LUADIR)/tycho/$$d" || exit 1; \
	done
	@install -m 755 tycho "$(DESTDIR)$(BINDIR)/tycho"
	@install -m 644 tycho.1 "$(DESTDIR)$(MANDIR)/tycho.1"

# What programs in C and C++ are built with.
copied-embedded: embedded
	@install -d "$(DESTDIR)$(PREFIX)/include" "$(DESTDIR)$(LIBDIR)/pkgconfig"
	@install -m 644 core/tycho.h core/tycho.hpp "$(DESTDIR)$(PREFIX)/include/"
	@install $(STRIP) -m 755 $(B)/$(SHARED) "$(DESTDIR)$(LIBDIR)/"
	@ln -sf $(SHARED) "$(DESTDIR)$(LIBDIR)/$(SONAME)" && ln -sf $(SONAME) "$(DESTDIR)$(LIBDIR)/libtycho.so"
	@install -m 644 $(B)/libtycho.a "$(DESTDIR)$(LIBDIR)/"
	@[ -z "$(STRIP)" ] || $(call tool,strip) -g "$(DESTDIR)$(LIBDIR)/libtycho.a"
	@printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' 'libdir=$(subst $(PREFIX)/,$${prefix}/,$(LIBDIR))' '' \
	  'Name: tycho' 'Description: tensors and compiled models in Lua, for C and C++' 'Version: $(VERSION)' \
	  'Cflags: "-I$${includedir}"' 'Libs: "-L$${libdir}" -ltycho' 'Libs.private: $(LIBS)' \
	  >"$(DESTDIR)$(LIBDIR)/pkgconfig/tycho.pc"

# What of it is found with no variable set, and what to set for the rest.
installed:
	@$(BARE) "$(BINDIR)/tycho" -e 'require "tycho"' && echo "install: $(BINDIR)/tycho runs"
	@case ":$$PATH:" in *":$(BINDIR):"*) ;; *) echo "install: it is not on PATH yet:"; echo '  export PATH="$(BINDIR):$$PATH"';; esac
	@if cd / && $(BARE) $(LUAJIT) -e 'require "tycho"' 2>/dev/null; then \
	  echo "install: $(LUAJIT) -e 'require \"tycho\"' works"; \
	else \
	  echo "install: $(LUAJIT) does not look in $(PREFIX); for it, and for programs that embed it:"; \
	  echo '  export LUA_PATH="$(LUADIR)/?.lua;$(LUADIR)/?/init.lua;;" LUA_CPATH="$(LUACDIR)/?.so;;"'; \
	fi
	@set=""; env -u PKG_CONFIG_PATH pkg-config --exists tycho 2>/dev/null || set='PKG_CONFIG_PATH="$(LIBDIR)/pkgconfig"'; \
	PATH="$$PATH:/sbin:/usr/sbin" ldconfig -p 2>/dev/null | grep -qF " $(LIBDIR)/$(SONAME)" || set="$$set"' LD_LIBRARY_PATH="$(LIBDIR)"'; \
	[ -z "$$set" ] || { echo "install: for C programs that are built with libtycho:"; echo "  export $${set# }"; }

uninstall:
	rm -rf "$(DESTDIR)$(LUADIR)/tycho" "$(DESTDIR)$(LUACDIR)/tycho"
	rm -f "$(DESTDIR)$(BINDIR)/tycho" "$(DESTDIR)$(MANDIR)/tycho.1" "$(DESTDIR)$(PREFIX)/include/tycho.h" "$(DESTDIR)$(PREFIX)/include/tycho.hpp"
	rm -f "$(DESTDIR)$(LIBDIR)/libtycho.a" "$(DESTDIR)$(LIBDIR)/libtycho.so"* "$(DESTDIR)$(LIBDIR)/pkgconfig/tycho.pc"

# Packages that a target alone needs, installed where a command of theirs is missing: $(call need,command,packages)
need = command -v $(1) >/dev/null || { sudo=""; [ "$$(id -u)" = 0 ] || sudo="$(SUDO)"; $$sudo apt-get update -qq >/dev/null; \
  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(2) >/dev/null; }
SUDO := sudo

# lua-tycho, tycho, libtycho0 and libtycho-dev, in build/deb, from a copy of the tree; lintian finds nothing.
DEB     := $(B)/deb
deb: deps
	@$(call need,dh,debhelper)
	@$(call need,lintian,lintian)
	@rm -rf $(DEB) && mkdir -p $(DEB)/tycho && tar -c --exclude=./$(B) --exclude=./.git . | tar -x -C $(DEB)/tycho
	@cd $(DEB)/tycho && dpkg-buildpackage -us -uc -b $(JOBS) >../build.log 2>&1 || { grep -i -m5 'error' ../build.log; echo "deb: see $(DEB)/build.log"; exit 1; }
	@lintian $$([ "$$(id -u)" = 0 ] && echo --allow-root) --fail-on error,warning $(DEB)/*.changes
	@rm -rf $(DEB)/tycho; ls $(DEB)/*.deb

# Both in a fresh Debian 12 (root; debootstrap): packages, then luarocks; see the script.
test-packages: deb
	@$(call need,debootstrap,debootstrap)
	@sh spec/fresh_debian.sh $(DEB)

help:
	@sed -n 's/^#\( \{3\}make.*\)/\1/p' Makefile

# Definitions for language servers, from the texts of ty.help. A spec tells when they are not current.
meta: build
	@$(RUN) $(LUAJIT) -e 'local text = dofile("editors/make_meta.lua")() io.output("lua/tycho/meta.lua"):write(text)'
	@cp lua/tycho/meta.lua $(B)/tycho/meta.lua

# --- Windows x64: build/windows/tycho, cross-built by MinGW-w64 for LuaJIT as Debian has it; the tests run under Wine

WINDOWS := $(B)/windows
WIN_CC  := x86_64-w64-mingw32-gcc-win32
WIN_JIT := $(WINDOWS)/luajit/src
# The C library's printf as C has it; stacks are aligned to 16 bytes, and GCC spills vectors as if to more. Errors of Lua
# unwind by tables that a DLL needs throughout.
WIN_CFLAGS := -std=c11 -O2 -g1 $(WARN) $(FRAMES) -ffp-contract=off -fno-math-errno -fvisibility=hidden -D_GNU_SOURCE \
  -D__USE_MINGW_ANSI_STDIO=1 -Wa,-muse-unaligned-vector-move -Icore -I. -I$(WIN_JIT)
WIN_OBJ    := $(OBJECTS:$(B)/%=$(WINDOWS)/%)
WIN_LINK    = $(WIN_CC) -shared -static-libgcc

windows: deps
	@$(call need,$(WIN_CC),gcc-mingw-w64-x86-64-win32)
	@sh spec/windows/luajit.sh $(WINDOWS)
	@$(MAKE) --no-print-directory $(JOBS) windows-library

windows-library: $(WINDOWS)/tycho/core.dll $(WINDOWS)/tycho/files.dll $(LUA:$(B)/%=$(WINDOWS)/%) \
  $(WINDOWS)/libtycho.a $(WINDOWS)/tycho.dll $(WINDOWS)/include/tycho.h $(WINDOWS)/include/tycho.hpp

$(WINDOWS)/obj/%.o: core/%.c Makefile
	@mkdir -p $(@D)
	@echo "cc  $<, Windows"
	@$(WIN_CC) $(WIN_CFLAGS) -MMD -MP -c $< -o $@

$(WINDOWS)/obj/embed/modules.o: $(B)/obj/embed/modules.c
	@mkdir -p $(@D)
	@echo "cc  $<, Windows"
	@$(WIN_CC) $(WIN_CFLAGS) -c $< -o $@
$(WINDOWS)/obj/device/cpu/attend.o: WIN_CFLAGS += -fno-builtin

$(WINDOWS)/tycho/core.dll: $(OBJ:$(B)/%=$(WINDOWS)/%)
	@mkdir -p $(@D)
	@echo "ld  $@"
	@$(WIN_LINK) $^ $(WIN_JIT)/lua51.dll -o $@

$(WINDOWS)/tycho/files.dll: $(FILES:$(B)/%=$(WINDOWS)/%)
	@mkdir -p $(@D)
	@echo "ld  $@"
	@$(WIN_LINK) $^ $(WIN_JIT)/lua51.dll -o $@

# The C API. Objects are not merged, since ld -r loses there where functions' unwind tables belong: names are changed in each,
# those that do not begin with ty_ too. Programs are linked with the DLL; other compilers make a library for it from tycho.def.
WIN_TOOL   := $(patsubst %gcc-win32,%,$(WIN_CC))
$(WINDOWS)/libtycho.a: $(patsubst $(B)/%,$(WINDOWS)/%,$(filter-out $(B)/obj/device/cuda/%,$(LIBTYCHO)))
	@echo "ar  $@"
	@rm -rf $@ $(@D)/embed && mkdir -p $(@D)/embed
	@{ $(WIN_TOOL)nm -u $(filter-out %/lua_table.o,$^) | $(HOST_NAMES); \
	   $(WIN_TOOL)nm -g --defined-only $^ | sed -n '/ ty_/d; s/^[0-9a-f]* [A-Z] \([a-z][^.]*\)$$/\1 ty_inside_\1/p'; } | \
	   sort -u | sed 'p; s/[^ ]*/.refptr.&/g' >$(@D)/lua.names
	@for o in $(filter-out %/lua_table.o,$^); do \
	  $(WIN_TOOL)objcopy --redefine-syms=$(@D)/lua.names -R .drectve $$o $(@D)/embed/$$(echo $${o#$(@D)/obj/} | tr / _) || exit 1; \
	done
	@$(WIN_TOOL)ar rcs $@ $(@D)/embed/*.o $(filter %/lua_table.o,$^)

$(WINDOWS)/tycho.dll: $(WINDOWS)/libtycho.a core/tycho.h
	@echo "ld  $@"
	@sed -n -e '1i EXPORTS' -e 's/^TY_API.*[ *]\(ty_[a-z_]*\)(.*/\1/p' core/tycho.h >$(@D)/tycho.def
	@$(WIN_LINK) -Wl,--whole-archive $< -Wl,--no-whole-archive $(@D)/tycho.def -Wl,--out-implib,$(@D)/libtycho.dll.a -o $@

$(WINDOWS)/include/%: core/%
	@mkdir -p $(@D)
	@cp $< $@

$(WINDOWS)/tycho/%.lua: lua/tycho/%.lua
	@mkdir -p $(@D)
	@cp $< $@

-include $(WIN_OBJ:.o=.d)

# What specs would compile, then specs, fuzzers, and the hashes of results that Linux gives: SPECS="ops fuzz"
WIN_PROGRAM = $(WIN_CC) -std=c11 -O1 $(WARN) -D_GNU_SOURCE -D__USE_MINGW_ANSI_STDIO=1 -I$(WINDOWS)/include
WIN_SPEC := $(addprefix $(WINDOWS)/spec/,oracle.dll claims.exe example_static.exe example_shared.exe)
$(WIN_SPEC): $(WINDOWS)/libtycho.a $(WINDOWS)/tycho.dll Makefile
$(WINDOWS)/spec/oracle.dll: spec/oracle.c
	@mkdir -p $(@D)
	@$(WIN_CC) -shared -O1 -static -D__USE_MINGW_ANSI_STDIO=1 -Icore $< core/base/fma_windows.c -lquadmath -o $@
$(WINDOWS)/spec/claims.exe: spec/embed.c
	@$(WIN_PROGRAM) $< $(WINDOWS)/libtycho.a -static -lwinpthread -o $@
$(WINDOWS)/spec/example_static.exe: examples/embed/main.c
	@$(WIN_PROGRAM) $< $(WINDOWS)/libtycho.a -o $@
$(WINDOWS)/spec/example_shared.exe: examples/embed/main.c
	@$(WIN_PROGRAM) $< $(WINDOWS)/tycho.dll -o $@

test-windows: build windows
	@$(call need,wine,wine wine64)
	@$(MAKE) --no-print-directory $(WIN_SPEC)
	@N=$(N) SEED=$(SEED) sh spec/windows/test.sh $(WINDOWS) $(SPECS)

# --- use and proof

demo: build
	@./tycho examples/digits_mlp.lua

# The software GPU of the specs: a libcuda.so that executes PTX on the CPU it is built on.
GPU     := $(B)/spec/libcuda.so
GPU_OBJ := $(patsubst spec/gpu/%.c,$(B)/spec/gpu/%.o,$(wildcard spec/gpu/*.c))
NATIVE  := $(if $(findstring x86_64,$(TARGET)),-march=native)
$(B)/spec/gpu/%.o: spec/gpu/%.c Makefile
	@mkdir -p $(@D)
	@echo "cc  $<"
	@$(CC) -std=c11 -D_GNU_SOURCE -O3 $(NATIVE) -g1 $(WARN) -fwrapv -fno-strict-aliasing -fno-math-errno -ffp-contract=off -fPIC \
	  -fvisibility=hidden -MMD -MP -c $< -o $@
$(GPU): $(GPU_OBJ)
	@$(CC) -shared -Wl,-z,nodelete -Wl,-soname,libcuda.so.1 $(GPU_OBJ) -o $@.new -lm -ldl -lpthread && mv $@.new $@
	@ln -sf libcuda.so $@.1
# Stand-ins of the toolkit's libraries, on its memory and streams.
GPU_LIB := $(patsubst spec/gpu/lib/%.c,$(B)/spec/soft_%.so,$(wildcard spec/gpu/lib/*.c))
$(B)/spec/soft_%.so: spec/gpu/lib/%.c spec/gpu/reach.h $(GPU) Makefile
	@echo "cc  $<"
	@$(CC) -std=c11 -D_GNU_SOURCE -O2 -g1 $(WARN) -ffp-contract=off -fPIC -fvisibility=hidden -shared -Wl,-z,nodelete $(filter %.c,$^) \
	  -L$(B)/spec -l:libcuda.so -Wl,-rpath,'$$ORIGIN' -o $@.new -lm -ldl && mv $@.new $@
$(B)/spec/soft_cudnn.so: $(wildcard spec/gpu/lib/cudnn/*.[ch])
gpu: $(GPU) $(GPU_LIB)
-include $(GPU_OBJ:.o=.d)

# All specs and fuzzers (run.lua), or some: SPECS="grad nn fuzz_lua". Their output is kept in build/test.
test: build gpu
	@$(MAKE) --no-print-directory deps-dist SUDO="sudo -n" 2>/dev/null || \
	  echo "test: Open MPI or MPICH cannot be installed: claims of several processes are skipped (make deps-dist tells why)"
	@$(TEST) $(LUAJIT) spec/run.lua $(FIXED) $(N) $(SEED) $(SPECS)

# The claims over many cases, with all of them: `make test` runs a share.
LONG    := collect memory hooks ops export x64 scalars checked composite ranges amx embed files files_memory
test-long: build
	@TEST_LONG=1 $(TEST) $(LUAJIT) spec/run.lua $(FIXED) $(N) $(SEED) $(LONG)

FUZZERS := fuzz fuzz_lua fuzz_cells fuzz_library fuzz_alias fuzz_hooks fuzz_vmap fuzz_grad fuzz_lifetimes fuzz_sizes \
  fuzz_scan fuzz_forward fuzz_keys fuzz_onnx
fuzz: build
	@$(TEST) $(LUAJIT) spec/run.lua $(FIXED) $(N) $(SEED) $(FUZZERS)

# The specs of operations, sorts of programs and training on the device that spec/far.c makes, where nothing but a
# device's own functions can touch its memory, and the fuzzers on both: the bits are those of the CPU. FAR_SEED=7 is
# another order of its work.
FAR     ?= far ops index matrix grad vmap nn optim training convolution attention
FAR_N   ?= 2000
test-far: build
	@status=0; for s in $(FAR); do \
	  FAR_DEFAULT=1 $(TEST) $(BUSTED) --helper=spec/far.lua -o spec/report.lua --lpath="./?.lua" spec/$${s}_spec.lua || status=1; \
	done; \
	for f in fuzz fuzz_lua fuzz_grad; do \
	  n=$(FAR_N); [ $$f = fuzz_grad ] && n=$$(($(FAR_N) / 20)); \
	  FUZZ_DEVICE=far $(TEST) $(LUAJIT) spec/$$f.lua $$n $(SEED) || status=1; \
	done; exit $$status

# The same on the software GPU (spec/gpu), or on a card: TYCHO_CUDA_DRIVER=libcuda.so.1. Texts that they have assembled go to ptxas, where
# it is: all with barriers, and of loop programs so many of some 30,000 (PTXAS_TEXTS=100000 takes all). NVDISASM=nvdisasm (PyPI:
# nvidia-cuda-nvdisasm) shows what share of the inner loops of large products multiply and add. CUDA_OPTIONS: see the head of
# spec/cuda_all.lua, --only=ptxas and others.
PTXAS_TEXTS ?= 2000
NVDISASM    ?=
CUDA_N      ?= 300
CUDA_ARCH   ?= 75 80 90 100 120
test-cuda: build gpu
	@$(TEST) $(LUAJIT) spec/cuda_all.lua --programs=$(CUDA_N) --seed=$(SEED) --processors="$(CUDA_ARCH)" --texts=$(PTXAS_TEXTS) \
	  --nvdisasm="$(NVDISASM)" $(CUDA_OPTIONS)

# All that a card is to prove: bits, compute-sanitizer, libraries, speed, 20,000 random programs. GPU_OPTIONS="--minutes=10 --jobs=8" and
# others: see the head of spec/gpu.lua; --soft on the software GPU.
test-gpu: build $(if $(findstring --soft,$(GPU_OPTIONS)),gpu)
	@$(LUAJIT) spec/gpu.lua $(GPU_OPTIONS)

# Exported C by each of these compilers: the bits are Tycho's. `make test` has the first of them.
EXPORT_CC  ?= gcc -O0;gcc -O3;gcc -O3 -mavx2;gcc -O3 -march=native;clang -O0;clang -O3;clang -O3 -mavx2 -mfma;gcc -O2 -DTY_PLAIN;$(EXPORT_SAN)
EXPORT_SAN ?= gcc -O1 -fsanitize=address,undefined -fno-sanitize-recover=all
EXPORT_ARM ?= aarch64-linux-gnu-gcc -O0 -static;aarch64-linux-gnu-gcc -O3 -static
test-export: build
	@command -v clang >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null && command -v qemu-aarch64 >/dev/null || { \
	  sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq >/dev/null; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
	    clang gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user >/dev/null; }
	@EXPORT_CC="$(EXPORT_CC)" $(TEST) $(BUSTED) -o spec/report.lua spec/export_spec.lua
	@EXPORT_CC="$(EXPORT_ARM)" EXPORT_BY=qemu-aarch64 $(TEST) $(BUSTED) -o spec/report.lua spec/export_spec.lua

# The library for aarch64, built by a cross compiler and run by qemu in Debian's LuaJIT, which lies in build/arm beside it:
# specs, among them that of pinned bits, a share of the fuzzers, exported C. 10 minutes of two cores.
ARM     := $(B)/arm
ARM_CC  ?= aarch64-linux-gnu-gcc
ARM_N   ?= 200
ARM_SPECS ?= bits ops integers training vmap scan parts turns closures random linalg optim fuzz fuzz_lua fuzz_cells fuzz_vmap fuzz_grad
test-arm: build
	@$(call need,$(ARM_CC),gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	@$(call need,qemu-aarch64,qemu-user)
	@sh spec/arm_root.sh $(ARM)
	@$(MAKE) --no-print-directory $(JOBS) library B=$(ARM) CC="$(ARM_CC)"
	@host=$$(command -v $(LUAJIT)); PATH="$(CURDIR)/$(ARM)/bin:$$PATH" TYCHO_BUILD="$(ARM)" TYCHO_CC="$(ARM_CC)" TYCHO_LOG=0 \
	  LUA_PATH="$(CURDIR)/$(ARM)/?.lua;$(CURDIR)/$(ARM)/?/init.lua;;" LUA_CPATH="$(CURDIR)/$(ARM)/?.so;;" \
	  $$host spec/run.lua $(ARM_N) $(ARM_N) 2 $(ARM_SPECS)
	@EXPORT_CC="$(EXPORT_ARM)" EXPORT_BY=qemu-aarch64 $(TEST) $(BUSTED) -o spec/report.lua spec/export_spec.lua

# The file formats under libFuzzer and the sanitizers, each for so many seconds: SECONDS=60 FORMATS="npy gguf" RUNS=100000
SECONDS ?= 30
RUNS    ?= -1
FORMATS ?= npy npz safetensors gguf json csv pnm png jpeg
PARSERS := core/base/mem_guard.c $(SYSTEM:%=core/base/%.c) $(filter-out %_lua.c,$(wildcard core/file/file_*.c))
FUZZED  := $(B)/fuzz
fuzz-files: deps
	@command -v clang >/dev/null || { sudo=""; [ "$$(id -u)" = 0 ] || sudo=sudo; $$sudo apt-get update -qq >/dev/null; \
	  $$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends clang libclang-rt-dev >/dev/null; }
	@$(LUAJIT) spec/fuzz_seeds.lua $(FUZZED)/seeds
	@status=0; for f in $(FORMATS); do \
	  F=$$(echo $$f | tr a-z A-Z); mkdir -p $(FUZZED)/$$f; \
	  clang -std=c11 -O1 -g -D_GNU_SOURCE -Icore -I. -DFORMAT=$$F -DCSV_STORED=256 -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined \
	    spec/fuzz_files.c $(PARSERS) -ldl -lpthread -lm -o $(FUZZED)/fuzz_$$f || exit 1; \
	  $(FUZZED)/fuzz_$$f -max_total_time=$(SECONDS) -runs=$(RUNS) -seed=$(SEED) -rss_limit_mb=1024 -timeout=10 -print_final_stats=1 \
	    -artifact_prefix=$(FUZZED)/ $(FUZZED)/$$f $(FUZZED)/seeds/$$f >$(FUZZED)/$$f.log 2>&1 || status=1; \
	  echo "fuzz-files: $$f: $$(sed -n 's/^stat::number_of_executed_units: */runs /p' $(FUZZED)/$$f.log)" \
	    "$$(grep -m1 -E 'ERROR|SUMMARY|does not hold|runtime error' $(FUZZED)/$$f.log)"; \
	done; exit $$status

# Other people's programs with every function compiled, beside what they do as they are: SEEDS=3. They are Debian's sources.
SEEDS   ?= 3
test-programs: build
	@SEEDS=$(SEEDS) sh spec/compare_compiled.sh $(B)/programs

# Programs that have a LuaJIT in them, Debian's and others: each runs the same training step to the same bits.
hosts: build
	@sh spec/hosts/install.sh $(B)/hosts
	@LUA_PATH="./?.lua;;" $(LUAJIT) spec/hosts.lua

# Faults planted one by one in a copy of the tree: which of them do the tests catch? ONLY=core/device/cuda or ONLY=10-20 for some of
# them, TESTS="cuda_fast cuda" for some tests.
mutate: build gpu
	@$(LUAJIT) spec/mutate.lua "$(ONLY)" $(if $(TESTS),"$(TESTS)")

bench: build $(B)/bench/floor.so $(B)/bench/inside.so
	@$(RUN) $(LUAJIT) bench/run.lua

# The device "cuda" beside PyTorch and JAX, with marks; SOFT=--soft counts on the software GPU instead.
bench-cuda: build $(if $(SOFT),gpu)
	@$(RUN) $(LUAJIT) bench/cuda.lua $(SOFT)

# Exported C beside Tycho itself; ONLY="softmax sort" for some rows. 10 minutes.
bench-export: build
	@TYCHO_THREADS=1 $(RUN) $(LUAJIT) bench/export.lua $(ONLY)

# Every public function of tensors beside NumPy and PyTorch, 7 to 10 minutes; or some: ROUNDS=5 ONLY=softmax
ROUNDS  ?= 3
bench-ops: build
	@$(RUN) $(LUAJIT) bench/ops.lua $(ROUNDS) "$(ONLY)"

# Sums over ranks beside MPI's own, data parallel steps, a model of larger runs, on each MPI that is there: RANKS=2.
RANKS   ?= 2
bench-dist: build
	@for m in mpirun.openmpi mpiexec.mpich; do \
	  command -v $$m >/dev/null && TYCHO_MPIRUN=$$m timeout 300 ./tycho --ranks $(RANKS) -q bench/dist.lua; done; true

# Claims of several processes on three hosts, namespaces of this machine, with delays, losses, and one that is cut off.
test-net: build
	@$(MAKE) --no-print-directory deps-dist; $(call need,ip,iproute2); $(LUAJIT) spec/net.lua

# Both MPIs, for specs of several processes, which are skipped without: 15 MB to fetch, 65 MB on the disk. Each by itself.
deps-dist:
	@status=0; $(call need,mpirun.openmpi,openmpi-bin) || status=1; $(call need,mpiexec.mpich,mpich) || status=1; exit $$status

# The floors are for the machine that measures, unlike the library.
$(B)/bench/floor.so: bench/floor.c Makefile
	@mkdir -p $(@D)
	@$(CC) -std=gnu11 -O3 -march=native -mprefer-vector-width=512 $(WARN) -fPIC -fvisibility=hidden -shared \
	  $(LUAINC) $< -o $@ -lm

# The library again, with a way in that is not Lua's.
$(B)/bench/inside.so: bench/inside.c $(OBJ) Makefile
	@mkdir -p $(@D)
	@$(CC) $(CFLAGS) $(LDFLAGS) $< $(OBJ) $(LIBS) -o $@

# The site, which needs no server: open index.html. Its code runs, and its pictures are drawn, meanwhile.
DOCS    ?= $(B)/docs
docs: build
	@LUA_PATH="$(CURDIR)/?.lua;$(CURDIR)/$(B)/?.lua;$(CURDIR)/$(B)/?/init.lua;;" LUA_CPATH="$(CURDIR)/$(B)/?.so;;" \
	  $(LUAJIT) docs/build.lua "$(DOCS)"

# What README and site show of the prompt: typed into it, drawn from its screen.
pictures: build
	@LUA_PATH="$(CURDIR)/?.lua;;" $(LUAJIT) docs/prompt.lua docs/pictures/prompt.svg

lint: build
	@clang-format --dry-run -Werror core/*/*.[ch] core/*/*/*.[ch] kernels/*.h bench/*.c spec/*.c spec/gpu/*.[ch] spec/gpu/*/*.c spec/gpu/*/*/*.[ch]
	@luacheck -q lua spec examples bench editors docs
	@sh -n tycho && sh -n spec/fresh_debian.sh && sh -n spec/arm_root.sh && sh -n spec/hosts/install.sh && sh -n spec/windows/luajit.sh && sh -n spec/windows/test.sh && bash -n .ci/run
	@echo "lint: clean"

# LuaJIT itself is not instrumented: the sanitizers are loaded before it, and leaks are not looked for.
SAN     := -fsanitize=address,undefined
SANLIBS  = $(foreach l,libasan.so libubsan.so,$(shell $(CC) -print-file-name=$(l)))
asan: deps
	@$(MAKE) --no-print-directory $(JOBS) library B=$(B)/asan FRAMES= LDFLAGS="$(LDFLAGS) $(SAN)" \
	  CFLAGS="-O1 -g $(SAN) -fno-sanitize-recover=undefined -fno-omit-frame-pointer"
	@$(MAKE) --no-print-directory sanitized B=$(B)/asan
sanitized:
	@LD_PRELOAD="$(SANLIBS)" ASAN_OPTIONS=detect_leaks=0 TYCHO_BUILD=$(B) TYCHO_LINK="$(SAN)" \
	  $(TEST) $(LUAJIT) spec/run.lua 500 1000 $(SEED) $(SPECS)

# Engines of the C API on threads of their own, under ThreadSanitizer. LuaJIT itself and kernels are not instrumented.
RACES   := threads contention jobs steps cancels
tsan: deps
	@$(MAKE) --no-print-directory $(JOBS) embedded B=$(B)/tsan FRAMES= LDFLAGS="-shared -fsanitize=thread" \
	  CFLAGS="-O1 -g -fsanitize=thread -fno-omit-frame-pointer"
	@$(CC) -std=c11 -g -O1 -fsanitize=thread -D_GNU_SOURCE -Icore spec/embed.c $(B)/tsan/libtycho.a $(LIBS) -o $(B)/tsan/embed
	@for c in $(RACES); do TYCHO_THREADS=4 $(B)/tsan/embed $$c $(B)/tsan/weights.safetensors 12 >$(B)/tsan/log 2>&1 || \
	  { cat $(B)/tsan/log; exit 1; }; echo "tsan: $$c: no race"; done

# What specs and fuzzers never run, by folder: the library is built again so that it counts, without LuaJIT's compiler, which
# a hook does not see. Some claims about time do not hold here; SPECS chooses as in test.
COVER   := $(CURDIR)/$(B)/coverage
# What lines.c stands in for, and calls.
COUNTED := $(foreach f,gethook gethookmask gethookcount sethook,-Wl,--wrap=lua_$f) -Wl,-u,__gcov_dump
coverage: build
	@command -v gcov >/dev/null || { echo "coverage: gcov is missing; it comes with gcc"; exit 1; }
	@$(MAKE) --no-print-directory $(JOBS) library B=$(B)/coverage FRAMES= LDFLAGS="$(LDFLAGS) --coverage $(COUNTED)" \
	  CFLAGS="-O1 -g --coverage -fprofile-update=atomic"
	@$(CC) -std=c11 -O1 $(WARN) -fPIC -fvisibility=hidden -D_GNU_SOURCE -shared $(LUAINC) spec/lines.c -ldl -o $(COVER)/lines.so
	@rm -rf $(COVER)/lines; mkdir -p $(COVER)/lines; find $(COVER)/obj -name '*.gcda' -delete
	@export TYCHO_LINES="$(COVER)/lines" TYCHO_LUA="@$(COVER)/tycho/" TYCHO_BUILD="$(B)/coverage" TYCHO_LINK=--coverage \
	  LUA_INIT="jit.off() package.loadlib('$(COVER)/lines.so', '*') package.loadlib('$(COVER)/lines.so', 'luaopen_lines')()"; \
	LD_PRELOAD="$(COVER)/lines.so" $(MAKE) --no-print-directory covered B=$(B)/coverage || true
	@$(LUAJIT) spec/coverage.lua $(B)/coverage
covered:
	@$(TEST) $(LUAJIT) spec/run.lua 500 1000 $(SEED) $(SPECS)

# What is loaded, stripped, and what of it comes from which folder: code and data of its objects.
size: build
	@strip -o $(B)/stripped.so $(B)/tycho/core.so; printf '%-24s %9d bytes\n' "core.so, stripped" $$(stat -c %s $(B)/stripped.so); rm $(B)/stripped.so
	@size $(OBJ) | awk 'NR > 1 { sub("$(B)/obj/", "core/", $$6); sub("/[^/]*$$", "", $$6); n[$$6] += $$1 + $$2; all += $$1 + $$2 } \
	  END { for (f in n) printf "%-24s %9d bytes\n", f, n[f] | "sort"; close("sort"); printf "%-24s %9d bytes\n", "all objects", all }'

clean:
	rm -rf $(B)

.PHONY: all deps deps-dist bench-dist test-net build windows windows-library test-windows docs pictures library modules install copied copied-modules copied-embedded installed uninstall deb test-packages meta help demo gpu test test-long test-far test-cuda test-gpu bench-cuda test-arm test-export test-programs hosts fuzz fuzz-files mutate bench bench-export bench-ops lint asan sanitized tsan embedded \
        coverage covered size clean
