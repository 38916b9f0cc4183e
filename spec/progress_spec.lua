--- progress_spec.lua -- progress bars and curves, with a clock and a terminal of our own.

local H = require "spec.helper"
local ty = H.ty
local terminal = require "tycho.terminal"

local real = {}
for k, v in pairs(terminal.world) do real[k] = v end

local now, columns, rows, written, environment

--- What a terminal of that width shows after all that was written: lines of letters. Understands what progress.lua uses.
local function screen()
  local lines, row, column = { {} }, 1, 1
  local i, s = 1, written
  while i <= #s do
    local c = s:sub(i, i)
    local number, what = s:match("^\27%[([%d;]*)(%a)", i)
    if number then
      if what == "A" then row = math.max(1, row - tonumber(number))
      elseif what == "K" then
        for k = column, #lines[row] do lines[row][k] = nil end
      elseif what == "J" then
        for k = row + 1, #lines do lines[k] = nil end
        for k = column, #lines[row] do lines[row][k] = nil end
      else assert.equal("m", what) end
      i = i + #number + 3
    elseif c == "\r" then
      column, i = 1, i + 1
    elseif c == "\n" then
      row, column, i = row + 1, 1, i + 1
      lines[row] = lines[row] or {}
    else
      local letter = s:match("^[%z\1-\127\192-\255][\128-\191]*", i)
      lines[row][column] = letter
      assert.truthy(column < columns or not columns, "the last column was written")
      column, i = column + 1, i + #letter
    end
  end
  local out = {}
  for k, line in ipairs(lines) do
    for at = 1, #line do line[at] = line[at] or " " end
    out[k] = table.concat(line)
  end
  return out
end

before_each(function()
  now, columns, rows, written = 100, 80, 24, ""
  environment = { LANG = "C.UTF-8", TERM = "xterm-256color" }
  terminal.world.clock = function() return now end
  terminal.world.size = function() return columns, rows end
  terminal.world.getenv = function(name) return environment[name] end
  terminal.world.write = function(_, text) written = written .. text end
  ty.progress(0):done() -- the line of a bar that a test left is no one's
  written = ""
end)

after_each(function()
  for k, v in pairs(real) do terminal.world[k] = v end
end)

describe("a progress bar", function()
  it("shows count, share, values, rate and time left", function()
    local bar = ty.progress(200, { label = "train", unit = "samples", per_step = 32 })
    for _ = 1, 50 do
      now = now + 0.1
      bar:step { loss = 0.25 }
    end
    local line = screen()[1]
    assert.truthy(line:find("^train "), line)
    assert.truthy(line:find(" 25 %", 1, true), line)
    assert.truthy(line:find("50/200", 1, true), line)
    assert.truthy(line:find("loss 0.25", 1, true), line)
    assert.truthy(line:find("320 samples/s", 1, true), line) -- 10 steps a second of 32
    assert.truthy(line:find("15 s left", 1, true), line) -- 150 steps more
    assert.truthy(line:find("\226\150\136"), line)
  end)

  it("ends its line when all steps are done, and tells the mean rate", function()
    local bar = ty.progress(10, {})
    for _ = 1, 10 do
      now = now + 0.5
      bar:step()
    end
    local lines = screen()
    assert.equal(2, #lines)
    assert.equal("", lines[2])
    assert.truthy(lines[1]:find("100 %%  10/10  2.00 step/s  in 5.0 s"), lines[1])
  end)

  it("is drawn at most 20 times a second, however many steps there are", function()
    local bar = ty.progress(10000)
    for _ = 1, 9000 do
      now = now + 0.001
      bar:step()
    end
    local _, draws = written:gsub("\r", "")
    assert.truthy(draws >= 9 * 10 and draws <= 9 * 20, draws)
  end)

  it("writes hours, and millions of millions", function()
    local bar = ty.progress(4, { per_step = 1e15 })
    now = now + 3600 * 2.5
    bar:step()
    local line = screen()[1]
    assert.truthy(line:find("2:30 h, 7:30 h left", 1, true), line)
    assert.truthy(line:find("111G", 1, true), line)
    bar:done()
    for rate, text in pairs { [999499] = "999k", [999700] = "1M", [1e12] = "1T", [5e15] = "5000T" } do
      written = ""
      bar = ty.progress(2, { per_step = rate })
      now = now + 1
      bar:step()
      assert.truthy(screen()[1]:find("%s" .. text .. "[^%d]*/s"), screen()[1])
      bar:done()
    end
  end)

  it("never writes beyond the terminal, of any width", function()
    for width = 4, 130 do
      columns, written = width, ""
      local bar = ty.progress(3, { label = "a label of some length", unit = "samples" })
      for i = 1, 3 do
        now = now + 1
        bar:step { loss = 1 / i, accuracy = 0.9, epoch = "3 of 10" }
      end
      local line = screen()[1]
      assert.truthy(terminal.columns(line) < width, ("%d: %s"):format(width, line))
    end
  end)

  it("gives up the bar first where the terminal is narrow, then what can be done without; the time left last", function()
    local parts = {
      { "bar", "\226\150" }, { "share", "25 %" }, { "spent", " s, " }, { "label", "train" }, { "accuracy", "accuracy 0.91" },
      { "count", "50/200" }, { "rate", "320 samples/s" }, { "loss", "loss 0.25" },
      { "time left", " left" },
    }
    local gone, order = {}, {}
    for width = 130, 12, -2 do
      columns, written = width, ""
      local bar = ty.progress(200, { label = "train", unit = "samples", per_step = 32 })
      for _ = 1, 50 do
        now = now + 0.1
        bar:step { loss = 0.25, accuracy = 0.91 }
      end
      local line = screen()[1]
      bar:done()
      for _, p in ipairs(parts) do
        local there = line:find(p[2], 1, true) ~= nil
        assert.truthy(not (gone[p[1]] and there), p[1] .. " came back: " .. line)
        if not there and not gone[p[1]] then
          gone[p[1]], order[#order + 1] = true, p[1]
        end
      end
    end
    local want = {}
    for i = 1, #order do want[i] = parts[i][1] end
    assert.same(want, order)
    assert.equal(#parts - 1, #order) -- twelve columns hold the time left
  end)

  it("uses letters of ASCII alone where nothing else is known", function()
    environment.LANG = "C"
    local bar = ty.progress(4, { curve = "loss" })
    now = now + 1
    bar:step { loss = 1 }
    assert.is_nil(written:find "[\128-\255]")
    assert.truthy(screen()[1]:find("[#", 1, true))
  end)

  it("is quiet where there is no terminal: a line at the end, and one a minute", function()
    columns = nil
    local bar = ty.progress(1000, { label = "train", curve = "loss" })
    for i = 1, 1000 do
      now = now + 0.01
      bar:step { loss = i }
    end
    assert.equal(1, select(2, written:gsub("\n", "")))
    assert.is_nil(written:find "[\27\r]")
    assert.truthy(written:find("^train .*100 %%  1000/1000  loss 1000"), written)
    written = ""
    bar = ty.progress(1000)
    for _ = 1, 1000 do
      now = now + 0.25
      bar:step()
    end
    assert.equal(5, select(2, written:gsub("\n", "")))
  end)

  it("reads a tensor only when it is drawn", function()
    local read, t = 0, ty.tensor(0.5)
    local item = getmetatable(t) and ty.internals.methods.item
    ty.internals.methods.item = function(x)
      read = read + 1
      return item(x)
    end
    local bar = ty.progress(100)
    for _ = 1, 99 do
      now = now + 0.001
      bar:step { loss = t }
    end
    ty.internals.methods.item = item
    assert.truthy(read <= 2, read)
    now = now + 1
    bar:step { loss = t }
    assert.truthy(written:find("loss 0.5", 1, true))
  end)

  it("goes round a count, a list, an iterator; the loop sees what it would see without", function()
    local seen = {}
    for i in ty.progress(3) do seen[#seen + 1] = i end
    for i, v in ty.progress { "a", "b" } do seen[#seen + 1] = i .. v end
    local n = 0
    for a, b in ty.progress(function()
      n = n + 1
      if n < 3 then return n, n * 10 end
    end) do seen[#seen + 1] = a + b end
    for _ in ty.progress(0) do seen[#seen + 1] = "never" end
    for _ in ty.progress {} do seen[#seen + 1] = "never" end
    for i in ty.progress() do -- of unknown length
      if i > 4 then break end
      n = i
    end
    assert.equal(4, n)
    assert.same({ 1, 2, 3, "1a", "2b", 11, 22 }, seen)
    assert.truthy(written:find("3/3", 1, true))
    assert.truthy(written:find("2/2", 1, true))
  end)

  it("goes round a loader, whose batches it counts", function()
    local loader = ty.data.loader(ty.data.tensors(ty.arange(10), ty.arange(10) * 2), { batch = 4 })
    local seen = {}
    for x, y, i in ty.progress(loader) do seen[#seen + 1] = ("%d %d %d"):format(i, #x, y:sum():item()) end
    assert.same({ "1 4 12", "2 4 44", "3 2 34" }, seen)
    assert.truthy(written:find("3/3", 1, true))
  end)

  it("counts a step of a loop when it is over, and leaves nothing broken when the work raises", function()
    local ok, message = pcall(function()
      for i in ty.progress(10, { label = "first" }) do
        now = now + 1
        if i == 4 then error "no more" end
      end
    end)
    assert.is_false(ok)
    assert.truthy(message:find "no more")
    assert.truthy(screen()[1]:find("3/10", 1, true))
    for _ in ty.progress(2, { label = "second" }) do now = now + 1 end
    local lines = screen()
    assert.truthy(lines[1]:find("^first"), lines[1]) -- it stays, and the next one has a line of its own
    assert.truthy(lines[2]:find("^second.*2/2"), lines[2])
  end)

  it("makes room for lines that are printed", function()
    local bar = ty.progress(4)
    now = now + 1
    bar:step()
    bar:print "hello"
    local lines = screen()
    assert.equal("hello", lines[1])
    assert.truthy(lines[2]:find("1/4", 1, true))
  end)

  it("draws curves above itself, in place", function()
    local bar = ty.progress(60, { curve = "loss", height = 5 })
    for i = 1, 60 do
      now = now + 0.2
      bar:step { loss = 60 - i }
    end
    local lines = screen()
    assert.equal(8, #lines) -- five of the curve, its name, the bar, the line behind it
    assert.truthy(lines[1]:find("^59 "), lines[1])
    assert.truthy(lines[5]:find("^ 0 "), lines[5])
    assert.truthy(lines[6]:find "loss")
    assert.truthy(lines[7]:find("60/60", 1, true))
    -- it goes down: the first letters are in the upper rows, the last in the lower ones
    assert.truthy(terminal.columns(lines[1]) < terminal.columns(lines[5]))
  end)

  it("keeps a curve of any length in bounded memory, with its ends", function()
    local bar = ty.progress(100000, { curve = "loss" })
    for i = 1, 99999 do bar:step { loss = i } end
    local history = bar.history.loss
    assert.truthy(#history <= 1024 and #history >= 256, #history)
    assert.truthy(history[1] < 300 and history[#history] > 99500)
    for i = 2, #history do assert.truthy(history[i] > history[i - 1]) end
  end)

  it("raises on wrong use, at the user's line", function()
    for want, fn in pairs {
      ["progress: argument 1 must be a count, a list or an iterator, got string \"x\""] = function() ty.progress "x" end,
      ["progress: argument 1 must be a whole number of steps, got number 1.5"] = function() ty.progress(1.5) end,
      ["progress: unknown option lable, did you mean label?"] = function() ty.progress(1, { lable = "x" }) end,
      ["progress: a bar has no update; it has bar:step(), bar:step(n, {loss = 0.3}), bar:set{"] = function()
        ty.progress(3):update(1, { loss = 1 })
      end,
      ["progress: a bar has no close; it has"] = function() ty.progress(3):close() end,
      ["progress: step takes a count, got string \"x\""] = function() ty.progress(1):step "x" end,
      ["progress: value loss must be a number"] = function() ty.progress(3):step { loss = {} } end,
      ["progress: value loss must be a number, a tensor of one element"] = function()
        ty.progress(3):set({ loss = 1 }):set { loss = ty.ones(2) }
      end,
      ["progress: option total must be a number from 0, got nan"] = function() ty.progress(nil, { total = 0 / 0 }) end,
      ["progress: option curve: name 1 is number 5"] = function() ty.progress(1, { curve = { 5 } }) end,
    } do
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.truthy(message:find(want, 1, true), message)
      assert.truthy(message:find "progress_spec.lua:%d+: ", message)
    end
  end)
end)

describe("a chart of braille letters", function()
  --- The dots as a set "x,y", from the letters.
  local function dots(lines)
    local set = {}
    for row, line in ipairs(lines) do
      local column = 0
      local body = line:match "\226\148[\130\164](.*)$" or line
      for letter in body:gmatch "[%z\1-\127\192-\255][\128-\191]*" do
        if #letter == 3 then
          local a, b, c = letter:byte(1, 3)
          local bits = (a - 224) * 4096 + (b - 128) * 64 + c - 128 - 0x2800
          local places = { { 0, 0, 1 }, { 0, 1, 2 }, { 0, 2, 4 }, { 1, 0, 8 }, { 1, 1, 16 }, { 1, 2, 32 }, { 0, 3, 64 }, { 1, 3, 128 } }
          for _, p in ipairs(places) do
            if math.floor(bits / p[3]) % 2 == 1 then
              set[(column * 2 + p[1]) .. "," .. ((row - 1) * 4 + p[2])] = true
            end
          end
        end
        column = column + 1
      end
    end
    return set
  end

  it("has a dot in each column of a line, where the value is", function()
    local lines = terminal.curves({ { 0, 10 } }, 25, 3)
    local set = dots(lines)
    local wide = (25 - 2 - 2) * 2
    assert.is_true(set["0,11"])
    assert.is_true(set[(wide - 1) .. ",0"])
    for x = 0, wide - 1 do
      local y = math.floor((1 - x / (wide - 1)) * 11 + 0.5)
      assert.truthy(set[x .. "," .. y] or set[x .. "," .. y - 1] or set[x .. "," .. y + 1], x)
    end
  end)

  it("copes with nothing, one value, equal values, NaN", function()
    for _, values in ipairs { {}, { 1 }, { 2, 2, 2 }, { 0 / 0 }, { 1, 0 / 0, 3 }, { 1 / 0, 1 } } do
      assert.equal(4, #terminal.curves({ values }, 30, 4))
    end
  end)
end)
