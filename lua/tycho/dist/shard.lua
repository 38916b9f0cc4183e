--- dist/shard.lua -- states of optimisers, each on one rank (ZeRO 1): `ty.dist.shard`, `ty.dist.save_checkpoint`.
-- In: an optimiser of the same parameters on all ranks. Out: the same one, which keeps and updates its share of the
-- parameters, and gets the others from their ranks. Raises where ranks differ, and as all exchanges do.
--
-- 1. A parameter belongs to one rank as a whole: to the one with the fewest elements so far, so that all ranks and runs
--    agree. Its update is the one that it would be without, to the bit.
-- 2. The state of what belongs to others is false, which Optimizer:step leaves out.
-- 3. A state_dict is whole on every rank, as that of an optimiser that is not sharded: it loads on any number of ranks,
--    and into an optimiser of one process.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W, C = require "tycho.dist.world", require "tycho.dist.cut"

local type, pairs, ipairs, rawget, tonumber, getmetatable = type, pairs, ipairs, rawget, tonumber, getmetatable
local format, concat, sort = string.format, table.concat, table.sort
local is_tensor = ty.is_tensor

---@param M table ty.dist, which is filled
---@param own table of init.lua and replicate.lua: kind_of, places, broadcast
return function(M, own)
  local places = own.places

  ------------------------------------------------------------------------------------ what each rank has, on all ranks

  --- Vectors of one dtype, of as many elements as counts says, one behind the other.
  local function gather(who, group, x, counts)
    local total, at = 0, {}
    for i, n in ipairs(counts) do
      at[i] = total
      total = total + n
    end
    if total == 0 then return ty.zeros({ 0 }, { dtype = x.dtype }) end
    return W.exchange(who, group, "data", x, places(#counts, function() return 0, counts[group.index] end), x.dtype,
      { total }, places(#counts, function(i) return at[i], counts[i] end))
  end

  local function ones(n)
    local list = {}
    for i = 1, n do list[i] = 1 end
    return list
  end

  --- A number of each rank, on all of them.
  local function counts_of(who, group, n)
    return gather(who, group, ty.tensor({ n }, { dtype = "i64", device = "cpu" }), ones(#group.ranks)):totable()
  end
  own.gather, own.counts_of = gather, counts_of

  --- A text of each rank, on all of them.
  local function gather_texts(who, group, text)
    local bytes = {}
    for i = 1, #text do bytes[i] = text:byte(i) end
    local lengths = counts_of(who, group, #text)
    local all = gather(who, group, ty.tensor(bytes, { dtype = "u8", device = "cpu" }), lengths):totable()
    local texts, from = {}, 0
    for i, n in ipairs(lengths) do
      local letters = {}
      for k = 1, n do letters[k] = string.char(all[from + k]) end
      texts[i], from = concat(letters), from + n
    end
    return texts
  end

  --- Lists of tensors by dtype; the dtypes in order.
  local function by_dtype(list)
    local lists, dtypes = {}, {}
    for _, x in ipairs(list) do
      if not lists[x.dtype] then
        lists[x.dtype] = {}
        dtypes[#dtypes + 1] = x.dtype
      end
      table.insert(lists[x.dtype], x)
    end
    sort(dtypes)
    return lists, dtypes
  end

  --- One vector of tensors; of none an empty one.
  local function join(list, dtype)
    local flat = {}
    for i, x in ipairs(list) do flat[i] = x:detach():reshape(-1) end
    return #flat == 0 and ty.zeros({ 0 }, { dtype = dtype, device = "cpu" }) or ty.cat(flat, 1)
  end

  ---------------------------------------------------------------------------------------------------- who has what

  --- Calls fn(group, j, p, owner) for each parameter of a sharded optimiser.
  local function each(o, fn)
    for g, group in ipairs(o.groups) do
      for j, p in ipairs(group.params) do fn(group, j, p, o.owners[g][j]) end
    end
  end

  local function drop_state(s)
    for _, v in pairs(s or {}) do
      if is_tensor(v) then v:release() end
    end
  end

  --- Gives the parameters of groups from `first` on to ranks, and drops the states of those that are not here.
  local function assign(o, first)
    local group, load = o.shard_group, o.shard_load
    for g = first, #o.groups do
      o.owners[g] = {}
      for j, p in ipairs(o.groups[g].params) do
        local least = 1
        for i = 2, #group.ranks do
          if load[i] < load[least] then least = i end
        end
        load[least] = load[least] + p:numel()
        o.owners[g][j] = least
        if least ~= group.index then
          drop_state(o.groups[g].state[j])
          o.groups[g].state[j] = false
        end
      end
    end
  end

  --- Parameters of each rank by dtype, {dtype, counts, own, others}: what a step exchanges.
  local function layout(o)
    local lists, list = {}, {}
    for i = 1, #o.shard_group.ranks do lists[i] = {} end
    each(o, function(_, _, p, owner)
      table.insert(lists[owner], p)
      list[#list + 1] = p
    end)
    local _, dtypes = by_dtype(list)
    local y = {}
    for k, dtype in ipairs(dtypes) do
      local row = { dtype = dtype, counts = {}, lists = {} }
      for i, mine in ipairs(lists) do
        row.lists[i], row.counts[i] = by_dtype(mine)[dtype] or {}, 0
        for _, p in ipairs(row.lists[i]) do row.counts[i] = row.counts[i] + p:numel() end
      end
      y[k] = row
    end
    return y
  end

  --- After a step: every rank gets what the others have updated.
  local function share(o)
    local group = o.shard_group
    for _, row in ipairs(o.shard_layout) do
      local all, at = gather("step", group, join(row.lists[group.index], row.dtype), row.counts), 1
      for i, list in ipairs(row.lists) do
        for _, p in ipairs(list) do
          local n = p:numel()
          if i ~= group.index then p:copy_(all:narrow(1, at, n):reshape(p.shape)) end
          at = at + n
        end
      end
      all:release()
    end
  end

  ---------------------------------------------------------------------------------------------------- whole states

  --- A parameter's state in a line: its keys in order, each with its number, or its dtype and sizes.
  local function line_of(s)
    local words, tensors = {}, {}
    local keys = {}
    for k in pairs(s) do keys[#keys + 1] = k end
    sort(keys)
    for _, k in ipairs(keys) do
      local v = s[k]
      if is_tensor(v) then
        words[#words + 1], tensors[#tensors + 1] = k .. "=" .. own.kind_of(v), v
      elseif type(v) == "number" then
        words[#words + 1] = format("%s=%.17g", k, v)
      else
        check.fail("state_dict", "%s of a state cannot go to other ranks: it is %s", k, check.show(v))
      end
    end
    return concat(words, " "), tensors
  end

  --- The state that a line tells of; take(dtype, dims) gives its next tensor.
  local function state_of(line, take)
    local s = {}
    for k, v in line:gmatch "(%S-)=(%S+)" do
      local dtype, sizes = v:match "^(%a+%d*)%[(.*)%]$"
      if dtype then
        local dims = {}
        for n in sizes:gmatch "%d+" do dims[#dims + 1] = tonumber(n) end
        s[k] = take(dtype, dims)
      else
        s[k] = tonumber(v)
      end
    end
    return s
  end

  --- All states, as lists by group, on every rank.
  local function whole_states(o)
    local group, lines, tensors = o.shard_group, {}, {}
    each(o, function(g, j, _, owner)
      if owner ~= group.index then return end
      local line, list = line_of(g.state[j])
      lines[#lines + 1] = line
      for _, x in ipairs(list) do tensors[#tensors + 1] = x end
    end)
    local texts = gather_texts("state_dict", group, concat(lines, "\n") .. "\n")
    local counts, dtypes, seen = {}, {}, {}
    for i, text in ipairs(texts) do
      counts[i] = {}
      for line in text:gmatch "([^\n]*)\n" do
        state_of(line, function(dtype, dims)
          local n = 1
          for _, size in ipairs(dims) do n = n * size end
          counts[i][dtype] = (counts[i][dtype] or 0) + n
          if not seen[dtype] then
            seen[dtype] = true
            dtypes[#dtypes + 1] = dtype
          end
        end)
      end
    end
    sort(dtypes)
    local mine, all, at = by_dtype(tensors), {}, {}
    for _, dtype in ipairs(dtypes) do
      local n, from = {}, 1
      for i = 1, #group.ranks do
        n[i] = counts[i][dtype] or 0
        at[i] = at[i] or {}
        at[i][dtype], from = from, from + n[i]
      end
      all[dtype] = gather("state_dict", group, join(mine[dtype] or {}, dtype), n)
    end
    local next_line, states = {}, {}
    for i, text in ipairs(texts) do next_line[i] = text:gmatch "([^\n]*)\n" end
    each(o, function(g, j, _, owner)
      states[g] = states[g] or {}
      states[g][j] = state_of(next_line[owner](), function(dtype, dims)
        local n = 1
        for _, size in ipairs(dims) do n = n * size end
        local from = at[owner][dtype]
        at[owner][dtype] = from + n
        return all[dtype]:narrow(1, from, n):reshape(dims):clone()
      end)
    end)
    return states
  end
  own.whole_states = whole_states

  ----------------------------------------------------------------------------------------------------- the optimiser

  --- Puts states in the place of those that are false, calls fn, and takes them away again.
  local function with_all(o, states, fn)
    each(o, function(g, j, p, owner)
      if owner == o.shard_group.index then return end
      g.state[j] = states and states[g][j] or not states and o.start and o.start(g, p) or {}
    end)
    local ok, y = pcall(fn)
    each(o, function(g, j, _, owner)
      if owner == o.shard_group.index then return end
      if not states then drop_state(g.state[j]) end
      g.state[j] = false
    end)
    if not ok then error(y, 0) end
    return y
  end

  --- Cuts an optimiser's states in shards (ZeRO 1; Rajbhandari and others 2020, arXiv:1910.02054): each rank keeps
  --- those of its share of the parameters, updates these, and gets the others from their ranks, to the bits of an
  --- optimiser that is not cut. Gradients must be the same on all ranks, as those of dist.replicate are. step,
  --- state_dict and load_state_dict are called by all ranks from then on; a state_dict is whole, so a checkpoint
  --- loads on any number of ranks. Where the parameters are parts that dist.fully_shard or dist.tensor_parallel made,
  --- or those of a stage of dist.pipeline, states are, too, and this makes state_dict whole. In one process it gives
  --- the optimiser, and does nothing.
  --- Raises where the argument is no optimiser, or one whose state is that of all parameters (LBFGS); where the ranks'
  --- parameters differ.
  ---@param opt tycho.Optimizer
  ---@return tycho.Optimizer # opt itself
  function M.shard(opt)
    local who = "shard"
    local class = type(opt) == "table" and getmetatable(opt)
    if not class or type(rawget(opt, "groups")) ~= "table" then
      check.fail(who, "argument 1 must be an optimiser of ty.optim, got %s", check.show(opt))
    end
    if class.single or not class.update then
      check.fail(who, "the state of %s is that of all parameters together", class.class_name)
    end
    local world = W.open()
    if world.size == 1 or rawget(opt, "owners") then return opt end
    if C.group_of(opt) then return C.optimizer_states(opt) end
    local pipe = own.pipeline_of(opt)
    if pipe then return own.shard_stages(opt, pipe) end
    local kinds = {}
    for _, g in ipairs(opt.groups) do
      for _, p in ipairs(g.params) do kinds[#kinds + 1] = own.kind_of(p) end
    end
    W.agree(who, world.all, format("shard of %s with %d parameters, %s", class.class_name, #kinds,
      W.digest(concat(kinds, " "))))
    opt.owners, opt.shard_group, opt.shard_load = {}, world.all, {}
    for i = 1, world.size do opt.shard_load[i] = 0 end
    assign(opt, 1)
    opt.shard_layout = layout(opt)

    function opt:step()
      class.step(self)
      ty.no_grad(share, self)
    end
    function opt:add_group(group)
      local n = #self.groups
      class.add_group(self, group)
      assign(self, n + 1)
      self.shard_layout = layout(self)
    end
    function opt:state_dict()
      local states = whole_states(self)
      return with_all(self, states, function() return class.state_dict(self) end)
    end
    function opt:load_state_dict(sd)
      with_all(self, nil, function() class.load_state_dict(self, sd) end)
    end
    return opt
  end

  ------------------------------------------------------------------------------------------------------- checkpoints

  local function has_state(v) return type(v) == "table" and type(v.state_dict) == "function" end

  --- ty.save_checkpoint on several ranks: all of them call it with parts of the same names, the first one writes the
  --- file, and all get its answer. What sharded optimisers keep is collected. ty.load_checkpoint reads the file, on
  --- any number of ranks.
  --- Raises where ranks do not agree on path and names, and what ty.save_checkpoint raises.
  ---@param path string
  ---@param parts table<string, any> such as {model = m, optimizer = opt, loader = l, step = 100}
  ---@return true? ok, string? message
  function M.save_checkpoint(path, parts)
    local world = W.open()
    if world.size == 1 or type(parts) ~= "table" or type(path) ~= "string" then
      return ty.save_checkpoint(path, parts)
    end
    local names, whole = {}, {}
    for name in pairs(parts) do names[#names + 1] = tostring(name) end
    sort(names)
    W.agree("save_checkpoint", world.all, format("save_checkpoint of %s to %q", concat(names, ", "), path))
    for name, part in pairs(parts) do whole[name] = part end
    for _, name in ipairs(names) do
      if has_state(parts[name]) then whole[name] = parts[name]:state_dict() end
    end
    local said = "ok"
    if world.rank == 0 then
      local ran, ok, why = pcall(ty.save_checkpoint, path, whole)
      if not ran then said = "raised " .. tostring(ok) elseif not ok then said = tostring(why) end
    end
    said = gather_texts("save_checkpoint", world.all, said)[1]
    if said == "ok" then return true end
    if said:find "^raised " then error(said:sub(8), 0) end
    return nil, said
  end
end
