--- host_examples_spec.lua -- the examples that live in other programs: nginx, Neovim, LÖVE. What is not installed is skipped,
-- and counted so (`make hosts` installs it).

local H = require "spec.helper"

local ENV = ("LUA_PATH='%sbuild/?.lua;%sbuild/?/init.lua;;' LUA_CPATH='%sbuild/?.so;;'"):format(H.root, H.root, H.root)

local function shell(command)
  local pipe = io.popen(("cd '%s' && export %s && ( %s ) 2>&1"):format(H.root, ENV, command))
  local out = pipe:read "*a"
  pipe:close()
  return out
end

local function is_there(program) return shell(("command -v %s >/dev/null && echo yes"):format(program)) == "yes\n" end

describe("examples/nginx", function()
  it("answers a digit with what it is, and anything else with what it takes", function()
    local out = shell [[luajit -e '
      package.path = "examples/nginx/?.lua;" .. package.path
      local answer = require("digit").answer
      local right = 0
      for line in io.lines "examples/data/digits.csv" do
        local pixels, digit = line:match "^(.*),(%d)%s*$"
        right = right + (answer(pixels):match "^%d" == digit and 1 or 0)
      end
      print(right > 1750, right)
      for _, bad in ipairs { "", "1,2", ("x,"):rep(64) } do print(select(2, answer(bad))) end']]
    assert.truthy(out:match "^true\t%d+\n400\n400\n400\n$", out)
  end)
end)

describe("examples/neovim", function()
  it("marks the one line that is unlike the others", function()
    if not is_there "nvim" then return pending "Neovim is not installed" end
    local path = os.tmpname()
    local f = assert(io.open(path, "w"))
    for i = 1, 200 do
      f:write(("  local value%d = compute(input[%d], weights[%d]) + offset\n"):format(i % 7, i * i % 9, i * 3 % 5))
      if i == 120 then f:write "zq!! XKCD jumbled%%text ~~ 8831\n" end
    end
    f:close()
    local out = shell(([[nvim --headless -u NONE '%s' -c 'lua local done
      require("tycho").manual_seed(4)
      dofile "examples/neovim/surprise.lua" (function(ranked) done = ranked end)
      vim.wait(60000, function() return done end, 5)
      local space = vim.api.nvim_create_namespace "surprise"
      print("\nmost surprising:", done[1], "marks:", #vim.api.nvim_buf_get_extmarks(0, space, 0, -1, {}))' -c 'qa!']]):format(path))
    os.remove(path)
    assert.truthy(out:find("most surprising: 121 marks: 201", 1, true), out)
  end)
end)

describe("examples/love", function()
  it("trains between frames, and draws", function()
    if not (is_there "love" and is_there "xvfb-run") then return pending "LÖVE or Xvfb is not installed" end
    local folder = H.root .. "build/spec/love"
    local out = shell(("rm -rf '%s'; XDG_DATA_HOME='%s' TYCHO_FRAMES=90 timeout 120 xvfb-run -a love examples/love"):format(folder, folder))
    local frames, steps, first, last = out:match "(%d+) frames, (%d+) training steps; loss ([%d.]+) %-> ([%d.]+)"
    assert.equal("90", frames, out)
    assert.truthy(tonumber(steps) > 5 and tonumber(last) < tonumber(first), out)
    assert.truthy(io.open(folder .. "/love/love/agents.png"), out)
  end)
end)
