--- numbers.lua -- concolic numbers: a value now, and an expression that gives it in later calls.
-- In: operands with their shadows. Out: results with shadows; comparisons become guards on their outcome.
--
-- Rules:
-- 1. Expressions are what IEEE doubles do, as LuaJIT does: every later call computes the same bits from other inputs.
--    What is not plain arithmetic is a call of the very function that Lua would call.
-- 2. Equal expressions are one expression, equal guards one guard.
-- 3. A number whose value was needed is pinned; what is computed from pinned numbers alone is known.
-- 4. What is computed from sizes alone is the tape's (tape.lua), not the trace's. An expression of sizes and numbers is
--    "deferred": it is known when the plan for these sizes was found, and its instructions stand behind all others.
-- 5. What math.random and its like give is not known while a call is captured: nothing is drawn then, and nothing may
--    be decided by it. Such numbers, and what is computed from them, stand behind all else: runs draw them at last.
-- 6. Operators on tensors go to natives.lua; tables and strings find their metamethods as in Lua.

local bit_operators = require("tycho.capture.bytecode").bit_operators
local operators = require "tycho.capture.operators"

local format, min, max, huge = string.format, math.min, math.max, math.huge
local type, tonumber, tostring, floor, ipairs, rawequal = type, tonumber, tostring, math.floor, ipairs, rawequal
local compute, compare, HAS_INTEGERS = operators.compute, operators.compare, operators.HAS_INTEGERS

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

--- The bits of two numbers agree, NaNs with each other.
local function same_bits(a, b)
  if a ~= a or b ~= b then return a ~= a and b ~= b end
  return a == b and 1 / a == 1 / b
end

local function composed_mod(a, b) return a - floor(a / b) * b end

--- Hosts differ in how they compute a % b: it is taken apart only where that gives the same.
local function mod_is_composed()
  local list = { 0, -0, 1, -1, 2.5, -2.5, 7, -7, 3, 0.1, 1e300, -1e-300, 2 ^ 53, 1 / 0, -1 / 0, 0 / 0 }
  for _, a in ipairs(list) do
    for _, b in ipairs(list) do
      if not same_bits(compute.mod(a, b), composed_mod(a, b)) then return false end
    end
  end
  return true
end

local MOD_IS_COMPOSED = mod_is_composed()

return function(World)
  World.compute = compute

  -- Expressions -------------------------------------------------------------------------------------------------------

  local EARLY, DEFERRED, DRAWN = World.EARLY, World.DEFERRED, World.DRAWN
  local counters = { [EARLY] = "nnumbers", [DEFERRED] = "ndeferred", [DRAWN] = "ndrawn" }

  --- The expression that an instruction makes, whose value is v now; at: what makes it the same as an earlier one.
  local function expression(world, instr, v, at, path, stage)
    local s = world.number_at[at]
    if s then return s end
    world:emit(instr, path, stage)
    local counter = counters[stage or EARLY]
    world[counter] = world[counter] + 1
    s = { number = world[counter], value = v, path = path, instr = instr }
    world.numbers[s.number], world.number_at[at] = s, s
    return s
  end

  --- When one or two expressions are known: of numbers alone, with sizes, or when numbers are drawn.
  function World:stage(id, other)
    if other and other > id then id = other end
    return id > self.C.DRAWN and DRAWN or id > self.C.DEFERRED and DEFERRED or EARLY
  end

  --- Gives up where something is to be decided by a number that is drawn.
  function World:must_be_known(s)
    if s and s.number and s.number > self.C.DRAWN then
      self:abort("something is decided by a number that is drawn in each call",
        "draw it outside of the compiled function")
    end
  end

  --- What an instruction gives that makes a number, v now; at: what makes it the same as an earlier one.
  function World:numeric_of(instr, v, at, path) return expression(self, instr, v, at, path) end

  --- What a function gives that draws numbers or tells the time.
  function World:draw(f, args, path)
    local v = self.C.UNKNOWN
    return v, expression(self, { "draw", f, args }, v, "draw " .. self.ndrawn, path, DRAWN)
  end

  local function constant_id(world, v)
    local at = v ~= v and "nan" or v == 0 and (1 / v > 0 and "0" or "-0") or format("%.17g", v)
    local s = expression(world, { "const", v }, v, "const " .. at)
    s.pinned = true
    return s.number
  end

  --- Which of the numbers that come with a set of sizes a size is.
  function World:size_id(s)
    if not s.place then
      self.sizes[#self.sizes + 1] = s
      s.place = #self.sizes
    end
    return s.place
  end

  --- The expression of a number.
  function World:number_id(v, s)
    if s == nil or s.pinned then return constant_id(self, v) end
    if s.number then return s.number end
    if s.length or s.behind then return self:length_id(v, s) end
    if s.size then
      return expression(self, { "size", self:size_id(s) }, v, "size " .. s.size, s.path, DEFERRED).number
    end
    if not s.id then
      s.id = expression(self, { "number", s.slot }, v, "slot " .. s.slot, s.path).number
      s.typed = true
    end
    return s.id
  end

  local signs = { add = "+", sub = "-", mul = "*", div = "/", lt = "<", le = "<=", eq = "==" }

  --- Two numbers and what stands between them, as the user would write it; nil when that gets long.
  local function text_of(name, a, as, b, bs)
    local function part(v, s)
      if s and not s.pinned then return s.path or "..." end
      return format("%.14g", v)
    end
    local text = format("%s %s %s", part(a, as), signs[name], part(b, bs))
    return #text <= 60 and text or nil
  end

  --- Whether a number is a size or known.
  local function is_settled(s) return s == nil or s.pinned or s.size ~= nil end

  --- An operation on one or two numbers: name of the instruction, operands, the value now.
  function World:numeric(name, v, a, as, b, bs)
    if is_settled(as) and is_settled(bs) then
      local text = signs[name] and text_of(name, a, as, b, bs)
      return v, self.tape:compute(name, v, a, as, b, bs, text and "(" .. text .. ")")
    end
    local ia = self:number_id(a, as)
    local ib = b ~= nil and self:number_id(b, bs) or nil
    local path = signs[name] and text_of(name, a, as, b, bs)
    path = path and "(" .. path .. ")"
    return v, expression(self, { name, ia, ib }, v, name .. " " .. ia .. " " .. (ib or ""), path, self:stage(ia, ib))
  end

  --- A call of a pure function with one or two numbers, whose first result is v now.
  function World:numeric_call(f, v, a, as, b, bs)
    if is_settled(as) and is_settled(bs) then return v, self.tape:compute(f, v, a, as, b, bs) end
    local ia = self:number_id(a, as)
    local ib = b ~= nil and self:number_id(b, bs) or nil
    return v, expression(self, { "call", f, ia, ib }, v, tostring(f) .. " " .. ia .. " " .. (ib or ""), nil,
      self:stage(ia, ib))
  end

  --- Makes a number known by its bits.
  function World:pin_number(v, s)
    if s.pinned then return end
    if s.is_bound then self:abort_bound(s) end
    if s.length or s.behind then return self:pin_length(s) end
    self:must_be_known(s)
    if s.size then
      self.tape:claim("bits", v, s, v, nil, true, format("%s == %.14g", s.path or "a size", v))
      s.pinned = true
      return
    end
    s.pinned = true
    local id, path = s.number, s.path
    local stage = self:stage(id)
    local function claim(name, a, b, outcome)
      self:emit({ name, a, b, outcome }, path or format("a %s b", signs[name]), stage)
    end
    if v ~= v then return claim("eq", id, id, false) end
    claim("eq", id, constant_id(self, v), true)
    if v ~= 0 then return nil end
    local one, zero = constant_id(self, 1), constant_id(self, 0)
    local inverse = expression(self, { "div", one, id }, 1 / v, "div " .. one .. " " .. id, nil, stage)
    return claim("lt", zero, inverse.number, 1 / v > 0)
  end

  local function known(s) return s == nil or s.pinned end

  local function is_negative(v) return v < 0 or v == 0 and 1 / v < 0 end

  --- Where LuaJIT tells integers from doubles, what IEEE makes -0 is 0 of integers, and later calls cannot tell
  --- which their operands are: r, a product or a negation, is guarded not to be -0. Only the native run knows, from
  --- its beginning: registers that a trace has filled hold doubles. What is drawn is a double.
  function World:forbid_minus_zero(r, rs, minus)
    if known(rs) or rs.number and rs.number > self.C.DRAWN then return end
    local inverse, s = self:numeric("div", minus and -huge or 1 / r, 1, nil, r, rs)
    if self:compare_numbers("eq", inverse, s, -huge) then
      self:abort("0 times a negative number is 0 of integers, else -0", nil, "zero")
    end
  end

  local function number_arith(world, op, a, as, b, bs)
    local v = compute[op](a, b)
    if known(as) and known(bs) then return v, nil end
    if op == "add" and b == 1 and known(bs) and as.length and not as.number then
      return v, { behind = as, value = v, typed = true, path = text_of("add", a, as, b, bs) }
    end
    if op == "unm" then
      local _, s = world:numeric("unm", v, a, as)
      if HAS_INTEGERS then world:forbid_minus_zero(v, s, v == 0 and not is_negative(a)) end
      return v, s
    end
    if op == "pow" then return world:numeric_call(compute.pow, v, a, as, b, bs) end
    if op ~= "mod" then
      local _, s = world:numeric(op, v, a, as, b, bs)
      if HAS_INTEGERS and op == "mul" then
        world:forbid_minus_zero(v, s, v == 0 and is_negative(a) ~= is_negative(b))
      end
      return v, s
    end
    if not MOD_IS_COMPOSED then return world:numeric_call(compute.mod, v, a, as, b, bs) end
    local q, qs = world:numeric("div", a / b, a, as, b, bs)
    local f, fs = world:numeric("floor", floor(q), q, qs)
    local p, ps = world:numeric("mul", f * b, f, fs, b, bs)
    return world:numeric("sub", v, a, as, p, ps)
  end

  -- Operators ---------------------------------------------------------------------------------------------------------

  local function is_tensor(world, v) return type(v) == "userdata" and world.is_tensor(v) end

  --- The result of a handler: exactly one value.
  local function first_result(world, h, hs, a, as, b, bs)
    local results, shadows, n = world.apply(h, hs, { a, b }, { as, bs }, 2)
    if n == 0 then return nil, nil end
    return results[1], shadows[1]
  end

  --- The handler of a binary event: of the first operand that has one.
  local function binary_handler(world, event, a, as, b, bs)
    if is_tensor(world, a) then return nil end
    local h, hs = world:metamethod(a, as, event)
    if h == nil and not is_tensor(world, b) then h, hs = world:metamethod(b, bs, event) end
    return h, hs
  end

  function World:arith(op, a, as, b, bs)
    local ta, tb = type(a), type(b)
    if ta == "number" and tb == "number" then return number_arith(self, op, a, as, b, bs) end
    if (ta == "number" or ta == "string") and (tb == "number" or tb == "string") then
      local x, y = tonumber(self:pin(a, as)), tonumber(self:pin(b, bs))
      if x and y then return compute[op](x, y), nil end
    end
    local tensor = is_tensor(self, a) or is_tensor(self, b)
    if not tensor or ta ~= "number" and not is_tensor(self, a) then
      local h, hs = binary_handler(self, "__" .. op, a, as, b, bs)
      if h ~= nil then return first_result(self, h, hs, a, as, b, bs) end
    end
    if tensor then return self:tensor_arith(op, a, as, b, bs) end
    return self:abort(format("attempt to perform arithmetic on a %s value", ta == "number" and tb or ta), nil, "error")
  end

  --- The operators of builds of LuaJIT that have them for bits: no metamethod, no string that is a number.
  function World:bits(name, a, as, b, bs)
    local ta, tb = type(a), name == "BNOT" and "number" or type(b)
    if ta ~= "number" or tb ~= "number" then
      self:abort(format("attempt to perform arithmetic on a %s value", ta == "number" and tb or ta), nil, "error")
    end
    local compute_bits = bit_operators[name]
    local v = compute_bits(a, b)
    if known(as) and known(bs) then return v, nil end
    return self:numeric_call(compute_bits, v, a, as, b, bs)
  end

  --- 64-bit and complex constants are objects, one for each function and constant.
  function World:cdata() return self:abort("it has a 64-bit or complex constant") end

  local function is_text(v) return type(v) == "string" or type(v) == "number" end

  function World:concat(vs, ss, n)
    local v, s = vs[n], ss[n]
    for i = n - 1, 1, -1 do
      local a, as = vs[i], ss[i]
      if is_text(a) and is_text(v) then
        v, s = self:pin(a, as) .. self:pin(v, s), nil
      else
        local h, hs = binary_handler(self, "__concat", a, as, v, s)
        if h == nil then
          self:abort(format("attempt to concatenate a %s value", is_text(a) and type(v) or type(a)), nil, "error")
        end
        v, s = first_result(self, h, hs, a, as, v, s)
      end
    end
    return v, s
  end

  function World:tonumber_for(v, s)
    self:pin(v, s)
    if not is_text(v) then self:abort("the bounds of a for loop are no numbers", nil, "error") end
    local x = tonumber(v)
    if not x then self:abort("the bounds of a for loop are no numbers", nil, "error") end
    return x, nil
  end

  --- Whether a loop whose step is 0, -0 or NaN goes on: LuaJIT's interpreter looks at the sign, its compiler does not.
  function World:goes_on(index, limit, step)
    if step == 0 and 1 / step > 0 then return index <= limit end
    return self:abort("a numeric for has the step " .. (step == 0 and "-0" or "NaN"))
  end

  -- Comparisons -------------------------------------------------------------------------------------------------------

  --- The outcome of comparing two numbers, guarded where later calls might differ.
  function World:compare_numbers(name, a, as, b, bs)
    local outcome = compare[name](a, b)
    if known(as) and known(bs) then return outcome end
    self:must_be_known(as)
    self:must_be_known(bs)
    if is_settled(as) and is_settled(bs) then
      self.tape:claim(name, a, as, b, bs, outcome, text_of(name, a, as, b, bs))
      return outcome
    end
    local ia, ib = self:number_id(a, as), self:number_id(b, bs)
    local at = name .. " " .. ia .. " " .. ib
    if not self.said[at] then
      self.said[at] = true
      local text = text_of(name, a, as, b, bs) or format("a %s b", signs[name])
      self:emit({ name, ia, ib, outcome }, text, self:stage(ia, ib))
    end
    return outcome
  end

  --- The same handler of both tables, or nil.
  local function shared_handler(world, event, a, as, b, bs)
    local h, hs = world:event_of(world:table_of(a, as), event)
    if h == nil then return nil end
    local g, gs = world:event_of(world:table_of(b, bs), event)
    if g == nil then return nil end
    if not world:same_object(h, hs, g, gs) then return nil end
    return h, hs
  end

  --- Whether two objects are one, guarded.
  function World:same_object(a, as, b, bs)
    local same = rawequal(a, b)
    local ka, kb = as and as.slot, bs and bs.slot
    if type(a) == "table" then
      self:table_of(a, as)
      self:table_of(b, bs)
    end
    if ka and kb then
      if ka == kb then return same end
      if same and type(a) == "table" then return true end -- one record: guarded already
      local at = (same and "same " or "distinct ") .. min(ka, kb) .. " " .. max(ka, kb)
      if not self.said[at] then
        self.said[at] = true
        self:typed(a, as)
        self:typed(b, bs)
        self:emit({ same and "same" or "distinct", ka, kb }, as.path)
      end
      return same
    end
    if not ka and not kb then return same end
    local v, s, other = a, as, b
    if not ka then v, s, other = b, bs, a end
    if self:is_inside(other) then return same end -- what is made inside equals nothing outside
    self:identify(v, s)
    return same
  end

  function World:equal(a, as, b, bs)
    local ta, tb = type(a), type(b)
    if ta ~= tb then
      if ta == "cdata" or tb == "cdata" then self:abort("cdata is compared") end
      self:typed(a, as)
      self:typed(b, bs)
      return false
    end
    if ta == "number" then return self:compare_numbers("eq", a, as, b, bs) end
    if ta == "string" or ta == "boolean" or ta == "nil" then return self:pin(a, as) == self:pin(b, bs) end
    if ta == "cdata" then self:abort("cdata is compared") end
    local same = self:same_object(a, as, b, bs)
    if same or ta == "function" or ta == "thread" then return same end
    if ta == "userdata" then
      if is_tensor(self, a) and is_tensor(self, b) then return false end
      self:abort "userdata that is no tensor is compared"
    end
    local h, hs = shared_handler(self, "__eq", a, as, b, bs)
    if h == nil then return false end
    return self:truth(first_result(self, h, hs, a, as, b, bs))
  end

  local function order(world, name, event, a, as, b, bs)
    local ta, tb = type(a), type(b)
    if ta == "number" and tb == "number" then return world:compare_numbers(name, a, as, b, bs) end
    if ta == "string" and tb == "string" then
      world:pin(a, as)
      world:pin(b, bs)
      return compare[name](a, b)
    end
    if is_tensor(world, a) or is_tensor(world, b) then
      world:abort("tensors are ordered by < or <=", "use the methods lt, le, gt, ge")
    end
    if ta ~= "table" or tb ~= "table" then
      world:abort(format("attempt to compare %s with %s", ta, tb), nil, "error")
    end
    local h, hs = shared_handler(world, event, a, as, b, bs)
    if h ~= nil then return world:truth(first_result(world, h, hs, a, as, b, bs)) end
    if event == "__le" then return not order(world, "lt", "__lt", b, bs, a, as) end
    return world:abort("attempt to compare two table values", nil, "error")
  end

  function World:less(a, as, b, bs) return order(self, "lt", "__lt", a, as, b, bs) end

  function World:less_equal(a, as, b, bs) return order(self, "le", "__le", a, as, b, bs) end
end
