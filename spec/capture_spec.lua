--- What captures describe, checked by an independent reading of the description (description.lua) against plain Lua.
-- The property: a function is captured in a world; the world changes at random; whenever the description's guards hold
-- in the changed world, results and effects made by the description equal those of running the function there.

local helper = require "spec.helper"
local D = require "spec.description"
local ty = helper.ty
local capture = require "tycho.capture"
local core, C = D.core(ty)

local function captured(f, ...)
  local ok, why = capture.run(core, {}, f, ...)
  if not ok then return nil, why end
  D.lint(C.description)
  return C.description
end

local BITS = loadstring "return ~1" and [[return function(x, y) return x & 7, x | y, ~x, x << 2, 1 << y, x ~ y, y >> 1, x ~>> 1,
    (x & 1) + 0.5 end]] or "return function(x) return x end" -- operators of current hosts

-- Worlds --------------------------------------------------------------------------------------------------------------

-- Functions by name: text of a chunk that is given objects to close over and returns the function. Each runs in an
-- environment of its own. Arguments: x and y numbers mostly, t u v tables of the world.
local programs = {
  arithmetic = "return function(x, y) return x + y * 2 - x / 4, -x, x % 3, x ^ 2, (x + 1) * (x + 1) end",
  constant = "return function() return 1, nil, 'a', nil end",
  passing = "return function(x, y, t, ...) return t, ..., x end",
  branch = "return function(x, y) if x > y then return x elseif x == y then return 'same' else return y - x end end",
  raised_in_metamethods = [[local m = setmetatable({}, { __index = function(_, k) error('no ' .. k) end,
    __add = function() local function f() return error('add') end
      f() end, __unm = function() return error('tail') end })
    return function(x)
      local _, a = pcall(function() return m.z end)
      local _, b = pcall(function() return m + x end)
      local _, c = pcall(function()
        return -m end)
      return a, b, c, x
    end]],
  zeros = "return function(x, y) local z = x * 1 return tostring(z), 1 / z, tostring(-z) end",
  flags = "return function(x, y, t, u) local a if t.flag then a = 1 end return a, not u.flag, t.flag == u.flag end",
  bits = BITS,
  counting = "return function(x, y, t) local r = { x, t.a } local n = #r r[n + 1] = t.b return n, #r, next({ t.c }) end",
  truth = "return function(x, y, t) local r = x and y or t.a if not r then r = 0 end return r, not x, x == nil end",
  maths = [[return function(x, y) return math.min(x, y, 2), math.max(x, 3), math.floor(x / 2), math.abs(x),
    math.sin(y), math.fmod(x, 3), math.modf(x), select('#', math.modf(y)) end]],
  types = "return function(x, y, t) return type(x), type(t.a), tostring(t.b), tonumber(t.c), type(t.a) == type(t.b) end",
  upvalues = "local a, b, t = ... return function(x) a = a + x; b = t.a return a, b, t.b end",
  shared_upvalue = [[local n = 0
    local function up(k) n = n + k end
    local function get() return n end
    return function(x) up(x) local m = get() up(1) return m, get() end]],
  globals = "return function(x) counter = (counter or 0) + 1 last = x return counter, limit end",
  fields = "return function(x, y, t) t.a = x; t.b = t.a + 1; t.c = nil return t.a, t.b, t.c, t.d end",
  step = "return function(x, y, t) t.step = (t.step or 0) + 1 return t.step end",
  two_tables = "return function(x, y, t, u) t.a = x u.a = y return t.a, u.a, t.a == u.a end",
  aliases = "return function(x, y, t, u) local before = u.a t.a = 5 return before, u.a, t == u end",
  nested = "return function(x, y, t) local s = t.sub if s then s.a = (s.a or 0) + 1 return s, s.a end return nil end",
  swap = "return function(x, y, t, u) t.a, u.b = u.b, t.a return t.a end",
  chain = "return function(x, y, t) return t.inherited, t.a, rawget(t, 'inherited') end",
  methods = [[local Class = ...
    Class.__index = Class
    function Class:bump(k) self.n = (self.n or 0) + k return self end
    return function(x, y, t, u, object) return object:bump(x):bump(1).n, object.name end]],
  new_objects = [[local Class = ...
    Class.__index = Class
    function Class.new(k) return setmetatable({ k = k }, Class) end
    function Class:get() return self.k + 1 end
    return function(x) local o = Class.new(x) return o:get(), o.k, getmetatable(o) == Class, o end]],
  write_through = "return function(x, y, t, u, object) object.fresh = x object.name = y return object.fresh end",
  append = "return function(x, y, t, u, object, list) list[#list + 1] = x return #list, list[#list], list[1] end",
  append_more = [[return function(x, y, t, u, object, list)
    table.insert(list, x) table.insert(list, 1, y) return #list, table.remove(list) end]],
  pop = "return function(x, y, t, u, object, list) local v = table.remove(list) list[#list + 1] = v return #list, v end",
  ipairs = [[return function(x, y, t, u, object, list)
    local s = 0 for i, v in ipairs(list) do if type(v) == 'number' then s = s + i * v end end return s end]],
  pairs = [[return function(x, y, t) local s, n = 0, 0
    for k, v in pairs(t) do n = n + 1 if type(v) == 'number' then s = s + v end end return n, s end]],
  clear = "return function(x, y, t) for k in pairs(t) do t[k] = nil end return next(t) end",
  map = "return function(x, y, t, u, object, list) local r = {} for i = 1, #list do r[i] = list[i] end return r, #r end",
  rewrite = [[return function(x, y, t, u, object, list)
    for i = 1, #list do if type(list[i]) == 'number' then list[i] = list[i] * x end end return list end]],
  unpacking = "return function(x, y, t, u, object, list) return select('#', unpack(list)), (unpack(list)) end",
  varargs = [[return function(...) local n, r = select('#', ...), { ... }
    r[n + 1] = 'end' return n, select(2, ...), r[1] end]],
  tables = "return function(x, y, t) local r = { x, y, t, k = { x } } r.self = r r.k[2] = r return r, r.k, { r } end",
  meta_result = "local m = ... return function(x) return setmetatable({ x }, m), setmetatable({}, { __index = m }) end",
  stored = "return function(x, y, t) local r = { x } t.sub = r r[2] = y r.up = t return r, t.sub end",
  closures = [[return function(x, y) local n = x
    local function add(k) n = n + k return n end
    local list = {} for i = 1, 3 do list[i] = function() return i * x end end
    return add(y), add(1), list[2](), n end]],
  recursion = "local function f(n, x) if n == 0 then return x end return f(n - 1, x * 2) end return function(x) return f(4, x) end",
  protected = [[return function(x, y, t)
    local ok, e = pcall(function(k) t.a = k if k > 1 then error({ code = k }) end return k end, x)
    local ok2, text = pcall(error, 'plain', 0)
    return ok, type(e), ok2, text, t.a end]],
  strings = "return function(x, y, t) local s = tostring(t.name or 'none') return s .. '!' .. 1, #s, s:upper(), ('%s'):rep(2), s:len() end",
  matching = [[return function(x, y, t) local n = 0
    for w in tostring(t.name):gmatch('%a') do n = n + #w end
    return n, ('a,b'):find(',', 1, true), ('x'):byte(), (('abc'):gsub('b', 'c')), math.deg(x), math.rad(y) end]],
  lookup = "return function(x, y, t, u) return t[u], t[u.name or 'name'], t[true] end",
  keyed = "return function(x, y, t, u, object) local old = t[u] t[u] = x return old, t[u], t[object] end",
  number_keys = "return function(x, y, t, u, object, list) return list[1], list[2], list[x], list[0] end",
  operators = [[local V = ...
    V.__add = function(a, b) return a.n + (type(b) == 'table' and b.n or b) end
    V.__eq = function(a, b) return a.n == b.n end
    V.__lt = function(a, b) return a.n < b.n end
    V.__call = function(self, k) return self.n, k end
    V.__unm = function(a) return -a.n end
    V.__concat = function(a, b) return 'cat' end
    return function(x, y)
      local a, b = setmetatable({ n = x }, V), setmetatable({ n = y }, V)
      return a + b, a + 1, a == b, a < b, a <= b, -a, a .. 'x', (a(7))
    end]],
  newindex = [[local log = ...
    return function(x, y, t) local p = setmetatable({}, { __newindex = function(s, k, v) rawset(s, k, v) log.a = v end })
      p.z = x p.z = y return p.z, log.a end]],
  sorting = [[return function(x, y) local r = { x, y, 2, x + y }
    table.sort(r) local s = { 3, 1, 2 } table.sort(s, function(a, b) return a > b end) return r, s end]],
  concat = "return function(x, y, t, u, object, list) local r = { 'a', 1, 'b' } return table.concat(r, ','), #r end",
  identity = "return function(x, y, t, u, object) return t == u, t == object, t == t.sub, rawequal(t, u), t.sub == nil end",
  loop = "return function(x, y, t) local n = 0 for i = 1, t.count or 2 do n = n + i * x if n > 20 then break end end return n end",
  while_loop = "return function(x, y) local n = 0 while x < 5 do x = x + 2 n = n + 1 if n > 6 then break end end return x, n end",
  helpers = "local h = ... return function(x, y, t) return h.f and h.f(x), t.f and t.f(x, y) end",
  environment = "return function(x, y, t) return limit, helper and helper(x), type(undefined) end",
  forward = "local t = ... return function(...) local a = t.a return a, ... end",
}

--- A world: objects that refer to each other, and the function of a program.
local function new_world(text, random)
  local w = { tables = {}, functions = {}, strings = { "a", "b", "c", "name", "step", "inherited", "sub", "limit", "f" } }
  for i = 1, 8 do w.tables[i] = {} end
  local t, u, class, object, list, sub, log, env = unpack(w.tables)
  t.a, t.b, t.c, t.name, t.sub, t.count = 1, 2, "3", "tee", sub, 3
  u.a, u.b, u.name = 4, 5, "name"
  class.inherited, class.name, class.n = "from class", "class", 0
  setmetatable(object, { __index = class })
  class.__index = class
  w.tables[9] = getmetatable(object)
  for i = 1, 3 do list[i] = i * 1.5 end
  sub.a, log.a = 7, 0
  t.flag, t[u], t[object] = true, "you", "object"
  for i, source in ipairs { "return x", "return (x or 0)", "return x, y", "return 1" } do
    w.functions[i] = setfenv(loadstring("return function(x, y) " .. source .. " end"), {})()
  end
  for k, v in pairs(_G) do
    if type(v) == "function" or k == "math" or k == "table" or k == "string" then env[k] = v end
  end
  env._G, env.limit, env.helper = nil, 10, w.functions[1]
  w.env, w.standard = env, {}
  for k in pairs(env) do w.standard[k] = k ~= "limit" and k ~= "helper" end
  local chunk = assert(loadstring(text))
  setfenv(chunk, env)
  w.f = text:find "local Class = ..." and chunk(class) or text:find "local V = ..." and chunk({})
    or text:find "local a, b, t = ..." and chunk(1, 2, t) or text:find "local h = ..." and chunk({ f = w.functions[2] })
    or chunk(text:find "local t = ..." and t or log)
  w.args = { 1.5, 2, t, u, object, list, n = 6 }
  w.random = random
  return w
end

local plain = { 0, -0, 1, 2, 3.5, -1, 1 / 0, 0 / 0, "a", "name", "3", true, false }

--- A value such as the world holds.
local function any_value(w)
  local r = w.random(1, 10)
  if r == 1 then return nil end
  if r <= 6 then return plain[w.random(1, #plain)] end
  if r <= 9 then return w.tables[w.random(1, 7)] end
  return w.functions[w.random(1, #w.functions)]
end

local function any_key(w, t)
  local keys = {}
  for k in pairs(t) do keys[#keys + 1] = k end
  if #keys > 0 and w.random(1, 3) > 1 then return keys[w.random(1, #keys)] end
  if w.random(1, 3) == 1 then return w.random(1, 5) end
  return w.strings[w.random(1, #w.strings)]
end

local function change_field(w)
  local t = w.tables[w.random(1, #w.tables)]
  local k = any_key(w, t)
  if t == w.env and w.standard[k] then return end
  local v = any_value(w)
  rawset(t, k, v)
  if w.random(1, 3) == 1 then rawset(w.tables[w.random(1, 7)], k, v) end
end

local function change_number(w)
  local t = w.tables[w.random(1, #w.tables)]
  for k, v in pairs(t) do
    if type(v) == "number" then
      t[k] = v + w.random(0, 4) / 2
      return
    end
  end
end

local function change_argument(w)
  if w.args.n == 0 then return end
  local i = w.random(1, w.args.n)
  if i <= 2 and w.random(1, 2) == 1 then
    w.args[i] = w.random(-4, 12) / 2
  elseif i > 2 and w.random(1, 2) == 1 then
    w.args[i] = w.args[w.random(3, w.args.n < 3 and 3 or w.args.n)]
  else
    w.args[i] = any_value(w)
  end
end

local function change_upvalue(w)
  local i = 1
  while debug.getupvalue(w.f, i) do i = i + 1 end
  if i == 1 then return end
  local k = w.random(1, i - 1)
  local _, old = debug.getupvalue(w.f, k)
  if type(old) == "function" then return end
  debug.setupvalue(w.f, k, any_value(w))
end

local function change_metatable(w)
  local t = w.tables[w.random(1, 8)]
  if t == w.env then return end
  local mt = w.random(1, 3) == 1 and nil or w.tables[w.random(1, 9)]
  setmetatable(t, mt)
end

local function change_flag(w)
  w.tables[w.random(1, 2)].flag = ({ true, false })[w.random(1, 3)]
  if w.random(1, 3) == 1 then w.args[w.random(1, 2)] = ({ 0, -0, true, false })[w.random(1, 4)] end
end

local function change_count(w) w.args.n = w.random(0, 7) end

local changes = { change_field, change_field, change_field, change_number, change_number, change_argument,
  change_argument, change_argument, change_upvalue, change_metatable,
  change_count, change_flag }

-- Taking and comparing states -----------------------------------------------------------------------------------------

--- Everything that can be reached, by what holds it: tables and functions (for their upvalues), metatables.
local function reach(w)
  local seen, list = {}, {}
  local function visit(v)
    local kind = type(v)
    if (kind ~= "table" and kind ~= "function") or seen[v] or v == _G or w.standard_values[v] then return end
    seen[v] = true
    list[#list + 1] = v
    if kind == "table" then
      for k, e in next, v do
        visit(k)
        visit(e)
      end
      visit(debug.getmetatable(v))
    else
      local i = 1
      while debug.getupvalue(v, i) do
        visit((select(2, debug.getupvalue(v, i))))
        i = i + 1
      end
    end
  end
  w.standard_values = {}
  for k in pairs(w.standard) do
    local v = w.env[k]
    if w.standard[k] and v ~= nil then w.standard_values[v] = true end
  end
  visit(w.f)
  for _, t in ipairs(w.tables) do visit(t) end
  for i = 1, w.args.n do visit(w.args[i]) end
  return list
end

local function take(w)
  local state = {}
  for _, o in ipairs(reach(w)) do
    local e = { object = o }
    state[#state + 1] = e
    if type(o) == "table" then
      e.fields, e.meta = {}, debug.getmetatable(o)
      for k, v in next, o do e.fields[k] = v end
    else
      e.up = {}
      local i = 1
      while debug.getupvalue(o, i) do
        e.up[i] = { (select(2, debug.getupvalue(o, i))) }
        i = i + 1
      end
    end
  end
  return state
end

local function put_back(state)
  for _, e in ipairs(state) do
    local o = e.object
    if e.fields then
      for k in next, o do
        if e.fields[k] == nil then rawset(o, k, nil) end
      end
      for k, v in next, e.fields do
        if not rawequal(rawget(o, k), v) then rawset(o, k, v) end
      end
      if debug.getmetatable(o) ~= e.meta then debug.setmetatable(o, e.meta) end
    else
      for i, v in ipairs(e.up) do debug.setupvalue(o, i, v[1]) end
    end
  end
end

local function plain_text(v)
  if type(v) == "number" then return v ~= v and "nan" or v == 0 and (1 / v > 0 and "0" or "-0") or ("%.17g"):format(v) end
  return type(v) .. " " .. tostring(v)
end

--- Text of results and of the world after a call: objects of the world by their place, new ones by when they are met.
local function text_of(w, state, results)
  local id, n, out, todo = {}, 0, {}, {}
  for i, e in ipairs(state) do id[e.object] = "o" .. i end
  local function name(v)
    if type(v) ~= "table" and type(v) ~= "function" then return plain_text(v) end
    if w.standard_values[v] then return tostring(v) end
    if v == w.env then return "_G" end
    if not id[v] then
      n = n + 1
      id[v] = "n" .. n
      todo[#todo + 1] = v
    end
    return id[v]
  end
  out[1] = "results " .. results.n
  for i = 1, results.n do out[#out + 1] = name(results[i]) end
  local function describe(t)
    local lines, keys = {}, {}
    for k in next, t do keys[#keys + 1] = k end
    table.sort(keys, function(a, b) return plain_text(a) < plain_text(b) end)
    for _, k in ipairs(keys) do lines[#lines + 1] = name(k) .. "=" .. name(t[k]) end
    table.sort(lines)
    return table.concat(lines, " ") .. " meta " .. name(debug.getmetatable(t))
  end
  for _, e in ipairs(state) do
    local o = e.object
    if o == w.env then
      out[#out + 1] = ("globals %s %s %s %s"):format(name(o.limit), name(o.helper), name(o.counter), name(o.last))
    elseif e.fields then
      out[#out + 1] = id[o] .. ": " .. describe(o)
    else
      for i = 1, #e.up do out[#out + 1] = ("%s^%d: %s"):format(id[o], i, name((select(2, debug.getupvalue(o, i))))) end
    end
  end
  local i = 1
  while todo[i] do
    if type(todo[i]) == "table" then out[#out + 1] = id[todo[i]] .. ": " .. describe(todo[i]) end
    i = i + 1
  end
  return table.concat(out, "\n")
end

local function pack(...) return { n = select("#", ...), ... } end

--- What plain Lua does, as text.
local function plain_run(w, state)
  local r = pack(pcall(w.f, unpack(w.args, 1, w.args.n)))
  if not r[1] then return "error" end
  local results = { n = r.n - 1 }
  for i = 1, results.n do results[i] = r[i + 1] end
  return text_of(w, state, results)
end

local function described_run(w, state, d)
  local results, effects = D.run(d, w.f, w.args.n, unpack(w.args, 1, w.args.n))
  if not results then return nil end
  effects()
  return text_of(w, state, results)
end

--- A generator of its own: specs must not depend on the host's.
local function generator(seed)
  local s = seed
  return function(low, high)
    s = (s * 16807) % 2147483647
    return low + math.floor(s / 2147483647 * (high - low + 1))
  end
end

--- Programs that meet what no capture follows, such as the text of a table, an order of keys that is unknown or the length
--- of a list with holes (which one there is depends on where earlier calls grew the list); all others never do.
local aborting = { append = true, append_more = true, clear = true, matching = true, pairs = true, pop = true,
  protected = true, raised_in_metamethods = true, strings = true, types = true }

--- Changes the world `rounds` times; captures anew when nothing holds. Returns counts of captures, hits, and aborts of
--- calls that plain Lua ends without an error.
local function explore(name, text, seed, rounds)
  local w = new_world(text, generator(seed))
  local list, captures, hits, aborts = {}, 0, 0, 0
  local first, first_args = take(w), { unpack(w.args) }
  for round = 1, rounds do
    local state = take(w)
    local hit
    for _, d in ipairs(list) do
      local got = described_run(w, state, d)
      if got then
        put_back(state)
        if D.check(d, w.f, w.args.n, unpack(w.args, 1, w.args.n)) then -- keys may have moved meanwhile
          local want = plain_run(w, state)
          put_back(state)
          if got ~= want then
            error(("%s, seed %d, round %d: plain Lua gives\n%s\nthe description gives\n%s\nby\n%s"):format(name, seed, round,
              want, got, D.text(d)), 0)
          end
          hit = true
          hits = hits + 1
        end
      end
    end
    if not hit and #list < 20 then
      local before = text_of(w, state, { n = 0 })
      local d = captured(w.f, unpack(w.args, 1, w.args.n))
      assert(text_of(w, state, { n = 0 }) == before, name .. ": a capture changed the world")
      if d then
        captures = captures + 1
        list[#list + 1] = d
        if not D.check(d, w.f, w.args.n, unpack(w.args, 1, w.args.n)) then
          error(("%s, seed %d, round %d: the guards do not hold where they were taken\n%s"):format(name, seed, round,
            D.text(d)), 0)
        end
        local got = described_run(w, state, d)
        put_back(state)
        local want = plain_run(w, state)
        put_back(state)
        if got ~= want then
        error(("%s, seed %d, round %d: the captured call itself differs: plain Lua gives\n%s\nnot\n%s\nby\n%s"):format(name,
          seed, round, want, got, D.text(d)), 0)
      end
      else
        if plain_run(w, state) ~= "error" then aborts = aborts + 1 end
        put_back(state)
      end
    end
    if w.random(1, 4) == 1 then -- else ruins are all that is left
      put_back(first)
      w.args = { n = 6, unpack(first_args) }
    end
    changes[w.random(1, #changes)](w)
  end
  return captures, hits, aborts
end

describe("a description", function()
  -- compiled traces of LuaJIT and its interpreter differ in math.min of NaN
  setup(function() jit.off() end)
  teardown(function() jit.on() end)
  for name, text in pairs(programs) do
    it("equals plain Lua wherever its guards hold: " .. name, function()
      local captures, hits, aborts = 0, 0, 0
      for seed = 1, 2 do
        local c, h, a = explore(name, text, seed * 7919 + #text, 150)
        captures, hits, aborts = captures + c, hits + h, aborts + a
      end
      if not aborting[name] then assert.equal(0, aborts) end
      assert.is_true(captures > 0, name .. " was never captured")
      assert.is_true(hits > 8, name .. " hit " .. hits .. " times only")
    end)
  end
end)


-- Single claims -------------------------------------------------------------------------------------------------------

--- How often each instruction stands in the program of a capture.
local function count(d)
  local n = {}
  for _, instr in ipairs(d.program) do n[instr[1]] = (n[instr[1]] or 0) + 1 end
  return n
end

local function guards(d, wanted)
  local n, total = count(d), 0
  for name, k in pairs(wanted) do
    assert.equal(k, n[name] or 0, name .. " in\n" .. D.text(d))
    total = total + k
  end
  assert.equal(total, #d.program, D.text(d))
end

local function reason_of(f, ...)
  local d, why = captured(f, ...)
  assert.is_nil(d)
  return why.reason, why
end

describe("a capture", function()
  it("needs no guard for what is only handed on", function()
    guards(assert(captured(function(a, b, ...) return b, a, ... end, 1, {}, "x", ty.ones(2))), {})
  end)

  it("reads a field once, however often it is used", function()
    local d = assert(captured(function(t) return t.a + t.a * t.a end, { a = 2 }))
    guards(d, { type = 1, field = 1, number = 1, mul = 1, add = 1 })
  end)

  it("holds for every value of a counter in a field", function()
    local function tick(t) t.step = t.step + 1 return t.step * 0.5 end
    local d = assert(captured(tick, { step = 1 }))
    for _, v in ipairs { 0, -0, 7.25, 1e300, 1 / 0 } do
      local t = { step = v }
      local results, effects = D.run(d, tick, 1, t)
      effects()
      assert.equal((v + 1) * 0.5, results[1])
      assert.equal(v + 1, t.step)
    end
  end)

  it("computes what is written once", function()
    local d = assert(captured(function(x, y) return (x + y) * (x + y), x + y end, 1, 2))
    guards(d, { number = 2, add = 1, mul = 1 })
  end)

  it("asks an absent argument for its type alone", function()
    local d = assert(captured(function(x, mask) if mask ~= nil then return mask end return x end, 1, { 2 }))
    guards(d, { type = 1 })
    d = assert(captured(function(x, mask) if mask ~= nil then return mask end return x end, 1, nil))
    guards(d, { equal = 1 })
  end)

  it("knows tables by their place, so that one made for each call fits", function()
    local function f(o) return o.x + o.y end
    local d = assert(captured(f, { x = 1, y = 2 }))
    assert.equal(30, D.run(d, f, 1, { x = 10, y = 20 })[1])
  end)

  it("makes every result table anew and each once", function()
    local function f(x)
      local t = { x }
      t.own = t
      return t, t, { t }
    end
    local d = assert(captured(f, 1))
    local a, b = D.run(d, f, 1, 5), D.run(d, f, 1, 5)
    assert.equal(a[1], a[2])
    assert.equal(a[1], a[3][1])
    assert.equal(a[1], a[1].own)
    assert.not_equal(a[1], b[1])
  end)

  it("guards each tensor that is used, and no other", function()
    local x, w, unused = ty.ones(2, 2), ty.ones(2, 2), ty.ones(3)
    local d = assert(captured(function(a, b, c) return a:matmul(b), c end, x, w, unused))
    guards(d, { tensor = 2 })
    assert.same({ "tensor", 1 }, d.results[1])
    assert.same({ "slot", 3 }, d.results[2])
  end)

  it("hands out a tensor from outside as itself", function()
    local d = assert(captured(function(x) return x:to("f32"), x:contiguous() end, ty.ones(2)))
    assert.same({ "slot", 1 }, d.results[1])
    assert.same({ "slot", 1 }, d.results[2])
    assert.equal(0, #d.tensors)
  end)

  it("demands that what was one tensor stays one", function()
    local x = ty.ones(2)
    assert.equal(1, count(assert(captured(function(a, b) return a + b end, x, x))).same)
  end)

  it("walks tables that are given to the library", function()
    local d = assert(captured(function(list, o) return ty.cat(list), ty.cat { o.a, o.b } end, { ty.ones(1), ty.ones(2) },
      { a = ty.ones(1), b = ty.ones(1) }))
    assert.equal(1, count(d).keys)
    assert.equal(4, count(d).tensor)
  end)

  it("keeps sizes of tensors constant", function()
    local d = assert(captured(function(x) return x.shape[1] * x:size(2) + #x + x.ndim, x.dtype end, ty.ones(2, 3)))
    assert.same({ "value", 10 }, d.results[1])
    guards(d, { tensor = 1 })
  end)

  it("evaluates composites when a number of later calls goes in", function()
    local d = assert(captured(function(x, s) return x:leaky_relu(s), x:clamp(s, 1), x:norm(s) end, ty.ones(2), 0.5))
    assert.equal(1, count(d).number)
  end)

  it("follows a closure that is made anew for each call when asked to", function()
    local function make(k) return function(x) return x * k end end
    local function f(g, x) return g(x) end
    local ok, why = capture.run_with(core, {}, { closures = true }, f, make(2), 3)
    assert(ok, why and why.reason)
    local d = C.description
    D.lint(d)
    assert.equal(50, D.run(d, f, 2, make(5), 10)[1])
    assert.is_nil((D.run(d, f, 2, function(x) return x end, 10)))
    ok = capture.run(core, {}, f, make(2), 3)
    assert.is_true(ok)
    assert.is_nil((D.run(C.description, f, 2, make(2), 3)))
  end)

  it("follows a closure that is made anew for each call and writes its upvalue", function()
    local function make(n) return function() n = n + 1 return n end end
    local function f(g) return g() end
    assert.is_true(capture.run_with(core, {}, { closures = true }, f, make(2)))
    local g = make(7)
    local results, effects = D.run(C.description, f, 1, g)
    assert.equal(8, results[1])
    effects()
    assert.equal(9, g())
  end)

  it("asks whether upvalues are one variable where functions are known by their code", function()
    local function make(n)
      return { add = function(k) n = n + k end, get = function() return n end }
    end
    local function f(add, get) add(1) return get() end
    local one, other = make(2), make(7)
    assert.is_true(capture.run_with(core, {}, { closures = true }, f, one.add, one.get))
    D.lint(C.description)
    assert.equal(8, D.run(C.description, f, 2, other.add, other.get)[1])
    assert.is_nil((D.run(C.description, f, 2, one.add, other.get)))
    assert.is_true(capture.run_with(core, {}, { closures = true }, f, one.add, other.get))
    D.lint(C.description)
    assert.is_nil((D.run(C.description, f, 2, one.add, one.get)))
    assert.equal(2, D.run(C.description, f, 2, other.add, one.get)[1])
  end)

  it("evaluates what is inside compiled functions and compiled modules", function()
    local k = 3
    local g = ty.compile(function(x) return x * k end)
    local function f(x) return g(x) + 1 end
    local d = assert(captured(f, 2))
    assert.equal(31, D.run(d, f, 1, 10)[1])
    k = 5
    assert.equal(51, D.run(d, f, 1, 10)[1])
    local m = ty.compile { scale = 2, forward = function(self, x) return x * self.scale end }
    local function h(x) return m(x) end
    m(1)
    d = assert(captured(h, 2))
    m.scale = 7
    assert.equal(70, D.run(d, h, 1, 10)[1])
    m.forward = function() return 0 end
    assert.is_nil((D.run(d, h, 1, 10)))
  end)

  it("is the same for other sizes where these steer nothing", function()
    local function f(x, k) return { x * k, n = x:sum() }, x:reshape(-1) end
    local a = assert(captured(f, ty.ones(3), 2))
    assert.is_true(capture.same(a, assert(captured(f, ty.ones(5), 2))))
    assert.is_false(capture.same(a, assert(captured(f, ty.ones(5, 1), 2))))
    assert.is_false(capture.same(a, assert(captured(f, ty.ones(3):to("f64"), 2))))
    local function g(x) return x:size(1) end
    assert.is_false(capture.same(assert(captured(g, ty.ones(3))), assert(captured(g, ty.ones(4)))))
    local function h(x, k) if k > 1 then return x end return x, x end
    assert.is_false(capture.same(assert(captured(h, ty.ones(3), 1)), assert(captured(h, ty.ones(3), 2))))
  end)

  it("says where and why it gave up", function()
    local reason, why = reason_of(function(x)
      local y = x
      print(y)
    end, 1)
    assert.equal("calls print", reason)
    assert.match("capture_spec.lua$", why.file)
    assert.equal(debug.getinfo(1, "l").currentline - 4, why.line)
    assert.is_string(why.hint)
  end)

  it("follows the library's own __index, whatever else the module holds", function()
    local function reads(x) return x > 1 and ty.no_such_name or x end
    assert.is_table((captured(reads, 2)))
    local relu = ty.relu
    ty.relu = 5
    local again = captured(reads, 2)
    ty.relu = relu
    assert.is_table(again)
  end)

  it("captures functions whose 64-bit constants it does not come by", function()
    assert.is_table((captured(loadstring "return function(x, y) if x > y then return 5LL end return x + 1 end"(), 1, 2)))
  end)

  it("captures loops whose step is 0 and that have no turn", function()
    assert.is_table((captured(loadstring "return function(x) for i = 2, 1, 0 do x = x + i end return x end"(), 1)))
  end)

  for name, text in pairs {
    ["reads data"] = "return function(x) return x:item() end",
    ["changes or shows"] = "return function(x) ty.manual_seed(1) end",
    ["changes or shows what"] = "return function(x) return ty.compile(type) end",
    ["made inside"] = "return function(x) return function() end end",
    ["calls math.random"] = "return function() return math.random(0.5) end",
    ["decided by a number that is drawn"] = "return function() return math.random() > 0.5 end",
    ["kept in a table that is made"] = "return function() return { math.random() } end",
    ["calls coroutine.wrap"] = "return function() return coroutine.wrap(type) end",
    ["calls an unknown C function"] = "return function() return newproxy_like() end",
    ["an error is raised: boom"] = "return function() error('boom', 0) end",
    ["no field"] = "return function(x) return x.nothing end",
    ["attempt to index a nil"] = "return function(x) local y return y.z end",
    ["more steps"] = "return function() local i = 0 while true do i = i + 1 end end",
    ["attempt to call a nil value"] = "return function() local f f() end",
    ["attempt to call a table value"] = "local t = setmetatable({}, { __call = {} }) return function() t() end",
    ["step NaN"] = "return function() for i = 1, 2, 0 / 0 do end end",
    ["the step %-0"] = "local z = 0 return function() for i = 1, 2, -z do end end",
    ["64%-bit or complex"] = "return function(x) local k = 5LL return x end",
    ["nested deeper"] = "local function f(n) return 1 + f(n + 1) end return function() return f(1) end",
    ["metatable of a table from outside"] = "local t = {} return function() setmetatable(t, {}) end",
    ["with a metatable"] = "return function() return ty.cat(setmetatable({}, {})) end",
    ["that was changed"] = "local t = {} return function(x) t[1] = x return ty.cat(t) end",
    ["reads data, in a table"] = "local t = {} return function(x) t.x = x:totable() end",
  } do
    it("gives up: " .. name, function()
      local env = setmetatable({ ty = ty, newproxy_like = io.type }, { __index = _G })
      env.newproxy_like = ty.internals.scope_open
      local f = setfenv(loadstring(text), env)()
      assert.match(name:match("^[^,]*"), (reason_of(f, ty.ones(1))))
      assert.is_false(C.open)
    end)
  end
end)

describe("a rare word of Lua in a compiled function", function()
  local x, outside, metatable = ty.ones(2), ty.ones(3), { __metatable = "no" }

  --- Results, or the error, as text: of tensors the elements.
  local function outcome(f, ...)
    local y = { pcall(f, ...) }
    for i = 1, #y do y[i] = tostring(y[i]) end
    return y
  end

  -- Functions of a tensor and the number 1.5; why they are not captured, where they are not.
  local cases = {
    ["a second metatable"] = { function(v)
      local t = setmetatable({}, { __index = { a = 1 } })
      setmetatable(t, { __index = { a = 3 } })
      return v * t.a
    end },
    ["known operands of math.max before others"] = { function(v, n) return v * math.max(1, 2, n), math.min(4, 3, n, 2) end },
    ["the length of a list with holes"] = { function(v)
      local t, u = { 1, 2, 3, 4 }, {}
      t[2], t[4] = nil, nil
      u[1], u[2], u[3] = 1, 2, 3
      u[3] = nil
      return v * #t, #u
    end },
    ["the length and the entries of a table of the library"] = { function(v)
      local n = #ty.nn.init
      for k in pairs(ty.nn.init) do n = n + #k end
      return v * n
    end },
    ["a table of Lua's library as a result"] = { function(v) return v, math end },
    ["== of a number and an object"] = { function(v, n) return v, n == outside, outside == n, n ~= metatable end },
    ["a tensor as a key"] = { function(v)
      local t = {}
      t[v], t[outside] = 1, 2
      return v * t[v] * t[outside]
    end, "a tensor from outside is used as a key of a table" },
    ["the metatable of what protects it"] = { function(v)
      setmetatable(setmetatable({}, metatable), {})
      return v
    end, "cannot change a protected metatable" },
    ["tensors by <"] = { function(v) return v < v end, "tensors are ordered by < or <=" },
    ["__newindex in a circle"] = { function(v)
      local a, b = {}, {}
      setmetatable(a, { __newindex = b })
      setmetatable(b, { __newindex = a })
      a.x = 1
      return v
    end, "a loop of __newindex" },
    ["a coroutine that is made"] = { function(v) return v, type(coroutine.create(function() end)) end },
    ["a coroutine that is made of a number"] = { function(v)
      return v, pcall(coroutine.create, 5)
    end, "coroutine.create is given no function" },
    ["the coroutine that runs"] = { function(v) return v, type(coroutine.running()) end, "calls coroutine.running" },
    ["a function made inside for native code"] = { function(v)
      local n = 0
      local bytes = string.dump(function()
        n = n + 1
        return n
      end)
      return v * #bytes
    end, "calls string.dump" },
  }

  for name, case in pairs(cases) do
    it("means what it means in plain Lua: " .. name, function()
      local f, reason = case[1], case[2]
      local compiled = ty.compile(f, { parts = false })
      for _ = 1, 3 do assert.same(outcome(f, x, 1.5), outcome(compiled, x, 1.5)) end
      local e = ty.explain(compiled)
      assert.equal(reason and 0 or 3, e.skips)
      assert.equal(reason, e.aborts[1] and e.aborts[1].reason)
    end)
  end
end)

return { explore = explore, programs = programs, captured = captured }
