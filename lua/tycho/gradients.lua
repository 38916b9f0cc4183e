--- gradients.lua -- gradients as captured code sees them: `grad` of leaves from outside, backward, ty.grad.
-- In: leaves, what a way back gave them. Out: values with shadows, effects. Aborts where two tensors are one leaf.
--
-- Operations on leaves are taped in the session as they always are. The way back runs there too, by the same code
-- (grad.lua, grad.c), and records what it computes. But a leaf from outside stays as it is:
-- 1. Its gradient is a place, like a field of a table: read once, by an instruction of the program that pushes it
--    or finds that there is none; after that, or after a write, the record kept here answers. It ends as an effect.
-- 2. What backward would have added to a leaf the core hands out (C.gradients), by their slots. It is added here:
--    old + new, as the core does it, untaped.
-- 3. Reading gives another view of the gradient each time, as it does outside; they share its memory.
-- 4. A leaf may be a view: what it has is seen by its own dims, and ends as the gradient of all that its storage holds.
-- 5. Leaves that have a gradient are alone: a later call in which two of them share memory is none of the trace's.

local type, tonumber = type, tonumber

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua: captures are short

return function(World)
  --- The record of the place where a leaf from outside has its gradient: {slot, found, known, value, shadow, written};
  --- nil for other tensors.
  local function place_of(world, t)
    local o = world.gradients[t]
    if o then return o end
    local C, s = world.C, world.objects[t]
    local id, g = C.gradient(t)
    if not id then return nil end
    if world.gradient_places[id] then world:abort("a leaf is known by two tensors, and its gradient is used") end
    world.gradient_places[id] = true
    world:tycho(C.lone, "lone", { t }, { s }, 1)
    o = { slot = s.slot, path = (s.path or "?") .. ".grad", found = g }
    world.gradients[t] = o
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
      o.base, o.base_shadow = g, o.shadow
    end
    return g, o.shadow
  end

  local function write(world, o, v, s)
    o.known, o.value, o.shadow = true, v, s
    if o.written then return end
    o.written = true
    world.effects[#world.effects + 1] = { gradient = o }
  end

  --- What the leaf is to hold, as its storage lies, and its shadow.
  function World:whole_gradient(o)
    if o.value == nil then return nil, o.shadow end
    local leaf = self.slots[o.slot]
    local whole, shadows = self:tycho(self.C.whole, "grad", { leaf.value, o.value, o.base },
      { leaf, o.shadow, o.base and o.base_shadow }, 3)
    if rawequal(whole[1], o.value) then return o.value, o.shadow end
    return whole[1], shadows[1]
  end

  --- The effect of a place; nil: it is as it was.
  function World.gradient_effect(o, recipe)
    if o.value == nil and o.was_nil then return nil end
    return { "grad", o.slot, nil, recipe, path = o.path }
  end

  --- t.grad
  function World:gradient(t)
    local o = place_of(self, t)
    if not o then return nil, nil end
    local v, s = read(self, o)
    if v == nil then return nil, nil end
    if o.handed ~= v then
      o.handed = v
      return v, s
    end
    local views, shadows = self:tycho(self.C.alias, "grad", { v }, { s }, 1)
    return views[1], shadows[1]
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
    if o then o.base = nil end
    if v == nil then return o and write(self, o, nil, nil) end
    if not o or not self.is_tensor(v) or not same_kind(t, v) then self:abort("a gradient is set that does not fit") end
    local copy = self:tycho(self.core.internals.methods.clone, "clone", { v }, { s }, 1)[1]
    if copy.requires_grad then self:abort("a gradient that needs a gradient is set") end
    return write(self, o, copy, nil)
  end

  --- What the way back that just ended gave to leaves from outside.
  function World:take_gradients()
    local C, modes = self.C, self.core.internals.modes
    local given = self:tycho(C.gradients, "gradients", {}, {}, 0)
    local k = 1
    for slot in given[1]:gmatch("%d+") do
      k = k + 1
      local new = given[k]
      if new.requires_grad then self:abort("backward with create_graph") end
      local o = place_of(self, self.slots[tonumber(slot)].value)
      local old, s = read(self, o)
      if old ~= nil then
        local scope = self:tycho(modes.grad, "mode", { false }, {}, 1)[1]
        new = self:tensor_arith("add", old, s, new, nil)
        self:tycho(modes.leave, "mode", { scope }, {}, 1)
      end
      write(self, o, new, nil)
    end
  end

  --- What ty.grad remembers of the tables and tensors that it has met. Which object is which the program guards by
  --- paths, and of tensors that are different that they stay so.
  function World:memory(what, args, shadows)
    local memory = self.memories[args[1]]
    if not memory then
      memory = {}
      self.memories[args[1]] = memory
    end
    local v, s = args[2], shadows[2]
    if type(v) == "table" then self:table_of(v, s) else self:pin(v, s) end
    if what == "remember" then
      memory[v] = { args[3], shadows[3] }
      return {}, {}, 0
    end
    local found = memory[v] or {}
    return { found[1] }, { found[2] }, 1
  end
end
