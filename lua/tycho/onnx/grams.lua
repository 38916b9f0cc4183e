--- grams.lua -- ONNX's TfIdfVectorizer: how often each of the known runs of integers (n-grams) stands in a row.

local ty = require "tycho"
local values = require "tycho.onnx.values"

local T, min, max = values.tensor, math.min, math.max

--- The known runs by length: {numbers = of all, one after the other, indices = which run of the pool each is}.
local function pool_of(a)
  local pool, starts, runs, index = a.pool_int64s, a.ngram_counts, {}, 0
  for n, start in ipairs(starts) do
    local own = { numbers = {}, indices = {} }
    local stop = starts[n + 1] or #pool
    for at = start + 1, stop - n + 1, n do
      index = index + 1
      own.indices[#own.indices + 1] = index
      for k = at, at + n - 1 do own.numbers[#own.numbers + 1] = pool[k] end
    end
    if #own.numbers > 0 and n >= a.min_gram_length and n <= a.max_gram_length then runs[n] = own end
  end
  return runs
end

--- How often each run of n integers, `step` places apart, stands in each row: [rows, runs].
local function counted(x, n, step, runs)
  local places = x:size(2) - step * (n - 1)
  if places < 1 then return nil end
  local known, hits = ty.tensor(runs.numbers, values.there "i64"):reshape(-1, n), nil
  for k = 1, n do
    local same = x:narrow(2, 1 + step * (k - 1), places):unsqueeze(3):eq(known:select(2, k))
    hits = hits and hits:logical_and(same) or same
  end
  return hits:sum(2)
end

return function(op)
  op("TfIdfVectorizer",
    "max_gram_length max_skip_count min_gram_length mode ngram_counts ngram_indexes pool_int64s pool_strings weights",
    function(a, x)
      x = T(x):to "i64"
      local rows, size = x.ndim == 2 and x or x:reshape(1, -1), 0
      for _, at in ipairs(a.ngram_indexes) do size = max(size, at + 1) end
      local y = ty.zeros({ rows:size(1), size }, values.there "i64")
      for n, runs in pairs(pool_of(a)) do
        local places = {}
        for i, index in ipairs(runs.indices) do places[i] = a.ngram_indexes[index] + 1 end
        for step = 1, n == 1 and 1 or a.max_skip_count + 1 do -- a single one has no places between
          local hits = counted(rows, n, step, runs)
          if hits then y = y:index_add(2, ty.tensor(places, values.there "i64"), hits) end
        end
      end
      if a.mode == "IDF" then y = y:clamp(nil, 1) end
      y = y:to "f32"
      if a.mode ~= "TF" and a.weights then -- one for each run of the pool
        local list = {}
        for i = 1, size do list[i] = 1 end
        for i, at in ipairs(a.ngram_indexes) do list[at + 1] = a.weights[i] or 1 end
        y = y * ty.tensor(list, values.there())
      end
      return x.ndim == 2 and y or y:squeeze(1)
    end, { check = function(a)
      if a.pool_strings then return "the attribute pool_strings: its elements are strings" end
      if not (a.pool_int64s and a.ngram_counts and a.ngram_indexes) then
        return "an attribute of its pool is missing"
      end
      if a.mode ~= "TF" and a.mode ~= "IDF" and a.mode ~= "TFIDF" then
        return ("the mode %q is not supported"):format(tostring(a.mode))
      end
      local least = min(a.min_gram_length or 0, a.max_gram_length or 0)
      if least < 1 or (a.max_skip_count or -1) < 0 then return "its lengths or skips are out of range" end
      for _, at in ipairs(a.ngram_indexes) do
        if at < 0 or at >= 2 ^ 24 then return "the attribute ngram_indexes is out of range" end
      end
      local runs = 0
      for n, start in ipairs(a.ngram_counts) do
        local stop = a.ngram_counts[n + 1] or #a.pool_int64s
        if start < 0 or stop < start or stop > #a.pool_int64s then
          return "the attribute ngram_counts is out of range"
        end
        runs = runs + math.floor((stop - start) / n)
      end
      return #a.ngram_indexes < runs and "the attribute ngram_indexes has too few entries" or nil
    end })
end
