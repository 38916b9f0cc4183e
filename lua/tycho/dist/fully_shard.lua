--- dist/fully_shard.lua -- parameters, gradients and states of optimisers in slices, one a rank (ZeRO 2 and 3):
--- `ty.dist.fully_shard`.
-- In: a module on each rank. Out: the same one, whose parameters are this rank's slices, vectors; they are whole
-- while its forward runs. Raises where the modules differ, and as all exchanges do.
--
-- 1. A unit is a module with the parameters that it holds outside of other units. Its forward gathers them, puts them
--    in the places of the slices, and takes them away at the end. Whatever reads a parameter elsewhere reads a slice.
-- 2. To gather is an operation on the tape: its gradient is the mean over ranks, ((g0 + g1) + g2 ...) / ranks, of the
--    rank's slice. So `grad` of a slice has the bits that dist.replicate gives the whole parameter.
-- 3. A unit that keeps its parameters (ZeRO 2) leaves them to the tape until the backward pass has gone through it. One
--    that does not (ZeRO 3) runs by ty.checkpoint: its forward runs again in the backward pass, and gathers again.
-- 4. All ranks run the same units in the same order, forward and backward.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W = require "tycho.dist.world"

local type, pairs, ipairs, rawget, pcall, error = type, pairs, ipairs, rawget, pcall, error
local setmetatable, getmetatable = setmetatable, getmetatable
local format, concat, sort = string.format, table.concat, table.sort
local is_tensor = ty.is_tensor
local behind = require("tycho.tree").behind

---@param M table ty.dist, which is filled
---@param own table of init.lua and replicate.lua: kind_of, places, broadcast, scatter, others_of, fold, buckets_of ...
return function(M, own)
  local nn, mode = ty.nn, ty.internals.grad.mode
  local places, slice_of = own.places, W.slice

  --- By slice: the entry of its parameter. By parameter: that it was cut.
  local entries, cut = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })
  --- By module: its unit.
  local units = setmetatable({}, { __mode = "k" })

  -------------------------------------------------------------------------------------------------- whole and slice

  --- The whole of what each rank has a slice of.
  local function gathered(who, e, slice)
    local group, ranks = e.group, #e.group.ranks
    if e.n == 0 then return ty.zeros(e.dims, { dtype = slice.dtype }) end
    local _, count = slice_of(e.n, ranks, group.index)
    return W.exchange(who, group, "data", slice:detach(), places(ranks, function() return 0, count end), slice.dtype,
      e.dims, places(ranks, function(i) return slice_of(e.n, ranks, i) end))
  end

  --- This rank's slice of the ranks' mean.
  local function mean_slice(who, e, g)
    local group, ranks = e.group, #e.group.ranks
    local at, count = slice_of(e.n, ranks, group.index)
    g = g:reshape(-1)
    local others = own.others_of(who, group, g, function(i) return slice_of(e.n, ranks, i) end)
    local y = ty.empty({ count }, { dtype = g.dtype })
    if count > 0 then own.fold("mean", group, y:narrow(1, 1, count), g:narrow(1, at + 1, count), others) end
    return y
  end

  --- A tensor's own slice, as a vector of its own memory.
  local function own_slice(e, x)
    local at, count = slice_of(e.n, #e.group.ranks, e.group.index)
    return x:detach():reshape(-1):narrow(1, at + 1, count):clone()
  end

  --- The function from a slice to its whole, with its gradient.
  local function gather_of(e)
    return ty.custom_grad(function(slice) return gathered("forward", e, slice) end, function(_, g)
      W.agree("backward", e.group, e.name_of_gradient)
      return mean_slice("backward", e, g)
    end)
  end

  --------------------------------------------------------------------------------------------------------- the units

  --- Puts the whole parameters, or the slices, in their places.
  local function put(unit, list)
    for i, e in ipairs(unit.entries) do
      for _, place in ipairs(e.places) do place[1][place[2]] = list[i] end
    end
  end

  local function slices_in(unit)
    local list = {}
    for i, e in ipairs(unit.entries) do
      local place = e.places[1]
      list[i] = rawget(place[1], place[2])
      entries[list[i]] = e -- m:to makes other ones
    end
    return list
  end

  --- After a unit's forward: its slices again, and its results.
  local function leave(unit, slices, ok, ...)
    local whole = unit.whole
    unit.whole = nil
    put(unit, slices)
    if not unit.keep then
      for _, x in ipairs(whole) do x:release() end -- what the tape or a view holds stays
    end
    if not ok then error((...), 0) end
    return ...
  end

  local function run(unit, ...)
    local slices, whole = slices_in(unit), {}
    W.agree("forward", unit.group, unit.name)
    for i, e in ipairs(unit.entries) do whole[i] = e.gather(slices[i]) end
    unit.whole = whole
    put(unit, whole)
    return leave(unit, slices, pcall(unit.forward, unit.module, ...))
  end

  --- A unit's forward. Inside of itself it is whole.
  local function forward_of(unit)
    local function run_unit(...) return run(unit, ...) end
    return function(self, ...)
      if unit.whole then return unit.forward(self, ...) end
      if unit.keep or not mode() then return run(unit, ...) end
      return ty.checkpoint(run_unit, ...)
    end
  end

  --- Tensors of a module and its tables outside of other units, in the order of the walk, each with all its places;
  --- other units in it.
  local function parts_of(m)
    local list, seen, inner = {}, {}, {}
    local by_tensor = {}
    nn._walk(m, "", {}, { tensor = function(name, t) by_tensor[t] = name end })
    local function visit(t)
      seen[t] = true
      local keys = {}
      for k in pairs(t) do
        if type(k) == "string" or type(k) == "number" then keys[#keys + 1] = k end
      end
      sort(keys, function(a, b)
        if type(a) ~= type(b) then return type(a) == "number" end
        return a < b
      end)
      for _, k in ipairs(keys) do
        local v = behind(rawget(t, k))
        if is_tensor(v) then
          if by_tensor[v] then
            local e = seen[v]
            if not e then
              e = { name = by_tensor[v], tensor = v, places = {} }
              seen[v], list[#list + 1] = e, e
            end
            e.places[#e.places + 1] = { t, k }
          end
        elseif type(v) == "table" and not seen[v] and (getmetatable(v) == nil or nn.is_module(v)) then
          if units[v] then inner[#inner + 1] = units[v] else visit(v) end
        end
      end
    end
    visit(m)
    return list, inner
  end

  --- Entries of parameters, and the tensors that stay whole.
  local function check_parts(who, list, group)
    local parameters, others, kinds = {}, {}, {}
    for i, e in ipairs(list) do
      local t = e.tensor
      if cut[t] then check.fail(who, "%s is a part of a unit that was cut before, too (make both one unit)", e.name) end
      if t.device ~= "cpu" then check.fail(who, "%s must be on the CPU, got %s", e.name, t.device) end
      if entries[t] then check.fail(who, "%s is cut already", e.name) end
      kinds[i] = e.name .. " " .. own.kind_of(t)
      if t.requires_grad and t.is_leaf then
        e.dims, e.n, e.group = t.shape, t:numel(), group
        parameters[#parameters + 1] = e
      else
        others[#others + 1] = t
      end
    end
    return parameters, others, kinds
  end

  --- The first rank's numbers: a slice of each parameter, and all of the other tensors.
  local function take_first(who, group, parameters, others)
    for _, bucket in ipairs(own.buckets_of(others)) do
      own.split(bucket, own.broadcast(who, own.join(bucket):detach(), nil, { group = group }), function(i, part)
        bucket[i]:copy_(part)
      end)
    end
    for _, e in ipairs(parameters) do
      local whole = e.tensor:detach():reshape(-1)
      local slice = e.n == 0 and whole:clone() or own.scatter(who, group, whole, 1)
      if group.index == 1 then slice = own_slice(e, whole) end -- without the rest of the memory
      slice:requires_grad_()
      cut[e.tensor], entries[slice] = true, e
      for _, place in ipairs(e.places) do place[1][place[2]] = slice end
      e.tensor, e.gather = nil, gather_of(e)
      e.name_of_gradient = format("the gradient of %s of %s", e.name, own.kind_of(whole))
    end
  end

  --- For clip_grad_norm_, optimisers and scalers, which must know what a slice is.
  local function tell_others()
    local slices = ty.internals.grad.slices
    slices.of = entries
    --- Whether the gradients of an optimiser are finite on all ranks. finite: nil where there are none.
    function slices.all_finite(opt, finite)
      if not own.has_slices(opt) then return finite end
      if finite == nil then finite = ty.full({}, 1, { dtype = "u8" }):gt(0) end
      return M.all_reduce(finite, { op = "min" })
    end
  end

  local OPTIONS = { keep = "boolean", group = "table" }

  --- Cuts a module's parameters, their gradients and with them the states of optimisers in slices, one a rank
  --- (Rajbhandari and others 2020, arXiv:1910.02054). It gets the first rank's numbers. Its forward gathers the
  --- parameters; a backward pass gives each slice the mean of the ranks' gradients, summed in the order of ranks: to
  --- the bit that of one process which goes through the ranks' parts of the batch one after the other, and divides,
  --- where a forward runs once a pass.
  ---
  --- A unit is gathered as a whole: call it for each block of a model first, then for the model, whose other
  --- parameters are a unit too. By default a block's parameters are freed after its forward, which runs once more in
  --- the backward pass (ZeRO 3); those of a module that has other units in it, or where keep = true, stay until the
  --- backward pass has used them (ZeRO 2). Optimisers are made afterwards; dist.shard makes their state_dict whole.
  --- All ranks call forward and backward alike, and state_dict and load_state_dict of the module that was cut last:
  --- both of whole tensors, so a checkpoint loads on any number of ranks. Frozen parameters and buffers stay whole.
  --- In one process it gives the module.
  --- Raises where the argument is no module, the ranks' modules differ, or a parameter is one of another unit, too.
  ---@param model tycho.Module the same on all ranks, whatever its numbers are
  ---@param opts? {keep: boolean?, group: tycho.dist.Group?}
  ---@return tycho.Module # model itself
  function M.fully_shard(model, opts)
    local who = "fully_shard"
    opts = check.options(who, opts, OPTIONS)
    local m = behind(model)
    if not nn.is_module(m) then check.fail(who, "argument 1 must be a module, got %s", check.show(model)) end
    local group = own.group_of(who, opts)
    if #group.ranks == 1 then return model end
    if units[m] then check.fail(who, "the module was cut before: %s", tostring(m):match "[^\n]*") end
    local list, inner = parts_of(m)
    local parameters, others, kinds = check_parts(who, list, group)
    W.agree(who, group, format("%s of %d tensors, %s", who, #list, W.digest(concat(kinds, "; "))))
    ty.no_grad(take_first, who, group, parameters, others)
    local keep = opts.keep
    if keep == nil then keep = #inner > 0 end
    local unit = { module = m, entries = parameters, group = group, keep = keep, forward = m.forward, inner = inner,
      name = format("forward of a unit of %d parameters, %s", #parameters, W.digest(concat(kinds, "; "))) }
    units[m] = unit
    if #parameters > 0 then m.forward = forward_of(unit) end
    own.whole_states(m, unit)
    tell_others()
    return model
  end

  ------------------------------------------------------------------------------------------------------ whole states

  --- Calls fn while the places of all units hold what whole(e, slice) gives.
  local function with_whole(unit, whole, fn)
    local all, slices = { unit }, {}
    local at = 1
    while all[at] do
      for _, u in ipairs(all[at].inner) do all[#all + 1] = u end
      at = at + 1
    end
    for i, u in ipairs(all) do
      slices[i] = slices_in(u)
      local list = {}
      for k, e in ipairs(u.entries) do list[k] = whole(e, slices[i][k]) end
      put(u, list)
    end
    local ok, y, z = pcall(fn, all, slices)
    for i, u in ipairs(all) do put(u, slices[i]) end
    if not ok then error(y, 0) end
    return y, z
  end

  --- state_dict and load_state_dict of a module in units: whole tensors.
  function own.whole_states(m, unit)
    local class = getmetatable(m)
    function m:state_dict()
      W.agree("state_dict", unit.group, "state_dict of " .. unit.name)
      return (with_whole(unit, function(e, slice) return gathered("state_dict", e, slice) end, function()
        return class.state_dict(self)
      end))
    end
    function m:load_state_dict(sd, opts)
      return with_whole(unit, function(e, slice)
        -- what a lenient load leaves out keeps its slice
        local x = ty.zeros(e.dims, { dtype = slice.dtype })
        local at, count = slice_of(e.n, #e.group.ranks, e.group.index)
        ty.no_grad(function() x:reshape(-1):narrow(1, at + 1, count):copy_(slice:detach()) end)
        return x
      end, function(all, slices)
        local missing, unexpected = class.load_state_dict(self, sd, opts)
        for i, u in ipairs(all) do
          for k, e in ipairs(u.entries) do
            local place = e.places[1]
            ty.no_grad(slices[i][k].copy_, slices[i][k], own_slice(e, rawget(place[1], place[2])))
          end
        end
        return missing, unexpected
      end)
    end
    function m.to()
      check.fail("to", "the parameters of this module are cut (call to before dist.fully_shard)")
    end
  end

  --- A state of an optimiser with what it has of slices made whole, or cut: turn(e, tensor, key), on all ranks in the
  --- same order.
  local function turned(p, s, turn)
    local e, y, keys = entries[p], {}, {}
    for k in pairs(s) do keys[#keys + 1] = k end
    sort(keys)
    for _, k in ipairs(keys) do y[k] = e and is_tensor(s[k]) and turn(e, s[k], k) or s[k] end
    return y
  end

  local function turn_states(opt, sd, turn)
    local groups = {}
    for i, g in ipairs(sd.groups) do
      local copy = {}
      for k, v in pairs(g) do copy[k] = v end
      copy.state = {}
      for j, s in ipairs(g.state) do
        local p = opt.groups[i] and opt.groups[i].params[j]
        copy.state[j] = p and type(s) == "table" and turned(p, s, turn) or s
      end
      groups[i] = copy
    end
    return { groups = groups }
  end

  local function same_dims(x, dims)
    local a = x.shape
    for d = 1, math.max(#a, #dims) do
      if a[d] ~= dims[d] then return false end
    end
    return true
  end

  --- Whether an optimiser's parameters are slices: all of them, or none.
  function own.has_slices(opt)
    for _, g in ipairs(opt.groups) do
      for _, p in ipairs(g.params) do
        if entries[p] then return true end
      end
    end
    return false
  end

  --- Makes state_dict and load_state_dict of an optimiser of slices those of whole parameters.
  function own.shard_slices(opt)
    local class = getmetatable(opt)
    function opt:state_dict()
      return turn_states(self, class.state_dict(self), function(e, v, key)
        local _, count = slice_of(e.n, #e.group.ranks, e.group.index)
        if not same_dims(v, { count }) then return v end
        W.agree("state_dict", e.group, format("state_dict: %s of %s, %s", key, e.name, v.dtype))
        return gathered("state_dict", e, v)
      end)
    end
    function opt:load_state_dict(sd)
      if type(sd) == "table" and type(sd.groups) == "table" then
        sd = turn_states(self, sd, function(e, v) return same_dims(v, e.dims) and own_slice(e, v) or v end)
      end
      class.load_state_dict(self, sd)
    end
    return opt
  end

  ---------------------------------------------------------------------------------------------------------- clipping

  --- ty.clip_grad_norm_ where parameters are slices: scales the gradients so that the p-norm of all of them, on all
  --- ranks, is at most `limit`. Each gradient is gathered, one at a time, so the norm has the bits of one process.
  --- Other parameters count as the same on all ranks. All ranks call it alike.
  --- Raises where the parameters are no tensors, a number is negative, or the ranks do not agree.
  ---@param params tycho.Tensor|tycho.Tensor[] those without a gradient are passed over
  ---@param limit number
  ---@param p? number 2
  ---@return tycho.Tensor # the norm before, no dims
  function M.clip_grad_norm_(params, limit, p)
    local who = "clip_grad_norm_"
    return ty.internals.grad.slices.clip(params, limit, p, function(x, g, power)
      local e = entries[x]
      if not e then return g:norm(power) end
      W.agree(who, e.group, format("%s of %s", who, e.name))
      local whole = gathered(who, e, g)
      local norm = whole:norm(power)
      whole:release()
      return norm
    end)
  end
end
