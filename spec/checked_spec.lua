--- checked_spec.lua -- memory that is checked (core/base/mem_guard.c): what is written and read outside of blocks, and what is used
-- after it was freed, ends the process; programs of all kinds do neither, on every machine.
-- Whatever runs in this mode runs in processes of its own: the mode is chosen as the library is loaded.

local H = require "spec.helper"

local MODES = { "memory", "memory-exact", "memory-before" }

--- Runs Lua code in the mode; gives its output and its exit status.
local function script(mode, code)
  return H.script('local ty = require "tycho"\nlocal ffi = require "ffi"\n' .. code, { TYCHO_CHECK = mode })
end

--- The code must end by a signal, with that line.
local function ends(mode, code, line)
  local out, status = script(mode, code .. '\nprint "it went on"')
  assert.truthy(status >= 128 and not out:find "it went on" and out:find(line), ("%s: %d: %s"):format(mode, status, out))
end

local function pending_under_sanitizers() return pending "a sanitizer looks after memory itself" end
local claim = function(name, fn) it(name, H.asan and pending_under_sanitizers or fn) end

describe("where memory is checked", function()
  claim("what reads or writes behind a tensor ends the process", function()
    for _, mode in ipairs { "memory", "memory-exact" } do
      ends(mode, "local x = ty.ones(16) local p = x:data() p[16] = 1", "access behind it, block .* of 64 bytes")
      ends(mode, "local x = ty.ones(16) local p = x:data() local v = p[16] print(v)", "access behind it, block .* of 64 bytes")
    end
    ends("memory-exact", "local x = ty.ones(3) local p = x:data() local v = p[3] print(v)", "access behind it, block .* of 12 bytes")
  end)

  claim("what reads or writes before a tensor ends the process, with memory-before", function()
    ends("memory-before", "local x = ty.ones(3) local p = x:data() p[-1] = 1", "access before it, block .* of 12 bytes")
    ends("memory-before", "local x = ty.ones(3) local p = x:data() print(p[-1])", "access before it, block .* of 12 bytes")
  end)

  claim("bytes that were written between a tensor's end and its page's are found when it is freed", function()
    ends("memory", "local x = ty.ones(3) local p = x:data() p[3] = 1 x:release()", "bytes behind it were written, block .* of 12 bytes")
    ends("memory-exact", "local x = ty.ones(3) local p = x:data() p[-1] = 1 x:release()",
      "bytes before it were written, block .* of 12 bytes")
    ends("memory-before", "local x = ty.ones(3) local p = x:data() p[3] = 1 x:release()",
      "bytes behind it were written, block .* of 12 bytes")
  end)

  claim("what was freed stays without access", function()
    for _, mode in ipairs(MODES) do
      ends(mode, [[
        local x = ty.ones(16)
        local p = x:data()
        x:release()
        for _ = 1, 1000 do ty.ones(16):release() end
        print(p[0])]], "access after it was freed, block .* of 64 bytes")
      ends(mode, [[
        local x = ty.ones(2 ^ 25)
        local p = x:data()
        x:release()
        print(p[0])]], "")
    end
  end)

  claim("tensors lie at multiples of 64, and stats tell how many blocks there were", function()
    local out, status = script("memory", [[
      for n = 1, 70 do
        local p = ffi.cast("intptr_t", ty.ones(n):data())
        assert(p % 64 == 0)
      end
      local c = ty.stats().memory.checked
      assert(c.blocks > 210 and c.crowded == 0)]])
    assert.equal(0, status, out)
    assert.is_nil(H.ty.stats().memory.checked and not H.checked or nil)
  end)

  claim("blocks for which the system has no page without access are counted, and work", function()
    local out, status = script("memory", [[
      local most = tonumber(io.open("/proc/sys/vm/max_map_count"):read "*a")
      collectgarbage "stop"
      local list, n = {}, most < 200000 and most / 3 or 1000
      for i = 1, n do list[i] = ty.full({ 3 }, i) end
      for i = 1, n, 997 do assert(list[i]:get(3) == i) end
      local c = ty.stats().memory.checked
      assert(c.blocks > n and (most >= 200000 or c.crowded > 0), c.crowded)
      for i = 1, n do list[i]:release() end]])
    assert.equal(0, status, out)
  end)
end)

-- Programs -------------------------------------------------------------------------------------------------------------

--- Products, sums, windows, orders, files ... of all sizes around those of vectors, eager and compiled.
local sizes = [[
local dtypes = { "f32", "f64", "f16", "bf16", "i64", "i32", "u8", "bool" }
local f = jit.compile(function(x) return x + x, x:sum(), x:max() end, { dynamic = true })
for _, n in ipairs { 1, 2, 3, 4, 5, 7, 8, 9, 11, 15, 16, 17, 20, 31, 32, 33, 47, 63, 64, 65 } do
  for k, dtype in ipairs(dtypes) do
    if (n + k) % 2 == 0 then
      local x = ty.ones({ n }, { dtype = dtype })
      f(x)
      x:cumsum()
      x:argsort()
      x:flip():clone()
      x:to "f32":exp()
      ty.ones({ 3, n }, { dtype = dtype }):sum(1)
      ty.ones({ n, 3 }, { dtype = dtype }):t():contiguous():sum(2)
    end
  end
  local x = ty.rand(n, 9)
  x:softmax()
  x:layer_norm()
  x:t():contiguous()
  x:index_select(1, ty.tensor({ n, 1 }, { dtype = "i64" }))
  for _, dtype in ipairs { "f32", "f64", "bf16", "i32" } do
    local function ones(...) return ty.ones({ ... }, { dtype = dtype }) end
    local a, b = ones(5, n), ones(n, 7)
    a:matmul(b)
    b:t():matmul(a:t())
    ones(1, n):matmul(b)
    ones(1, 9):matmul(ones(9, n))
    ones(3, 9):matmul(ones(9, n))
    ones(n, 33):matmul(ones(33))
    ones(33, n):t():matmul(ones(33))
  end
end
for n = 5, 21, 4 do
  local x, k = ty.rand(2, 3, n, n + 2), ty.rand(4, 3, 3, 3)
  ty.conv2d(x, k, { padding = 1 })
  ty.conv2d(x, k, { stride = 2 })
  x:max_pool2d(2)
  local q = ty.rand(1, 2, n, 8)
  ty.scaled_dot_product_attention(q, q, q, { causal = true })
end
for _, n in ipairs { 1000, 4096, 4097, 20000 } do
  local x = ty.rand(n)
  x:sum()
  x:sort()
  x:cumsum()
  x:argmax()
  x:reshape(1, n):matmul(x)
end
local big = ty.rand(150, 300)
big:matmul(ty.rand(300, 170))
big:t():matmul(ty.rand(150, 90))
big:to "bf16":matmul(ty.rand(300, 170):to "bf16")
]]

--- A model that trains, compiled, with gradients that are hidden and kept, through a checkpoint of its parameters.
local training = [[
local nn, optim = ty.nn, ty.optim
local model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))
local opt = optim.AdamW(model:parameters(), { lr = 0.01 })
local x, t = ty.randn(9, 6), ty.randint(1, 3, { 9 })
local step = jit.compile(function(a, b)
  opt:zero_grad()
  local loss = ty.cross_entropy(model(a), b)
  loss:backward()
  ty.clip_grad_norm_(model:parameters(), 1)
  opt:step()
  return loss:detach()
end)
for i = 1, 12 do
  step(x:narrow(1, 1, 5 + i % 4), t:narrow(1, 1, 5 + i % 4))
  if i % 4 == 0 then collectgarbage() end
end
local path = os.tmpname()
for _, ending in ipairs { ".safetensors", ".npz" } do
  assert(ty.save(path .. ending, { a = x, b = t }))
  assert(ty.load(path .. ending).a:equal(x))
  os.remove(path .. ending)
end
os.remove(path)
assert(ty.linalg.solve(ty.eye(5) * 2, ty.ones(5)):get(5) == 0.5)
]]

describe("nothing is read or written outside of blocks, or after they were freed", function()
  for seed, how in ipairs { { "memory-exact", "x64" }, { "memory-exact", "x64", "avx2" }, { "memory-exact", "tile" },
    { "memory-before", "x64" } } do
    local mode, machine, isa = how[1], how[2], how[3]
    local name = ("%s, %s"):format(mode, isa and machine .. " for " .. isa or machine)
    local env = { TYCHO_CHECK = mode, TYCHO_MACHINE = machine, TYCHO_ISA = isa }
    local function ran(command)
      local words = {}
      for k, v in pairs(env) do words[#words + 1] = k .. "=" .. v end
      local pipe = io.popen(("cd '%s.' && LUA_PATH=\"./?.lua;$LUA_PATH\" %s luajit %s 2>&1; echo \"status $?\""):format(H.root,
        table.concat(words, " "), command))
      local out = pipe:read "*a"
      pipe:close()
      assert.equal("0", out:match "status (%d+)", out)
    end

    claim("by kernels of all sizes: " .. name, function()
      local out, status = H.script('local ty = require "tycho"\n' .. sizes, env)
      assert.equal(0, status, out)
    end)
    claim("by a model that trains: " .. name, function()
      local out, status = H.script('local ty = require "tycho"\n' .. training, env)
      assert.equal(0, status, out)
    end)
    claim("by random programs: " .. name, function()
      for i, f in ipairs { "fuzz.lua 6", "fuzz_lua.lua 5", "fuzz_grad.lua 1", "fuzz_vmap.lua 3" } do
        if H.share(i + seed, 2) then ran(("spec/%s %d"):format(f, 10 + seed)) end -- others each time
      end
    end)
  end

  for _, word in ipairs { "nothing", "counts" } do
    claim("by finalisers while a function is captured: " .. word, function()
      for _, mode in ipairs { "memory", "0" } do -- without the mode cycles end elsewhere
        local pipe = io.popen(("cd '%s.' && LUA_PATH=\"./?.lua;$LUA_PATH\" TYCHO_CHECK=%s luajit spec/collected.lua waiting %s 2>&1")
          :format(H.root, mode, word))
        local out = pipe:read "*a"
        pipe:close()
        assert.truthy((tonumber(out:match "(%d+) cycles") or 0) >= 100, out)
      end
    end)
  end
end)
