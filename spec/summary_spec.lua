--- summary_spec.lua -- what models are made of and what a call costs, against values by hand.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn

local function row(s, path)
  for _, r in ipairs(s.rows) do
    if r.path == path then return r end
  end
end

describe("nn.summary", function()
  it("counts parameters, shapes and multiply-adds of each layer", function()
    local model = nn.Sequential(nn.Conv2d(3, 8, 3, { padding = 1 }), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(),
      nn.Linear(8 * 10 * 12, 5))
    local s = nn.summary(model, ty.randn(2, 3, 10, 12))
    assert.equal(6, #s.rows)
    assert.same({ "Conv2d", "[2, 8, 10, 12]", 8 * 3 * 9 + 8, 2 * 8 * 10 * 12 * 3 * 9 },
      { row(s, "1").class, row(s, "1").shape, row(s, "1").parameters, row(s, "1").multiply_adds })
    assert.same({ 16, 0 }, { row(s, "2").parameters, row(s, "2").multiply_adds })
    assert.equal("[2, 960]", row(s, "4").shape)
    assert.same({ 960 * 5 + 5, 2 * 960 * 5 }, { row(s, "5").parameters, row(s, "5").multiply_adds })
    assert.equal(224 + 16 + 4805, s.parameters)
    assert.equal(s.parameters * 4, s.parameter_bytes)
    assert.equal(51840 + 9600, s.multiply_adds)
    assert.equal(4 * (1920 * 3 + 1920 + 10), s.output_bytes)
    assert.truthy(s.buffers >= 16) -- running means and variances
  end)

  it("counts what is shared once and what is called twice twice", function()
    local Twice = nn.class "Twice"
    function Twice:init()
      self.inner = nn.Linear(4, 4)
      self.again = self.inner
    end
    function Twice:forward(x) return self.again(self.inner(x)) end
    local s = Twice():summary(ty.ones(3, 4))
    assert.equal(2, #s.rows)
    assert.same({ 20, 2 * 3 * 16, 2 }, { s.parameters, s.multiply_adds, s.rows[2].called })
    assert.equal(2 * 3 * 16, s.rows[2].multiply_adds)
  end)

  it("knows attention and recurrent layers", function()
    local s = nn.summary(nn.LSTM(16, 32), ty.randn(4, 7, 16))
    assert.equal(4 * 7 * (16 + 32) * 4 * 32, s.multiply_adds)
    assert.equal("[4, 7, 32] [1, 4, 32] [1, 4, 32]", s.rows[1].shape)
    s = nn.summary(nn.Embedding(50, 8), ty.ones({ 2, 3 }, { dtype = "i64" }))
    assert.same({ 400, 0, "[2, 3, 8]" }, { s.parameters, s.multiply_adds, s.rows[1].shape })
  end)

  it("counts layers that are never called, without a shape", function()
    local m = nn.Module { used = nn.Linear(2, 2), spare = nn.Linear(2, 9), forward = function(self, x) return self.used(x) end }
    local s = nn.summary(m, ty.ones(1, 2))
    assert.same({ "", 27, 0, 0 }, { row(s, "spare").shape, row(s, "spare").parameters, row(s, "spare").called,
      row(s, "spare").multiply_adds })
    assert.equal(6 + 27, s.parameters)
  end)

  it("leaves the model, its statistics and the random numbers as they were", function()
    local model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))
    local forward = {}
    for i, m in ipairs(model:modules()) do forward[i] = rawget(m, "forward") or false end
    local before = {}
    for name, t in pairs(model:state_dict()) do before[name] = t:totable() end
    ty.manual_seed(3)
    local want = ty.rand(3):totable()
    ty.manual_seed(3)
    model:summary(ty.randn(8, 4) * 0 + 1)
    ty.manual_seed(3)
    local x = ty.ones(8, 4)
    model:summary(x)
    assert.same(want, ty.rand(3):totable())
    for name, t in pairs(model:state_dict()) do assert.same(before[name], t:totable(), name) end
    for i, m in ipairs(model:modules()) do assert.equal(forward[i], rawget(m, "forward") or false) end
  end)

  it("puts everything back when the model raises, and passes the error on", function()
    local model = nn.Sequential(nn.Linear(4, 6), nn.Linear(5, 6))
    model = nn.Sequential(nn.Dropout(0.5), model)
    ty.manual_seed(5)
    local want = ty.rand(2):totable()
    ty.manual_seed(5)
    local ok, message = pcall(nn.summary, model, ty.ones(2, 4))
    assert.is_false(ok)
    assert.same(want, ty.rand(2):totable())
    assert.truthy(message:find("Linear: the input must be [..., 5]", 1, true), message)
    for _, m in ipairs(model:modules()) do assert.is_nil(rawget(m, "forward")) end
  end)

  it("prints a table whose columns stand under each other", function()
    local text = tostring(nn.summary(nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1000)), ty.ones(1, 64)))
    local lines = {}
    for line in text:gmatch "[^\n]+" do lines[#lines + 1] = line end
    for i = 3, 6 do assert.equal(#lines[1], #lines[i]) end
    assert.truthy(text:find("137,320 parameters (549.3 KB)", 1, true), text)
    assert.truthy(text:find("136,192 multiply-adds", 1, true), text)
  end)

  it("raises on wrong use", function()
    local ok, message = pcall(function() nn.summary(3) end)
    assert.is_false(ok)
    assert.truthy(message:find("summary_spec.lua:%d+: summary: argument 1 must be a module, got number 3"), message)
  end)
end)
