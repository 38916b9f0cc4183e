--- dist/cut.lua -- tensors of which each rank has a part: where they are, and states of whole ones.
-- In: entries, one for each parameter that dist.fully_shard or dist.tensor_parallel has cut. Out: state_dict and
-- load_state_dict of modules and optimisers that give and take whole tensors, the same on all ranks; so a checkpoint
-- loads on any number of ranks. What must know of parts, such as clipping and scaling, finds them here.
--
-- An entry: name, group, dims of the whole tensor, part: the dims of this rank's; places: {table, key} where it
-- stands; whole(who, x), the whole of what each rank has a part x of, which all ranks call; cut(x), this rank's part.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)
local W = require "tycho.dist.world"

local type, pairs, ipairs, rawget, pcall, error = type, pairs, ipairs, rawget, pcall, error
local setmetatable, getmetatable, sort, format = setmetatable, getmetatable, table.sort, string.format
local is_tensor = ty.is_tensor
local behind = require("tycho.tree").behind
local slices = ty.internals.grad.slices

local C = { of = setmetatable({}, { __mode = "k" }) } -- by part: its entry

--- The tensor that stands in an entry's places now.
function C.current(e)
  local place = e.places[1]
  local x = rawget(place[1], place[2])
  C.of[x] = e
  return x
end

--- Puts a tensor in all places of an entry.
function C.put(e, x)
  for _, place in ipairs(e.places) do place[1][place[2]] = x end
end

--- Begins to know a part: a leaf that requires grad, in the places of the whole tensor.
function C.begin(e, x)
  x:requires_grad_()
  e.part, C.of[x] = x.shape, e
  C.put(e, x)
  slices.of = C.of
end

local function same_dims(x, dims)
  local a = x.shape
  for d = 1, math.max(#a, #dims) do
    if a[d] ~= dims[d] then return false end
  end
  return true
end

---------------------------------------------------------------------------------------------------- tensors of modules

local function by_key(a, b)
  if type(a) ~= type(b) then return type(a) == "number" end
  return a < b
end

--- Tensors of a module and its tables, {name, tensor, places}, in the order of the walk. skip(module): it is left out.
function C.tensors_of(m, skip)
  local nn, list, seen, names = ty.nn, {}, {}, {}
  nn._walk(m, "", {}, { tensor = function(name, t) names[t] = name end })
  local function visit(t)
    seen[t] = true
    local keys = {}
    for k in pairs(t) do
      if type(k) == "string" or type(k) == "number" then keys[#keys + 1] = k end
    end
    sort(keys, by_key)
    for _, k in ipairs(keys) do
      local v = behind(rawget(t, k))
      if is_tensor(v) and names[v] then
        local e = seen[v]
        if not e then
          e = { name = names[v], tensor = v, places = {} }
          seen[v], list[#list + 1] = e, e
        end
        e.places[#e.places + 1] = { t, k }
      elseif type(v) == "table" and not seen[v] and (getmetatable(v) == nil or nn.is_module(v)) then
        if not (skip and skip(v)) then visit(v) end
      end
    end
  end
  visit(m)
  return list
end

---------------------------------------------------------------------------------------------------------- whole states

--- Calls fn(entries, parts) while the places of the entries hold what whole(e, part) gives.
local function with_whole(entries, whole, fn)
  local parts = {}
  for i, e in ipairs(entries) do
    parts[i] = C.current(e)
    C.put(e, whole(e, parts[i]))
  end
  local ok, y, z = pcall(fn, entries, parts)
  for i, e in ipairs(entries) do C.put(e, parts[i]) end
  if not ok then error(y, 0) end
  return y, z
end

--- The whole of what is known of it here: zeros elsewhere.
local function widened(e, part)
  local x = ty.zeros(e.dims, { dtype = part.dtype, device = part.device })
  ty.no_grad(e.lay, e, x, part:detach())
  return x
end

--- state_dict and load_state_dict of a module become those of whole tensors. what: how ranks name it to each other;
--- entries_of(): all that are cut in it.
function C.module_states(m, what, group, entries_of)
  local class = getmetatable(m)
  function m:state_dict()
    W.agree("state_dict", group, "state_dict of " .. what)
    return (with_whole(entries_of(), function(e, part) return e:whole("state_dict", part) end, function()
      return class.state_dict(self)
    end))
  end
  function m:load_state_dict(sd, opts)
    -- what a lenient load leaves out stays
    return with_whole(entries_of(), widened, function(entries, parts)
      local missing, unexpected = class.load_state_dict(self, sd, opts)
      ty.no_grad(function()
        for i, e in ipairs(entries) do
          local place = e.places[1]
          parts[i]:copy_(e:cut(rawget(place[1], place[2])))
        end
      end)
      return missing, unexpected
    end)
  end
  function m.to() check.fail("to", "the parameters of this module are cut (call to before)") end
end

--- A state of an optimiser with what it has of parts made whole, or cut: turn(e, tensor, key), on all ranks in the same
--- order.
local function turned(p, s, turn)
  local e, y, keys = C.of[p], {}, {}
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

--- Whether some of an optimiser's parameters are parts: the group of the ranks that have the others.
function C.group_of(opt)
  for _, g in ipairs(opt.groups) do
    for _, p in ipairs(g.params) do
      if C.of[p] then return C.of[p].group end
    end
  end
end

--- Makes state_dict and load_state_dict of an optimiser of parts those of whole parameters.
function C.optimizer_states(opt)
  local class = getmetatable(opt)
  function opt:state_dict()
    return turn_states(self, class.state_dict(self), function(e, v, key)
      if not same_dims(v, e.part) then return v end
      W.agree("state_dict", e.group, format("state_dict: %s of %s, %s", key, e.name, v.dtype))
      return e:whole("state_dict", v)
    end)
  end
  function opt:load_state_dict(sd)
    if type(sd) == "table" and type(sd.groups) == "table" then
      sd = turn_states(self, sd, function(e, v) return same_dims(v, e.dims) and e:cut(v) or v end)
    end
    class.load_state_dict(self, sd)
  end
  return opt
end

return C
