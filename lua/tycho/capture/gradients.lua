--- gradients.lua -- gradients as captured code sees them: `grad` of leaves from outside, backward, ty.grad.
-- In: leaves, what a backward pass gave them. Out: values with shadows, effects. Aborts where two tensors are one leaf.
--
-- Operations on leaves are taped in the session as they always are. The backward pass runs there too, by the same code
-- (grad.lua, backward.c), and records what it computes. But a leaf from outside stays as it is:
-- 1. Its gradient is a place, like a field of a table: read once, by an instruction of the program that pushes it
--    or finds that there is none; after that, or after a write, the record kept here answers. It ends as an effect.
-- 2. What backward would have added to a leaf the core hands out (C.gradients), by their slots. It is added here:
--    old + new, as the core does it, untaped.
-- 3. Leaves may be views of one storage, which has one gradient: the place is the storage's, and so is what it holds,
--    in one dim. A leaf sees its part; each reading gives another view, as it does outside.
-- 4. Leaves that have a gradient share memory in later calls as they do now, and with nobody else.
-- 5. The hooks of a leaf from outside are a table that is read from the leaf, by an instruction of the program. Where
--    any leaf has hooks, which is a part of every key, it is read of each leaf that gets a gradient. Hooks that are
--    registered inside belong to tensors that are made inside: nobody else sees them.

local gmatch = string.gmatch
local type, tonumber, ipairs, rawequal = type, tonumber, ipairs, rawequal

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

return function(World)
  --- The record of the place where the storage of a leaf from outside has its gradient: {slot, path, found, known,
  --- value, shadow, written}; nil for other tensors.
  local function place_of(world, t)
    local s = world.objects[t]
    local id, g = world.C.gradient(t)
    if not id then return nil end
    local o = world.gradients[id]
    if o then return o end
    world:tycho(world.C.lone, "lone", { t }, { s }, 1)
    o = { slot = s.slot, path = (s.path or "?") .. ".grad", found = g }
    world.gradients[id] = o
    return o
  end

  --- The gradient now.
  local function read(world, o)
    if o.known then return o.value, o.shadow end
    local g = o.found
    o.known, o.value = true, g
    if g == nil then
      world:emit({ "no_grad", o.slot }, o.path)
      o.was_nil = true
    else
      o.shadow = world:slot(g, { "grad", o.slot }, o.path)
      world.ngradients = world.ngradients + 1
      world:pin(g, o.shadow)
    end
    return g, o.shadow
  end

  local function write(world, o, v, s)
    o.known, o.value, o.shadow = true, v, s
    if o.written then return end
    o.written = true
    world.effects[#world.effects + 1] = { gradient = o }
  end

  --- The effect of a place; nil: it is as it was.
  function World.gradient_effect(o, recipe)
    if o.value == nil and o.was_nil then return nil end
    return { "grad", o.slot, nil, recipe, path = o.path }
  end

  --- t.grad
  function World:gradient(t)
    local o = place_of(self, t)
    if not o then
      if t.requires_grad and select(2, self.C.hooks(t)) then -- it may be kept by one
        self:abort("the gradient of a tensor from outside that is no leaf is read")
      end
      return nil, nil
    end
    local v, s = read(self, o)
    if v == nil then return nil, nil end
    local seen, shadows = self:tycho(self.C.seen, "grad", { t, v }, { self.objects[t], s }, 2)
    return seen[1], shadows[1]
  end

  local function same_kind(a, b)
    local p, q = a.shape, b.shape
    if #p ~= #q or a.dtype ~= b.dtype then return false end
    for i = 1, #p do
      if p[i] ~= q[i] then return false end
    end
    return true
  end

  --- t.grad = v
  function World:set_gradient(t, v, s)
    self:pin(v, s)
    local o = place_of(self, t)
    if v == nil and not o and t.requires_grad and select(2, self.C.hooks(t)) then
      self:abort("the gradient of a tensor from outside that is no leaf is set")
    end
    if v == nil then return o and write(self, o, nil, nil) end
    if not o or not self.is_tensor(v) or not same_kind(t, v) then self:abort("a gradient is set that does not fit") end
    local whole = self:tycho(self.C.whole, "grad", { t, v }, { self.objects[t], s }, 2)[1]
    if whole.requires_grad then self:abort("a gradient that needs a gradient is set") end
    return write(self, o, whole, nil)
  end

  --- The list of a leaf's hooks, read from its slot; nil where it has none.
  local function hooks_at(world, slot, list)
    local s = world.hook_lists[slot]
    if s then return s end
    local leaf = world.slots[slot]
    s = world:slot(list, { "hooks", slot }, (leaf.path or "?") .. "'s hooks")
    s.hooks = true
    world:typed(list, s)
    world.hook_lists[slot] = s
    return s
  end

  --- The shadow of the list of hooks that a backward pass has just handed out, where a leaf from outside has them.
  function World:hooks(list)
    local slot = self.C.hooked()
    return slot and hooks_at(self, slot, list)
  end

  --- What the backward pass that just ended gave to leaves from outside.
  function World:take_gradients()
    local C, modes = self.C, self.core.internals.modes
    local given = self:tycho(C.gradients, "gradients", {}, {}, 0)
    local k = 1
    for slot in gmatch(given[1], "%d+") do
      k = k + 1
      local new = given[k]
      local leaf = self.slots[tonumber(slot)]
      local list, any = C.hooks(leaf.value)
      if any then hooks_at(self, tonumber(slot), list) end
      if new.requires_grad then self:abort("backward with create_graph") end
      local o = place_of(self, leaf.value)
      local old, s = read(self, o)
      if old ~= nil then
        local scope = self:tycho(modes.grad, "mode", { false }, {}, 1)[1]
        new = self:tensor_arith("add", old, s, new, nil)
        self:tycho(modes.leave, "mode", { scope }, {}, 1)
      end
      write(self, o, new, nil)
    end
  end

  --- Two tensors in one memory that are not one tensor: later calls must give two. Those in different memories are told
  --- apart by that.
  local function keep_apart(world, v)
    local s = world.objects[v]
    if not s then return end
    local id = world.core.internals.grad.storage(v)
    local others = world.sharing[id] or {}
    world.sharing[id] = others
    for _, u in ipairs(others) do
      if rawequal(u, v) then return end
      if same_kind(u, v) then world:emit({ "distinct", world.objects[u].slot, s.slot }, s.path) end
    end
    others[#others + 1] = v
  end

  --- Whether a tensor from outside has been met; what ty.grad remembers of the tables and tensors that it has met.
  --- Which object is which the program guards by paths, and of tensors that are different that they stay so.
  function World:memory(what, args, shadows)
    if what == "known" then return { self.objects[args[1]] ~= nil }, {}, 1 end
    local memory = self.memories[args[1]]
    if not memory then
      memory = {}
      self.memories[args[1]] = memory
    end
    local v, s = args[2], shadows[2]
    if type(v) == "table" then
      self:table_of(v, s)
    else
      self:pin(v, s)
      keep_apart(self, v)
    end
    if what == "remember" then
      memory[v] = { args[3], shadows[3] }
      return {}, {}, 0
    end
    local found = memory[v] or {}
    return { found[1] }, { found[2] }, 1
  end
end
