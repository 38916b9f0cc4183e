-- A graph on a backend of one's own: Lua loops over plain memory, written for each graph, which LuaJIT compiles.
--   ./tycho examples/custom_backend.lua [elements = 200000]
-- A backend is given a graph and examples of its inputs, and returns a function: tensors for the inputs in order, then
-- a number for each scalar slot; it returns a tensor for each output. This one takes what is arithmetic on f64, element
-- by element, with as many elements everywhere, and makes one loop of it. Lua's numbers are f64 too, so the bits
-- are those of Tycho's own kernels. All other graphs it leaves to graph:run, which computes node by node.

local ty = require "tycho"

local size = tonumber(arg[1]) or 200000

-- An element as an expression of Lua.
local expressions = {
  add = "%s + %s", sub = "%s - %s", mul = "%s * %s", div = "%s / %s", neg = "-%s",
  abs = "math.abs(%s)", sqrt = "math.sqrt(%s)", floor = "math.floor(%s)", ceil = "math.ceil(%s)",
}

local function same_shape(a, b) return table.concat(a.shape, ",") == table.concat(b.shape, ",") end

local function is_ours(g)
  local like = g:outputs()[1]
  for n in g:nodes() do
    local one = n.op == "scalar"
    if n.dtype ~= "f64" or not (one or same_shape(n, like)) then return false end
    if not (one or n.op == "input" or expressions[n.op]) then return false end
  end
  return true
end

-- Source of a function of n, arrays of inputs, arrays of outputs, numbers of slots.
local function loop_source(g)
  local head, body = { "local n, x, y, s = ..." }, {}
  for i, n in ipairs(g:inputs()) do
    head[#head + 1] = ("local memory_%s = x[%d]"):format(n.name, i)
    body[#body + 1] = ("  local %s = memory_%s[i]"):format(n.name, n.name)
  end
  for n in g:nodes() do
    local names = {}
    for i, a in ipairs(n.inputs) do names[i] = a.name end
    if n.op == "scalar" then head[#head + 1] = ("local %s = s[%d]"):format(n.name, n.slot) end
    if expressions[n.op] then
      body[#body + 1] = ("  local %s = "):format(n.name) .. expressions[n.op]:format(unpack(names))
    end
  end
  for i, n in ipairs(g:outputs()) do
    head[#head + 1] = ("local memory_y%d = y[%d]"):format(i, i)
    body[#body + 1] = ("  memory_y%d[i] = %s"):format(i, n.name)
  end
  return table.concat(head, "\n") .. "\nfor i = 0, n - 1 do\n" .. table.concat(body, "\n") .. "\nend\n"
end

local function backend(g)
  if not is_ours(g) then
    print("the backend leaves a graph of " .. #g .. " nodes to graph:run")
    return function(...) return g:run(...) end
  end
  local source = loop_source(g)
  print("the backend's loop:\n" .. source)
  local loop, ninputs, outputs = assert(loadstring(source, "=loop")), #g:inputs(), g:outputs()
  return function(...)
    local x, s, y, results = {}, {}, {}, {}
    for i = 1, ninputs do x[i] = (select(i, ...)):clone():data() end -- the clone lies one element behind the other
    for k = ninputs + 1, select("#", ...) do s[k - ninputs] = select(k, ...) end
    for i, n in ipairs(outputs) do
      results[i] = ty.empty(n.shape, { dtype = "f64" })
      y[i] = results[i]:data()
    end
    loop(results[1]:numel(), x, y, s)
    for i = 1, #results do results[i] = results[i]:clone() end -- of which nobody holds an address
    return unpack(results)
  end
end

-- The speed of sound in humid air, about, and how far off a straight line would be.
local function speed_of_sound(celsius, humidity)
  local kelvin = celsius + 273.15
  local speed = (kelvin / 273.15):sqrt() * 331.3
  speed = speed + humidity * 0.0124
  return speed, (speed - (celsius * 0.606 + 331.3)):abs()
end

ty.manual_seed(1)
local celsius = ty.rand(size, { dtype = "f64" }) * 60 - 20
local humidity = ty.rand(size, { dtype = "f64" }) * 100

local function compare(name, f, ...)
  local compiled = jit.compile(f, { backend = backend })
  local want, got = { f(...) }, { compiled(...) }
  for i = 1, #want do
    print(("%s, result %d: bits as eager: %s"):format(name, i, tostring(got[i]:equal(want[i]))))
  end
  return got
end

local speed = compare("speed of sound", speed_of_sound, celsius, humidity)[1]
print(("mean %.3f m/s\n"):format(speed:mean():item()))

local function product(x)
  local rows = x:reshape(size / 8, 8)
  return (rows:t():matmul(rows) + 1):sqrt()
end

compare("a product", product, celsius)
