--- grad_shim.lua -- stands in for reverse mode until it is there: flags and gradients are set by hand.
local ty = require "tycho"
local methods = ty.internals.methods
if methods.requires_grad_ then return end
local mt = debug.getmetatable(ty.zeros(1))
local flags, grads = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })
local index, newindex = mt.__index, mt.__newindex
mt.__index = function(t, k)
  if k == "requires_grad" then return flags[t] == true end
  if k == "is_leaf" then return true end
  if k == "grad" then return grads[t] end
  return index(t, k)
end
mt.__newindex = function(t, k, v)
  if k == "grad" then grads[t] = v else newindex(t, k, v) end
end
function methods.requires_grad_(t, on) flags[t] = on ~= false; return t end
function methods.detach(t) return t end
function ty.no_grad(fn, ...) return fn(...) end
function ty.checkpoint(fn, ...) return fn(...) end
