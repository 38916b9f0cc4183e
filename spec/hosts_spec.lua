--- hosts_spec.lua -- programs that have a LuaJIT in them, of which those that are there run the same training step to the
-- same bits (hosts.lua; `make hosts` installs them); and other LuaJITs, which TYCHO_LUAJITS="path path ..." names: their
-- bytecode is understood, calls are captured and answered, their programs evaluated. What is not there is skipped, and
-- counted so.

local H = require "spec.helper"

local hosts = {}
for path in (os.getenv "TYCHO_LUAJITS" or ""):gmatch "%S+" do hosts[#hosts + 1] = path end

--- Where modules are found: in the middle the host's own path, and nothing that belongs to this LuaJIT.
local PATH = ("./build/?.lua;./build/?/init.lua;;;%s"):format((package.path:gsub("[^;]*/luajit%-[^;]*;?", "")))

--- Runs a command of the shell in which `luajit` is the host; gives its output and its status.
local function on(host, command)
  local folder = H.root .. "build/spec/hosts"
  local pipe = io.popen(([[cd '%s.' && mkdir -p '%s' && ln -sf "$(command -v '%s')" '%s/luajit' && PATH="$PWD/build/spec/hosts:$PATH" ]]
    .. [[LUA_PATH='%s' LUA_CPATH='%s' %s 2>&1; echo "status $?"]]):format(H.root, folder, host, folder, PATH, package.cpath, command))
  local out = pipe:read "*a"
  pipe:close()
  return out, out:match "status (%d+)\n$"
end

--- Runs a program of Lua on the host; it must end well. Gives what it prints.
local function run(host, code)
  local script = os.tmpname()
  local f = assert(io.open(script, "w"))
  f:write(code)
  f:close()
  local out, status = on(host, "luajit " .. script)
  os.remove(script)
  assert.equal("0", status, out)
  return out
end

--- What must hold on every host, by name.
local claims = {}

--- Closures of a prototype are counted, and their dumps say so; a model has more of them than any other program here.
claims["captures a training step whose layers are closures, and answers it"] = function(host)
  local out = run(host, [[
    local ty = require "tycho"
    ty.manual_seed(1)
    local function layer(n, m)
      local w = ty.randn(n, m):requires_grad_()
      return function(x) return x:matmul(w):tanh() end, w
    end
    local layers, weights = {}, {}
    for i = 1, 9 do layers[i], weights[i] = layer(4, 4) end
    local opt = ty.optim.SGD(weights, { lr = 0.1 })
    local function loss_of(x)
      for i = 1, #layers do x = layers[i](x) end
      return (x - 1):square():mean()
    end
    local step = jit.compile(function(x)
      opt:zero_grad()
      local loss = loss_of(x)
      loss:backward()
      opt:step()
      return loss:detach()
    end)
    for i = 1, 50 do step(ty.ones(8, 4) / i) end
    local e = jit.explain(step)
    print(e.calls, e.skips, e.captures)
  ]])
  assert.equal("50\t50\t1\n", out:match "^%d+%s+%d+%s+%d+\n")
end

claims["captures a function with closures that are new in each call at most twice"] = function(host)
  local out = run(host, [[
    local ty = require "tycho"
    local apply = jit.compile(function(x, f) return f(x) * 2 end)
    for i = 1, 40 do
      local k = i
      local y = apply(ty.ones(3), function(v) local function twice(u) return u + u end return twice(v) + k end)
      assert(y:get(1) == (2 + i) * 2)
    end
    local e = jit.explain(apply)
    print(e.calls, e.captures)
  ]])
  local calls, captures = out:match "^(%d+)%s+(%d+)\n"
  assert.equal("40", calls)
  assert.truthy(tonumber(captures) <= 2, out)
end

claims["gives what plain Lua gives in random functions"] = function(host)
  local out, status = on(host, "luajit spec/fuzz_lua.lua 300 77")
  assert.equal("0", status, out)
end

for _, name in ipairs { "bytecode", "evaluate", "evaluate_all", "capture", "compile" } do
  claims["keeps the claims of " .. name .. "_spec"] = function(host)
    local out = on(host, ("luajit -e 'arg = { [0] = \"busted\", \"-o\", \"spec/report.lua\", \"--lpath=./?.lua\", \"spec/%s_spec.lua\" }' "
      .. "-e 'require \"busted.runner\" { standalone = false }'"):format(name))
    local passed, failed = out:match "(%d+) passed, (%d+) failed"
    assert.equal("0", failed, out)
    assert.truthy(tonumber(passed) > 15, out)
  end
end

claims["takes no release of what is being worked on, by finalisers"] = function(host)
  local out, status = on(host, "LUA_PATH=\"./?.lua;$LUA_PATH\" luajit spec/collected.lua hostile")
  assert.equal("0", status, out:sub(-500))
end

if #hosts == 0 then hosts[1] = false end
for _, host in ipairs(hosts) do
  describe(host or "another LuaJIT", function()
    for _, name in ipairs(H.sorted(claims)) do
      it(name, function()
        if not host then return pending "TYCHO_LUAJITS names none" end
        claims[name](host)
      end)
    end
  end)
end

describe("a program with a LuaJIT in it", function()
  local programs = require "spec.hosts"
  local want = programs.run(programs.list[1])

  it("captures a training step: luajit itself", function()
    assert.truthy(want and want:find("1 captures, 30 of 30 calls without Lua", 1, true), want)
  end)

  for i = 2, #programs.list do
    local program = programs.list[i]
    it((program.says and "says what is missing: " or "captures it to the same bits: ") .. program[1], function()
      if not programs.is_there(program) then return pending "it is not installed" end
      local line, out = programs.run(program)
      if program.says then return assert.equal(program.says, line, out) end
      assert.equal(want:match "^bits %d+, %d+ captures, %d+ of %d+", (line or out):match "^bits %d+, %d+ captures, %d+ of %d+", out)
    end)
  end
end)
