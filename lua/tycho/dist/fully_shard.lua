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
local W, C = require "tycho.dist.world", require "tycho.dist.cut"

local ipairs, pcall, error, setmetatable = ipairs, pcall, error, setmetatable
local format, concat = string.format, table.concat
local behind = require("tycho.tree").behind

---@param M table ty.dist, which is filled
---@param own table of init.lua and replicate.lua: kind_of, places, broadcast, scatter, others_of, fold, buckets_of ...
return function(M, own)
  local nn, mode = ty.nn, ty.internals.grad.mode
  local places, slice_of = own.places, W.slice

  local entries = C.of
  --- By parameter: that it was cut. By module: its unit.
  local cut, units = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })

  --- What cut.lua asks of an entry.
  local Slice = {}
  Slice.__index = Slice

  -------------------------------------------------------------------------------------------------- whole and slice

  --- The whole of what each rank has a slice of.
  function Slice.whole(e, who, slice)
    local group, ranks = e.group, #e.group.ranks
    if e.n == 0 then return ty.zeros(e.dims, { dtype = slice.dtype, device = slice.device }) end
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
    local y = ty.empty({ count }, { dtype = g.dtype, device = g.device })
    if count > 0 then own.fold("mean", group, y:narrow(1, 1, count), g:narrow(1, at + 1, count), others) end
    return y
  end

  --- Where a tensor's own slice is, as a vector.
  local function view_of(e, x)
    local at, count = slice_of(e.n, #e.group.ranks, e.group.index)
    return x:detach():reshape(-1):narrow(1, at + 1, count)
  end
  function Slice.cut(e, x) return view_of(e, x):clone() end
  function Slice.lay(e, x, slice) view_of(e, x):copy_(slice) end

  --- The function from a slice to its whole, with its gradient.
  local function gather_of(e)
    return ty.custom_grad(function(slice) return e:whole("forward", slice) end, function(_, g)
      W.agree("backward", e.group, e.name_of_gradient)
      return mean_slice("backward", e, g)
    end)
  end

  --------------------------------------------------------------------------------------------------------- the units

  --- Puts the whole parameters, or the slices, in their places.
  local function put(unit, list)
    for i, e in ipairs(unit.entries) do C.put(e, list[i]) end
  end

  local function slices_in(unit)
    local list = {}
    for i, e in ipairs(unit.entries) do list[i] = C.current(e) end
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

  --- Entries of parameters, and the tensors that stay whole.
  local function check_parts(who, list, group)
    local parameters, others, kinds = {}, {}, {}
    for i, e in ipairs(list) do
      local t = e.tensor
      if cut[t] then check.fail(who, "%s is a part of a unit that was cut before, too (make both one unit)", e.name) end
      if entries[t] then check.fail(who, "%s is cut already", e.name) end
      kinds[i] = e.name .. " " .. own.kind_of(t)
      if t.requires_grad and t.is_leaf then
        e.dims, e.n, e.group = t.shape, t:numel(), group
        parameters[#parameters + 1] = setmetatable(e, Slice)
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
      if group.index == 1 then slice = e:cut(whole) end -- without the rest of the memory
      cut[e.tensor] = true
      C.begin(e, slice)
      e.tensor, e.gather = nil, gather_of(e)
      e.name_of_gradient = format("the gradient of %s of %s", e.name, own.kind_of(whole))
    end
  end

  --- A unit and those in it.
  local function all_units(unit, list)
    list[#list + 1] = unit
    for _, u in ipairs(unit.inner) do all_units(u, list) end
    return list
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
    local inner = {}
    local list = C.tensors_of(m, function(part)
      inner[#inner + 1] = units[part]
      return units[part] ~= nil
    end)
    local parameters, others, kinds = check_parts(who, list, group)
    W.agree(who, group, format("%s of %d tensors, %s", who, #list, W.digest(concat(kinds, "; "))))
    ty.no_grad(take_first, who, group, parameters, others)
    local keep = opts.keep
    if keep == nil then keep = #inner > 0 end
    local unit = { module = m, entries = parameters, group = group, keep = keep, forward = m.forward, inner = inner,
      name = format("forward of a unit of %d parameters, %s", #parameters, W.digest(concat(kinds, "; "))) }
    units[m] = unit
    if #parameters > 0 then m.forward = forward_of(unit) end
    C.module_states(m, unit.name, group, function()
      local all = {}
      for _, u in ipairs(all_units(unit, {})) do
        for _, e in ipairs(u.entries) do all[#all + 1] = e end
      end
      return all
    end)
    return model
  end
end
