-- models.lua -- the networks that captures are measured with.
-- In: a tycho module. Out: makers, each gives a plain function and an input; parameters are captured by the
-- function, in nested tables, as users have them. Cannot fail.

return function(ty)
  local models = {}

  local function dense(from, to) return { w = ty.randn(from, to) * 0.1, b = ty.randn(to) } end

  local function linear(p, x) return x:matmul(p.w) + p.b end

  --- `layers` layers of width n, one row of input.
  function models.mlp(n, layers)
    local list = {}
    for i = 1, layers do list[i] = dense(n, n) end
    return function(x)
      for i = 1, #list do x = linear(list[i], x):relu() end
      return x
    end, ty.randn(1, n)
  end

  --- A network as a table, and the function that runs any such table.
  function models.small()
    return { dense(16, 16), dense(16, 16), dense(16, 16) }
  end

  function models.run(net, x)
    for i = 1, #net do x = linear(net[i], x):relu() end
    return x
  end

  --- 100 parameters of 4 elements in nested tables.
  function models.parameters()
    local list = {}
    for i = 1, 50 do list[i] = { w = ty.randn(4), b = ty.randn(4) } end
    return function(x)
      for i = 1, #list do x = x * list[i].w + list[i].b end
      return x
    end, ty.randn(4)
  end

  local function norm(p, x) return x:layer_norm() * p.scale + p.shift end

  --- A transformer's forward: `layers` blocks of width d over n positions, 4 heads.
  function models.transformer(layers, d, n)
    local blocks, heads = {}, 4
    local size = d / heads
    local function norms() return { scale = ty.ones(d), shift = ty.zeros(d) } end
    for i = 1, layers do
      blocks[i] = { before = norms(), qkv = dense(d, 3 * d), out = dense(d, d), between = norms(),
        up = dense(d, 4 * d), down = dense(4 * d, d) }
    end
    local function split(t, from)
      return t[{ {}, { from * d + 1, (from + 1) * d } }]:reshape(n, heads, size):transpose(1, 2)
    end
    local function attention(block, x)
      local qkv = linear(block.qkv, x)
      local q, k, v = split(qkv, 0), split(qkv, 1), split(qkv, 2)
      local weights = (q:matmul(k:transpose(2, 3)) * (1 / math.sqrt(size))):softmax()
      return linear(block.out, weights:matmul(v):transpose(1, 2):reshape(n, d))
    end
    return function(x)
      for i = 1, #blocks do
        local block = blocks[i]
        x = x + attention(block, norm(block.before, x))
        x = x + linear(block.down, linear(block.up, norm(block.between, x)):gelu())
      end
      return x
    end, ty.randn(n, d)
  end

  --- One position of a decoder: `layers` blocks of width d over n positions of their caches, of which it writes the
  --- last.
  function models.decoder(layers, d)
    local blocks, heads, most = {}, 4, 256
    local size = d / heads
    local function norms() return { scale = ty.ones(d), shift = ty.zeros(d) } end
    for i = 1, layers do
      blocks[i] = { before = norms(), qkv = dense(d, 3 * d), out = dense(d, d), between = norms(),
        up = dense(d, 4 * d), down = dense(4 * d, d),
        keys = ty.randn(heads, most, size), values = ty.randn(heads, most, size) }
    end
    local function split(t, from)
      return t[{ {}, { from * d + 1, (from + 1) * d } }]:reshape(1, heads, size):transpose(1, 2)
    end
    local function attention(block, x, n)
      local qkv = linear(block.qkv, x)
      block.keys:narrow(2, n, 1):copy_(split(qkv, 1))
      block.values:narrow(2, n, 1):copy_(split(qkv, 2))
      local k, v = block.keys:narrow(2, 1, n), block.values:narrow(2, 1, n)
      local weights = (split(qkv, 0):matmul(k:transpose(2, 3)) * (1 / math.sqrt(size))):softmax()
      return linear(block.out, weights:matmul(v):transpose(1, 2):reshape(1, d))
    end
    return function(x, n)
      for i = 1, #blocks do
        local block = blocks[i]
        x = x + attention(block, norm(block.before, x), n)
        x = x + linear(block.down, linear(block.up, norm(block.between, x)):gelu())
      end
      return x
    end, ty.randn(1, d)
  end

  --- Particles that fall to a centre, a step of time.
  function models.particles()
    return function(place, speed, dt)
      local r = (place * place):sum(2, true):sqrt() + 0.01
      speed = speed - place / (r * r * r) * dt
      return place + speed * dt, speed
    end
  end

  --- A step of training by SGD: cross entropy over a batch of `classes`.
  local function step_of(model, x, classes)
    local opt = ty.optim.SGD(model:parameters(), { lr = 0.01 })
    local target = ty.randint(1, classes, { x:size(1) })
    return function(images)
      opt:zero_grad()
      local loss = ty.cross_entropy(model(images), target)
      loss:backward()
      opt:step()
      return loss:detach()
    end, x
  end

  --- Layers of these sizes with relu between.
  local function layers_of(sizes)
    local nn, layers = ty.nn, {}
    for i = 1, #sizes - 1 do
      layers[#layers + 1] = nn.Linear(sizes[i], sizes[i + 1])
      if i < #sizes - 1 then layers[#layers + 1] = nn.ReLU() end
    end
    return nn.Sequential(unpack(layers))
  end

  function models.step(sizes, batch)
    return step_of(layers_of(sizes), ty.randn(batch, sizes[1]), sizes[#sizes])
  end

  --- The same step where the forward pass is a function of its own, and the loss is outside. compile: what the forward
  --- pass is given to. all: what loss and update are given to, too; nil: they are as they are.
  local function outside_of(model, x, classes, compile, all)
    local opt = ty.optim.SGD(model:parameters(), { lr = 0.01 })
    local target = ty.randint(1, classes, { x:size(1) })
    local forward = compile(function(images) return model(images) end)
    local function loss_of(y, labels) return ty.cross_entropy(y, labels) end
    local function update() opt:step() end
    if all then
      loss_of, update = all(loss_of), all(update)
    end
    return function(images)
      opt:zero_grad()
      local loss = loss_of(forward(images), target)
      loss:backward()
      update()
      return loss:detach()
    end, x
  end

  function models.outside(sizes, batch, compile, all)
    return outside_of(layers_of(sizes), ty.randn(batch, sizes[1]), sizes[#sizes], compile, all)
  end

  --- What a step of two layers cannot do without, written by hand and without a tape: forward, loss, gradients and
  --- update, which hand on their values. apart: what each of them is given to; nil: they are as they are.
  function models.by_hand(sizes, batch, apart)
    local d, h, classes = unpack(sizes)
    local x, target = ty.randn(batch, d), ty.randint(1, classes, { batch })
    local w1, b1, w2, b2 = ty.randn(d, h) * 0.1, ty.zeros(h), ty.randn(h, classes) * 0.1, ty.zeros(classes)
    local hot = target:reshape(batch, 1):eq(ty.arange(1, classes + 1)):to "f32"
    local function forward(images)
      local hidden = (images:matmul(w1) + b1):relu()
      return hidden, hidden:matmul(w2) + b2
    end
    local function loss_of(y, labels) return ty.cross_entropy(y, labels) end
    local function gradients(images, hidden, y)
      local e = (y - y:max(2, true)):exp()
      local g = (e / e:sum(2, true) - hot) / batch
      local gh = ty.where(hidden:gt(0), g:matmul(w2:t()), 0)
      return images:t():matmul(gh), gh:sum(1), hidden:t():matmul(g), g:sum(1)
    end
    local function update(...)
      for i, w in ipairs { w1, b1, w2, b2 } do w:sub_(select(i, ...) * 0.01) end
    end
    if apart then
      forward, loss_of, gradients, update = apart(forward), apart(loss_of), apart(gradients), apart(update)
    end
    return function(images)
      local hidden, y = forward(images)
      local loss = loss_of(y, target)
      update(gradients(images, hidden, y))
      return loss
    end, x
  end

  --- What a forward pass is called with whose sizes change: the model, what gives an input of n rows or positions, and
  --- the least and the largest n.
  local sized = {
    MLP = function(nn)
      return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 8)),
        function(n) return ty.randn(n, 32) end, 17, 64
    end,
    GRU = function(nn) return nn.GRU(16, 32), function(n) return ty.randn(n, 2, 16) end, 20, 80 end,
    GPT = function(nn)
      local list = { nn.Embedding(50, 32) }
      for i = 2, 3 do list[i] = nn.TransformerBlock(32, 2, { causal = true }) end
      list[4] = nn.Linear(32, 50)
      return nn.Sequential(unpack(list)), function(n) return ty.randint(1, 50, { 2, n }) end, 20, 80
    end,
  }

  --- A forward pass compiled alone, and its backward pass. Gives what calls it with n, and the least and the largest n.
  function models.sized(kind, compile)
    local model, input, low, high = sized[kind](ty.nn)
    local parameters, inputs, given = model:parameters(), {}, {}
    local f = compile(function(x) return (model(x)) end)
    return function(n)
      for i = 1, #parameters do parameters[i].grad = nil end
      inputs[n] = inputs[n] or input(n)
      local y = f(inputs[n])
      given[n] = given[n] or ty.ones_like(y):detach()
      y:backward(given[n])
      return parameters[1].grad
    end, low, high
  end

  --- Two convolutions 3x3, to 16 and 32 channels, each with relu and max pooling, then a linear layer.
  local function convolutions(size)
    local nn, wide = ty.nn, math.floor(size / 4)
    return nn.Sequential(nn.Conv2d(1, 16, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2),
      nn.Conv2d(16, 32, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * wide * wide, 10))
  end

  function models.cnn(size, batch) return step_of(convolutions(size), ty.randn(batch, 1, size, size), 10) end
  function models.cnn_outside(size, batch, compile)
    return outside_of(convolutions(size), ty.randn(batch, 1, size, size), 10, compile)
  end

  --- A step of training of a GPT over characters: 3 blocks of width 64, 16 windows of 64, AdamW, clipped gradients.
  --- compile: what its forward pass alone is given to.
  function models.gpt(compile)
    local nn, width, size = ty.nn, 64, 96
    local embed, head = nn.Embedding(size, width), nn.Linear(width, size, { bias = false })
    local list = { embed }
    for i = 1, 3 do
      list[i + 1] = nn.TransformerBlock(width, 4, { causal = true, rotary = true, norm = "rms", bias = false })
    end
    list[#list + 1], list[#list + 2] = nn.RMSNorm(width), head
    local model = nn.Sequential(unpack(list))
    local forward = compile and compile(function(x) return model(x) end) or model
    local opt = ty.optim.AdamW(model:parameters(), { lr = 2e-3, betas = { 0.9, 0.95 }, weight_decay = 0.1 })
    return function(x, y)
      opt:zero_grad()
      local loss = ty.cross_entropy(forward(x), y)
      loss:backward()
      ty.clip_grad_norm_(opt.groups[1].params, 1)
      opt:step()
      return loss:detach()
    end, ty.randint(1, size, { 16, 64 }), ty.randint(1, size, { 16, 64 })
  end

  return models
end
