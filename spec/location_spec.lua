--- location_spec.lua -- errors inside of models name the module's path and the user's line, the same however the model runs.

local H = require "spec.helper"
local ty = H.ty
local nn = ty.nn

local Block = nn.class "Block"
function Block:init(n) self.weight = nn.Parameter(ty.ones(n, n)) end
function Block:forward(x)
  local y = x:matmul(self.weight)
  return y:relu()
end

local Net = nn.class "Net"
function Net:init(n)
  self.emb = nn.Embedding(4, 8)
  self.blocks = { Block(8), Block(n) }
  self.classifier = nn.Sequential(nn.Dropout(0), nn.Linear(8, 10))
end
function Net:forward(x)
  local y = self.emb(x)
  for _, block in ipairs(self.blocks) do
    y = block(y)
  end
  y = self.classifier(y)
  return y
end
function Net:head(x)
  local y = self.classifier(x)
  return y
end

local Outer = nn.class "Outer"
function Outer:init() self.net = Net(8) end
function Outer:forward(x) return self.net:head(x) end

local function line_of(fn, offset) return "spec/location_spec.lua:" .. debug.getinfo(fn, "S").linedefined + offset end
local function indices(...) return ty.tensor({ ... }, { dtype = "i64" }) end

--- fn(x)'s error, which is the same when it is called again.
local function message(fn, x)
  local _, first = pcall(fn, x)
  for _ = 1, 3 do
    local ok, again = pcall(fn, x)
    assert.is_false(ok)
    assert.equal(first, again)
  end
  return (first:gsub("%./spec", "spec"))
end

describe("an error inside of a model", function()
  local want = "blocks.2 (Block), " .. line_of(Block.forward, 1) .. ": matmul: inner sizes differ, f32[2,8] x f32[6,6]"

  it("names the path of the module and the line in forward", function()
    local net = Net(6)
    assert.equal(want, message(function(x) return (net(x)) end, indices(1, 2)))
  end)

  it("says the same of a compiled model, and where the call is captured inside of another function", function()
    local net = Net(6)
    assert.equal(want, message(jit.compile(net), indices(1, 2)))
    assert.equal(want, message(jit.compile(function(x) return net(x) + 1 end), indices(1, 2)))
    assert.equal(want, message(jit.compile(function(x)
      local y = net.emb(x):sum()
      if y:item() > -1e30 then y = net(x) end
      return y
    end), indices(1, 2)))
  end)

  it("names a layer of the library by the line that called into it, without its class twice", function()
    local net = Net(8)
    local at = line_of(Net.head, 1)
    assert.equal("classifier.2 (Linear), " .. at .. ": the input must be [..., 8], got f32[2,5]",
      message(function(x) return (net:head(x)) end, ty.ones(2, 5)))
  end)

  it("finds the path through a call in whose place another runs", function()
    local outer = Outer()
    assert.equal("net.classifier.2 (Linear), " .. line_of(Net.head, 1) .. ": the input must be [..., 8], got f32[2,5]",
      message(function(x) return (outer(x)) end, ty.ones(2, 5)))
  end)

  it("names the module when only data can tell, from a plan too", function()
    local net = Net(8)
    local compiled = jit.compile(net)
    local text = "emb (Embedding), " .. line_of(Net.forward, 1) .. ": index_select: index 9 at (2, 1) is out of range 1..4"
    for _ = 1, 3 do compiled(indices(1, 2)) end
    assert.equal(text, message(function(x) return (net(x)) end, indices(1, 9)))
    assert.equal(text, message(function(x) return (compiled(x)) end, indices(1, 9)))
  end)

  it("is as it was where the model is no part of another, outside of modules, and of methods of the library", function()
    local layer = nn.Linear(3, 2)
    assert.truthy(message(function(x) return (layer(x)) end, ty.ones(2, 5)):find("^spec/location_spec.lua:%d+: Linear: "))
    assert.truthy(message(function(x) return (x:matmul(x)) end, ty.ones(2, 5)):find("^spec/location_spec.lua:%d+: matmul: "))
    local net = Net(8)
    assert.truthy(message(function(x) return (net.classifier:to(x)) end, 5):find("^spec/location_spec.lua:%d+: to: "))
  end)

  it("passes values on that are no texts, and those that users raise", function()
    local what = {}
    local Raises = nn.class "Raises"
    function Raises.forward(_, x) return error(x, 2) end
    local net = nn.Module { part = Raises(), forward = function(self, x)
      local y = self.part(x)
      return y
    end }
    local ok, e = pcall(net, what)
    assert.is_false(ok)
    assert.is_true(rawequal(what, e))
    assert.truthy(message(function(x) return (net(x)) end, "mine"):find("^spec/location_spec.lua:%d+: mine$"))
  end)

  it("does not trip over a user's tables and modules that raise when they are looked at", function()
    local odd = setmetatable({}, { __index = function() error "no" end })
    local net = Net(8)
    local function call(x, _) return (net:head(x)) end
    assert.truthy(message(function(x) return (call(x, odd)) end, ty.ones(2, 5)):find("^classifier.2 %(Linear%)"))
  end)
end)
