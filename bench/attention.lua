-- attention.lua -- rows of `make bench` about attention, and networks that are made of it.
-- In: run.lua's row. Out: rows. PyTorch's side is in peers.py, by the same names.

local ty = require "tycho"
local models = require "models"(ty)

return function(row)
  local attend = ty.scaled_dot_product_attention

  local function heads() return ty.randn(1, 8, 512, 64), ty.randn(1, 8, 512, 64), ty.randn(1, 8, 512, 64) end

  --- The two products alone, as many multiply-adds.
  local function products()
    local p, v = ty.randn(8, 512, 512), ty.randn(8, 512, 64)
    return function() return p:matmul(v), p:matmul(v) end
  end

  for _, r in ipairs { { "", "attention", 2 }, { ", PyTorch's fused", "attention_fused", 1.3 } } do
    row { name = "attention, 8 heads, 512 x 64" .. r[1], peer = r[2], what = "two products as large",
      setup = function()
        local q, k, v = heads()
        return function() return attend(q, k, v) end
      end, floor = products, make_floor = true, unit = "ms", beats = "torch", times = r[3] }
  end
  row { name = "the same with gradients", peer = "attention_grad", what = "seven products as large",
    setup = function()
      local q, k, v = heads()
      local list = { q:requires_grad_(), k:requires_grad_(), v:requires_grad_() }
      local g = ty.randn(1, 8, 512, 64)
      return function()
        for _, x in ipairs(list) do x.grad = nil end
        attend(q, k, v):backward(g)
      end
    end,
    floor = function()
      local p, v = ty.randn(8, 512, 512), ty.randn(8, 512, 64)
      return function() for _ = 1, 7 do local _ = p:matmul(v) end end
    end, make_floor = true, unit = "ms", beats = "torch", times = 1.3 }

  --- A block's four products, compiled.
  local function four(d, n, dtype)
    return function()
      local x, y = ty.randn(n, d):to(dtype), ty.randn(n, 4 * d):to(dtype)
      local a, b, c, e = ty.randn(d, 3 * d):to(dtype), ty.randn(d, d):to(dtype), ty.randn(d, 4 * d):to(dtype),
        ty.randn(4 * d, d):to(dtype)
      return jit.compile(function() return x:matmul(a), x:matmul(b), x:matmul(c), y:matmul(e) end)
    end
  end

  for _, r in ipairs { { 64, 32, 0.035e-3 }, { 256, 64, 0.85e-3 }, { 768, 128, 11.2e-3 },
    { 768, 128, 2.5e-3, "bf16" } } do
    local d, n, dtype = r[1], r[2], r[4] or "f32"
    row { name = ("transformer block, %d x %d"):format(n, d) .. (r[4] and ", bf16, fast" or ""),
      peer = ("block%d%s"):format(d, r[4] or ""), what = "its four products", unit = d == 64 and "us" or "ms",
      mark = r[3],
      setup = function()
        local block = ty.nn.TransformerBlock(d, 4):to(dtype):eval()
        for _, p in ipairs(block:parameters()) do p:requires_grad_(false) end
        local x, compiled = ty.randn(1, n, d):to(dtype), jit.compile(function(v) return block(v) end)
        return function()
          local before = ty.precision()
          ty.precision(r[4] and "fast" or before)
          local y = compiled(x)
          ty.precision(before)
          return y
        end
      end, floor = four(d, n, dtype), make_floor = true }
  end

  row { name = "training step of a small GPT, AdamW", peer = "gpt", what = "eager", unit = "ms", beats = "torch",
    times = 1.4, make_floor = true,
    setup = function()
      local step, x, y = models.gpt()
      local compiled = jit.compile(step)
      return function() return compiled(x, y) end
    end,
    floor = function()
      local step, x, y = models.gpt()
      return function() return step(x, y) end
    end }
end
