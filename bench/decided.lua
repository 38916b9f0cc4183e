--- decided.lua -- programs as users write them, in which data decide how long a loop runs, or which way is taken.
-- In: ty. Out: by name {run: a function; args: what it is called with; draws: it draws random numbers}. For
-- bench/parts.lua, which measures them, and spec/decided_spec.lua, which compares them with eager runs.

return function(ty)
  local programs = {}

  --- Numbers of one kind, the same in every run.
  local function wave(scale, ...)
    local n = 1
    for i = 1, select("#", ...) do n = n * (select(i, ...)) end
    return ((ty.arange(n) * 0.61 + scale):sin() * scale):reshape(...)
  end

  -- Beam search: the best few continuations of a small recurrent network, until all of them have ended.
  local vocabulary, width, beams, most, stop = 50, 32, 4, 12, 1
  local embedding, head = wave(1, vocabulary, width), wave(0.5, width, vocabulary)
  local input, hidden = wave(0.3, width, 3 * width), wave(0.25, width, 3 * width)

  local function cell(x, h)
    local a, b = x:matmul(input), h:matmul(hidden)
    local r = (a:narrow(2, 1, width) + b:narrow(2, 1, width)):sigmoid()
    local z = (a:narrow(2, width + 1, width) + b:narrow(2, width + 1, width)):sigmoid()
    local n = (a:narrow(2, 2 * width + 1, width) + r * b:narrow(2, 2 * width + 1, width)):tanh()
    return (1 - z) * n + z * h
  end

  programs.beams = { args = { 2, wave(1, 1, width) }, run = function(first, h)
    local ids = ty.full({ beams }, first, { dtype = "i64" })
    local scores = ty.tensor { 0, -1e9, -1e9, -1e9 } -- all begin alike: the first one counts
    local ended = ty.zeros({ beams }, { dtype = "bool" })
    local lists = ids:reshape(beams, 1)
    h = h:expand(beams, width)
    local length = 0
    repeat
      h = cell(embedding:index_select(1, ids), h)
      local told = h:matmul(head):log_softmax(2)
      told = ended:unsqueeze(2):where(-1e9, told)
      told = ty.cat({ ended:unsqueeze(2):where(0, told:narrow(2, stop, 1)), told:narrow(2, 2, vocabulary - 1) }, 2)
      local best, at = (told + scores:unsqueeze(2)):reshape(-1):topk(beams)
      local from = ((at - 1) / vocabulary):floor():to "i64" + 1
      ids, scores = (at - 1) % vocabulary + 1, best
      h, lists = h:index_select(1, from), ty.cat({ lists:index_select(1, from), ids:unsqueeze(2) }, 2)
      ended = ended:index_select(1, from):logical_or(ids:eq(stop))
      length = length + 1
    until ended:all():item() or length == most
    return lists, scores, length
  end }

  -- Rejection: a point of a normal distribution's middle, by chance.
  programs.rejection = { args = { wave(0.5, 16) }, draws = true, run = function(centre)
    local tries, x = 0, nil -- luacheck: ignore
    repeat
      x = ty.rand(16) * 4 - 2
      local d = x - centre
      local p, u = (d * d * -0.5):sum():mul(0.25):exp(), ty.rand(1)
      tries = tries + 1
    until u:item() < p:item() or tries == 60
    return x, tries
  end }

  -- Blocks one after the other, until what they give is sure enough.
  local blocks = {}
  for i = 1, 8 do blocks[i] = { w1 = wave(0.3 + i / 50, 64, 128), w2 = wave(0.3, 128, 64), scale = ty.ones(64) } end
  local classes = wave(1, 64, 10)
  programs.confidence = { args = { wave(1, 1, 64) }, run = function(h)
    local p, depth
    for i = 1, #blocks do
      local b = blocks[i]
      h = h * 1.2 + (h:matmul(b.w1):relu():matmul(b.w2) * 0.1):tanh() * b.scale
      p, depth = h:matmul(classes):softmax(2), i
      if p:max():item() > 0.5 then break end
    end
    return p, depth
  end }

  programs.confidence_of_list = { args = programs.confidence.args, run = function(h)
    for i, b in ipairs(blocks) do
      h = h * 1.2 + (h:matmul(b.w1):relu():matmul(b.w2) * 0.1):tanh() * b.scale
      local p = h:matmul(classes):softmax(2)
      if p:max():item() > 0.5 then return p, i end
    end
    return h:matmul(classes):softmax(2), #blocks
  end }

  -- Newton's steps for a logistic regression, each as long as the loss allows.
  local points, side = wave(1.3, 40, 4), wave(1, 40):gt(0.2):to "f32" * 2 - 1
  local function loss_of(w) return (1 + (points:matmul(w) * side):neg():exp()):log():mean() + (w * w):sum() * 0.01 end
  programs.newton = { args = { wave(2, 4) }, run = function(w)
    local steps, shorter = 0, 0
    local loss = loss_of(w)
    while steps < 20 do
      local s = (points:matmul(w) * side):neg():sigmoid()
      local g = points:t():matmul(s * side) / -40 + w * 0.02
      if (g * g):sum():item() < 1e-9 then break end
      local hessian = (points:t() * (s * (1 - s))):matmul(points) / 40 + ty.eye(4) * 0.02
      local d = ty.linalg.solve(hessian, g)
      local slope, t = (g * d):sum(), 4
      local next_w = w - d * t
      local next_loss = loss_of(next_w)
      while next_loss:item() > (loss - slope * (1e-4 * t)):item() do
        t, shorter = t * 0.5, shorter + 1
        next_w = w - d * t
        next_loss = loss_of(next_w)
      end
      w, loss, steps = next_w, next_loss, steps + 1
    end
    return w, steps, shorter
  end }

  return programs
end
