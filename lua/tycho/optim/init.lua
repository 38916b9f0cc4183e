--- optim/init.lua -- optimisers, schedules of rates, averages of models: `ty.optim`.
-- In: parameters (a list), or groups of them, {{params = list, lr = ...}, ...}, whose settings override the general
-- ones. opt:step() writes the parameters in place by their `grad`; those without one are left alone.
--
-- opt.groups[i] (opt.param_groups is the same list) holds the settings, to be read and assigned at any time: a new rate
-- needs no other kernels. A setting assigned to the optimiser itself, opt.lr = 0.1, is that of all groups. State is in
-- plain tables: opt.groups[i].state[j] belongs to opt.groups[i].params[j].

local ty = require "tycho"
local check = require("tycho.arguments")(ty)

local M = { _classes = {} } -- of what functions make: their methods are documented

for _, part in ipairs { "optimizer", "rules", "matrix", "lbfgs", "scaler", "schedules", "sequences",
  "averages" } do
  require("tycho.optim." .. part)(ty, M, check)
end

return M
