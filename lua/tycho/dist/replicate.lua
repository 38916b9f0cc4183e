--- dist/replicate.lua -- data parallel training: one model on all ranks, `ty.dist.replicate`.
-- In: a module on each rank, its parameters and buffers. Out: those of the first rank on all of them; from then on a
-- backward pass gives each parameter the mean of the ranks' gradients. Raises where the modules differ, and as all
-- exchanges do.
--
-- 1. What a pass adds to `grad` is exchanged, not what was there: it waits aside meanwhile. So passes add up as they
--    do in one process, and the mean is ((g0 + g1) + g2 ...) / ranks, the bits of a process that goes through the
--    parts of the batch in order.
-- 2. Gradients of one dtype go together, in buckets: few long exchanges instead of many short ones. In a captured step
--    each begins when its gradients are there, while others are computed (core/compile/plan_calls.c).
-- 3. Parameters that a rank's pass did not reach count as zeros there, where another rank's did. Where no rank's did,
--    there is no gradient.
-- 4. All ranks of a model's group make the same backward passes while there are such models, also passes of other
--    models.
-- 5. A capture cannot follow the gradients of parameters that it has not met (`known`). None of its passes reaches
--    them, and where one of another rank does, ranks do not agree, and Lua runs in the plan's place.
-- 6. A captured pass is one of the replicated models that there were: their number (number_of_sets) is in its key.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W = require "tycho.dist.world"

local ipairs, concat = ipairs, table.concat

local BUCKET = 2 ^ 22 -- elements that are exchanged at once
local GRADIENTS = 2 ^ 18 -- the same of gradients: some travel while others are computed
local ALONE = 2 ^ 16 -- elements of a gradient that goes without others, which would cost a copy

local no_grad, known = ty.no_grad, ty.internals.grad.known

---@param M table ty.dist, which is filled
---@param own table of init.lua: sum_of, kind_of, group_of, broadcast
return function(M, own)
  local nn = ty.nn

  --- By group, in the order of their numbers: {group, list}, the parameters of replicated models, in the order in which
  --- these were. Lists of parameters by their modules.
  local sets, replicas = {}, {}

  local function grad_of(p) return p.grad end

  ------------------------------------------------------------------------------------------------- one long vector

  --- Tensors of one dtype and device, as lists of at most `most` elements, or of one tensor, as those of `alone`
  --- elements are; at: which of `list` they are. Those come first whose last tensor does.
  local function buckets_of(list, most, alone)
    local of_kind, order = {}, {}
    most, alone = most or BUCKET, alone or BUCKET
    for i, x in ipairs(list) do
      local n, kind = x:numel(), x.dtype .. x.device
      local bucket = of_kind[kind]
      if n >= alone or not bucket or bucket.n + n > most then
        bucket = { n = 0, at = {} }
        if n < alone then of_kind[kind] = bucket end
        order[#order + 1] = bucket
      end
      bucket[#bucket + 1], bucket.at[#bucket + 1] = x, i
      bucket.n = bucket.n + n
    end
    table.sort(order, function(a, b) return a.at[#a] < b.at[#b] end)
    return order
  end

  local function join(bucket)
    if #bucket == 1 then return bucket[1] end
    local flat = {}
    for i, x in ipairs(bucket) do flat[i] = x:reshape(-1) end
    return ty.cat(flat, 1)
  end

  --- Calls fn(i, part): what of the vector belongs to tensor i of the bucket, in its dims. A tensor alone is no vector.
  local function split(bucket, vector, fn)
    local at = 1
    if #bucket == 1 then return fn(1, vector) end
    for i, x in ipairs(bucket) do
      local n = x:numel()
      fn(i, vector:narrow(1, at, n):reshape(x.shape))
      at = at + n
    end
  end
  own.buckets_of, own.join, own.split = buckets_of, join, split

  ---------------------------------------------------------------------------------------------------- the gradients

  local function hold_of(list)
    local held = { here = {} } -- here: those that are known
    for i, p in ipairs(list) do
      held.here[i] = known(p)
      local g = nil
      if held.here[i] then g = grad_of(p) end
      if g ~= nil then held[i], p.grad = g, nil end
    end
    return held
  end

  --- Takes away what is in `grad`, so that the pass gives its own.
  local function hold()
    local held = {}
    for k, set in ipairs(sets) do held[k] = hold_of(set.list) end
    return held
  end

  --- What the pass gave to parameter i of a list.
  local function given_to(list, held, i)
    if held.here[i] then return grad_of(list[i]) end
    if known(list[i]) then check.fail("backward", "a capture has met a parameter within a pass") end
    return nil
  end

  --- Which gradients there are on any rank, as a list of true and false. Mostly all ranks have the same ones.
  local function reached(group, list, held)
    local letters = {}
    for i in ipairs(list) do letters[i] = given_to(list, held, i) ~= nil and "1" or "0" end
    local pattern = concat(letters)
    local texts = W.compare("backward", group, "gradients of replicated models: " .. W.digest(pattern), true)
    if texts ~= true then
      for _, text in ipairs(texts) do
        if not text:find("^gradients of replicated models: %d+ ") or
          text:match ": (%d+)" ~= W.digest(pattern):match "^%d+" then W.disagree("backward", group, texts) end
      end
      local flags = {}
      for i, letter in ipairs(letters) do flags[i] = tonumber(letter) end
      flags = ty.tensor(flags, { dtype = "i32", device = "cpu" })
      flags = own.all_reduce("backward", flags, { op = "max", group = group })
      letters = flags:totable()
    end
    local some = {}
    for i, letter in ipairs(letters) do some[i] = letter == "1" or letter == 1 end
    return some
  end

  local function add_held(p, g, held)
    if held ~= nil then g = held + g end
    p.grad = g
  end

  --- The gradients of the parameters that any rank has reached, zeros where this one has not; the last ones first, as a
  --- backward pass comes to them.
  local function gradients_of(list, some)
    local given, of = {}, {}
    for i = #list, 1, -1 do
      local p = list[i]
      if some[i] then
        local g = grad_of(p) or ty.zeros(p.shape, { dtype = p.dtype, device = p.device })
        given[#given + 1], of[#of + 1] = g, i
      end
    end
    return given, of
  end

  local function exchange(group, list, held)
    local some = reached(group, list, held)
    local given, of = gradients_of(list, some)
    for _, bucket in ipairs(buckets_of(given, GRADIENTS, ALONE)) do
      split(bucket, own.sum_of("backward", group, join(bucket), "mean"), function(k, part)
        local i = of[bucket.at[k]]
        add_held(list[i], part, held[i])
      end)
    end
    for i, p in ipairs(list) do
      if not some[i] and held[i] ~= nil then p.grad = held[i] end
    end
  end

  --- Whether what a pass gave has a past, which other ranks would not know.
  local function has_graph(held)
    for k, set in ipairs(sets) do
      for i in ipairs(set.list) do
        local g = given_to(set.list, held[k], i)
        if g ~= nil and g.requires_grad then return true end
      end
    end
    return false
  end

  --- After a pass; where it raised, `grad` is what it was before.
  local function finish(held, ok)
    local refused = ok and has_graph(held)
    for k, set in ipairs(sets) do
      if ok and not refused then no_grad(exchange, set.group, set.list, held[k])
      else
        for i, p in ipairs(set.list) do p.grad = held[k][i] end
      end
    end
    if refused then
      check.fail("backward", "create_graph: gradients of replicated models have no gradients themselves")
    end
  end

  --- A list without those of another list.
  local function without(list, others)
    local skip, left = {}, {}
    for _, x in ipairs(others) do skip[x] = true end
    for _, x in ipairs(list) do
      if not skip[x] then left[#left + 1] = x end
    end
    return left
  end

  local numbers, count, serials, last = { [""] = 0 }, 0, setmetatable({}, { __mode = "k" }), 0

  --- The same number for the same parameters in the same groups, 0 for none: a captured pass is one of its sets.
  local function number_of_sets()
    local words = {}
    for _, set in ipairs(sets) do
      words[#words + 1] = "group " .. set.group.number
      for _, p in ipairs(set.list) do
        if not serials[p] then last = last + 1 end
        serials[p] = serials[p] or last
        words[#words + 1] = serials[p]
      end
    end
    local key = concat(words, " ")
    if not numbers[key] then count = count + 1 end
    numbers[key] = numbers[key] or count
    return numbers[key]
  end

  --- From now on passes exchange the gradients of these parameters in this group, if there is one, and in no other one;
  --- where there are none at all, nothing is around them.
  local function set_parameters(list, group)
    local left, own_set = {}, nil
    for _, set in ipairs(sets) do
      local others = without(set.list, list)
      local next_set = { group = set.group, list = others }
      if set.group == group then own_set = next_set end
      if #others > 0 or set.group == group then left[#left + 1] = next_set end
    end
    if group and not own_set then
      own_set = { group = group, list = {} }
      left[#left + 1] = own_set
      table.sort(left, function(a, b) return a.group.number < b.group.number end) -- the same order on all ranks
    end
    for _, p in ipairs(group and list or {}) do own_set.list[#own_set.list + 1] = p end
    sets = left
    ty.internals.grad.exchange_by(#sets > 0 and { hold = hold, finish = finish } or nil, number_of_sets())
  end

  ------------------------------------------------------------------------------------------------------- the models

  --- Names and tensors of all parts of a module.
  local function parts_of(who, m)
    if not nn.is_module(m) then check.fail(who, "argument 1 must be a module, got %s", check.show(m)) end
    local names, list = {}, {}
    nn._walk(require("tycho.tree").behind(m), "", {}, { tensor = function(name, t)
      names[#names + 1], list[#list + 1] = name, t
    end })
    return names, list
  end

  local function copy_into(list, part)
    for i, x in ipairs(list) do x:copy_(part[i]) end
  end

  --- Makes a module one that all ranks train together: it gets the first rank's parameters and buffers, and from now on
  --- each backward pass gives its parameters the mean of the ranks' gradients, summed in the order of ranks: to the bit
  --- those of one process that goes through the ranks' parts of the batch one after the other, and divides. All ranks
  --- make the same backward passes from then on. Buffers, such as the statistics of a batch norm, are each rank's own;
  --- calling it once more makes them the first rank's again. In one process it gives the module, and does nothing.
  --- group: the ranks that train it, where others have other models or other parts of this one.
  --- Raises where the argument is no module, or the ranks' modules differ in names, dtypes or sizes.
  ---@param model tycho.Module the same on all ranks, whatever its numbers are
  ---@param opts? {group: tycho.dist.Group?}
  ---@return tycho.Module # model itself
  function M.replicate(model, opts)
    local who = "replicate"
    opts = check.options(who, opts, { group = "table" })
    local names, list = parts_of(who, model)
    local group = own.group_of(who, opts)
    if #group.ranks == 1 then return model end
    local kinds = {}
    for i, x in ipairs(list) do
      kinds[i] = names[i] .. " " .. own.kind_of(x)
    end
    W.agree(who, group, ("replicate of %d tensors, %s"):format(#list, W.digest(concat(kinds, "; "))))
    no_grad(function()
      for _, bucket in ipairs(buckets_of(list)) do
        local parts = {}
        local whole = own.broadcast(who, join(bucket):detach(), nil, { group = group })
        split(bucket, whole, function(i, part) parts[i] = part end)
        copy_into(bucket, parts)
      end
    end)
    local _, of_model = nn._parameters(model)
    replicas[model] = of_model
    set_parameters(of_model, group)
    return model
  end

  --- Ends what replicate began: the gradients of the module's parameters stay on their rank from now on.
  --- Raises where the module is not replicated.
  ---@param model tycho.Module
  function M.release(model)
    local who = "release"
    if W.open().size == 1 then return end
    local list = replicas[model]
    if not list then check.fail(who, "argument 1 must be a replicated module, got %s", check.show(model)) end
    replicas[model] = nil
    set_parameters(list)
  end

  local inline = ty.internals.grad.inline
  for _, f in ipairs { hold, hold_of, given_to, finish, has_graph, exchange, reached, gradients_of, add_held,
    grad_of } do
    inline[f] = true
  end
end
