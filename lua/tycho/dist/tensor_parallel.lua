--- dist/tensor_parallel.lua -- layers cut over ranks: `ty.dist.tensor_parallel`, `ty.dist.cross_entropy`.
-- In: a module of the same layers on each rank. Out: the same one, with a part of each weight: columns or rows of
-- linear layers, heads of attention, entries of embeddings, classes of a head. Raises where sizes do not divide by
-- the ranks, and as all exchanges do.
--
-- 1. All ranks get the same input and give the same output. What comes in before columns is summed over ranks on its
--    way back, what comes out of rows is summed on its way forth (Shoeybi and others 2019, arXiv:1909.08053): a block
--    of a transformer makes two sums forward and two backward.
-- 2. The bits are those of one process that makes each rank's product by itself and adds them in the order of ranks. An
--    output element of columns, a head, an embedding has the bits of the layer that is not cut.
-- 3. Parameters that are not cut have the same gradients on all ranks, to the bit: nothing is exchanged for them.
-- 4. Random numbers are drawn alike: all ranks of the group have the same seed. A dropout inside of a cut layer draws
--    the same mask for each rank's part.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W, C = require "tycho.dist.world", require "tycho.dist.cut"

local type, pairs, ipairs, setmetatable, getmetatable = type, pairs, ipairs, setmetatable, getmetatable
local format, concat, sort, unpack = string.format, table.concat, table.sort, unpack
local is_tensor = ty.is_tensor
local behind = require("tycho.tree").behind

---@param M table ty.dist, which is filled
---@param own table of init.lua and replicate.lua: kind_of, places, broadcast, all_reduce, group_of
return function(M, own)
  local nn, places = ty.nn, own.places
  local WHO = "tensor_parallel"

  -------------------------------------------------------------------------------------------------- what ranks exchange

  --- Parts of all ranks, [ranks, ...].
  local function parts_of(who, group, x)
    W.agree(who, group, format("%s of a part %s", who, own.kind_of(x)))
    local n, dims, ranks = x:numel(), x.shape, #group.ranks
    table.insert(dims, 1, ranks)
    return W.exchange(who, group, "data", x:detach(), places(ranks, function() return 0, n end), x.dtype, dims,
      places(ranks, function(i) return (i - 1) * n, n end))
  end

  --- The parts of all ranks, along the last dim.
  local function joined(who, group, x) return ty.cat(parts_of(who, group, x):unbind(1), -1) end

  local function own_part(group, x)
    local n = x:size(-1) / #group.ranks
    return x:narrow(-1, (group.index - 1) * n + 1, n):clone()
  end

  local function sum(who, group) return function(x) return own.all_reduce(who, x, { group = group }) end end

  --- Functions of one tensor between all ranks and each: forward, and backward.
  local function crossings(group)
    local backward, forward = sum("backward", group), sum("forward", group)
    return {
      --- The same on all ranks; gradients are summed.
      enter = ty.custom_grad(function(x) return x:clone() end, function(_, g) return backward(g) end),
      --- A sum over ranks; its gradient is each one's.
      leave = ty.custom_grad(forward, function(_, g) return g end),
      --- Parts to the whole last dim.
      join = ty.custom_grad(function(x) return joined("forward", group, x) end, function(_, g)
        return own_part(group, g)
      end),
      --- The whole last dim to parts.
      part = ty.custom_grad(function(x) return own_part(group, x) end, function(_, g)
        return joined("backward", group, g)
      end),
    }
  end

  --------------------------------------------------------------------------------------------------------------- parts

  --- An entry of cut.lua: rank i has along one dim the ranges {{from, n}, ...} that ranges(i) gives, from 0.
  local Part = {}
  Part.__index = Part

  local function pieces(e, x, i)
    local list = {}
    for k, r in ipairs(e.ranges(i)) do list[k] = x:narrow(e.dim, r[1] + 1, r[2]) end
    return list
  end

  function Part.cut(e, x)
    local list = pieces(e, x:detach(), e.group.index)
    return #list == 1 and list[1]:clone() or ty.cat(list, e.dim)
  end

  local function lay(e, x, part, i)
    local at = 1
    for _, piece in ipairs(pieces(e, x, i)) do
      local n = piece:size(e.dim)
      piece:copy_(part:narrow(e.dim, at, n))
      at = at + n
    end
  end
  function Part.lay(e, x, part) lay(e, x, part, e.group.index) end

  function Part.whole(e, who, part)
    local all, x = parts_of(who, e.group, part), ty.empty(e.dims, { dtype = part.dtype, device = part.device })
    for i = 1, #e.group.ranks do lay(e, x, all[i], i) end
    return x
  end

  --- Rank i has the i-th of equal parts.
  local function evenly(n, ranks) return function(i) return { { (i - 1) * n / ranks, n / ranks } } end end

  --------------------------------------------------------------------------------------------------------------- layers

  local styles = {}

  --- n / ranks, which is whole.
  local function share(job, name, what, n)
    local ranks = #job.group.ranks
    if n % ranks ~= 0 then check.fail(WHO, "%s: %d %s do not divide by %d ranks", name, n, what, ranks) end
    return n / ranks
  end

  --- Marks a parameter of a layer as one that is cut; the job does it.
  local function cut(job, owner, key, dim, ranges)
    if owner[key] == nil then return end
    job.cuts[#job.cuts + 1] = { tensor = owner[key], dim = dim, ranges = ranges }
  end

  --- Fields of a layer that change, its forward among them, when all is checked.
  local function change(job, m, fields) job.changes[#job.changes + 1] = { m, fields } end

  local function is_a(m, class)
    local c = getmetatable(m)
    while c do
      if c == class then return true end
      c = rawget(c, "parent")
    end
    return false
  end

  local function expect(name, style, m, class)
    if not is_a(m, class) then
      check.fail(WHO, "%s is %s, and %q is for %s", name, getmetatable(m).class_name, style, class.class_name)
    end
  end

  --- Columns of a linear layer on each rank; its output stays cut, or is joined.
  local function columns(job, name, m, style, after)
    expect(name, style, m, nn.Linear)
    local n = m.outputs
    local each = share(job, name, "outputs", n)
    cut(job, m, "weight", 2, evenly(n, #job.group.ranks))
    cut(job, m, "bias", 1, evenly(n, #job.group.ranks))
    local forward, enter = m.forward, job.cross.enter
    change(job, m, { outputs = each, forward = function(self, x)
      local y = forward(self, is_tensor(x) and enter(x) or x)
      return after and after(y) or y
    end })
  end

  --- Rows of a linear layer; its input is cut already, or here.
  local function rows(job, name, m, style, before)
    expect(name, style, m, nn.Linear)
    local n = m.inputs
    local each = share(job, name, "inputs", n)
    cut(job, m, "weight", 1, evenly(n, #job.group.ranks))
    local leave, cast = job.cross.leave, nn._cast
    change(job, m, { forward = function(self, x)
      if not is_tensor(x) or x.ndim < 1 or x:size(-1) ~= (before and n or each) then
        check.fail("Linear", "the input must be [..., %d], got %s", before and n or each, check.got(x))
      end
      local a, w, b = cast(before and before(x) or x, self.weight, self.bias)
      local y = leave(a:matmul(w))
      return b and y + b or y
    end })
  end

  function styles.columns(job, name, m) columns(job, name, m, "columns", job.cross.join) end
  function styles.classes(job, name, m) columns(job, name, m, "classes") end
  function styles.rows(job, name, m) rows(job, name, m, "rows", job.cross.part) end

  --- Heads of queries, keys and values.
  function styles.heads(job, name, m)
    expect(name, "heads", m, nn.MultiHeadAttention)
    local q, kv, f, ranks = m.heads, m.kv_heads, m.features, #job.group.ranks
    local heads, kv_heads = share(job, name, "heads", q), share(job, name, "heads of keys and values", kv)
    local function ranges(i)
      local a, b = (i - 1) * q * f / ranks, (i - 1) * kv * f / ranks
      return { { a, q * f / ranks }, { q * f + b, kv * f / ranks }, { (q + kv) * f + b, kv * f / ranks } }
    end
    cut(job, m, "in_proj_weight", 2, ranges)
    cut(job, m, "in_proj_bias", 1, ranges)
    rows(job, name .. ".out_proj", m.out_proj, "rows")
    local forward, enter = m.forward, job.cross.enter
    change(job, m, { heads = heads, kv_heads = kv_heads, forward = function(self, ...)
      local n, given, entered = select("#", ...), { ... }, {}
      for i = 1, math.min(n, 3) do -- of one tensor one
        local x = given[i]
        if is_tensor(x) then
          entered[x] = entered[x] or enter(x)
          given[i] = entered[x]
        end
      end
      return forward(self, unpack(given, 1, n))
    end })
  end

  function styles.block(job, name, m)
    expect(name, "block", m, nn.TransformerBlock)
    styles.heads(job, name .. ".self_attn", m.self_attn)
    columns(job, name .. ".linear1", m.linear1, "columns")
    rows(job, name .. ".linear2", m.linear2, "rows")
  end

  --- Entries of an embedding: other ranks' give -0, which changes no bit of a sum.
  function styles.entries(job, name, m)
    expect(name, "entries", m, nn.Embedding)
    local entries, group = m.entries, job.group
    local n = share(job, name, "entries", entries)
    cut(job, m, "weight", 1, evenly(entries, #group.ranks))
    local forward, leave, first = m.forward, job.cross.leave, (group.index - 1) * n
    change(job, m, { forward = function(self, index)
      if not is_tensor(index) or index.dtype == "bool" or index.dtype:find("f", 1, true) then
        return forward(self, index) -- raises
      end
      index = index:to "i64" - first
      if index:numel() > 0 and not index:ge(1 - first):logical_and(index:le(entries - first)):all():item() then
        check.fail("Embedding", "an index is out of range, 1 to %d", entries)
      end
      local here = index:ge(1):logical_and(index:le(n))
      return leave(ty.where(here:unsqueeze(-1), forward(self, ty.where(here, index, 1)), -0.0))
    end })
  end

  ----------------------------------------------------------------------------------------------------------- the model

  --- Modules by path, and the style of each: what the plan names, and blocks and attention that it does not.
  local function styles_of(m, plan)
    local list, named, covered = {}, {}, {}
    for path, style in pairs(plan) do
      if type(style) ~= "string" or not styles[style] then
        check.fail(WHO, "%s: a style must be one of block classes columns entries heads rows, got %s", tostring(path),
          check.show(style))
      end
      named[#named + 1] = path
    end
    sort(named, function(a, b) return tostring(a) < tostring(b) end)
    for _, path in ipairs(named) do
      local part = m:get_submodule(path)
      list[#list + 1], covered[part] = { path, part, plan[path] }, true
    end
    for path, part in m:named_modules() do
      local style = is_a(part, nn.TransformerBlock) and "block" or is_a(part, nn.MultiHeadAttention) and "heads"
      if style and not covered[part] then
        list[#list + 1], covered[part] = { path, part, style }, true
        if style == "block" then covered[part.self_attn] = true end
      end
    end
    if #list == 0 then
      check.fail(WHO, "%s has no TransformerBlock or MultiHeadAttention: name what is to be cut, {path = style}",
        getmetatable(m).class_name)
    end
    return list
  end

  --- What is asked of the ranks before anything is changed.
  local function check_tensors(job, list)
    local words = {}
    for i, e in ipairs(list) do
      local t = e.tensor
      if C.of[t] then check.fail(WHO, "%s is cut already", e.name) end
      for _, c in ipairs(job.cuts) do
        if c.tensor == t and #e.places > 1 then
          check.fail(WHO, "%s stands in %d places: a parameter that is shared cannot be cut", e.name, #e.places)
        end
      end
      words[i] = e.name .. " " .. own.kind_of(t)
    end
    return words
  end

  --- Entries of what is cut, from the job's cuts.
  local function cut_all(job, list)
    local by_tensor, entries = {}, {}
    for _, c in ipairs(job.cuts) do by_tensor[c.tensor] = c end
    for _, e in ipairs(list) do
      local whole, c = e.tensor, by_tensor[e.tensor]
      local first = own.broadcast(WHO, whole:detach(), nil, { group = job.group })
      if c then
        e.dims, e.group, e.dim, e.ranges, e.tensor = whole.shape, job.group, c.dim, c.ranges, nil
        setmetatable(e, Part)
        C.begin(e, e:cut(first))
        entries[#entries + 1] = e
      else
        whole:copy_(first)
      end
      first:release()
    end
    return entries
  end

  --- Cuts a model's layers over ranks, which compute on one batch together (Shoeybi and others 2019,
  --- arXiv:1909.08053). It gets the first rank's numbers. Each nn.TransformerBlock and nn.MultiHeadAttention is cut;
  --- other layers are where the plan names them, by path: "columns" and "rows", of an nn.Linear: parts of its outputs
  --- or of its inputs; "entries" of an nn.Embedding; "classes" of an nn.Linear whose outputs stay cut, for
  --- dist.cross_entropy; "heads" of an nn.MultiHeadAttention; "block". All ranks give it the same input, of the same
  --- random numbers. Its output has the bits of one process that makes each rank's products by itself and sums them
  --- in the order of ranks.
  ---
  --- Optimisers are made afterwards; dist.shard makes their state_dict whole. The model's own is whole, too:
  --- checkpoints load on any number of ranks, and into a model that is not cut. In one process it gives the model.
  --- Raises where the argument is no module, sizes do not divide by the ranks, a path or style is not known, a
  --- parameter is shared, or the ranks do not agree.
  ---@param model tycho.Module
  ---@param plan? table<string, string> such as {embed = "entries", head = "classes"}
  ---@param opts? {group: tycho.dist.Group?}
  ---@return tycho.Module # model itself
  function M.tensor_parallel(model, plan, opts)
    opts = check.options(WHO, opts, { group = "table" })
    local m = behind(model)
    if not nn.is_module(m) then check.fail(WHO, "argument 1 must be a module, got %s", check.show(model)) end
    if plan ~= nil and type(plan) ~= "table" then
      check.fail(WHO, "argument 2 must be a table of styles by path, got %s", check.show(plan))
    end
    local group = own.group_of(WHO, opts)
    local list = styles_of(m, plan or {})
    if #group.ranks == 1 then return model end
    local job = { group = group, cuts = {}, changes = {}, cross = crossings(group) }
    for _, part in ipairs(list) do styles[part[3]](job, part[1], part[2]) end
    local tensors = C.tensors_of(m)
    local words = check_tensors(job, tensors)
    for _, part in ipairs(list) do words[#words + 1] = part[1] .. " " .. part[3] end
    local what = format("%s of %d tensors, %s", WHO, #tensors, W.digest(concat(words, "; ")))
    W.agree(WHO, group, what)
    for _, c in ipairs(job.changes) do
      for k, v in pairs(c[2]) do c[1][k] = v end
    end
    local entries = ty.no_grad(cut_all, job, tensors)
    C.module_states(m, what, group, function() return entries end)
    return model
  end

  ------------------------------------------------------------------------------------------------------------- the loss

  local by_group = setmetatable({}, { __mode = "k" })

  --- Cross entropy of scores whose classes are cut over ranks (a head of style "classes"): the mean over all
  --- positions, the same on all ranks. Sums of exponentials are made of each rank's classes, and added in the order
  --- of ranks. In one process it is ty.cross_entropy with the classes in the last dim.
  --- Raises where scores are no floats, labels no integers of the other dims or out of range, or the ranks do not
  --- agree.
  ---@param scores tycho.Tensor floats [..., classes / ranks]
  ---@param labels tycho.Tensor integers [...], from 1 to classes; the same on all ranks
  ---@param opts? {group: tycho.dist.Group?}
  ---@return tycho.Tensor # no dims
  function M.cross_entropy(scores, labels, opts)
    local who = "cross_entropy"
    opts = check.options(who, opts, { group = "table" })
    check.float(who, 1, scores)
    check.tensor(who, 2, labels)
    local group, n = own.group_of(who, opts), scores:size(-1)
    if #group.ranks == 1 then return ty.cross_entropy(scores, labels) end
    local dims = scores.shape
    dims[#dims] = nil
    if labels.dtype == "bool" or labels.dtype:find("f", 1, true) or concat(labels.shape, " ") ~= concat(dims, " ") then
      check.fail(who, "labels must be integers [%s], got %s", concat(dims, ", "), check.text(labels))
    end
    labels = labels:to "i64"
    local classes = n * #group.ranks
    if labels:numel() == 0 or not labels:ge(1):logical_and(labels:le(classes)):all():item() then
      check.fail(who, "labels must be in 1 to %d", classes)
    end
    by_group[group] = by_group[group] or crossings(group)
    local leave = by_group[group].leave
    local shifted = scores - own.all_reduce(who, scores:detach():max(-1, true), { group = group, op = "max" })
    local total = leave(shifted:exp():sum(-1))
    local index = labels - (group.index - 1) * n
    local here = index:ge(1):logical_and(index:le(n))
    local picked = shifted:gather(-1, ty.where(here, index, 1):unsqueeze(-1)):squeeze(-1)
    return (total:log() - leave(ty.where(here, picked, -0.0))):mean()
  end
end
