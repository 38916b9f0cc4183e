--- scalars_spec.lua -- numbers that change between calls, through every function of the library.
-- Each function is called in many ways with a tensor and a number; where one of them is valid, a compiled function that
-- makes the same call must give eager's results, writes and errors for each of a row of numbers, whether it took the
-- number as a scalar of the plan, captured anew, or ran.

local H = require "spec.helper"
local T = require "spec.twins"
local ty = H.ty

--- What changes the state, gives what no twin can (memory, functions), or is about compiling itself.
local left_out = {}
for name in ([[release threads precision manual_seed default_dtype device blas deterministic compile explain graph scope set_print
    help data from_ptr reset stats version pass warmup stance budget disable check rows empty empty_like
    plot progress show profile]]):gmatch "%S+" do
  left_out[name] = true
end

local tensors = {
  function() return ty.tensor { { 1, 2, 3 }, { 4, 5, 6 } } end,
  function() return ty.tensor({ 3, 1, 2 }, { dtype = "u8" }) end,
}

local numbers = { 1, 2, 1, 3, 0.5, -1, 0, 1, -0.0, 0 / 0, 1 / 0, 2, 300, -2.5, 1 }

local calls = {
  function(f, x, k) return f(x, k) end,
  function(f, x, k) return f(k, x) end,
  function(f, x, k) return f(x, x, k) end,
  function(f, x, k) return f(x, k, x) end,
  function(f, x, k) return f(x, 1, k) end,
  function(f, x, k) return f(x, 0, k) end,
  function(f, x, k) return f(x, k, k) end,
  function(f, x, k) return f(x, x:gt(1), k) end,
  function(f, x, k) return f(x, { k }) end,
  function(f, x, k) return f({ x, x }, k) end,
  function(f, _, k) return f(k) end,
  function(f, _, k) return f(0, k, { 3 }) end,
  function(f, _, k) return f({ 2 }, k) end,
  function(f, _, k) return f(k, k + 1) end,
}

--- Everything that can be seen of f(x, k), as text.
local function seen(f, x, k)
  ty.manual_seed(7)
  local function pack(...) return { n = select("#", ...), ... } end
  local result = pack(pcall(f, x, k))
  if not result[1] and type(result[2]) == "string" then result[2] = result[2]:gsub("^[^\n]-:%d+: ", "") end
  return T.text({ result, x }, 2)
end

describe("numbers that change between calls", function()
  local names, ran, skipped = {}, 0, 0
  for _, source in ipairs { ty, ty.internals.methods } do
    for name, f in pairs(source) do
      if type(f) == "function" and not left_out[name] and not name:find "^_" and not names[name] then
        names[name] = f
        names[#names + 1] = name
      end
    end
  end
  table.sort(names)

  for _, name in ipairs(names) do
    it("go through " .. name, function()
      local fn = names[name]
      for way, call in ipairs(calls) do
        for _, make in ipairs(tensors) do
          if pcall(call, fn, make(), 1) or pcall(call, fn, make(), 2) then
            local function eager(x, k)
              local y = call(fn, x, k)
              return y
            end
            local function body(x, k)
              local y = call(fn, x, k)
              return y
            end
            local f = ty.compile(body)
            for _, k in ipairs(numbers) do
              ran = ran + 1
              local want, got = seen(eager, make(), k), seen(f, make(), k)
              if want ~= got then
                error(("way %d, number %g\neager:    %s\ncompiled: %s"):format(way, k, want:sub(1, 300), got:sub(1, 300)), 0)
              end
            end
            skipped = skipped + ty.explain(f).skips
          end
        end
      end
    end)
  end

  it("are skipped mostly", function()
    assert.truthy(skipped > 0.5 * ran, ("%d of %d calls"):format(skipped, ran))
  end)
end)

describe("a number of the caller's", function()
  for name, f in pairs {
    tensor = function(x, w) return x * ty.tensor(w) end,
    ["tensor of another dtype"] = function(x, w) return x * ty.tensor(w, { dtype = "f16" }) end,
    full = function(x, w) return x * ty.full({ 3 }, w) end,
    full_like = function(x, w) return x + ty.full_like(x, w) end,
    fill_ = function(x, w) return (x * 1):fill_(w) + x end,
    clamp = function(x, w) return x:clamp(0, w) end,
    masked_fill = function(x, w) return x:masked_fill(x:gt(1), w) end,
    ["elements at an index"] = function(x, w)
      local y = x * 1
      y[ty.tensor({ 1, 3 }, { dtype = "i64" })] = w
      return y
    end,
    ["elements at a computed index"] = function(x, w)
      local y = x * 1
      y[x:to "i64" % 3 + 1] = w * 2
      return y
    end,
    ["elements of a mask"] = function(x, w)
      local y = x * 1
      y[x:gt(1)] = w
      return y
    end,
    ["a part"] = function(x, w)
      local y = x * 1
      y[{ { 2, 3 } }] = w
      return y
    end,
    ["a power of it"] = function(x, w) return w ^ x end,
  } do
    it("is read in each call, by one trace: " .. name, function()
      local c, x = ty.compile(f), ty.tensor { 1, 2, 3 }
      for i = 1, 300 do
        local w = i == 7 and 0 or i == 8 and 1 or i / 7
        H.same(f(x, w), c(x, w))
      end
      local e = ty.explain(c)
      assert.equal(1, e.captures)
      assert.equal(300, e.skips)
    end)
  end
end)
