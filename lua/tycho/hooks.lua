--- hooks.lua -- `tensor:register_hook(fn)`: a function of the user's that sees a tensor's gradient, and may replace it;
-- `tensor:retain_grad()`: the gradient of a tensor that is no leaf is kept, as its `grad`.
-- In: a tensor that requires grad. Out: a handle; remove() takes the hook off. Backward passes call the hooks in the
-- order in which they were registered, once each, when the gradient is complete, before it goes on; of a leaf, before
-- it is added to `grad`. The tape has them (lua_grad.c): no operation costs more while there are none.
--
-- A tensor has one gradient with its views that cover all of it. Captures evaluate hooks of leaves from outside, whose
-- lists they guard, and those that are registered inside on what is made inside (capture/gradients.lua); where one of
-- these could be met by a backward pass outside, the function runs in parts, or as it is.

local type, ipairs, rawequal, getmetatable = type, ipairs, rawequal, getmetatable
local setmetatable, remove = setmetatable, table.remove

---@class tycho.HookHandle
---@field remove fun(self: tycho.HookHandle) takes the hook off; once more does nothing
local Handle = {}
Handle.__index = Handle

function Handle.__tostring() return "hook" end

---@param ty table the module tycho
---@param define function init.lua's
return function(ty, define)
  local core = ty.internals.grad
  local hooks, instead = core.hooks, core.instead
  core.hooks, core.instead = nil, nil
  local check, is_live = require("tycho.arguments")(ty), ty.internals.is_live

  --- Takes the hook off.
  function Handle:remove()
    if type(self) ~= "table" or getmetatable(self) ~= Handle then
      check.fail("remove", "argument 1 must be the handle of a hook, got %s (use handle:remove())", check.show(self))
    end
    for i, entry in ipairs(self.list) do
      if rawequal(entry, self.entry) then
        remove(self.list, i)
        if self.emptied and #self.list == 0 and not self.list.keeps then self.emptied() end
        return
      end
    end
  end

  --- A handle of an entry at the end of a list.
  local function add(list, fn, emptied)
    local entry = { fn = fn }
    list[#list + 1] = entry
    return setmetatable({ list = list, entry = entry, emptied = emptied }, Handle)
  end

  --- A function, or what can be called.
  local function callable(who, fn)
    local meta = type(fn) == "table" and getmetatable(fn)
    if type(fn) == "function" or type(meta) == "table" and meta.__call then return end
    check.fail(who, "argument 1 must be a function, got %s", check.show(fn))
  end

  --- Whether a hook's answer fits the gradient. Sizes are compared, not texts of them: captures follow sizes.
  local function fits(y, g)
    local a, b = y.shape, g.shape
    if y.dtype ~= g.dtype or #a ~= #b then return false end
    for d = 1, #a do
      if a[d] ~= b[d] then return false end
    end
    return true
  end

  ty.internals.hooks = { add = add, callable = callable, fits = fits }

  --- Called by a backward pass (grad.lua's run).
  local function run(back, gradients, dims, list)
    local g = gradients[1]:reshape(dims)
    local given = g
    for _, entry in ipairs { unpack(list) } do
      local y = entry.fn(g)
      if y ~= nil then
        if not is_live(y) or not fits(y, g) then
          check.fail("register_hook", "the hook must give nil or %s, got %s", check.text(g),
            is_live(y) and check.text(y) or check.show(y))
        end
        g = y
      end
    end
    if not rawequal(g, given) then instead(back, g:contiguous()) end
    if list.keeps then list.grad = list.grad and list.grad + g or g:clone() end
  end

  --- Calls fn(g) in each backward pass with the tensor's complete gradient. What fn gives, a tensor of the same dims
  --- and dtype, goes on in its place; nil changes nothing. Several are called in order, each with what the one before
  --- gave. Raises where x requires no grad, or is a view of part of another tensor.
  ---@param x tycho.Tensor
  ---@param fn fun(g: tycho.Tensor): tycho.Tensor?
  ---@return tycho.HookHandle
  local function register_hook(x, fn)
    check.tensor("register_hook", 1, x)
    if type(fn) ~= "function" then
      check.fail("register_hook", "argument 2 must be a function, got %s", check.show(fn))
    end
    local list = hooks(x) or hooks(x, { back = run })
    local of = setmetatable({ x }, { __mode = "v" }) -- a handle keeps no tensor alive
    return add(list, fn, function()
      if of[1] and ty.internals.is_live(of[1]) and of[1].requires_grad then hooks(of[1], false) end
    end)
  end

  --- Keeps the gradient of a tensor that is no leaf: backward passes fill its grad, adding to what is there, after all
  --- of its hooks. A leaf has it anyway. Writes to x keep it: it is the gradient of what x holds then.
  --- Raises where x requires no grad, or is a view of part of another tensor.
  ---@param x tycho.Tensor
  ---@return tycho.Tensor # the same tensor x
  local function retain_grad(x)
    check.tensor("retain_grad", 1, x)
    if x.is_leaf and x.requires_grad then return x end
    local all = ty.is_complex(x) and ty.view_as_real(x) or x
    local list = check.named("retain_grad", "register_hook", hooks, all, { back = run }, true)
    list.keeps = true
    return x
  end

  for _, f in ipairs { add, callable, run, fits, register_hook, retain_grad, Handle.remove } do
    core.inline[f] = true
  end

  define("register_hook", "t", "x, fn",
    "calls fn(g) with x's complete gradient in each backward pass; what it gives replaces g; a handle, to :remove()",
    register_hook)
  define("retain_grad", "t", "x", "keeps the gradient of a tensor that is no leaf: backward fills x.grad; gives x",
    retain_grad)
end
