--- install_spec.lua -- make install: the module and the command work from where they were put, with no variable set, and
--- programs in C find header and library by pkg-config.

local H = require "spec.helper"

local run = require("spec.module").run

describe("make install", function()
  local prefix = os.tmpname()
  os.remove(prefix)
  prefix = prefix .. " with a space"
  local bare = "cd / && env -u LUA_PATH -u LUA_CPATH "
  teardown(function() H.shell(("rm -rf '%s'"):format(prefix)) end)

  it("puts module and command under a prefix, and says what to set", function()
    local out, status = run(("make -s -C '%s' install PREFIX='%s'"):format(H.root, prefix))
    assert.equal(0, status, out)
    assert.truthy(out:find(prefix .. "/bin/tycho runs", 1, true), out)
    local set = out:match "export (LUA_PATH=[^\n]*)"
    assert.truthy(set, out)
    local code = [[-e 'local ty = require "tycho" print(ty.ones(2):sum():item(), ty.nn.Linear(1, 1) ~= nil, ty.plot ~= nil)']]
    assert.equal("2\ttrue\ttrue\n", (run(("%s '%s/bin/tycho' %s"):format(bare, prefix, code))))
    assert.equal("2\ttrue\ttrue\n", (run(("%s %s luajit %s"):format(bare, set, code))))
    assert.equal("6\n", (run(("echo 'print(ty.ones(2, 3):sum():item())' | %s '%s/bin/tycho'"):format("env -u LUA_PATH -u LUA_CPATH",
      prefix))))
  end)

  local has_pkg_config = select(2, run "pkg-config --version") == 0

  it("gives programs in C a library with a soname of its version", function()
    local lib = prefix .. "/lib/libtycho.so"
    local version = H.ty.version
    local soname = "libtycho.so." .. version:match "^%d+"
    assert.equal(soname .. "\n", (run(("readlink '%s'"):format(lib))))
    assert.equal(("libtycho.so.%s\n"):format(version), (run(("readlink '%s/lib/%s'"):format(prefix, soname))))
    assert.truthy(run(("readelf -d '%s'"):format(lib)):find(("soname: [%s]"):format(soname), 1, true))
  end);

  (has_pkg_config and it or pending)("tells pkg-config how it is built with, wherever LIBDIR is", function()
    local other = prefix .. "/another"
    local dir = other .. "/lib 64"
    local out, status = run(("make -s -C '%s' copied-embedded PREFIX='%s' LIBDIR='%s'"):format(H.root, other, dir))
    assert.equal(0, status, out)
    for _, libdir in ipairs { prefix .. "/lib", dir } do
      out, status = run(([[export PKG_CONFIG_PATH='%s/pkgconfig'; cd '%s/examples/embed' && pkg-config --modversion tycho &&
        eval "cc main.c $(pkg-config --cflags --libs tycho) -Wl,-rpath,'$(pkg-config --variable=libdir tycho)' -o '%s/main'" &&
        '%s/main' 2>/dev/null | cut -c1-8]]):format(libdir, H.root, prefix, prefix))
      assert.equal(0, status, out)
      assert.equal(H.ty.version .. "\nframe 0:\nframe 1:\nframe 2:\n", out)
    end
    out, status = run(("make -s -C '%s' uninstall PREFIX='%s' LIBDIR='%s'"):format(H.root, other, dir))
    assert.equal(0, status, out)
    assert.equal("", (run(("find '%s' ! -type d"):format(other))))
  end)

  it("is undone by make uninstall", function()
    local out, status = run(("make -s -C '%s' uninstall PREFIX='%s'"):format(H.root, prefix))
    assert.equal(0, status, out)
    assert.equal("", (run(("find '%s' -name '*tycho*'"):format(prefix))))
    assert.equal(0, select(2, run(("test -d '%s/bin'"):format(prefix)))) -- what others may use stays
  end)
end)
