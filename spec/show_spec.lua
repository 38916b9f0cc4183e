--- show_spec.lua -- pictures in the terminal: the right colours in the right places, in each way of showing them.

local H = require "spec.helper"
local ty = H.ty
local terminal = require "tycho.terminal"

local real = {}
for k, v in pairs(terminal.world) do real[k] = v end
local environment, columns

before_each(function()
  environment, columns = { LANG = "C.UTF-8" }, nil
  terminal.world.getenv = function(name) return environment[name] end
  terminal.world.size = function() return columns, columns and 50 end
end)

after_each(function()
  for k, v in pairs(real) do terminal.world[k] = v end
end)

local function text_of(x, opts)
  opts = opts or {}
  opts.text = true
  return ty.show(x, opts)
end

--- Pixels of half blocks: rows of {r, g, b} or of numbers of the 256.
local function pixels_of(text)
  local y = {}
  for line in text:gmatch "([^\n]*)\n" do
    local over, under, top, bottom = nil, nil, {}, {}
    local i = 1
    while i <= #line do
      local what, code, length = line:match("^\27%[([34])8;2;([%d;]+)m()", i)
      if not what then what, code, length = line:match("^\27%[([34])8;5;(%d+)m()", i) end
      if what then
        if what == "3" then over = code else under = code end
        i = length
      elseif line:match("^\27%[49m", i) then
        under, i = nil, i + 5
      elseif line:match("^\27%[0m", i) then
        over, under, i = nil, nil, i + 4
      else
        assert.equal("\226\150\128", line:sub(i, i + 2))
        top[#top + 1], bottom[#bottom + 1] = over or false, under or false
        i = i + 3
      end
    end
    y[#y + 1] = top
    y[#y + 1] = bottom
  end
  return y
end

describe("ty.show", function()
  it("of a small matrix has its values as greys, magnified by whole numbers", function()
    local p = pixels_of(text_of({ { 0, 1 }, { 0.5, 0 } }, { mode = "24bit" }))
    assert.equal(16, #p)
    assert.equal(16, #p[1])
    assert.equal("0;0;0", p[1][1])
    assert.equal("255;255;255", p[1][16])
    assert.equal("128;128;128", p[16][1])
    assert.equal("0;0;0", p[9][9])
  end)

  it("of an odd number of rows leaves the ground free below the last", function()
    local p = pixels_of(text_of(ty.rand(17, 20), { mode = "24bit" }))
    assert.equal(18, #p)
    assert.is_false(p[18][1])
    assert.truthy(p[17][20])
  end)

  it("of a colour picture has its colours", function()
    local x = ty.zeros(3, 16, 16)
    x[1] = 1
    x:narrow(2, 9, 8):narrow(1, 3, 1):copy_(1) -- below, red and blue
    local p = pixels_of(text_of(x, { mode = "24bit", lim = { 0, 1 } }))
    assert.equal("255;0;0", p[1][1])
    assert.equal("255;0;255", p[16][16])
    local q = pixels_of(text_of(x, { mode = "256", lim = { 0, 1 } }))
    assert.equal("196", q[1][1]) -- 16 + 36 * 5
    assert.equal("201", q[16][16])
  end)

  it("scales large pictures down to means of areas", function()
    local n = 300
    local x = ty.rand(n, n)
    local p = pixels_of(text_of(x, { mode = "24bit", width = 30, lim = { 0, 1 } }))
    assert.equal(30, #p)
    local want = x:reshape(30, 10, 30, 10):mean { 2, 4 }
    for y = 1, 30 do
      for column = 1, 30 do
        assert.near(want:get(y, column) * 255, tonumber(p[y][column]:match "%d+"), 1.1)
      end
    end
    -- where pixels do not meet: the mean of all stays
    p = pixels_of(text_of(x, { mode = "24bit", width = 37, lim = { 0, 1 } }))
    local sum = 0
    for y = 1, 37 do
      for column = 1, 37 do sum = sum + tonumber(p[y][column]:match "%d+") end
    end
    assert.near(x:mean():item() * 255, sum / 37 ^ 2, 0.6)
  end)

  it("gives the nearest of 256 colours", function()
    local function rgb(n)
      if n >= 232 then return { 8 + 10 * (n - 232), 8 + 10 * (n - 232), 8 + 10 * (n - 232) } end
      local v = { [0] = 0, 95, 135, 175, 215, 255 }
      n = n - 16
      return { v[math.floor(n / 36)], v[math.floor(n / 6) % 6], v[n % 6] }
    end
    local r = H.random(5)
    local worse = 0
    for _ = 1, 60 do
      local want = { r.whole(0, 255), r.whole(0, 255), r.whole(0, 255) }
      local x = ty.tensor(want, { dtype = "u8" }):reshape(3, 1, 1):expand(3, 16, 16):clone()
      local got = rgb(tonumber(pixels_of(text_of(x, { mode = "256" }))[1][1]))
      local function distance(c) return (c[1] - want[1]) ^ 2 + (c[2] - want[2]) ^ 2 + (c[3] - want[3]) ^ 2 end
      local best = math.huge
      for n = 16, 255 do best = math.min(best, distance(rgb(n))) end
      if distance(got) > best + 60 then worse = worse + 1 end
    end
    assert.equal(0, worse)
  end)

  it("in letters has more ink where it is brighter, and no escapes", function()
    local text = text_of(ty.arange(0, 32):to("f32"):reshape(1, 32):expand(16, 32), { mode = "plain" })
    assert.is_nil(text:find "[\27\128-\255]")
    local line = text:match "[^\n]+"
    local ramp, before = " .:-=+*#%@", 0
    for c in line:gmatch "." do
      local level = ramp:find(c, 1, true)
      assert.truthy(level >= before)
      before = level
    end
    assert.equal(10, before)
    assert.equal(32, #line)
  end)

  it("in sixel leaves greys grey, at most 256 colours", function()
    local text, n = text_of(ty.arange(256):reshape(16, 16), { mode = "sixel", map = "gray" }), 0
    for r, g, b in text:gmatch "#%d+;2;(%d+);(%d+);(%d+)" do
      assert.truthy(r == g and g == b, r .. " " .. g .. " " .. b)
      n = n + 1
    end
    assert.equal(101, n) -- a sixel's channels are percents
    text = text_of(ty.rand(3, 60, 60), { mode = "sixel" })
    n = 0
    for i in text:gmatch "#(%d+);2;" do
      assert.truthy(tonumber(i) <= 255)
      n = n + 1
    end
    assert.truthy(n > 200, n)
  end)

  --- Reads sixels: the channels of each pixel, percents, by "x,y"; the size.
  local function decode(text)
    local wide, tall, body = text:match '^\27P0;1q"1;1;(%d+);(%d+)(.*)\27\\\n$'
    local defined, painted, x, top, ink = {}, {}, 0, 0, nil
    local i = 1
    while i <= #body do
      local n, r, g, b, next_at = body:match("^#(%d+);2;(%d+);(%d+);(%d+)()", i)
      if n then
        assert.is_nil(defined[n])
        defined[n], i = { tonumber(r), tonumber(g), tonumber(b) }, next_at
      else
        local pick, after = body:match("^#(%d+)()", i)
        local count, letter, behind = body:match("^!(%d+)([?-~])()", i)
        local c = body:sub(i, i)
        if pick then ink, i = pick, after
        elseif c == "$" then x, i = 0, i + 1
        elseif c == "-" then x, top, i = 0, top + 6, i + 1
        else
          local bits = (letter or c):byte() - 63
          for _ = 1, tonumber(count or 1) do
            for dy = 0, 5 do
              if math.floor(bits / 2 ^ dy) % 2 == 1 then
                local key = x .. "," .. top + dy
                assert.is_nil(painted[key])
                painted[key] = defined[ink]
              end
            end
            x = x + 1
          end
          i = behind or i + 1
        end
      end
    end
    return painted, tonumber(wide), tonumber(tall)
  end

  it("in sixel says the size, defines each colour once, and paints every pixel once", function()
    local painted, wide, tall = decode(text_of({ { 0, 1 }, { 1, 0 } }, { mode = "sixel" }))
    assert.same({ 128, 128 }, { wide, tall })
    local black, white = { 0, 0, 0 }, { 100, 100, 100 }
    assert.same({ black, white, white, black }, { painted["0,0"], painted["127,0"], painted["0,127"], painted["127,127"] })
    local n = 0
    for _ in pairs(painted) do n = n + 1 end
    assert.equal(128 * 128, n)
  end)

  it("in sixel has few colours as they are, and many in as fine steps as 256 of them allow", function()
    local function worst(x)
      local painted, wide, tall = decode(text_of(x, { mode = "sixel", width = 1000 }))
      assert.same({ x:size(3), x:size(2) }, { wide, tall })
      local off, rows = 0, x:totable()
      for y = 1, tall do
        for column = 1, wide do
          local p = painted[column - 1 .. "," .. y - 1]
          for c = 1, 3 do off = math.max(off, math.abs(p[c] / 100 - rows[c][y][column])) end
        end
      end
      return off
    end
    local few = (ty.rand(3, 5, 40) * 255):round() / 255 -- 200 colours
    few = ty.cat({ few, few:flip(3) }, 2):repeat_interleave(20, 2)
    assert.truthy(worst(few) <= 0.5 / 100 + 1 / 510 + 1e-6, worst(few)) -- half a percent
    assert.truthy(worst(ty.rand(3, 200, 40)) <= 0.1 + 1 / 510 + 1e-6) -- half of a fifth
  end)

  it("in kitty's protocol sends a PNG in pieces of base64", function()
    local text = text_of(ty.rand(200, 200), { mode = "kitty" })
    local data, pieces, last = {}, 0, nil
    for head, part in text:gmatch "\27_G([^;]*);([^\27]*)\27\\" do
      pieces = pieces + 1
      data[pieces] = part
      assert.truthy(#part <= 4096)
      assert.equal(pieces == 1, head:find("a=T,f=100", 1, true) ~= nil)
      last = head:match "m=(%d)"
    end
    assert.truthy(pieces > 2)
    assert.equal("0", last)
    assert.equal("iVBORw0KGgo", data[1]:sub(1, 11)) -- how each PNG begins
  end)

  it("asks the environment which way to take", function()
    local function mode()
      if terminal.graphics() then return terminal.graphics() end
      return terminal.colors()
    end
    for _, row in ipairs {
      { { TERM = "xterm-kitty", KITTY_WINDOW_ID = "1" }, "kitty" }, { { TERM = "xterm", TERM_PROGRAM = "WezTerm" }, "kitty" },
      { { TERM = "foot" }, "sixel" }, { { TERM = "xterm-256color", COLORTERM = "truecolor" }, "24bit" },
      { { TERM = "xterm-256color" }, "256" }, { { TERM = "vt100" }, nil },
      { { TERM = "xterm-256color", COLORTERM = "truecolor", NO_COLOR = "1" }, nil },
      { { TERM = "screen", KITTY_WINDOW_ID = "1", COLORTERM = "truecolor" }, "24bit" },
    } do
      environment = row[1]
      assert.equal(row[2], mode(), row[1].TERM)
    end
  end)

  -- A process with a terminal of 100 columns and 40 rows, whose other side is ours.
  local on_terminal = [[
    local ffi = require "ffi"
    ffi.cdef "int forkpty(int *, char *, void *, unsigned short *); int execlp(const char *, const char *, ...);"
    ffi.cdef "long read(int, char *, size_t); long write(int, const char *, size_t); int waitpid(int, int *, int);"
    local master, size, buffer = ffi.new "int[1]", ffi.new("unsigned short[4]", 40, 100), ffi.new "char[4096]"
    local util = pcall(function() return ffi.C.forkpty end) and ffi.C or ffi.load "util"
    local pid = util.forkpty(master, nil, nil, size)
    if pid == 0 then
      local code = 'local t = require "tycho.terminal" print("says", t.size(1), select(2, t.size(1)), t.graphics(), t.graphics())'
      ffi.C.execlp("luajit", ffi.cast("char *", "luajit"), ffi.cast("char *", "-e"), ffi.cast("char *", code), ffi.cast("char *", nil))
    end
    local said, asked = "", 0
    while true do
      local n = ffi.C.read(master[0], buffer, 4096)
      if n <= 0 then break end
      said = said .. ffi.string(buffer, n)
      if said:find("\27[c", 1, true) then
        said, asked = said:gsub("\27%[c", ""), asked + 1
        ffi.C.write(master[0], arg[1], #arg[1])
      end
    end
    ffi.C.waitpid(pid, nil, 0)
    print(asked, said:match "says([^\r\n]*)")]]

  it("asks the terminal itself, once, whether it has sixel; and its size", function()
    for answer, graphics in pairs { ["\27[?62;4;6c"] = "sixel", ["\27[?1;2c"] = "nil", ["\27[?64;14;42c"] = "nil" } do
      local out, status = H.script(on_terminal, { TERM = "xterm", TERM_PROGRAM = "", KITTY_WINDOW_ID = "", TMUX = "" },
        "'" .. answer .. "'")
      assert.equal(0, status, out)
      assert.equal(("1\t\t100\t40\t%s\t%s\n"):format(graphics, graphics), out)
    end
  end)

  it("takes a terminal that does not tell its language for one of plain letters", function()
    environment = {}
    assert.is_false(terminal.has_unicode())
    environment = { LANG = "de_DE.utf8" }
    assert.is_true(terminal.has_unicode())
    environment.LC_ALL = "C"
    assert.is_false(terminal.has_unicode())
  end)

  it("uses letters where there is no terminal", function()
    environment.COLORTERM = "truecolor"
    assert.is_nil(text_of(ty.rand(16, 16)):find "\27")
    columns = 80
    assert.truthy(text_of(ty.rand(16, 16)):find "\27")
  end)

  it("of a vector is a line of bars with its range", function()
    local text = text_of { 1, 2, 3, 4, 5, 6, 7, 8 }
    assert.equal("▁▂▃▄▅▆▇█  1 to 8\n", text)
    assert.truthy(terminal.columns(text_of(ty.randn(1000), { width = 60 })) <= 60)
    assert.truthy(text_of({ 0 / 0, 0 / 0 }):find "no finite values")
    assert.equal("(empty)\n", text_of(ty.zeros(0)))
    assert.equal("3\n", text_of(ty.tensor(3)))
  end)

  it("writes the text unless it is asked for it", function()
    local got
    terminal.world.write = function(fd, text) got = { fd, text } end
    assert.is_nil(ty.show { 1, 2 })
    assert.same({ 1, text_of { 1, 2 } }, got)
  end)

  it("raises on wrong use, at the user's line", function()
    for want, fn in pairs {
      ["show: argument 1 must be a tensor, got string \"x\""] = function() ty.show "x" end,
      ["show: option mode must be one of"] = function() ty.show({ 1 }, { mode = "ascii" }) end,
      ["show: argument 1 must have 1 or 3 channels, got f32[2,2,4,4]"] = function() ty.show(ty.zeros(2, 2, 4, 4)) end,
      ["show: argument 1 must have at most 4 dims"] = function() ty.show(ty.zeros(1, 1, 1, 1, 1)) end,
      ["show: ragged data"] = function() ty.show { { 1, 2 }, { 3 } } end,
    } do
      local ok, message = pcall(fn)
      assert.is_false(ok)
      assert.truthy(message:find(want, 1, true), message)
      assert.truthy(message:find "show_spec.lua:%d+: ", message)
    end
  end)
end)
