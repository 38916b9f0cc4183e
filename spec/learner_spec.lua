--- learner_spec.lua -- random learners (random_learner.lua): compiled steps against eager ones, bit for bit.
-- Two twins are made of one seed. After each step losses, parameters, gradients, averages, buffers, rates, states of
-- optimisers and scalers and the random state are the same. Learners that go through plain loss scaling read a value
-- and are not captured, and neither are those whose parameters are one leaf; all others are, and then calls run
-- without the function.
-- TYCHO_SEEDS="from to" takes other seeds; a seed that fails is told with what it is made of.

local H = require "spec.helper"
local ty = H.ty
local random_learner = require "spec.random_learner"

local STEPS = 14

local function same_state(eager, other, step)
  local p, q = random_learner.state_of(eager), random_learner.state_of(other)
  for _, name in ipairs(H.sorted(p)) do
    local v, w = p[name], q[name]
    local at = ("step %d, %s"):format(step, name)
    if ty.is_tensor(v) then
      assert.truthy(ty.is_tensor(w), at)
      H.same(v, w, at)
      assert.equal(v.requires_grad, w.requires_grad, at)
    else
      assert.equal(v, w, at)
    end
  end
  for name in pairs(q) do assert.not_nil(p[name], name) end
end

--- Steps a learner of the seed eagerly and one compiled. Gives what the compiled one told, nil where both raised.
local function run(seed)
  local eager, other = random_learner.make(seed), random_learner.make(seed)
  local compiled = ty.compile(other.step)
  for n = 1, STEPS do
    local got = {}
    for i, learner in ipairs { eager, other } do
      ty.manual_seed(100 + n)
      learner.change(n)
      ty.manual_seed(200 + n)
      local batches = learner.batches()
      local ok, what = pcall(i == 1 and eager.step or compiled, batches)
      got[i], got[i + 2] = ok and what or tostring(what), ty.random_state()
    end
    if type(got[1]) == "string" then -- frozen as a whole, or the like
      assert.equal(got[1], got[2])
      return nil, eager
    end
    assert.truthy(ty.is_tensor(got[2]), got[2])
    H.same(got[1], got[2], "loss of step " .. n)
    assert.equal(got[3], got[4], "the random state behind step " .. n)
    same_state(eager, other, n)
  end
  return ty.explain(compiled), eager
end

describe("random learners", function()
  local first, last = (os.getenv "TYCHO_SEEDS" or ""):match "(%d+) (%d+)"
  first, last = tonumber(first) or 1, tonumber(last) or 40
  local skips, steps = 0, 0

  for from = first, last, 10 do
    local to = math.min(from + 9, last)
    it(("of seeds %d to %d step as eager ones do"):format(from, to), function()
      for seed = from, to do
        local ok, told, learner = pcall(run, seed)
        if not ok then
          local made, L = pcall(random_learner.make, seed)
          error(("%s\n%s"):format(made and L.text or "seed " .. seed, tostring(told)), 0)
        end
        if told and not learner.text:find("scaler=plain", 1, true) and not learner.flat and not learner.reads then
          assert.same({}, told.aborts, learner.text)
          skips, steps = skips + told.skips, steps + STEPS
        end
      end
    end)
  end

  it("are captured, and then run without the function", function()
    assert.truthy(skips > 0.7 * steps, ("%d of %d steps"):format(skips, steps))
  end)
end)
