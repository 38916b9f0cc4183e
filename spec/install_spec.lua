--- install_spec.lua -- make install: the module and the command work from where they were put, with no variable set.

local H = require "spec.helper"

--- What a command prints, and whether it went well.
local function run(command)
  local pipe = assert(io.popen(("{ %s; } 2>&1; echo \"status $?\""):format(command)))
  local text = pipe:read "*a"
  pipe:close()
  local out, status = text:match "^(.-)status (%d+)%s*$"
  return out, tonumber(status)
end

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

  it("is undone by make uninstall", function()
    local out, status = run(("make -s -C '%s' uninstall PREFIX='%s'"):format(H.root, prefix))
    assert.equal(0, status, out)
    assert.equal("", (run(("find '%s' -name '*tycho*'"):format(prefix))))
    assert.equal(0, select(2, run(("test -d '%s/bin'"):format(prefix)))) -- what others may use stays
  end)
end)
