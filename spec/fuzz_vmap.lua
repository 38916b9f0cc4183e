-- Random functions of one example by ty.vmap, against a loop over the examples: bit for bit.
--   luajit spec/fuzz_vmap.lua [programs = 2000] [seed = another each time] [only this program]
-- A program (fuzz_loss.lua) sees its inputs as examples, stacked along any dim, or the same for all. Its values, and the
-- gradients of its loss for each example, must be those of the loop, eagerly and compiled; gradients that come from outside
-- those of the loop but for rounding (smooth programs). Where the loop raises vmap must raise, but for values that a
-- gradient needs and that were overwritten: vmap may have them still. Where vmap alone raises it must be for one of its
-- own reasons. A failure is shrunk and printed with its number: the third argument repeats it.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
local frame, losses = dofile(here .. "/fuzz_frame.lua"), dofile(here .. "/fuzz_loss.lua")
local gen, floats_of, readable = losses.gen, losses.floats_of, frame.readable
local SAME = { randomness = "same" }

local counts = { agree = 0, raised = 0, refused = 0, outer = 0, endless = 0, captured = 0 }

-- What vmap may refuse though a loop could do it.
local reasons = { "the values of a batched tensor are read", "has no room for the batch",
  "are written to a tensor that all share", "a leaf from outside of a vmap" }

local function is_refusal(text)
  for _, reason in ipairs(reasons) do
    if text:find(reason, 1, true) then return true end
  end
  return false
end

--- Examples: rows[i] are the inputs of example i; all, dims: the same for vmap.
local function examples(program)
  local seed, count = program.seed, program.seed % 3 + 1
  local rows, all, dims = {}, {}, {}
  for i = 1, count do rows[i] = gen.inputs(ty, { inputs = losses.inputs_like(program, i - 1, 0) }) end
  for k, t in ipairs(rows[1]) do
    local choice = math.floor(seed / 3 ^ k) % 4
    if choice == 3 and k > 1 then
      all[k], dims[k] = t, false
      for i = 2, count do rows[i][k] = t end
    else
      local list = {}
      for i = 1, count do list[i] = rows[i][k] end
      dims[k] = choice % (t.ndim + 1) + 1
      if program.way == "writes" then dims[k] = 1 end -- elsewhere a slice is a view with gaps, and flatten a copy
      all[k] = ty.stack(list, dims[k])
    end
  end
  return rows, all, dims, count
end

-- --- what is computed for one example; all of it lists of tensors, in tables

local ways = {}

--- All variables at the end.
function ways.values(program)
  return function(...)
    local vars, out = { ... }, {}
    for k, t in ipairs(vars) do vars[k] = t:clone() end
    for _, s in ipairs(program) do gen.execute(ty, vars, s) end
    for k = 1, program.count do
      if ty.is_tensor(vars[k]) then out[k] = vars[k] end
    end
    return out
  end
end

--- What is written to the examples themselves, which are views of the stack.
function ways.writes(program)
  return function(...)
    local vars = { ... }
    for _, s in ipairs(program) do gen.execute(ty, vars, s) end
    return { (vars[1] or ty.zeros(1)) + 0 }
  end
end

local function loss_of(program)
  return function(...)
    local vars = { ... }
    for k, t in ipairs(vars) do vars[k] = t:clone() end
    return losses.loss(ty, program, vars)
  end
end

function ways.gradients(program)
  local vg = ty.value_and_grad(loss_of(program), floats_of(program))
  return function(...) return { vg(...) } end
end

local names = { "values", "gradients", "values", "writes", "gradients" }

-- --- the bits

local function describe(list)
  local out = {}
  for k, t in pairs(list) do out[k] = gen.describe(ty, t:detach()) end
  return out
end

--- What the loop gives, and the stacks afterwards.
local function by_loop(program, f)
  local rows, all, dims, count = examples(program)
  local lists, stacks = {}, {}
  for i = 1, count do
    ty.manual_seed(program.seed)
    local args = {}
    for k, t in ipairs(all) do
      args[k] = dims[k] and t:narrow(dims[k], i, 1):squeeze(dims[k]) or rows[i][k]:clone()
    end
    for k, t in pairs(f(unpack(args))) do
      lists[k] = lists[k] or {}
      lists[k][i] = t:detach()
    end
  end
  for k, list in pairs(lists) do stacks[k] = ty.stack(list) end
  local out = describe(stacks)
  for k, t in ipairs(all) do out["input " .. k] = dims[k] and gen.describe(ty, t) or nil end
  return out
end

local function by_vmap(program, f, compile)
  local _, all, dims = examples(program)
  local g = compile(ty.vmap(f, dims, 1, SAME))
  for k, t in ipairs(all) do all[k] = dims[k] and t or t:clone() end
  ty.manual_seed(program.seed)
  local out = describe(g(unpack(all)))
  for k, t in ipairs(all) do out["input " .. k] = dims[k] and gen.describe(ty, t) or nil end
  return out
end

local compiled
local modes = {
  { "eager", function(f) return f end },
  { "compiled", function(f)
    compiled = ty.compile(function(...) return f(...) end)
    return compiled
  end },
}

local function first_difference(want, got)
  for k, v in pairs(want) do
    if got[k] ~= v then return k, v, got[k] end
  end
  for k, v in pairs(got) do
    if want[k] == nil then return k, nil, v end
  end
end

local function check_bits(program, way)
  local f = ways[way](program)
  local looped, want = pcall(by_loop, program, f)
  for _, mode in ipairs(modes) do
    local ok, got = pcall(by_vmap, program, f, mode[2])
    if ok and looped then
      local k, a, b = first_difference(want, got)
      if k then
        return ("%s, %s, %s:\n  loop %s\n  vmap %s"):format(way, mode[1], tostring(k), readable(a), readable(b))
      end
      if mode[1] == "eager" then counts.agree = counts.agree + 1
      elseif ty.explain(compiled).captures > 0 then counts.captured = counts.captured + 1 end
    elseif ok and tostring(want):find("which was changed afterwards", 1, true) then
      counts.raised = counts.raised + (mode[1] == "eager" and 1 or 0)
    elseif ok then
      return ("%s, %s: the loop raises %s"):format(way, mode[1], readable(want))
    elseif not looped then
      counts.raised = counts.raised + (mode[1] == "eager" and 1 or 0)
    elseif not is_refusal(tostring(got)) then
      return ("%s, %s: raises %s"):format(way, mode[1], readable(got))
    else
      counts.refused = counts.refused + (mode[1] == "eager" and 1 or 0)
    end
  end
end

-- --- gradients from outside

local function outer_gradients(program, run)
  local _, all, dims, count = examples(program)
  local loss = loss_of(program)
  local function total(...)
    ty.manual_seed(program.seed)
    return run(loss, dims, count, ...)
  end
  return { ty.grad(total, floats_of(program))(unpack(all)) }
end

local function sum_by_loop(program)
  return function(loss, dims, count, ...)
    local all, sum = { ... }, 0
    for i = 1, count do
      local args = {}
      ty.manual_seed(program.seed)
      for k, t in ipairs(all) do args[k] = dims[k] and t:narrow(dims[k], i, 1):squeeze(dims[k]) or t end
      sum = sum + loss(unpack(args)) * (i + 0.5)
    end
    return sum
  end
end

local function sum_by_vmap(loss, dims, count, ...)
  return (ty.vmap(loss, dims, 1, SAME)(...) * (ty.arange(count, { dtype = "f64" }) + 1.5)):sum()
end

local function check_outer(program)
  local looped, want = pcall(outer_gradients, program, sum_by_loop(program))
  local ok, got = pcall(outer_gradients, program, sum_by_vmap)
  if not ok then
    if looped and not is_refusal(tostring(got)) then return "outer: raises " .. readable(got) end
    return nil
  end
  if not looped then
    if tostring(want):find("which was changed afterwards", 1, true) then return nil end
    return "outer: the loop raises " .. readable(want)
  end
  for k, a in ipairs(want) do
    local b = got[k]
    local size = a:numel() > 0 and a:abs():max():item() or 0
    if size ~= size or size == math.huge then
      counts.endless = counts.endless + 1
    elseif a:numel() > 0 then
      counts.outer = counts.outer + 1
      local off = (a - b):abs():max():item()
      if off ~= off or off > 1e-9 * (1 + size) then
        return ("outer: gradient %d is off by %g of %g"):format(k, off, size)
      end
    end
  end
end

-- --- programs

local function check(program)
  if #floats_of(program) == 0 and program.way == "gradients" then return nil end
  local what = check_bits(program, program.way)
  if not what and program.kind == "smooth" and #floats_of(program) > 0 then what = check_outer(program) end
  return what
end

-- Gradients for each example are rounded otherwise, see vmap.lua; also in the turns of a scan.
local rounds
function rounds(statement)
  for _, s in ipairs(statement.turn or {}) do
    if rounds(s) then return true end
  end
  local name = statement.name
  if not name then return false end
  for _, part in ipairs { "attention", "conv", "Attention", "Transformer", "Conv" } do
    if name:find(part, 1, true) then return true end
  end
  return false
end

local fuzz = frame.fuzzer("fuzz_vmap", 2000, {
  make = function(seed, number)
    local kind = number % 2 == 0 and "smooth" or "any"
    local program = losses.make(ty, seed, kind)
    program.kind, program.way, program.seed = kind, names[number % #names + 1], program.seed or number
    for _, s in ipairs(program) do
      if rounds(s) and program.way == "gradients" then program.way = "values" end
    end
    return program
  end,
  check = check,
  show = function(program) return program.way .. "\n" .. gen.print(program) end,
})
fuzz:run(2000)

fuzz:claim(fuzz.failures == 0, "%d programs give other values by vmap than by a loop", fuzz.failures)
if fuzz:ran(200) then
  local programs = fuzz.programs
  fuzz:claim(counts.agree >= 0.5 * programs, "%d of %d programs agree, at least half", counts.agree, programs)
  fuzz:claim(counts.refused < 0.2 * programs, "%d of %d are refused, fewer than a fifth", counts.refused, programs)
  fuzz:claim(counts.captured >= 0.3 * programs, "%d are captured, at least three in ten", counts.captured)
end
print(("fuzz_vmap: %d programs, seed %d, %.0f s: %d agree, %d raise, %d are refused, %d captured; %d gradients from outside, %d not finite")
  :format(fuzz.programs, fuzz.seed, fuzz:seconds(), counts.agree, counts.raised, counts.refused, counts.captured, counts.outer,
    counts.endless))
fuzz:leave()
