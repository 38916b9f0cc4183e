--- bytecode_spec.lua -- prototypes decoded from dumps: against what the debug library and running the code tell.

local bytecode = require "tycho.capture.bytecode"
local programs = require "spec.programs"

local function compile(source, name) return assert(loadstring(source, name or "=text")) end

--- All prototypes of a function, from the outside inward, as listings.
local function listings(proto, out)
  out = out or {}
  out[#out + 1] = bytecode.listing(proto)
  for _, child in ipairs(proto.children) do listings(child, out) end
  return out
end

--- Constants of a function's instructions with the given name, in order.
local function constants(source, name)
  local out = {}
  for _, ins in ipairs(bytecode.prototype(compile(source)).code) do
    if ins.name == name then out[#out + 1] = ins.k end
  end
  return out
end

describe("bytecode", function()
  it("is understood on this host", function() assert.same({ true }, { bytecode.ready() }) end)

  it("learns the opcode numbers that the host's own list has, where it has one", function()
    local found, vmdef = pcall(require, "jit.vmdef")
    if not found then return end
    for number, name in pairs(bytecode.opcodes()) do
      assert.equal(name, (vmdef.bcnames:sub(number * 6 + 1, number * 6 + 6):gsub("%s", "")))
    end
  end)

  it("decodes all kinds of numbers exactly", function()
    local numbers = { 0.1, -2.5, 1e300, 2 ^ -1074, 1.7976931348623157e308, 2 ^ 53 + 2, 1e-310, 2 ^ 31, -2 ^ 31, 2 ^ 31 - 1,
      65536, -65536, 40000, 123456789, 2 ^ 63, 4.9406564584124654e-324, math.pi }
    for _, x in ipairs(numbers) do
      assert.equal(x, constants(("return %.17g"):format(x), "KNUM")[1])
    end
    for _, x in ipairs { 0, 1, -1, 32767, -32768 } do
      assert.equal(x, constants("return " .. x, "KSHORT")[1])
    end
    assert.equal(math.huge, constants("return 1e999", "KNUM")[1])
  end)

  it("decodes strings with any bytes and of any length", function()
    for _, text in ipairs { "", "a", "\0", "a\0b\255\n", ("x"):rep(200), ("y"):rep(100000) } do
      assert.equal(text, constants(("return %q"):format(text), "KSTR")[1])
    end
  end)

  it("decodes templates of tables", function()
    local template = constants("return { 1, nil, 'x', 2.5, true, false, k = -1, [-7] = 'm', [0.5] = false, [true] = 1e100 }", "TDUP")[1]
    local t = {}
    for k = 1, template.n_array do t[k - 1] = template.array[k] end
    for k = 1, template.n_hash do t[template.keys[k]] = template.values[k] end
    assert.same({ 1, nil, "x", 2.5, true, false, k = -1, [-7] = "m", [0.5] = false, [true] = 1e100 }, t)
  end)

  it("tells parameters, varargs, lines and names as the debug library does", function()
    local outer = 1
    local function f(first, second, ...)
      local third = first
      return second, third, outer, ...
    end
    local proto, info = bytecode.prototype(f), debug.getinfo(f, "SL")
    assert.equal(2, proto.params)
    assert.is_true(proto.vararg)
    local names = {}
    for i, v in ipairs(proto.variables) do names[i] = v.name end
    assert.same({ "first", "second", "third" }, names)
    assert.equal("outer", proto.upvalues[1].name)
    assert.equal(info.source, proto.source)
    assert.equal(info.short_src, proto.short)
    assert.equal(info.linedefined, proto.first_line)
    local active = {}
    for k = 1, #proto.code do active[proto.lines[k]] = true end
    for line in pairs(info.activelines) do assert.is_true(active[line], "line " .. line) end
  end)

  it("tells lines of functions longer than 255 and 65535 lines", function()
    for _, n in ipairs { 300, 70000 } do
      local proto = bytecode.prototype(compile("local x" .. ("\n"):rep(n) .. "x = 1"))
      assert.equal(n + 1, proto.lines[#proto.lines])
    end
  end)

  it("shortens chunk names as messages do", function()
    local names = { "=name", "@file.lua", "text", "return 1", "two\nlines", "\nempty first", "", "=", "@", "=" .. ("n"):rep(100),
      "@" .. ("d/"):rep(60) .. "f.lua", ("s"):rep(200), ("t"):rep(30) .. "\n" .. ("u"):rep(30) }
    for n = 40, 64 do
      for _, prefix in ipairs { "=", "@", "" } do names[#names + 1] = prefix .. ("abcdefghij"):rep(7):sub(1, n) end
    end
    for _, name in ipairs(names) do
      local info = debug.getinfo(compile("return 1", name), "S")
      assert.equal(info.short_src, bytecode.short_source(name), name)
    end
  end)

  it("describes upvalues: locals, upvalues of the parent, those never assigned again", function()
    local proto = bytecode.prototype(compile [[
      local a, b = 1, 2
      return function() local c = 3 b = b + 1 return function() c = c + 1 return a, b, c end end]])
    local middle = proto.children[1]
    local inner = middle.children[1]
    local function show(p)
      local out = {}
      for i, u in ipairs(p.upvalues) do
        out[i] = u.name .. (u.is_local and " local " or " outer ") .. u.index .. (u.immutable and " fixed" or "")
      end
      return out
    end
    assert.same({ "b local 2", "a local 1 fixed" }, show(middle))
    assert.same({ "c local 1", "a outer 2", "b outer 1" }, show(inner))
  end)

  it("finds the children of a function in the order of their instructions", function()
    local proto = bytecode.prototype(compile [[
      local f = function() return 'f', function() return 'inner of f' end end
      local g = function() return 'g' end
      local h = function() return 'h', function() return 'inner of h' end, function() return 'second of h' end end]])
    local texts = {}
    local function walk(p)
      for _, ins in ipairs(p.code) do
        if ins.name == "FNEW" then
          for _, k in ipairs(ins.k.code) do
            if k.name == "KSTR" then texts[#texts + 1] = k.k end
          end
          walk(ins.k)
        end
      end
    end
    walk(proto)
    assert.same({ "f", "inner of f", "g", "h", "inner of h", "second of h" }, texts)
  end)

  it("shares a prototype among closures, and keeps functions apart", function()
    local function make(x) return function() return x end end
    local one, two = make(1), make(2)
    assert.equal(bytecode.prototype(one), bytecode.prototype(two))
    assert.are_not.equal(bytecode.prototype(make), bytecode.prototype(one))
  end)

  it("decodes a function that the trace compiler has patched like a cold one", function()
    local source = [[local function f(n)
      local s, t = 0, {}
      for i = 1, n do s = s + i end
      while s > n do s = s - n end
      for k, v in pairs { 1, 2, 3 } do s = s + v end
      for i = 1, n do t[i] = i end
      for k, v in ipairs(t) do s = s + v end
      repeat s = s - 1 until s < 0
      return n > 0 and s or s
    end return f]]
    local hot = compile(source)()
    for _ = 1, 200 do hot(100) end
    assert.equal(bytecode.listing(bytecode.prototype(compile(source)())), bytecode.listing(bytecode.prototype(hot)))
  end)

  it("decodes stripped bytecode to the same instructions", function()
    for _, program in ipairs(programs.chunks) do
      local whole = compile(program[2])
      local stripped = compile(string.dump(whole, true))
      assert.same(listings(bytecode.prototype(whole)), listings(bytecode.prototype(stripped)))
      assert.is_nil(bytecode.prototype(stripped).lines)
    end
  end)

  it("keeps every register within the frame and every jump within the code", function()
    local function check(proto)
      for position, ins in ipairs(proto.code) do
        if ins.target and not (ins.name == "LOOP" and ins.target == position) then
          assert.is_true(ins.target >= 1 and ins.target <= #proto.code)
        end
        if ins.name == "MOV" then assert.is_true(ins.a <= proto.framesize and ins.d <= proto.framesize) end
      end
      for _, child in ipairs(proto.children) do check(child) end
    end
    for _, program in ipairs(programs.chunks) do check(bytecode.prototype(compile(program[2]))) end
  end)

  it("tells where local variables begin and end, as the debug library does", function()
    local chunk = compile [[local first, second = 1, 2
      for i = 1, 2 do local inner = i second = inner end
      for k, v in pairs { 1 } do first = k end
      do local hidden = 1 first = hidden end
      local last = first return last, second]]
    local proto = bytecode.prototype(chunk)
    local seen = {}
    debug.sethook(function()
      if debug.getinfo(2, "f").func ~= chunk then return end
      for slot = 1, 20 do
        local name = debug.getlocal(2, slot)
        if not name then break end
        if name:sub(1, 1) ~= "(" then seen[name] = true end
      end
    end, "", 1)
    chunk()
    debug.sethook()
    local told = {}
    for _, v in ipairs(proto.variables) do
      if v.name:sub(1, 1) ~= "(" and seen[v.name] then told[v.name] = true end
      assert.is_true(v.first >= 1 and v.last <= #proto.code and v.last >= v.first - 1)
    end
    assert.same(seen, told)
  end)

  it("decodes 64-bit and complex constants", function()
    for _, text in ipairs { "1LL", "-1LL", "2ULL", "0x8000000000000001ULL", "9007199254740993LL", "3i", "0.1i" } do
      local chunk = compile("local x = " .. text .. " return x")
      local words
      for _, ins in ipairs(bytecode.prototype(chunk).code) do
        if ins.name == "KCDATA" then words = ins.k end
      end
      local v = bytecode.cdata(words)
      assert.equal(tostring(chunk()), tostring(v))
      assert.is_true(rawequal(v, bytecode.cdata(words))) -- one object, as on the host
    end
  end)

  it("gives the dump of a function that was found inside of another", function()
    local proto = bytecode.prototype(compile [[
      local a = function(x) return function(y) return y * 2, "inner" end, x end
      local b = function(x) local f = function(y) return y + 1 end return f(x), { 1, 2 }, 0.5 end
      return a, b]])
    for i, source in ipairs { "return function(y) return y * 2, 'inner' end, 7",
      "local x = 7 local f = function(y) return y + 1 end return f(x), { 1, 2 }, 0.5" } do
      local want, got = { compile(source)(7) }, { assert(loadstring(bytecode.dump(proto.children[i])))(7) }
      if i == 1 then want, got = { want[1](4) }, { got[1](4) } end
      assert.same(want, got)
    end
  end)

  it("decodes closures of one prototype, however many there are of it", function()
    local make = compile "return function(a, ...) return a, ... end"
    for _ = 1, 20 do
      local proto, reason = bytecode.prototype(make())
      assert.equal("0001 MOV 2 1\n0002 VARG 3 0 1\n0003 RETM 2 1", proto and bytecode.listing(proto), reason)
    end
  end)

  --- This library's decoder, as it would be on a host that sets other flags: flags_of gives those for a dump.
  local function decoder_with(flags_of)
    local path = assert(package.searchpath("tycho.capture.bytecode", package.path))
    local host = setmetatable({ string = setmetatable({}, { __index = string }) }, { __index = _G })
    function host.string.dump(f, strip)
      local dump = string.dump(f, strip)
      return dump:sub(1, 4) .. string.char(dump:byte(5) + flags_of(f, dump)) .. dump:sub(6)
    end
    return setfenv(assert(loadfile(path)), host)("tycho.capture.bytecode")
  end

  it("takes flags for harmless that its probes carry", function()
    local made = {}
    local other = decoder_with(function(_, dump)
      if dump:byte(5) >= 16 then return 0 end -- the host does it itself
      made[dump] = (made[dump] or 0) + 1
      return made[dump] > 3 and 16 or 0
    end)
    assert.same({ true }, { other.ready() })
    for _ = 1, 10 do assert.is_table((other.prototype(compile "return 'a function with a counter'"))) end
  end)

  it("refuses flags that no probe has carried", function()
    for _, flag in ipairs { 32, 64 } do
      local other = decoder_with(function(_, dump) return dump:find("odd one", 1, true) and flag or 0 end)
      assert.same({ true }, { other.ready() })
      assert.is_table((other.prototype(compile "return 'a usual function'")))
      local proto, reason = other.prototype(compile "return 'odd one'")
      assert.same({ nil, "bytecode with unknown flags" }, { proto, reason })
    end
  end)

  it("says why it cannot: functions in C, of the host's library", function()
    local proto, reason, native = bytecode.prototype(print)
    assert.same({ nil, "it is written in C", true }, { proto, reason, native })
    if pcall(string.dump, table.remove) then
      proto, reason, native = bytecode.prototype(table.remove)
      assert.same({ nil, "it has an opcode that Lua text never compiles to", true }, { proto, reason, native })
    end
  end)

  it("finds the constants behind 64-bit ones", function()
    local proto = bytecode.prototype(compile "local t = {} return function() return 1LL, 'x', { 5 }, 3i end, 'y', function() return 7 end")
    assert.equal('0001 KCDATA 1 0 = int64_t\n0002 KSTR 2 1 = "x"\n0003 TDUP 3 2 = table 2+0\n0004 KCDATA 4 3 = complex\n0005 RET 1 5',
      bytecode.listing(proto.children[1]))
    assert.equal(7, proto.children[2].code[1].k)
  end)

  it("knows which functions name globals, also inside", function()
    local proto = bytecode.prototype(compile "return function() return function() return x end end, function(a) return a end")
    assert.is_true(proto.globals)
    assert.is_true(proto.children[1].globals)
    assert.is_false(proto.children[2].globals)
  end)

  it("does not hold functions", function()
    local weak = setmetatable({}, { __mode = "k" })
    local f = compile("return 'a function that is dropped'")
    bytecode.prototype(f)
    weak[f] = true
    f = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("gives constants themselves, of functions inside too, and nothing for what is none", function()
    local f = compile "return { 1, 2, x = 3 }, function() return { y = 4 } end"
    local code = bytecode.prototype(f).code
    local template = bytecode.constant(f, code[1].d)
    assert.same({ 1, 2, x = 3 }, template)
    assert.equal(template, bytecode.constant(f, code[1].d))
    local inner = bytecode.constant(f, code[2].d)
    assert.same({ y = 4 }, bytecode.constant(inner, code[2].k.code[1].d))
    assert.is_nil(bytecode.constant(nil, 0))
    assert.is_nil(bytecode.constant(f, 9))
    assert.is_nil(bytecode.constant(print, 0))
  end)

  it("knows the local variables and where they live", function()
    local proto = bytecode.prototype(compile "local a = ... do local b for i = 1, a do b = i end end local c = a return c")
    local found = {}
    for i, v in ipairs(proto.variables) do found[i] = ("%s %d-%d"):format(v.name, v.first, v.last) end
    assert.same({ "a 2-10", "b 3-8", "(for index) 6-8", "(for limit) 6-8", "(for step) 6-8", "i 7-7", "c 10-10" }, found)
  end)
end)
