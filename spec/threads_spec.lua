--- threads_spec.lua -- many Lua states in one process, threads of small stacks, and forks of a process at work: the
--- results of a single thread.
-- host.c is a program with LuaJIT in it; where its headers or library are missing the claims are skipped, and counted.

local H = require "spec.helper"

local host = H.root .. "build/spec/host"

--- The directory of LuaJIT's headers, or nil.
local function headers()
  for _, dir in ipairs { "/usr/include/luajit-2.1", "/usr/local/include/luajit-2.1" } do
    local f = io.open(dir .. "/lua.h")
    if f then
      f:close()
      return dir
    end
  end
end

--- Builds the host where it is older than its source. False where it cannot be linked.
local function built()
  local dir, source = headers(), H.root .. "spec/host.c"
  if not dir then return false end
  if H.shell(("test '%s' -nt '%s'"):format(host, source)) then return true end
  local compile = ("gcc -std=c11 -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -I'%s'"):format(dir)
  assert(H.shell(("mkdir -p '%sbuild/spec' && %s -fsyntax-only '%s'"):format(H.root, compile, source)))
  return H.shell(("%s '%s' -o '%s' -lluajit-5.1 -lpthread 2>/dev/null"):format(compile, source, host))
end

--- Eager and compiled work of every kind: kernels, products, random numbers, code that is made and dropped. Gives a text
--- that any wrong bit would change.
local work = [[
local ty = require "tycho"
local ffi = require "ffi"
local sums = {}
local function add(t)
  local c = t:clone()
  sums[#sums + 1] = hash(ffi.string(ffi.cast("const char *", c:data()), c:numel() * 4))
end
ty.manual_seed(11)
local x, w, b = ty.randn(64, 48), ty.randn(48, 40), ty.randn(40)
local grow = ty.randn(160000)
local step = ty.compile(function(a) return (a:matmul(w) + b):tanh(), a:softmax():sum(1) end)
local mix = ty.compile(function(v, k) return ((v * k + 0.5):exp() - v:abs():sqrt()):cumsum(1) end)
for round = 1, ROUNDS do
  for _, t in ipairs { (x:matmul(w) + b):relu(), step(x) } do add(t) end
  add(mix(grow, round))
  add((grow * round):sigmoid():reshape(400, 400):sum(1))
  local k = round % 7
  add(ty.compile(function(a) return a * k + a:sum(2, true):sin() end)(x)) -- a function of its own each time
  add(ty.rand(33) + ty.compile(function() return ty.randn(33) end)())
  x = x * 0.999
end
return table.concat(sums, " ")
]]

--- Whatever puts much on the stack: compilation, the backward pass, long traces, windows over pictures, LAPACK, formats.
local deep = [[
local ty = require "tycho"
local nn, optim = ty.nn, ty.optim
ty.manual_seed(1)
local model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Tanh(), nn.Linear(8, 3))
local conv, block = nn.Conv2d(1, 4, 3, { padding = 1 }), nn.TransformerBlock(6, 3, { inner = 8, dropout = 0.1, causal = true })
local opt = optim.AdamW(model:parameters(), { lr = 0.01 })
local x, labels = ty.randn(8, 6), ty.randint(1, 3, { 8 })
local function step()
  opt:zero_grad()
  local loss = ty.cross_entropy(model(x), labels)
  loss:backward()
  opt:step()
  return loss:detach()
end
step()
local fast = jit.compile(step)
for _ = 1, 4 do fast() end
assert(jit.explain(fast).skips == 4)
for _, f in ipairs {
  function() return conv(ty.randn(2, 1, 9, 9)) end,
  function() return conv(ty.randn(2, 1, 40, 40)) end,
  function() return block(ty.randn(2, 4, 6)) end,
} do
  f():square():sum():backward()
  jit.compile(function() local y = f():square():sum() y:backward() return y:detach() end)()
end
ty.vmap(ty.grad(function(v) return (v * v):sum() end))(x)
ty.hessian(function(v) return (v * v * v):sum() end)(ty.randn(4))
local rates, box = {}, {}
for i = 1, 900 do rates[i] = i end
local long = jit.compile(function(v)
  local sum = 0
  for i = 1, 900 do sum = sum + rates[i] end
  for i = 1, 300 do box[i] = v * i end
  return v * sum
end)
for i = 1, 3 do
  rates[1] = i
  assert(long(ty.ones(2)):get(1) == 405449 + i and box[300]:get(2) == 300)
end
assert(jit.explain(long).skips == 3)
for _, n in ipairs { 20, 200 } do
  local a = ty.randn(n, n)
  local s = a:matmul(a:t()) + ty.eye(n)
  for _, name in ipairs { "inv", "det", "svd", "qr" } do ty.linalg[name](a) end
  ty.linalg.eigh(s)
  ty.linalg.cholesky(s)
  ty.linalg.solve(a, ty.ones(n))
  ty.linalg.lstsq(a, ty.ones(n))
  ty.blas(true)
  a:matmul(s)
  ty.blas(false)
end
local grey, path = (ty.rand(1, 20, 20) * 255):to "u8", os.tmpname()
for ending, v in pairs { npy = x, npz = { a = x }, safetensors = { a = x }, csv = x, png = grey, pgm = grey, jpg = grey } do
  assert(ty.save(path .. "." .. ending, v))
  assert(ty.load(path .. "." .. ending))
  os.remove(path .. "." .. ending)
end
os.remove(path)
ty.randn(20000):sort()
ty.randn(4, 100, 3):cumsum(2)
ty.randn(300, 300):matmul(ty.randn(300, 300)):softmax():sum(1)
ty.randn(3, 500):matmul(ty.randn(500, 700))
for _, text in ipairs { jit.explain(fast), jit.graph(function(v) return v:softmax() end, x), ty.plot { title = "x" }:line { 1, 2 } } do
  tostring(text)
end
return "done"
]]

local function run(what, rounds, count, env)
  local path = os.tmpname()
  local f = assert(io.open(path, "w"))
  -- LuaJIT tells libgcc of the code that it makes; from then on every error in Lua takes a lock of libgcc's, which no
  -- fork opens in the child
  f:write(what == "forks" and "jit.off() " or "", "local ROUNDS = ", rounds, "\n", what == "stack" and deep or work)
  f:close()
  local words = {}
  for k, v in pairs(env or {}) do words[#words + 1] = ("%s='%s'"):format(k, v) end
  local pipe = io.popen(("%s timeout 100 '%s' %s '%s' %d 2>&1; echo \"status $?\""):format(table.concat(words, " "), host,
    what, path, count))
  local text, status = pipe:read("*a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  os.remove(path)
  return text, tonumber(status)
end

local can = built()

local function claim(name, fn)
  it(name, function()
    if not can then return pending "LuaJIT's headers or library are missing" end
    fn()
  end)
end

describe("a thread whose stack has 64 KB", function()
  for _, machine in ipairs { "x64", "tile" } do
    claim("trains, compiles, goes back, solves, reads and writes files: " .. machine, function()
      if H.asan then return pending "a sanitizer needs a larger stack" end
      for _, isa in ipairs { "", "avx2" } do
        local text, status = run("stack", 1, 64, { TYCHO_MACHINE = machine, TYCHO_ISA = isa })
        assert.equal(0, status, text)
        assert.equal("done\n", text)
      end
    end)
  end
end)

describe("threads with a Lua state each", function()
  local alone

  for _, machine in ipairs { "tile", "x64" } do
    local n = machine == "x64" and 64 or 24 -- what is portable makes no code
    claim(("get the results of one: %d of them, %s"):format(n, machine), function()
      local text, status = run("states", 4, n, { TYCHO_MACHINE = machine, TYCHO_THREADS = 2 })
      assert.equal(0, status, text)
      assert.truthy(text:find(("%d of %d the same"):format(n, n), 1, true), text)
      local own = text:match "^[^\n]*"
      assert.equal(4 * 7, select(2, own:gsub("%x+", "")))
      alone = alone or own
      assert.equal(alone, own)
    end)
  end

  claim("may be forked from while others are at work: the child and its parent go on", function()
    if H.asan then return pending "a sanitizer does not survive forks of threads" end
    local text, status = run("forks", 1, 40, { TYCHO_THREADS = 2 })
    assert.equal(0, status, text)
    assert.truthy(text:find("40 of 40 the same, 0 wrong", 1, true), text)
  end)
end)
