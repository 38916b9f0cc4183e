-- cuda_mixed_spec.lua -- operands of which one lies on the CPU, the other on "cuda": an error that names both, eager and
-- compiled, and the device works on.
local H = require "spec.helper"
local cuda = require "spec.cuda"
local ty = H.ty

local probe = cuda.loaded and it or pending
ty.device "cpu"

local function whole(...) return ty.ones(..., { dtype = "i64" }) end

--- Functions of two tensors, and makers of these.
local calls = {
  add = { function(a, b) return a + b end, ty.ones(3), ty.ones(3) },
  ["add of one element"] = { function(a, b) return a + b end, ty.ones(3), ty.tensor(1) },
  where = { function(a, b) return ty.where(a:gt(0), b, 0) end, ty.ones(3), ty.ones(3) },
  matmul = { ty.matmul, ty.ones(2, 3), ty.ones(3, 2) },
  einsum = { function(a, b) return ty.einsum("ij,jk->ik", a, b) end, ty.ones(2, 3), ty.ones(3, 2) },
  ["einsum in batches"] = { function(a, b) return ty.einsum("bij,bjk->bki", a, b) end, ty.ones(2, 2, 3), ty.ones(2, 3, 2) },
  tensordot = { ty.tensordot, ty.ones(2, 3), ty.ones(2, 3) },
  contract = { function(a, b) return ty.contract(a, b, 0, 1) end, ty.ones(2, 3), ty.ones(3, 2) },
  conv1d = { ty.conv1d, ty.ones(1, 2, 5), ty.ones(3, 2, 2) },
  conv2d = { ty.conv2d, ty.ones(1, 2, 5, 5), ty.ones(3, 2, 2, 2) },
  ["conv2d by groups"] = { function(a, b) return ty.conv2d(a, b, { groups = 2 }) end, ty.ones(1, 2, 5, 5), ty.ones(2, 1, 2, 2) },
  ["conv2d with a bias"] = { function(a, b) return ty.conv2d(a, a[{ {}, {}, { 1, 2 }, { 1, 2 } }], b) end, ty.ones(1, 2, 5, 5),
    ty.ones(1) },
  conv_transpose2d = { ty.conv_transpose2d, ty.ones(1, 2, 5, 5), ty.ones(2, 3, 2, 2) },
  attention = { function(a, b) return ty.scaled_dot_product_attention(a, b, b) end, ty.ones(1, 2, 3, 4), ty.ones(1, 2, 3, 4) },
  cat = { function(a, b) return ty.cat { a, b } end, ty.ones(3), ty.ones(3) },
  gather = { function(a, i) return a:gather(1, i) end, ty.ones(3), whole(2) },
  index = { function(a, i) return a[i] end, ty.ones(3), whole(2) },
  index_add = { function(a, b) return a:index_add(1, whole(1):to(a.device), b) end, ty.ones(3), ty.ones(1) },
  searchsorted = { ty.searchsorted, ty.ones(3), ty.ones(2) },
  assign = { function(a, b)
    local y = a:clone()
    y[{ { 1, 2 } }] = b
    return y
  end, ty.ones(3), ty.ones(2) },
  copy_ = { function(a, b) return a:clone():copy_(b) end, ty.ones(3), ty.ones(3) },
  solve = { ty.linalg.solve, ty.eye(3), ty.ones(3, 1) },
  lstsq = { ty.linalg.lstsq, ty.eye(3), ty.ones(3, 1) },
  cross_entropy = { ty.cross_entropy, ty.ones(2, 3), whole(2) },
  linear = { function(a, b) return ty.nn.Linear(3, 2):to(b.device)(a) end, ty.ones(2, 3), ty.ones(1) },
  Conv2d = { function(a, b) return ty.nn.Conv2d(2, 3, 2):to(b.device)(a) end, ty.ones(1, 2, 5, 5), ty.ones(1) },
  LSTM = { function(a, b) return ty.nn.LSTM(3, 2):to(b.device)(a) end, ty.ones(1, 2, 3), ty.ones(1) },
}

describe("operands of two devices raise, and both are named:", function()
  for _, name in ipairs(H.sorted(calls)) do
    probe(name, function()
      local f, a, b = unpack(calls[name])
      for _, pair in ipairs { { a, b:to "cuda" }, { a:to "cuda", b } } do
        for _, g in ipairs { f, ty.compile(function(x, y) return f(x, y) end) } do
          local ok, why = pcall(g, unpack(pair))
          assert.falsy(ok, name)
          assert.truthy(tostring(why):find('operands lie on "%a+" and "%a+" %(move one with :to%)'), tostring(why))
        end
      end
      assert.equal(6, (ty.ones(3, { device = "cuda" }) * 2):sum():item()) -- which works on
    end)
  end

  probe("a gradient is moved to what it belongs to", function()
    for _, device in ipairs { "cpu", "cuda" } do
      local x = ty.ones(2):to(device):requires_grad_()
      local y = x * 2;
      y:backward(ty.tensor({ 3, 4 }, { device = device == "cpu" and "cuda" or "cpu" }))
      assert.same({ 6, 8 }, x.grad:totable())
    end
  end)
end)
