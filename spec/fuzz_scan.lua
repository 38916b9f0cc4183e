-- Scans of random functions beside the same loops written by hand.
--   luajit spec/fuzz_scan.lua [programs = 500] [seed = another each time] [only this program]
-- A program is a turn: statements on carried values, a row and tensors from outside; then how ty.scan is called (reverse,
-- checkpoint, without sequences, within a vmap, a scope or another scan, of no rows, of rows that are views). Its carried
-- values and results are nested, of several dtypes, some detached; each float that a gradient can be asked for has one.
-- Values must have the loop's bits, eagerly and compiled, results need gradients where the loop's do, and gradients, in
-- f64, are the loop's but for the order of sums. Compiled calls have the bits of eager ones, for other lengths too.
-- A failure is shrunk to the statements that matter and printed with its number: the third argument repeats it.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame = dofile(here .. "/fuzz_frame.lua")

local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

-- --- programs

-- What a turn computes of two values of one shape, f64 [3] each; all are smooth and stay small.
local binary = {
  { "%s + %s * 0.5", function(a, b) return a + b * 0.5 end },
  { "(%s * %s):tanh()", function(a, b) return (a * b):tanh() end },
  { "%s:sin() - %s", function(a, b) return (a:sin() - b) end },
  { "(%s + %s):sigmoid()", function(a, b) return (a + b):sigmoid() end },
  { "where(%s > 0, a, %s)", function(a, b) return a:gt(0):where(a * 0.5, b) end },
  { "%s:outer(%s):matmul(a) * 0.1", function(a, b) return (a:unsqueeze(2) * b:unsqueeze(1)):matmul(a) * 0.1 end },
  { "cat(%s[1..2], %s[3])", function(a, b) return ty.cat { a:narrow(1, 1, 2), b:narrow(1, 3, 1) } end },
  { "%s:cumsum() * 0.2 + %s:sum() * 0.1", function(a, b) return a:cumsum(1) * 0.2 + b:sum() * 0.1 end },
  { "%s:flip() * %s:softmax()", function(a, b) return a:flip(1) * b:softmax() end },
  { "%s, written by %s", function(a, b)
    local y = a * 1
    y:narrow(1, 2, 2):copy_(b:narrow(1, 1, 2))
    return y:mul_(0.75)
  end },
  { "%s, given, written by %s", function(a, b)
    a = a:clone()
    a:add_(b * 0.25)
    return a
  end },
  { "%s:gather(argsort(%s))", function(a, b) return a:gather(1, b:argsort()) * 0.5 end },
  { "scan within: %s, %s", function(a, b)
    local c, y = ty.scan(function(c, x) return (c * 0.5 + x * a):sin(), c * x end, b, ty.stack { a, b, a * b })
    return c + y:sum(1) * 0.1
  end },
  { "grad within: %s, %s", function(a, b)
    return ty.grad(function(u) return (u * b):tanh():sum() end)(a)
  end },
  { "checkpoint: %s, %s", function(a, b) return ty.checkpoint(function(u, v) return (u * v):sin() end, a, b) end },
  { "detached %s + %s", function(a, b) return a:detach() * 0.5 + b * 0.25 end },
  { "drawn: %s, %s", function(a, b) return a * ty.rand(3, { dtype = "f64" }) + b * 0.25 end },
  { "dropout: %s, %s", function(a, b) return ty.dropout(a, 0.3) + b * 0.25 end },
  { "no_grad %s, %s", function(a, b) return ty.no_grad(function() return a * 0.5 + b * 0.25 end) end },
}
-- The same for vmap, in which some of these have no meaning.
local no_vmap = { ["scan within: %s, %s"] = true, ["drawn: %s, %s"] = true, ["dropout: %s, %s"] = true }

local dtypes = { "f64", "f64", "f64", "i64", "bool", "f32", "f16", "u8" }

local function make(seed, number)
  local r = frame.random(seed, 7)
  local program = { seed = seed, turns = r(9) == 1 and 0 or r(9) == 1 and 1 or 1 + r(6) }
  program.carried, program.rows, program.outside = 1 + r(3) % 3, r(4) - 1, r(3) - 1
  program.kinds = {}
  for i = 1, program.carried do program.kinds[i] = i == 1 and "f64" or dtypes[r(#dtypes)] end
  program.needs = {}
  for i = 1, program.carried + program.rows + program.outside do program.needs[i] = r(3) > 1 end
  program.nested, program.reverse = r(4), r(3) == 1
  program.checkpoint = r(5) == 1 and (r(2) == 1 and true or 1 + r(3)) or nil
  program.around = ({ "plain", "plain", "plain", "scope", "vmap", "scan", "coroutine", "collect" })[r(8)]
  program.layout = ({ "plain", "turned", "stepped", "expanded" })[r(4)]
  local known = program.carried + program.rows + program.outside
  for _ = 1, 1 + r(6) do
    local s = { f = r(#binary), a = r(known), b = r(known), y = known + 1 }
    known = known + 1
    program[#program + 1] = s
  end
  program.known = known
  program.next, program.made = {}, {}
  for i = 1, program.carried do program.next[i] = r(5) == 1 and r(known) or known - r(#program) + 1 end
  for i = 1, r(4) - 1 do program.made[i] = { r(known), r(4) == 1, dtypes[r(#dtypes)] } end
  program.deep = program.around ~= "vmap" and r(8) == 1
  program.number = number
  return program
end

local function show(program)
  local lines = { ("%d turns, carried: %s, rows: %d, outside: %d, nested %d, %s%s, %s, rows %s"):format(program.turns,
    table.concat(program.kinds, " "), program.rows, program.outside, program.nested, program.around,
    (program.reverse and ", reverse" or "") .. (program.deep and ", 8 dims" or ""), "checkpoint " .. tostring(program.checkpoint),
    program.layout) }
  for _, s in ipairs(program) do
    lines[#lines + 1] = ("  v%d = "):format(s.y) .. binary[s.f][1]:format("v" .. s.a, "v" .. s.b)
  end
  local made, needs = {}, {}
  for i, m in ipairs(program.made) do made[i] = "v" .. m[1] .. (m[2] and " detached" or "") .. " " .. m[3] end
  for i, v in ipairs(program.needs) do needs[i] = tostring(v) end
  lines[#lines + 1] = "  next: v" .. table.concat(program.next, ", v") .. "; made: " .. table.concat(made, ", ") ..
    "; need gradients: " .. table.concat(needs, " ")
  return table.concat(lines, "\n")
end

-- --- what a program means

--- A value of another dtype, and back: [3] of f64 each.
local function as(x, dtype)
  if dtype == "bool" then return x:gt(0.25) end
  if dtype == "i64" or dtype == "u8" then return (x:detach() * 4):abs():minimum(100):to(dtype) end
  return x:to(dtype)
end

local function nest(kind, list)
  if kind == 1 then return #list == 1 and list[1] or list end
  if kind == 2 then return { a = { list[1] }, b = { unpack(list, 2) } } end
  if kind == 3 then return { list = list } end
  return list
end

local function unnest(kind, v)
  if kind == 1 then return ty.is_tensor(v) and { v } or v end
  if kind == 2 then return { v.a[1], unpack(v.b) } end
  return kind == 3 and v.list or v
end

--- With as many dims as there can be.
local function deep(program, x) return program.deep and x:reshape(1, 1, 1, 3, 1, 1, 1, 1) or x end

local function turn_of(program, outside)
  return function(carried, rows)
    local c, v = unnest(program.nested, carried), {}
    for i = 1, program.carried do v[i] = c[i]:to("f64"):reshape(3) end
    for i = 1, program.rows do v[program.carried + i] = rows[i] end
    for i = 1, program.outside do v[program.carried + program.rows + i] = outside[i] end
    for _, s in ipairs(program) do
      if v[s.a] and v[s.b] then v[s.y] = binary[s.f][2](v[s.a], v[s.b]) end
    end
    local following, made = {}, {}
    for i = 1, program.carried do
      following[i] = deep(program, as(v[program.next[i]] or v[i], program.kinds[i]))
    end
    for i, m in ipairs(program.made) do
      local y = v[m[1]] or v[1]
      made[i] = as(m[2] and y:detach() or y, m[3])
    end
    if program.around == "collect" then collectgarbage() end
    return nest(program.nested, following), #made > 0 and { y = made } or nil
  end
end

--- What ty.scan is to give.
local function by_hand(f, carry, xs, opts)
  local list, like = {}, carry
  for i = 1, opts.length do
    local t, row = opts.reverse and opts.length + 1 - i or i, {}
    for k, x in ipairs(xs or {}) do row[k] = x[t]:clone() end
    carry, list[t] = f(carry, row)
  end
  if opts.length == 0 then return like, nil end
  local out
  for k in ipairs(list[1] and list[1].y or {}) do
    local all = {}
    for t = 1, opts.length do all[t] = list[t].y[k] end
    out = out or { y = {} }
    out.y[k] = ty.stack(all)
  end
  return carry, out
end

local function laid_out(program, x)
  if program.layout == "turned" then return x:t():contiguous():t() end
  if program.layout == "stepped" then return ty.stack({ x, x * 2 }, 2)[{ {}, 1 }] end
  if program.layout == "expanded" then return x:narrow(1, 1, math.min(1, x:size(1))):expand { x:size(1), 3 } end
  return x
end

--- What a program begins with; `more`: so many rows more.
local function given(program, more)
  local turns, v = program.turns + (more or 0), { rows = {}, init = {}, outside = {} }
  local list = {}
  for i = 1, program.carried do
    list[i] = (ty.arange(3, { dtype = "f64" }) * 1.3 + i):sin()
    v.init[i] = deep(program, as(list[i], program.kinds[i]))
  end
  for i = 1, program.rows do
    v.rows[i] = laid_out(program, (ty.arange(turns * 3, { dtype = "f64" }) * 0.7 + i):cos():reshape(turns, 3))
  end
  for i = 1, program.outside do v.outside[i] = (ty.arange(3, { dtype = "f64" }) * 0.9 - i):sin() end
  v.turns = turns
  return v
end

local function leaves(program, v)
  local list, k = {}, 0
  local function take(t)
    for i = 1, #t do
      k = k + 1
      if floats[t[i].dtype] and program.needs[k] then
        t[i] = t[i]:clone():requires_grad_()
        list[#list + 1] = t[i]
      end
    end
  end
  take(v.init)
  take(v.rows)
  take(v.outside)
  return list
end

local around = {}
function around.plain(fn) return fn() end
around.collect, around.vmap, around.scan = around.plain, around.plain, around.plain
around.scope = ty.scope
function around.coroutine(fn)
  return coroutine.wrap(function()
    coroutine.yield()
    return fn()
  end), true
end

--- All values that come out: the last carried ones, then results; and the loss over those that need a gradient.
local function values(program, v, scan)
  local opts = { reverse = program.reverse, length = v.turns }
  if scan ~= by_hand then opts.checkpoint = program.checkpoint end
  local xs = program.rows > 0 and v.rows or nil
  local function once(outside)
    return function(init, rows)
      local c, y = scan(turn_of(program, outside), nest(program.nested, init), rows, opts)
      local list = {}
      for i, t in ipairs(unnest(program.nested, c)) do list[i] = t end
      for _, t in ipairs(y and y.y or {}) do list[#list + 1] = t end
      return list
    end
  end
  if program.around == "vmap" then
    local function two(t) return ty.stack { t, floats[t.dtype] and t * 0.5 or t } end
    local init, rows = {}, {}
    for i, t in ipairs(v.init) do init[i] = two(t) end
    for i, t in ipairs(v.rows) do rows[i] = two(t) end
    return ty.vmap(function(p) return once(v.outside)(p.init, xs and p.rows) end)({ init = init, rows = rows })
  end
  if program.around == "scan" then -- twice, from a scan: what is carried goes on
    local function turn(c)
      local list = once(v.outside)(c, xs)
      return { unpack(list, 1, program.carried) }, { unpack(list, program.carried + 1) }
    end
    local c, y
    if scan == by_hand then
      local first, a = turn(v.init)
      local second, b = turn(first)
      c, y = second, {}
      for i = 1, #a do y[i] = ty.stack { a[i], b[i] } end
    else
      c, y = ty.scan(turn, v.init, nil, { length = 2 })
    end
    local list = { unpack(c) }
    for i = 1, #(y or {}) do list[program.carried + i] = y[i] end
    return list
  end
  return once(v.outside)(v.init, xs)
end

local function loss_of(list)
  local loss
  for i, t in ipairs(list) do
    if floats[t.dtype] and t.requires_grad then
      local term = (t:to "f64" * (1 / (i + 1))):square():sum()
      loss = loss and loss + term or term
    end
  end
  return loss
end

--- Values, which of them need a gradient, gradients of the leaves.
local function account(program, scan, more)
  local v = given(program, more)
  local list, needs, grads = leaves(program, v), {}, {}
  ty.manual_seed(program.number)
  local y, loss
  local function forward()
    local all = values(program, v, scan)
    return { all, loss_of(all) }
  end
  local got, resumed = around[program.around](forward)
  if resumed then
    got()
    got = got()
  end
  y, loss = got[1], got[2]
  for i, t in ipairs(y) do
    needs[i] = t.requires_grad
    y[i] = t:detach()
  end
  if loss then loss:backward() end
  for i, leaf in ipairs(list) do grads[i] = leaf.grad or leaf:detach() * 0 end
  y[#y + 1] = ty.rand(2) -- the stream of random numbers stands where it must
  return y, needs, grads
end

-- --- checks

local counts = { raised = 0, gradients = 0, captured = 0, flagged = 0, second = 0 }

local function type_of(t) return t.dtype .. "[" .. table.concat(t.shape, ",") .. "] " end

local function text(t)
  local list = t:flatten():totable()
  for i, x in ipairs(list) do
    list[i] = type(x) == "number" and (x ~= x and "nan" or ("%.17g"):format(x)) or tostring(x)
  end
  return type_of(t) .. table.concat(list, " ")
end

local function close(a, b)
  local x, y = a:flatten():to("f64"):totable(), b:flatten():to("f64"):totable()
  local tolerance = a.dtype == "f64" and 1e-9 or a.dtype == "f32" and 1e-3 or 0.1
  for i = 1, #x do
    local near = math.abs(x[i] - y[i]) <= tolerance * math.max(1, math.abs(x[i])) -- false for NaN
    if not near and x[i] == x[i] then return false end
  end
  return #x == #y
end

--- Half floats round what goes back to them: the order of sums shows.
local function is_rough(program)
  for _, k in ipairs(program.kinds) do
    if k == "f16" or k == "f32" then return true end
  end
  for _, m in ipairs(program.made) do
    if m[3] == "f16" or m[3] == "f32" then return true end
  end
  return false
end

local draws = { ["drawn: %s, %s"] = true, ["dropout: %s, %s"] = true }

--- Second derivatives, which are computed at once: the loop's.
local function check_second(program)
  for _, s in ipairs(program) do
    if draws[binary[s.f][1]] then return nil end
  end
  local function second(scan)
    local v = given(program)
    return ty.hessian(function(x)
      v.init[1] = deep(program, x * 1)
      local loss = (x * 0):sum()
      for i, t in ipairs(values(program, v, scan)) do
        if floats[t.dtype] then loss = loss + (t:to "f64" * (1 / (i + 1))):square():sum() end
      end
      return loss
    end)((ty.arange(3, { dtype = "f64" }) * 1.3):sin())
  end
  local ok, want = pcall(second, by_hand)
  local ok2, got = pcall(second, ty.scan)
  if ok ~= ok2 then
    return ("second derivatives\nby hand: %s\nscan: %s"):format(ok and "run" or tostring(want), ok2 and "run" or tostring(got))
  end
  counts.second = counts.second + (ok and 1 or 0)
  if ok and not close(want, got) then return ("second derivatives\nby hand: %s\nscan:    %s"):format(text(want), text(got)) end
end

local function check(program)
  if program.number % 2 == 0 and program.turns > 0 and not program.deep and not is_rough(program) then
    local what = check_second(program)
    if what then return what end
  end
  local ok, y, needs, grads = pcall(account, program, by_hand)
  local ok2, y2, needs2, grads2 = pcall(account, program, ty.scan)
  if ok ~= ok2 and program.turns > 0 then
    return ("by hand: %s\nscan: %s"):format(ok and "runs" or tostring(y), ok2 and "runs" or tostring(y2))
  end
  if not ok2 then
    counts.raised = counts.raised + 1
    return nil
  end
  if program.turns > 0 then
    for i, t in ipairs(y) do
      if not y2[i] or text(t) ~= text(y2[i]) then
        return ("value %d\nby hand: %s\nscan:    %s"):format(i, text(t), y2[i] and text(y2[i]) or "nil")
      end
      if needs[i] and not needs2[i] then return ("value %d has no gradient"):format(i) end
      counts.flagged = counts.flagged + (needs[i] ~= needs2[i] and 1 or 0)
    end
    for i, g in ipairs(grads) do
      counts.gradients = counts.gradients + 1
      if not is_rough(program) and not close(g, grads2[i]) then
        return ("gradient %d\nby hand: %s\nscan:    %s"):format(i, text(g), text(grads2[i]))
      end
    end
  end
  -- compiled: the same bits, again, and for other lengths
  local compiled = ty.compile(function(v, list)
    for _, leaf in ipairs(list) do leaf.grad = nil end
    local all = values(program, v, ty.scan)
    local loss, needed = loss_of(all), {}
    if loss then loss:backward() end
    for i, t in ipairs(all) do needed[i], all[i] = t.requires_grad, t:detach() end
    return all, needed
  end)
  for call, more in ipairs { 0, 0, 2, 1, 0 } do
    local e, eneeds, eg = account(program, ty.scan, more)
    local v = given(program, more)
    local list = leaves(program, v)
    ty.manual_seed(program.number)
    local fine, got, gneeds = pcall(compiled, v, list)
    if not fine then return ("compiled, call %d: %s"):format(call, tostring(got)) end
    got[#got + 1] = ty.rand(2)
    for i, t in ipairs(e) do
      if text(t) ~= text(got[i]) then
        return ("compiled, call %d, value %d\neager:    %s\ncompiled: %s"):format(call, i, text(t), text(got[i]))
      end
      if eneeds[i] ~= gneeds[i] then return ("compiled, call %d: value %d has another need"):format(call, i) end
    end
    for i, g in ipairs(eg) do
      local h = list[i].grad or list[i]:detach() * 0
      if text(g) ~= text(h) then
        return ("compiled, call %d, gradient %d\neager:    %s\ncompiled: %s"):format(call, i, text(g), text(h))
      end
    end
  end
  counts.captured = counts.captured + (ty.explain(compiled).captures > 0 and 1 or 0)
  return nil
end

local fuzz = frame.fuzzer("fuzz_scan", 500, {
  make = function(seed, number)
    local program = make(seed, number)
    while program.around == "vmap" do
      local fits = true
      for _, s in ipairs(program) do fits = fits and not no_vmap[binary[s.f][1]] end
      if fits then break end
      program.around = "plain"
    end
    return program
  end,
  check = check,
  show = show,
})
fuzz:run(200)
fuzz:claim(fuzz.failures == 0, "%d scans differ from their loops, or compiled", fuzz.failures)
if fuzz:ran(100) then
  fuzz:claim(counts.raised < 0.05 * fuzz.programs, "%d of %d programs raise, fewer than a twentieth", counts.raised, fuzz.programs)
  fuzz:claim(counts.captured > 0.3 * fuzz.programs, "%d of %d are captured, three in ten", counts.captured, fuzz.programs)
  fuzz:claim(counts.gradients > fuzz.programs, "%d gradients are compared, more than one in each", counts.gradients)
end
print(("fuzz_scan: %d programs, seed %d, %.0f s: %d gradients, %d second ones; %d raise, %d captured"):format(fuzz.programs,
  fuzz.seed, fuzz:seconds(), counts.gradients, counts.second, counts.raised, counts.captured))
print(("%d results claim a gradient beyond the loop's"):format(counts.flagged))
fuzz:leave()
