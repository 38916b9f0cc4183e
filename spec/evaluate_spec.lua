--- evaluate_spec.lua -- the evaluator against plain LuaJIT: the same programs, in a world that means what Lua means.
-- Each program runs natively with and without the trace compiler, and evaluated: as it is, from a stripped dump, and
-- after its native run has become hot. Handlers are counted, so nothing passes by not being evaluated.

local bytecode = require "tycho.capture.bytecode"
local evaluate = require "tycho.capture.evaluate"
local plain_world = require "spec.plain_world"
local programs = require "spec.programs"
local random_program = require "spec.random_program"

local executed, instructions = {}, 0 -- by opcode name, and all
local original = {}

local function count_handlers()
  for name, handler in pairs(evaluate.handlers) do
    original[name] = handler
    evaluate.handlers[name] = function(...)
      executed[name] = (executed[name] or 0) + 1
      instructions = instructions + 1
      return handler(...)
    end
  end
end

local function restore_handlers()
  for name, handler in pairs(original) do evaluate.handlers[name] = handler end
end

local function pack(...) return { n = select("#", ...), ... } end

--- A value as text that tells apart all that Lua can; tables by content, in the order in which next walks them.
local function show(v, depth)
  depth = depth or 0
  if type(v) == "number" then
    if v ~= v then return "nan" end
    return v == 0 and 1 / v < 0 and "-0" or ("%.17g"):format(v)
  elseif type(v) == "string" then
    return ("%q"):format(v)
  elseif type(v) == "table" and depth < 6 then
    if v.abort then return "ABORT " .. v.abort .. " at " .. tostring(v.where) end
    local out = {}
    for k, x in pairs(v) do out[#out + 1] = show(k, depth + 1) .. "=" .. show(x, depth + 1) end
    table.sort(out) -- templates do not keep their order
    return "{" .. table.concat(out, " ") .. "}"
  end
  return type(v) == "function" and "function" or type(v) == "userdata" and "userdata" or tostring(v)
end

local function show_all(results)
  local out = { results.n .. ":" }
  for k = 1, results.n do out[k + 1] = show(results[k]) end
  return table.concat(out, " ")
end

local function run_natively(fn, ...) return show_all(pack(pcall(fn, ...))) end

local function run_evaluated(fn, world, ...)
  world = world or plain_world()
  local before, n, args = instructions, select("#", ...), { ... }
  local results = pack(pcall(function()
    local out, _, count = evaluate.run(world, fn, nil, args, {}, n)
    return unpack(out, 1, count)
  end))
  assert(instructions > before, "nothing was evaluated")
  assert.equal(0, world.strange)
  return show_all(results)
end

local function without_jit(fn, ...)
  jit.off()
  local text = fn(...)
  jit.on()
  return text
end

--- Compares the ways in which a function can run. make() gives a new function each time.
local function compare(make, ...)
  local expected = without_jit(run_natively, make(), ...)
  assert.equal(expected, run_natively(make(), ...))
  assert.equal(expected, run_evaluated(make(), nil, ...))
  local hot = make()
  for _ = 1, 70 do run_natively(hot, ...) end
  local stale = make() -- what the runs left in upvalues is not the same: a twin is run as often
  for _ = 1, 70 do run_natively(stale, ...) end
  assert.equal(run_natively(stale, ...), run_evaluated(hot, nil, ...))
  return expected
end

--- The main chunk is the function: all others are made inside, and virtual.
local function chunk_of(source)
  return function() return assert(loadstring(source, "=program")) end
end

local function stripped_chunk_of(source)
  return function() return assert(loadstring(string.dump(assert(loadstring(source, "=program")), true), "=program")) end
end

--- The chunk runs natively and returns the function: the others are real closures with real upvalues.
local function made_by(source)
  return function() return assert(loadstring(source, "=program"))() end
end

describe("the evaluator of bytecode", function()
  setup(count_handlers)
  teardown(restore_handlers)

  for _, program in ipairs(programs.chunks) do
    it("runs as Lua does: " .. program[1], function()
      local expected = compare(chunk_of(program[2]), 3, nil, "s", nil)
      assert.matches("^%d+: true", expected)
    end)
  end

  for _, program in ipairs(programs.chunks) do
    it("runs stripped bytecode as Lua does: " .. program[1], function()
      compare(stripped_chunk_of(program[2]), 3, nil, "s", nil)
    end)
  end

  for _, program in ipairs(programs.makers) do
    it("evaluates functions from outside: " .. program[1], function()
      local expected = compare(made_by(program[2]), 3)
      assert.matches("^%d+: true", expected)
    end)
  end

  it("runs random programs as the interpreter does", function()
    local exhausted = 0 -- programs that overflow the host's stack, which the evaluator's frames do not
    for seed = 1, 200 do
      local source = random_program(seed)
      local function make() return assert(loadstring(source, "=program")) end
      local expected = without_jit(run_natively, make())
      if expected:find("stack overflow", 1, true) then
        exhausted = exhausted + 1
      else
        local world = plain_world()
        world.max_depth = 1000
        assert.equal(expected, run_evaluated(make(), world), "seed " .. seed)
      end
    end
    assert.is_true(exhausted < 10)
  end)

  it("executes every opcode that Lua text compiles to", function()
    local missing = {}
    for _, name in pairs(bytecode.opcodes()) do
      if not executed[name] then missing[#missing + 1] = name end
    end
    table.sort(missing)
    assert.same({}, missing)
  end)

  it("has a handler for every opcode that Lua text compiles to, and no other", function()
    local known = {}
    for _, name in pairs(bytecode.opcodes()) do known[name] = true end
    for name in pairs(known) do assert.is_function(evaluate.handlers[name], name) end
    for name in pairs(evaluate.handlers) do assert.is_true(known[name], name) end
  end)

  it("charges about one step an instruction", function()
    local world = plain_world()
    local fn = loadstring("local s = 0 for i = 1, 1000 do s = s + i end return s")
    local before = instructions
    run_evaluated(fn, world)
    local spent = 1e6 - world.steps_left
    assert.is_true(spent >= instructions - before and spent <= (instructions - before) * 1.2 + 20)
  end)

  for name, source in pairs {
    ["a loop"] = "while true do end", ["goto"] = "::a:: goto a", ["a numeric loop"] = "for i = 1, 1e9 do end",
    ["a generic loop"] = "for i in function() return 1 end do end",
    ["tail calls"] = "local function f() return f() end f()",
  } do
    it("stops after its steps: " .. name, function()
      local world = plain_world()
      world.steps_left = 1000
      assert.matches("ABORT it takes more steps", run_evaluated(loadstring(source, "=p"), world))
    end)
  end

  it("asks the world at its depth, at the place of the call", function()
    local world = plain_world()
    function world.too_deep(self) self:abort("too deep") end
    local text = run_evaluated(loadstring("local function f(n)\n return 1 + f(n + 1) end\nreturn f(1)", "=p"), world)
    assert.equal("2: false ABORT too deep at p:2", text)
  end)

  it("takes no stack of the host's for calls", function()
    local world = plain_world()
    world.max_depth, world.steps_left = 1e6, 1e9
    local fn = loadstring("local function f(n) if n == 0 then return 0 end return 1 + f(n - 1) end return f(...)")
    assert.equal("2: true 9000", run_evaluated(fn, world, 9000))
    assert.matches("stack overflow", run_evaluated(fn, world, 60000)) -- as natively
  end)

  it("tells the place of an abort by file and line", function()
    local world = plain_world()
    world.arith = function(self) self:abort("no arithmetic") end
    local source = "local a = {}\nlocal function f(x)\n\n return x + 1 end\nreturn (f(a))"
    local text = run_evaluated(loadstring(source, "@dir/p.lua"), world)
    assert.equal("2: false ABORT no arithmetic at dir/p.lua:4", text)
  end)

  it("leaves it to the world to raise for a call of no function", function()
    local world = plain_world()
    function world.cannot_call(self, v, caller) self:abort(("no call of a %s by %s"):format(type(v), caller)) end
    assert.equal("2: false ABORT no call of a nil by lua at p:2", run_evaluated(loadstring("local a\na()", "=p"), world))
    assert.equal("2: false ABORT no call of a table by lua at p:1",
      run_evaluated(loadstring("local t = setmetatable({}, { __call = {} }) return t()", "=p"), world))
  end)

  for _, text in ipairs(programs.failing) do
    it("fails with Lua's message: " .. text, function()
      local function make() return assert(loadstring(text, "=program")) end
      local function plain(s) return (s:gsub("0x%x+", "0x")) end
      assert.equal(plain(without_jit(run_natively, make())), plain(run_evaluated(make())))
      local stripped = string.dump(make(), true)
      local function make_stripped() return loadstring(stripped) end
      assert.equal(plain(without_jit(run_natively, make_stripped())), plain(run_evaluated(make_stripped())))
    end)
  end

  it("takes chunks of its own folder for Tycho's, which are no place of the user", function()
    local home = bytecode.prototype(evaluate.run).source:match("^(.*)evaluate%.lua$")
    local own = loadstring("return function(f) return f() end", home .. "own.lua")()
    local world = plain_world()
    function world.cannot_call(self) self:abort("no call") end
    local fn = loadstring("local own, f = ...\nreturn (own(f))", "@user.lua")
    assert.equal("2: false ABORT no call at user.lua:2", run_evaluated(fn, world, own, 5))
  end)

  it("knows what called error: Lua, a native function or a metamethod", function()
    local function place(source)
      local world, position = plain_world(), "none"
      local native = world.native
      function world.native(self, f, fs, args, shadows, n)
        if f == error then position = tostring(evaluate.position(self)) end
        if f ~= pcall then return native(self, f, fs, args, shadows, n) end
        return { (pcall(self.apply, args[1], nil, { unpack(args, 2, n) }, {}, n - 1)) }, {}, 1
      end
      run_evaluated(loadstring(source, "=p"), world)
      return position
    end
    assert.equal("p:1: ", place "error('x')")
    assert.equal("", place "pcall(error, 'x')")
    assert.equal("", place "pcall(function() return error('x') end)")
    assert.equal("p:2: ", place "local function f() return error('x') end\nf() return 1")
    assert.equal("", place "pcall(pcall, error)")
    assert.equal("", place "return pcall(pcall, function() return error('x') end)")
    assert.equal("p:2: ", place "local t = setmetatable({}, { __index = function() return error('x') end })\nreturn t.x")
    assert.equal("p:2: ", place "local t = setmetatable({}, { __index = function()\n error('x') end })\nreturn t.x")
    assert.equal("p:3: ", place [[
      local function f() return 1 end pcall(f)
      local t = setmetatable({}, { __index = function() return error('x') end })
      pcall(function() return t.x end)]])
  end)

  it("makes tables with the sizes that the host gives them", function()
    local world, sizes = plain_world(), {}
    local new = world.new_table
    function world.new_table(w, n_array, n_hash)
      sizes[#sizes + 1] = ("%d %d"):format(n_array, n_hash)
      return new(w, n_array, n_hash)
    end
    local many = ("x, "):rep(2100)
    evaluate.run(world, loadstring("local x, y = ... local a, b, c, d = {}, { x, x, x }, { ... }, { [x] = x, [y] = 1, [7] = x }"
      .. " local e = { " .. many .. "}"), nil, { 1, 2 }, {}, 2)
    assert.same({ "0 0", "3 0", "2 0", "0 4", "2048 0" }, sizes)
  end)

  it("asks the world whether a loop goes on whose step is 0, NaN or negative zero", function()
    for _, step in ipairs { "0", "-z", "0 / 0", "-(0 / 0)" } do
      for _, bounds in ipairs { "1, 2", "2, 1", "1, 1" } do
        local text = ("local z, n = 0, 0 for i = %s, %s do n = n + 1 if n == 3 then break end end return n"):format(bounds, step)
        assert.equal(without_jit(run_natively, loadstring(text)), run_evaluated(loadstring(text)), text)
      end
    end
  end)

  it("asks the world for 64-bit constants when they are loaded, not before", function()
    local world = plain_world()
    function world.cdata(self) self:abort("a constant") end
    local fn = loadstring("local function f() return 1LL end if ... then f() end return 5")
    assert.equal("2: true 5", run_evaluated(fn, world))
    assert.matches("ABORT a constant", run_evaluated(fn, world, true))
  end)

  it("drops what has been left, where the world wants so", function()
    local fn = loadstring [[
      local collect = ...
      local weak = setmetatable({}, { __mode = "k" })
      local function f(...) local t, u = {}, ... weak[t], weak[u] = 1, 2 return (function() return t, u end) end
      local function work()
        local g = f({})
        g()
        pcall(function(x) weak[x] = 3 local function h() return x end error(h) end, {})
        pcall(coroutine.wrap(function() local t = {} weak[t] = 4 error("x") end))
        f({})
      end
      work() collect()
      return next(weak)]]
    local function collect() collectgarbage() collectgarbage() end
    local function in_world(exact)
      local world = plain_world { [collect] = true } -- not what the plain world knows to collect
      world.exact = exact
      return run_evaluated(fn, world, collect)
    end
    assert.equal("2: true nil", in_world(true))
    assert.matches("^3: true {}", in_world(false))
    local dead = loadstring [[
      local weak, f = setmetatable({}, { __mode = "k" }), function() end
      f({}, (function() local t = {} weak[t] = 1 return t end)()) collectgarbage()
      return next(weak)]]
    assert.equal("2: true nil", run_evaluated(dead))
  end)

  it("runs natively what the world prefers so", function()
    local called
    local function inner(...) called = pack(...) return ... end
    local fn = function(...) return inner(1, ...) end
    local world = plain_world { [inner] = true }
    assert.equal("4: true 1 nil 2", run_evaluated(fn, world, nil, 2))
    assert.same({ n = 3, 1, nil, 2 }, called)
  end)

  it("does not run evaluated functions natively", function()
    local world, native = plain_world(), false
    local function hook() native = true end
    local fn = loadstring("local function f() return 1 end return f() + f()")
    jit.off()
    debug.sethook(function() if debug.getinfo(2, "f").func == fn then hook() end end, "c")
    local text = run_evaluated(fn, world)
    debug.sethook()
    jit.on()
    assert.equal("2: true 2", text)
    assert.is_false(native)
  end)

  it("carries shadows with their values, through everything that only moves", function()
    local world = plain_world()
    function world.seen() end
    local store = {}
    function world.newindex(_, t, _, k, _, v, vs)
      t[k], store[t] = v, store[t] or {}
      store[t][k] = vs
    end
    function world.index(_, t, _, k) return t[k], store[t] and store[t][k] end
    function world.truth(_, v, s) assert(s) return v end
    local fn = loadstring([[
      local x, y = ...
      local t = { x, y, k = y }
      local function f(...) local a, b = ... return b, ... end
      local function g() return x end
      local z = y or x
      x, y = y, x
      local h do local v = y h = function() return v end end
      for a, b in iterate, x, y do
        z = b
        if a == nil then break end
      end
      return x, y, g(), t[1], t.k, z, h(), f(x, y)]])
    local controls = {}
    setfenv(fn, { iterate = os.time }) -- any function in C
    local calls = 0
    function world.native(_, _, _, args, args_shadows, n)
      assert.equal(2, n)
      calls = calls + 1
      controls[calls] = args_shadows[2] and args_shadows[2].name or "-"
      return { calls < 3 and args[1] or nil, args[2] }, { calls < 3 and args_shadows[1] or nil, args_shadows[1] }, 2
    end
    local sx, sy = { name = "x" }, { name = "y" }
    local _, shadows, n = evaluate.run(world, fn, nil, { 1, 2 }, { sx, sy }, 2)
    assert.equal(10, n)
    local names = {}
    for k = 1, n do names[k] = shadows[k] and shadows[k].name or "-" end
    assert.equal("y x y x y y x x y x", table.concat(names, " "))
    assert.equal("x y y", table.concat(controls, " "))
  end)

  it("asks the world about every value that is not known", function()
    local world, asked = plain_world(), {}
    function world.seen() end
    local names = "arith less less_equal equal truth concat length tonumber_for index newindex pin bits"
    for name in names:gmatch("%S+") do
      local plain = world[name]
      world[name] = function(self, first, ...)
        local key = name == "arith" and first or name
        asked[key] = (asked[key] or 0) + 1
        return plain(self, first, ...)
      end
    end
    local fn = loadstring([[
      local x, s, f = ...
      local a = x + 1, x - x, 1 * x, x / 2, x % 2, x ^ 2, -x
      local l = x < 1, x <= 1, x == 1, not x, s .. 'a', #s
      if x then l = x == nil end
      for i = x, x do l = i + 1 end
      f()
      return ({})[s] ]])
    evaluate.run(world, fn, nil, { 1, "s", os.time }, { {}, {}, {} }, 3)
    if programs.has_bit_operators then
      evaluate.run(world, loadstring "local x = ... return ~x, x & 1, 1 << x", nil, { 1 }, { {} }, 1)
      assert.equal(3, asked.bits)
      asked.bits = nil
    end
    assert.same({ add = 1, sub = 1, mul = 1, div = 1, mod = 1, pow = 1, unm = 1, less = 1, less_equal = 1, equal = 2,
      truth = 2, concat = 1, length = 1, tonumber_for = 2, index = 1, pin = 1 }, asked)
  end)
end)
