--- dist/pipeline.lua -- a model's layers in stages, one a rank, through which parts of a batch go: `ty.dist.pipeline`.
-- In: a list of modules, the same on each rank. Out: a module with this rank's; its `backward` takes a batch through
-- all stages and back. Raises where the ranks' models differ, and as all exchanges do.
--
-- 1. A batch is cut in micro-batches along the first dim. A stage sends what it makes of each to the next one, and gets
--    its gradient back. "1f1b" (Narayanan and others 2019, arXiv:1806.03377): once the stages behind it are filled, a
--    stage goes back with one micro-batch after each that goes forth, so that stage s of S keeps at most S - s + 1 of
--    them. "gpipe" (Huang and others 2019, arXiv:1811.06965): all go forth, then all come back.
-- 2. In either, a stage goes back with the micro-batches in their order. So gradients have the bits of one process that
--    takes them through the whole model one by one, (loss / micro):backward(), on any number of ranks.
-- 3. Two stages that send to each other at the same time do so in one exchange: neither waits for the other.
-- 4. Shapes go ahead of each tensor: micro-batches of a pass need not be alike in other dims than the first.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W, C = require "tycho.dist.world", require "tycho.dist.cut"

local type, pairs, ipairs, tonumber, rawget = type, pairs, ipairs, tonumber, rawget
local getmetatable, setmetatable, min, abs = getmetatable, setmetatable, math.min, math.abs
local format, concat = string.format, table.concat
local is_tensor = ty.is_tensor
local behind = require("tycho.tree").behind
local slices = ty.internals.grad.slices

---@param M table ty.dist, which is filled
---@param own table of init.lua and replicate.lua: kind_of, broadcast, group_of, head_of, tensor_of ...
return function(M, own)
  local nn, WHO = ty.nn, "pipeline"

  ---@class tycho.dist.Pipeline: tycho.Module
  local Pipeline = nn.class "Pipeline"
  M._classes.Pipeline = Pipeline

  ------------------------------------------------------------------------------------------------------------ messages

  --- Sends x to another rank of the group, where there is an x, and takes a tensor of its, where one is wanted.
  local function transfer(self, peer, x, wants)
    local group = self._pipe.group
    local two = { ranks = { group.ranks[peer] }, index = 0, number = group.number }
    local head, none = x and own.head_of(x), nil
    local got = W.exchange(WHO, two, "stage_head", head, head and { 0, own.HEAD }, wants and "i64" or none,
      wants and { own.HEAD } or none, wants and { 0, own.HEAD } or none)
    local dtype, dims, n, device
    if wants then
      dtype, dims, n, device = own.kind_in(got)
      device = device == 0 and "cpu" or W.device()
    end
    return W.exchange(WHO, two, "stage_body", x, x and { 0, x:numel() }, dtype, dims, wants and { 0, n } or none,
      device)
  end

  -------------------------------------------------------------------------------------------------------------- stages

  --- What the own modules make of x.
  local function through(self, x)
    for k = self._pipe.first, self._pipe.last do x = self[k](x) end
    return x
  end

  local function is_float(x) return ty.is_complex(x) or x.dtype:find("f", 1, true) ~= nil end

  --- One micro-batch through the stage: what is kept of it, and what goes to the next stage.
  local function forth(self, x, target)
    local p = self._pipe
    local kept = { x = x }
    if target == nil then
      kept.y = p.run(x)
      return kept, kept.y
    end
    local loss = p.run_loss(x, target)
    if not is_tensor(loss) or loss:numel() ~= 1 then
      check.fail(WHO, "the loss must be a tensor of one element, got %s", check.got(loss))
    end
    p.total = p.total and p.total + loss:detach() or loss:detach()
    kept.y = loss / p.micro
    return kept
  end

  --- Back with a micro-batch; the gradient of what came in, nil where it has none.
  local function back(kept, g)
    if kept.y.requires_grad then kept.y:backward(g) end
    local x = kept.x
    return x.grad or ty.zeros(x.shape, { dtype = is_float(x) and x.dtype or "f32", device = x.device })
  end

  --- A micro-batch that came from the stage before: a leaf.
  local function entered(x)
    if is_float(x) then x:requires_grad_() end
    return x
  end

  --- All micro-batches through this rank's stage, and back.
  local function run_batch(self, inputs, targets)
    local p = self._pipe
    local stages, s, n = #p.group.ranks, p.group.index, p.micro
    local is_first, is_last = s == 1, s == stages
    local kept, made, gone = {}, 0, 0

    local function take_forth(x)
      made = made + 1
      local y
      kept[made], y = forth(self, is_first and inputs[made] or entered(x), is_last and targets[made] or nil)
      return y and y:detach()
    end
    local function take_back(g)
      gone = gone + 1
      g = back(kept[gone], g)
      kept[gone] = nil
      return g
    end

    local ahead = p.schedule == "gpipe" and n or min(stages - s, n)
    for _ = 1, ahead do
      local y = take_forth(not is_first and transfer(self, s - 1, nil, true) or nil)
      if not is_last then transfer(self, s + 1, y) end
    end
    local x = ahead < n and not is_first and transfer(self, s - 1, nil, true) or nil
    for i = ahead + 1, n do
      local y = take_forth(x)
      local g = not is_last and transfer(self, s + 1, y, true) or nil
      g = take_back(g)
      if not is_first then x = transfer(self, s - 1, g, i < n) end
    end
    for _ = 1, ahead do
      local g = take_back(not is_last and transfer(self, s + 1, nil, true) or nil)
      if not is_first then transfer(self, s - 1, g) end
    end
  end

  --- A tensor in equal parts along the first dim, without their past.
  local function micro_batches(what, x, n)
    check.tensor("backward", what == "the batch" and 1 or 2, x)
    if x.ndim == 0 or x:size(1) % n ~= 0 then
      check.fail("backward", "the first dim of %s must divide by %d micro-batches, got %s", what, n, check.text(x))
    end
    local each, list = x:size(1) / n, {}
    for i = 1, n do list[i] = x:detach():narrow(1, (i - 1) * each + 1, each) end
    return list
  end

  --- What the last stage has, on all ranks.
  local function from_last(self, x)
    local stages, s = #self._pipe.group.ranks, self._pipe.group.index
    if s < stages then return transfer(self, stages, nil, true) end
    for i = 1, stages - 1 do transfer(self, i, x) end
    return x
  end

  --- Takes a batch through all stages and back: the gradients of this rank's parameters are added to `grad`. Their bits
  --- are those of one process that goes through the micro-batches one by one, (loss / micro):backward(). All ranks call
  --- it; the first one reads the batch, the last one the targets.
  --- Raises where a first dim does not divide by the micro-batches, the loss is none, or the ranks do not agree.
  ---@param x? tycho.Tensor [batch, ...], on the first rank
  ---@param target? tycho.Tensor [batch, ...], on the last rank
  ---@return tycho.Tensor # the mean of the micro-batches' losses, on all ranks
  function Pipeline:backward(x, target)
    local p = self._pipe
    local s, stages = p.group.index, #p.group.ranks
    if not p.loss then check.fail("backward", "the pipeline was made without a loss") end
    local inputs = s == 1 and micro_batches("the batch", x, p.micro)
    local targets = s == stages and micro_batches("the targets", target, p.micro)
    if stages > 1 then W.agree("backward", p.group, p.what) end
    p.total = nil
    ty.enable_grad(run_batch, self, inputs, targets)
    local total = p.total and p.total / p.micro
    p.total = nil
    return stages > 1 and from_last(self, total) or total
  end

  --- The model's result, on all ranks, which all call it; the first one reads the input. Nothing is taped.
  --- Raises as the modules do.
  ---@param x? tycho.Tensor on the first rank
  ---@return tycho.Tensor
  function Pipeline:forward(x)
    local p = self._pipe
    local s, stages = p.group.index, #p.group.ranks
    if stages > 1 then W.agree("forward", p.group, p.what) end
    return ty.no_grad(function()
      if s > 1 then x = transfer(self, s - 1, nil, true) end
      local y = through(self, x)
      if stages == 1 then return y end
      if s < stages then transfer(self, s + 1, y) end
      return from_last(self, y)
    end)
  end

  function Pipeline:describe()
    local p = self._pipe
    return ("modules %d to %d of %d, micro = %d"):format(p.first, p.last, p.count, p.micro)
  end

  --- The norm of the gradients of all stages, which are scaled so that it is at most `limit`, as ty.clip_grad_norm_ of
  --- the whole model does, to the bit. All ranks call it.
  --- Raises where a number is negative.
  ---@param limit number
  ---@param kind? number 2
  ---@return tycho.Tensor # the norm before, no dims
  function Pipeline:clip_grad_norm_(limit, kind)
    local group = self._pipe.group
    return slices.clip(self:parameters(), limit, kind, function(_, g, power) return g:norm(power) end, function(norms)
      local mine = #norms > 0 and ty.stack(norms) or ty.zeros { 0 }
      if #group.ranks == 1 then return mine end
      W.agree("clip_grad_norm_", group, "clip_grad_norm_ of a pipeline")
      return own.gather("clip_grad_norm_", group, mine, own.counts_of("clip_grad_norm_", group, #norms))
    end)
  end

  -------------------------------------------------------------------------------------------------------- whole states

  --- Parameters and buffers of all stages by name, the same on all ranks, which all call it. Names are those of the
  --- list that the pipeline was made of.
  --- Raises where the ranks do not agree.
  ---@return table<string, tycho.Tensor>
  function Pipeline:state_dict()
    local p, sd = self._pipe, nn.Module.state_dict(self)
    if #p.group.ranks == 1 then return sd end
    for _, t in ipairs(p.tensors) do
      local x = sd[t.name] or ty.empty(t.dims, { dtype = t.dtype, device = t.device })
      sd[t.name] = ty.no_grad(own.broadcast, "state_dict", x, p.group.ranks[t.stage], { group = p.group })
    end
    return sd
  end

  --- Takes this rank's part of a whole state_dict. Options are those of other modules.
  --- Raises where names or sizes do not fit.
  ---@param sd table<string, tycho.Tensor>
  ---@param opts? {from: "torch"|nil, strict: boolean?}
  ---@return string[] missing, string[] unexpected
  function Pipeline:load_state_dict(sd, opts)
    local p, mine = self._pipe, sd
    if type(sd) == "table" then
      mine = {}
      local shift = type(opts) == "table" and opts.from == "torch" and 1 or 0
      for name, x in pairs(sd) do
        local k = type(name) == "string" and tonumber(name:match "^%d+")
        k = k and k + shift
        if not k or k < 1 or k > p.count or k >= p.first and k <= p.last then mine[name] = x end
      end
    end
    return nn.Module.load_state_dict(self, mine, opts)
  end

  -------------------------------------------------------------------------------------------------------- the pipeline

  --- How many modules each stage has, so that the one with the most parameters has few; each has one at least.
  local function balanced(sizes, stages)
    local total, parts, at, sum = 0, {}, 1, 0
    for _, n in ipairs(sizes) do total = total + n end
    for s = 1, stages do
      local n = 0
      while at <= #sizes - (stages - s) do
        local goal = total * s / stages
        if n > 0 and s < stages and abs(sum + sizes[at] - goal) > abs(sum - goal) then break end
        sum, at, n = sum + sizes[at], at + 1, n + 1
      end
      parts[s] = n
    end
    return parts
  end

  local function check_parts(parts, count, stages)
    local sum = 0
    for i = 1, stages do
      local n = parts[i]
      if type(n) ~= "number" or n % 1 ~= 0 or n < 1 then
        check.fail(WHO, "option parts must be numbers of modules, one for each of %d ranks, got %s", stages,
          check.show(n))
      end
      sum = sum + n
    end
    if sum ~= count or #parts ~= stages then
      check.fail(WHO, "option parts must be %d numbers that add up to %d modules, got %d that add up to %d", stages,
        count, #parts, sum)
    end
    return parts
  end

  --- Tensors of the modules by stage, with names, in order.
  local function tensors_by_stage(list, stage_of)
    local all, at = {}, {}
    for k, m in ipairs(list) do
      for _, e in ipairs(C.tensors_of(behind(m))) do
        local before = at[e.tensor]
        if before and before ~= stage_of[k] then
          check.fail(WHO, "%d.%s is a tensor of another stage, too", k, e.name)
        end
        at[e.tensor] = stage_of[k]
        all[#all + 1] = { name = format("%d.%s", k, e.name), tensor = e.tensor, dims = e.tensor.shape,
          dtype = e.tensor.dtype, device = e.tensor.device, stage = stage_of[k] }
      end
    end
    return all
  end

  local OPTIONS = { micro = "number", loss = "function", parts = "table", schedule = "string", compile = "boolean",
    group = "table" }

  local function checked(opts)
    opts = check.options(WHO, opts, OPTIONS)
    local micro, schedule = opts.micro or 4, opts.schedule or "1f1b"
    if micro % 1 ~= 0 or micro < 1 then
      check.fail(WHO, "option micro must be a whole number of micro-batches, got %s", check.show(micro))
    end
    if schedule ~= "1f1b" and schedule ~= "gpipe" then
      check.fail(WHO, "option schedule must be \"1f1b\" or \"gpipe\", got %q", schedule)
    end
    return opts, micro, schedule
  end

  --- Cuts a list of modules that run one after the other in stages, one a rank (see the schedules 1f1b and gpipe,
  --- arXiv:1806.03377, arXiv:1811.06965). It gets the first rank's numbers; each rank keeps its own modules, and the
  --- list is emptied. The pipeline is a module: its parameters are those of this rank, for an optimiser; its
  --- state_dict is whole, and dist.shard makes that of its optimiser whole: checkpoints load on any number of ranks.
  --- It is not for models that dist.replicate has taken. One process is one stage.
  --- Raises where the argument is no list of modules, there are fewer of them than ranks, a tensor is one of two
  --- stages, or the ranks do not agree.
  ---@param model tycho.Module an nn.Sequential, or a list of modules, each of one tensor to one tensor
  ---@param opts? {micro: integer?, loss: (fun(y: tycho.Tensor, target: tycho.Tensor): tycho.Tensor)?, parts:
  ---  integer[]?, schedule: "1f1b"|"gpipe"|nil, compile: boolean?, group: tycho.dist.Group?} micro: micro-batches of a
  ---  batch, 4; loss: the mean over its rows; parts: modules of each rank, by default balanced by parameters; compile:
  ---  whether stages are compiled
  ---@return tycho.dist.Pipeline
  function M.pipeline(model, opts)
    local micro, schedule
    opts, micro, schedule = checked(opts)
    local list, given = {}, behind(model)
    if type(given) ~= "table" or rawget(given, 1) == nil then
      check.fail(WHO, "argument 1 must be an nn.Sequential or a list of modules, got %s", check.show(model))
    end
    for k, m in ipairs(given) do
      if not nn.is_module(m) then check.fail(WHO, "module %d must be a module, got %s", k, check.show(m)) end
      list[k] = m
    end
    local group = own.group_of(WHO, opts)
    local stages, sizes = #group.ranks, {}
    if #list < stages then check.fail(WHO, "there are %d modules for %d ranks", #list, stages) end
    for k, m in ipairs(list) do sizes[k] = behind(m):num_parameters() end
    local parts = opts.parts and check_parts(opts.parts, #list, stages) or balanced(sizes, stages)
    local stage_of = {}
    for s, n in ipairs(parts) do
      for _ = 1, n do stage_of[#stage_of + 1] = s end
    end
    local tensors = tensors_by_stage(list, stage_of)
    local words = {}
    for i, t in ipairs(tensors) do words[i] = t.name .. " " .. own.kind_of(t.tensor) end
    local what = format("a pipeline of %d tensors, micro = %d, %s, parts %s, %s", #tensors, micro, schedule,
      concat(parts, " "), W.digest(concat(words, "; ")))
    if stages > 1 then W.agree(WHO, group, what) end

    local self = Pipeline()
    local p = { group = group, micro = micro, schedule = schedule, loss = opts.loss, count = #list, what = what,
      tensors = tensors }
    self._transient, self._pipe = { _pipe = true }, p
    for k in ipairs(list) do
      given[k] = nil
      if stage_of[k] == group.index then
        self[k] = list[k]
        p.first, p.last = p.first or k, k
      end
    end
    slices.stages = slices.stages or setmetatable({}, { __mode = "k" })
    ty.no_grad(function()
      for _, t in ipairs(tensors) do
        if stages > 1 then t.tensor:copy_(own.broadcast(WHO, t.tensor:detach(), nil, { group = group })) end
        t.tensor = nil
      end
    end)
    if stages > 1 then
      for _, q in ipairs(self:parameters()) do slices.stages[q] = self end
    end
    p.run = function(x) return through(self, x) end
    p.run_loss = opts.loss and function(x, target) return opts.loss(through(self, x), target) end
    if opts.compile then
      p.run = ty.internals.compile(p.run)
      p.run_loss = opts.loss and ty.internals.compile(p.run_loss)
    end
    return self
  end

  ------------------------------------------------------------------------------------------------- states of optimisers

  --- The pipeline whose parameters an optimiser has, if it has such.
  function own.pipeline_of(opt)
    for _, g in ipairs(opt.groups) do
      for _, q in ipairs(g.params) do
        if slices.stages and slices.stages[q] then return slices.stages[q] end
      end
    end
  end

  --- Makes state_dict and load_state_dict of an optimiser of one stage's parameters those of all: in each group the
  --- parameters of the first rank, then of the next.
  function own.shard_stages(opt, pipe)
    local class, group = getmetatable(opt), pipe._pipe.group
    --- How many parameters of a group each rank has.
    local function counts(who, g) return own.counts_of(who, group, #opt.groups[g].params) end

    function opt:state_dict()
      local who, all = "state_dict", { shard_group = group, groups = {}, owners = {} }
      W.agree(who, group, format("state_dict of %s with %d groups", class.class_name, #self.groups))
      for g, own_group in ipairs(self.groups) do
        all.groups[g], all.owners[g] = { params = {}, state = {} }, {}
        local at = 0
        for i, n in ipairs(counts(who, g)) do
          for j = 1, n do
            all.groups[g].params[at + j], all.owners[g][at + j] = true, i
            if i == group.index then all.groups[g].state[at + j] = own_group.state[j] end
          end
          at = at + n
        end
      end
      local sd, states = class.state_dict(self), own.whole_states(all)
      for g, copy in ipairs(sd.groups) do copy.state = states[all.groups[g]] or {} end
      return sd
    end
    function opt:load_state_dict(sd)
      local mine = sd
      if type(sd) == "table" and type(sd.groups) == "table" then
        mine = { groups = {} }
        W.agree("load_state_dict", group, format("load_state_dict of %s with %d groups", class.class_name,
          #self.groups))
        for g, given in ipairs(sd.groups) do
          local copy = {}
          for k, v in pairs(given) do copy[k] = v end
          if self.groups[g] and type(given.state) == "table" then
            local at, n = 0, 0
            for i, count in ipairs(counts("load_state_dict", g)) do
              if i < group.index then at = at + count end
              n = n + count
            end
            if #given.state ~= n then
              check.fail("load_state_dict", "group %d must have the state of %d parameters", g, n)
            end
            copy.state = {}
            for j = 1, #self.groups[g].params do copy.state[j] = given.state[at + j] end
          end
          mine.groups[g] = copy
        end
      end
      class.load_state_dict(self, mine)
    end
    return opt
  end
end
