rockspec_format = "3.0"
package = "tycho"
version = "0.1.0-1"
source = {
  url = "git+file://.", -- `luarocks make` in a clone builds what is there
}
description = {
  summary = "Tensor engine for LuaJIT: models are Lua functions, compiled to fused kernels",
  detailed = [[
Models are written as ordinary Lua functions; jit.compile runs them in fused kernels of machine code, with the results of
plain Lua, bit for bit. Modules and optimisers for neural networks, gradients, vmap, loaders of data, tables, images, plots;
and the command tycho, which is a prompt. It needs LuaJIT 2.1, a C compiler and make; OpenBLAS, libpng, libjpeg-turbo and
libzip are loaded when they are first used.]],
  license = "MIT",
  labels = { "luajit", "tensor", "machine-learning", "autograd", "jit" },
}
supported_platforms = { "unix" }
dependencies = { "lua == 5.1" }
build = {
  type = "make",
  build_target = "modules",
  install_target = "copied-modules",
  build_variables = { LUAINC = "-I$(LUA_INCDIR)" },
  install_variables = {
    PREFIX = "$(PREFIX)",
    LUADIR = "$(LUADIR)",
    LUACDIR = "$(LIBDIR)",
    BINDIR = "$(BINDIR)",
    LUAINC = "-I$(LUA_INCDIR)",
  },
}
