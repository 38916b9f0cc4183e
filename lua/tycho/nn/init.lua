--- nn/init.lua -- modules, layers, losses, initialisers: `ty.nn`.
-- Plain Lua over the functions of Tycho, so that compiled functions see through it. Class names and the meaning of
-- arguments are PyTorch's, but: dims and names of lists count from 1; weights of linear and recurrent layers are
-- [in, out]; sequences are [batch, time, features] unless told otherwise.

local ty = require "tycho"

---@class tycho.nn
local nn = {}

for _, part in ipairs { "module", "start", "layers", "containers", "dropout", "shapes", "vectors", "activations",
  "norms", "padding", "windows", "recurrent", "cells", "attention", "multihead", "transformer", "losses",
  "summary", "hooks", "utils" } do
  require("tycho.nn." .. part)(ty, nn)
end
if type(debug) == "table" then
  ty.internals.name_module = require "tycho.nn.location"(ty, nn)
  ty.internals.located(ty.internals.name_module)
end

return nn
