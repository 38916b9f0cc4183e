-- parts.lua -- rows of `make bench` about functions that are captured in parts: data are read, something is written.
-- And about functions that gain nothing.
-- In: run.lua's row. Out: rows.

local ty = require "tycho"

return function(row)
  --- Element by element until the largest error is small: so many turns, and what is read decides.
  local function newton(x)
    local y = x * 0.5 + 1
    local err = (y * y - x):abs():max()
    while err:item() > 1e-5 do
      y = y - (y * y - x) / (y * 2)
      err = (y * y - x):abs():max()
    end
    return y
  end

  local function conjugate(A, b)
    local x, r = ty.zeros(100), b
    local p, rs, n = r, r:dot(r), 0
    while rs:item() > 1e-8 and n < 60 do
      local Ap = A:matmul(p)
      local alpha = rs / p:dot(Ap)
      x, r = x + p * alpha, r - Ap * alpha
      local now = r:dot(r)
      p, rs, n = r + p * (now / rs), now, n + 1
    end
    return x
  end

  --- One turn of it, compiled as it is.
  local cg_step = jit.compile(function(A, x, r, p, rs)
    local Ap = A:matmul(p)
    local alpha = rs / p:dot(Ap)
    x, r = x + p * alpha, r - Ap * alpha
    local now = r:dot(r)
    return x, r, r + p * (now / rs), now
  end)
  local function turns_of_conjugate(A, b)
    local n, rs = 0, b:dot(b)
    local x, r, p = ty.zeros(100), b, b
    while rs:item() > 1e-8 and n < 60 do
      x, r, p, rs = cg_step(A, x, r, p, rs)
      n = n + 1
    end
    return function()
      local x, r, p, rs = ty.zeros(100), b, b, b:dot(b) -- luacheck: ignore
      for _ = 1, n do x, r, p, rs = cg_step(A, x, r, p, rs) end
      return x
    end
  end

  --- Tokens of a GPT of 2 blocks of width 64, drawn from what it gives for 8 positions, until one of them stops it.
  local vocabulary, width, stop = 256, 64, -1 -- none, so that each call draws as many
  local embed, norm, head = ty.nn.Embedding(vocabulary, width), ty.nn.LayerNorm(width), ty.nn.Linear(width, vocabulary)
  local blocks = {}
  for i = 1, 2 do blocks[i] = ty.nn.TransformerBlock(width, 4, { causal = true }) end
  local function next_token(ids)
    local h = embed(ids)
    for _, block in ipairs(blocks) do h = block(h) end
    local logits = head(norm(h:narrow(2, 8, 1):reshape(1, width)))
    return (logits / 0.8 + ty.rand(1, vocabulary):log():neg():log():neg()):argmax(2)
  end
  local function tokens(ids)
    for t = 1, 24 do
      local id = next_token(ids)
      ids = ty.cat({ ids:narrow(2, 2, 7), id:reshape(1, 1) }, 2)
      if id:item() == stop then return ids, t end
    end
    return ids, 24
  end
  local token_step = jit.compile(function(ids)
    local id = next_token(ids)
    return id, ty.cat({ ids:narrow(2, 2, 7), id:reshape(1, 1) }, 2)
  end)

  local null = io.open("/dev/null", "w")
  local function written(x)
    for _ = 1, 3 do
      for _ = 1, 5 do x = x * 0.9 + 0.1 end
      null:write(tostring(x:sum():item()), "\n")
    end
    return x
  end

  --- Functions that are made in each call, and what breaks in them.
  local function ten_of(x)
    for _ = 1, 5 do x = x * 0.9 + 0.1 end
    return x
  end
  local function local_function(x)
    local w = x * 0.5
    local function once(v)
      local y = ten_of(v + w)
      null:write(tostring(y:sum():item()), "\n")
      return ten_of(y)
    end
    for _ = 1, 3 do x = once(x) end
    return x
  end
  local function protected(x)
    local ok, y = pcall(function()
      local y = ten_of(x)
      null:write(tostring(y:sum():item()), "\n")
      return ten_of(y)
    end)
    return ok and y or x
  end
  local function assigned(x)
    local total, y = 0, nil
    ty.no_grad(function()
      y = ten_of(x)
      total = total + y:sum():item()
      null:write "\n"
      y = ten_of(y)
    end)
    return y * total
  end
  local function solved(x)
    local turns = 0
    local function solve(b)
      local y = newton(b)
      turns = turns + 1
      return y
    end
    return solve(x) + solve(x + 1) * turns
  end
  local function small_closure(x)
    local s = 0
    local function add(i) s = s + x:get(i) end
    for i = 1, 64 do add(i) end
    return s
  end

  local function gets(x)
    local s = 0
    for i = 1, 64 do s = s + x:get(i) end
    return s
  end

  --- A training step that gives its loss as a number, or as a tensor.
  local function step(reads)
    local w, x = (ty.randn(64, 64) / 8):requires_grad_(), ty.randn(64, 64)
    return function()
      local loss = (x:matmul(w):tanh() - x):square():mean()
      loss:backward()
      ty.no_grad(function() w:sub_(w.grad * 0.01) end)
      w.grad = nil
      if reads then return loss:item() end
      return loss
    end
  end

  row { name = "training step, its loss read by item()", peer = "none", unit = "us", what = "not read",
    make_floor = true, most = 1.15, setup = function() return jit.compile(step(true)) end,
    floor = function() return jit.compile(step(false)) end }

  --- Functions of ten operations that gain nothing: each call differs from those before. key(i): what call i is given.
  local function ten(x)
    for _ = 1, 5 do x = x * 0.9 + 0.1 end
    return x
  end
  local field, lengths = {}, ty.randn(1000)
  for i = 1, 20000 do field["k" .. i], field[i] = i, i end
  local function shared(i) return lengths:narrow(1, 1, i % 1000 + 1) end
  local square = ty.rand(16, 16)
  for _, r in ipairs {
    { "a new string each call, made inside, as a key", function(x, i) return ten(x) * field["k" .. i] end },
    { "a new string each call, given, as a key", function(x, i) return ten(x) * field[i] end,
      key = function(i) return "k" .. i end },
    { "a list read at another i each call", function(x, i) return ten(x) * field[i] end, most = 0.3 },
    { "a list written at another i each call", function(x, i, out)
      out[i] = i
      return ten(x)
    end, most = 0.3 },
    { "a list that grows in each call, list[#list + 1]", function(x, i, out)
      out[#out + 1] = i
      return ten(x)
    end, most = 0.3 },
    { "a list that grows by two in each call, and tells its length", function(x, i, out)
      table.insert(out, i)
      out[#out + 1] = x
      if #out > 100 then out[1], out[#out] = out[#out], nil end
      return ten(x) * #out
    end, most = 1.1 },
    { "a number's text each call", function(x, i) return ten(x), tostring(i) end },
    { "sizes 1 to 1,000 in turn", ten, input = shared },
    { "sizes 1 to 1,000 in turn, which decide", function(x)
      local s = 0
      for i = 1, x:size(1) % 7 do s = s + i end
      return ten(x) * s
    end, input = shared },
    { "sizes 1 to 1,000 in turn, of what is not captured", function(x)
      debug.getinfo(1, "l")
      return ten(x)
    end, input = shared },
  } do
    local function calls(f)
      local i, out = 0, {}
      local function call()
        i = i % 20000 + 1
        return (f(r.input and r.input(i) or square, r.key and r.key(i) or i, out))
      end
      for _ = 1, 4000 do call() end
      return call
    end
    row { name = (r.most and "" or "nothing gained: ") .. r[1], peer = "none", unit = "us", what = "eager",
      make_floor = true, most = r.most or 1.1, setup = function() return calls(jit.compile(r[2])) end,
      floor = function() return calls(r[2]) end }
  end

  local x, Q, b, image = ty.arange(1, 101), ty.rand(100, 100), ty.rand(100), ty.rand(64, 64)
  local A = Q:matmul(Q:t()) / 100 + ty.eye(100)
  for _, r in ipairs {
    { "Newton's roots of 100 numbers, while err:item() > tol", newton, x, 0.6 },
    { "conjugate gradients, 100x100, while rs:item() > tol", conjugate, A, 1.2, b, turns_of_conjugate },
    { "30 operations on 64x64, 3 writes of values", written, image, 0.7 },
    { "64 times x:get(i)", gets, x, 1.1 },
    { "3 calls of a local function of 20 operations on 64x64 that writes", local_function, image, 0.7 },
    { "the same of 4 numbers", local_function, x:narrow(1, 1, 4), 0.8 },
    { "pcall of a function that is made there and writes, 64x64", protected, image, 0.7 },
    { "no_grad of one that assigns variables and writes, 64x64", assigned, image, 0.7 },
    { "the same of 4 numbers, assigned", assigned, x:narrow(1, 1, 4), 1.1 },
    { "Newton's roots twice, by a local function that counts", solved, x, 0.7 },
    { "a local function that reads, 64 times", small_closure, x, 1.1 },
  } do
    local f = r[2]
    row { name = r[1], peer = "none", unit = "us", what = r[6] and "its steps" or "eager", make_floor = true,
      most = r[4],
      setup = function()
        local g = jit.compile(f)
        return function() return g(r[3], r[5]) end
      end,
      floor = function() return r[6] and r[6](r[3], r[5]) or function() return f(r[3], r[5]) end end }
  end

  --- A list that is filled turn by turn, while data decide whether it goes on.
  local mix = ty.rand(64, 64) / 8
  local function turn(h) return h:matmul(mix):tanh() end
  local fills = { ["list[t] = v"] = function(list, t, v) list[t] = v end,
    ["list[#list + 1] = v"] = function(list, _, v) list[#list + 1] = v end,
    ["table.insert(list, v)"] = function(list, _, v) table.insert(list, v) end }
  local turn_step = jit.compile(function(h)
    h = turn(h)
    return h, h:sum()
  end)
  for _, how in ipairs { "list[t] = v", "list[#list + 1] = v", "table.insert(list, v)" } do
    local fill = fills[how]
    local function filled(h)
      local list = {}
      for t = 1, 24 do
        h = turn(h)
        local v = h:sum():item()
        fill(list, t, v)
        if v > 1e9 then break end
      end
      return h, list
    end
    row { name = "24 turns that fill a list, " .. how, peer = "none", unit = "us", what = "its steps",
      make_floor = true, most = 1.15,
      setup = function()
        local f = jit.compile(filled)
        return function() return f(image) end
      end,
      floor = function()
        return function()
          local h, list = image, {}
          for t = 1, 24 do
            local behind, sum = turn_step(h)
            h = behind
            fill(list, t, sum:item())
            if list[t] > 1e9 then break end
          end
          return h, list
        end
      end }
  end

  local decided = require "decided"(ty)
  for _, r in ipairs {
    { "beam search, 4 beams, 12 tokens of a GRU", "beams", 0.6 },
    { "rejection sampler, 42 tries of 16 numbers", "rejection", 0.6 },
    { "8 blocks of width 64, left at the 5th for its confidence", "confidence", 0.8 },
    { "the same, walked over by ipairs", "confidence_of_list", 0.8 },
    { "Newton with line search, logistic regression 40x4", "newton", 0.8 },
  } do
    local p = decided[r[2]]
    local function calls(f)
      return function()
        if p.draws then ty.manual_seed(3) end -- as many tries each time
        return (f(unpack(p.args)))
      end
    end
    row { name = r[1], peer = "none", unit = "us", what = "eager", make_floor = true, most = r[3],
      setup = function() return calls(jit.compile(p.run)) end, floor = function() return calls(p.run) end }
  end

  local ids = ty.randint(1, vocabulary, { 1, 8 })
  row { name = "24 tokens of a GPT, drawn, until one stops it", peer = "none", unit = "us", what = "its steps",
    make_floor = true, most = 1.1,
    setup = function()
      local f = jit.compile(tokens)
      return function() return ty.no_grad(f, ids) end
    end,
    floor = function()
      return function()
        return ty.no_grad(function()
          local now, last = ids, nil
          for _ = 1, 24 do
            local id, behind = token_step(now)
            now, last = behind, id:item()
          end
          return now, last
        end)
      end
    end }
end
