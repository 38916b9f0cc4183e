--- texts_spec.lua -- what objects say of themselves: tables, loaders, modules, plots, summaries, by whole texts.

local H = require "spec.helper"
local ty = H.ty
local nn, csv, data = ty.nn, ty.csv, ty.data

describe("as text", function()
  it("a table of csv names twelve columns, and how many more there are", function()
    local names, zeros = {}, {}
    for i = 1, 14 do names[i], zeros[i] = "c" .. i, "0" end
    local text = tostring(csv.parse(table.concat(names, ",") .. "\n" .. table.concat(zeros, ",")))
    assert.equal("table of 1 rows: c1 i64, c2 i64, c3 i64, c4 i64, c5 i64, c6 i64, c7 i64, c8 i64, c9 i64, c10 i64, "
      .. "c11 i64, c12 i64, 2 more", text)
  end)

  it("a loader counts batches and samples", function()
    assert.equal("loader of 3 batches of 2 from 5 samples", tostring(data.loader(data.tensors(ty.ones(5)), { batch = 2 })))
  end)

  it("a module tells its sizes, and options that are not the usual ones", function()
    assert.equal("GRU(2, 3)", tostring(nn.GRU(2, 3)))
    assert.equal("LSTM(2, 3, layers = 2, bidirectional)", tostring(nn.LSTM(2, 3, { layers = 2, bidirectional = true })))
    assert.equal("CrossEntropyLoss(label_smoothing = 0.1, reduction = \"sum\")",
      tostring(nn.CrossEntropyLoss { label_smoothing = 0.1, reduction = "sum" }))
    assert.equal("Upsample(scale = 2, mode = nearest)", tostring(nn.Upsample { scale = 2 }))
    assert.equal("Upsample(size = {2, 3}, mode = bilinear)", tostring(nn.Upsample { size = { 2, 3 }, mode = "bilinear" }))
    assert.truthy(tostring(nn.MultiHeadAttention(8, 2, { causal = true, rotary = true })):find("(8, 2, causal, rotary\n", 1, true))
  end)

  it("a plot counts its marks or rows", function()
    assert.equal("plot of 2 rows", tostring(ty.plot { { ty.plot() }, { ty.plot() } }))
    assert.equal("plot \"t\": 1 mark", tostring(ty.plot { title = "t" }:line { 1, 2 }))
    assert.equal("plot: 2 marks", tostring(ty.plot():line { 1 }:line { 2 }))
  end)

  it("a summary has units of a thousand, and the shapes of outputs that lie in tables", function()
    local function bytes_of(...)
      local w = ty.zeros(1, 1):expand(...)
      local m = nn.Module { w = nn.Parameter(w), forward = function(_, x, opts) return { x, { (x + opts.more):t() } } end }
      local summary = nn.summary(m, ty.ones(1, 3), { more = ty.ones(1), state = setmetatable({}, {}) })
      assert.equal("[1, 3] [3, 1]", summary.rows[1].shape)
      return tostring(summary):match "parameters %((.-)%)"
    end
    assert.equal("40 B", bytes_of(2, 5))
    assert.equal("4.0 MB", bytes_of(1000, 1000))
    assert.equal("2.15 GB", bytes_of(2 ^ 14, 2 ^ 15))
  end)

  it("a profile of seconds says seconds", function()
    local p = ty.profile(function() return ty.ones(3) + 1 end)
    p.seconds = 12.345
    assert.equal("12.35 s, of", tostring(p):match "^(.-) them")
  end)
end)
