--- frames.lua -- the stack of functions that are being evaluated.
-- In: a world, whose stack it is. Out: frames: registers, and what became of the function in them; where they stand.
--
-- world.stack holds frames from 1 on and is `depth` high; what lies above has been left and is used again. A frame
-- holds registers twice: R the values, S the shadows. Its caller is "lua" (an instruction of the frame below), "native"
-- (a native function that the frame below has called) or "metamethod". A frame whose locals are still shared with
-- closures when it is used again gets new registers. While a native function runs, stack.caller and stack.site say who
-- called it.

local bytecode = require "tycho.capture.bytecode"

local M = {}

local format, match, find, sub = string.format, string.match, string.find, string.sub
local next, ipairs = next, ipairs

if jit and jit.off then jit.off(true, true) end -- as in evaluate.lua

local MAX_DEPTH = 190

-- Frames -------------------------------------------------------------------------------------------------------------

--- The frame above the running one. Its registers take the arguments.
function M.next(world)
  local stack = world.stack
  local depth = stack.depth + 1
  local frame = stack[depth]
  if not frame then
    if depth > (world.max_depth or MAX_DEPTH) then world:too_deep() end
    frame = { R = {}, S = {}, depth = depth }
    stack[depth] = frame
  elseif frame.open then
    if next(frame.open) then frame.R, frame.S = {}, {} end -- an error has left it
    frame.open = nil
  end
  return frame
end

--- Hands results on to registers from `a`: `wanted` of them, or all when wanted is negative.
function M.take_results(from, R, S, a, wanted, frame)
  local out, out_shadows, count = from.out, from.out_shadows, from.count
  local shift = from.first - a
  if wanted < 0 then
    wanted = count
    frame.multi = count
  end
  local last = a + (wanted < count and wanted or count) - 1
  for k = a, last do R[k], S[k] = out[k + shift], out_shadows[k + shift] end
  for k = last + 1, a + wanted - 1 do R[k], S[k] = nil, nil end
end

--- Gives the cells of registers from `first` on a place of their own.
function M.close_cells(frame, first)
  local open, R, S = frame.open, frame.R, frame.S
  for register, cell in next, open do
    if register >= first then
      cell.values, cell.shadows, cell.index = { R[register] }, { S[register] }, 1
      open[register] = nil
    end
  end
end

--- Drops what a frame holds that has been left. A world that is exact wants so: what is dead can be collected.
function M.clear(frame)
  local R, S = frame.R, frame.S
  if frame.open then M.close_cells(frame, 1) end -- an error has left it
  for k in next, R do R[k], S[k] = nil, nil end
  frame.open, frame.fn, frame.fs, frame.cells, frame.env, frame.envs = nil, nil, nil, nil, nil, nil
  frame.extra, frame.extra_shadows, frame.out, frame.out_shadows = nil, nil, nil, nil
end

-- Where they stand ---------------------------------------------------------------------------------------------------

local home -- where Tycho's own chunks come from, without the separator, which Windows has two of

--- Whether a prototype is of a function of Tycho's.
function M.is_own(proto)
  if home == nil then
    local own = bytecode.prototype(M.next)
    home = own and own.source and match(own.source, "^(@.*)[/\\]capture[/\\]frames%.lua$") or false
  end
  local source = home and proto.source
  return source and sub(source, 1, #home) == home and match(source, "^[/\\]", #home + 1) ~= nil or false
end

local function line_of(frame)
  local lines = frame.proto.lines
  return lines and lines[frame.at]
end

--- "file:line" of a frame, made once for each line.
local function place_of(frame)
  local proto, line = frame.proto, line_of(frame)
  if not line then return proto.short end
  local places = proto.places
  if not places then
    places = {}
    proto.places = places
  end
  local place = places[line]
  if not place then
    place = proto.short .. ":" .. line
    places[line] = place
  end
  return place
end

--- Where the user's code is: "file:line" of the innermost frame that is not Tycho's own. Nil outside of any.
---@param world table
---@return string|nil
function M.where(world)
  local stack = world.stack
  for depth = stack and stack.depth or 0, 1, -1 do
    local proto = stack[depth] and stack[depth].proto -- where memory has run out a frame is not whole
    if proto and not proto.own then return place_of(stack[depth]) end
  end
end

--- The same with the whole name of its file, for profiles. Nil where that is not known.
---@param world table
---@return string|nil
function M.site(world)
  local stack = world.stack
  for depth = stack and stack.depth or 0, 1, -1 do
    local proto = stack[depth] and stack[depth].proto
    if proto and not proto.own then
      local line = line_of(stack[depth])
      if not line then return nil end
      local sites = proto.sites
      if not sites then
        sites = {}
        proto.sites = sites
      end
      if not sites[line] then
        sites[line] = (sub(proto.source, 1, 1) == "@" and sub(proto.source, 2) or proto.short) .. ":" .. line
      end
      return sites[line]
    end
  end
end

--- The evaluated function at a level of the native function that the world is just calling, 1 what has called it. Nil
--- where a native one is there, or none, and the frame below a native one.
---@param world table
---@param level integer
---@return table|nil frame
---@return table|nil below
function M.level(world, level)
  local stack = world.stack
  local caller, site = stack.caller, stack.site -- what has called, and the evaluated function next to it
  for _ = 2, level do
    if caller == "native" then
      caller = "lua"
    else
      caller, site = site and site.caller, site and stack[site.depth - 1]
    end
  end
  if caller == "native" then return nil, site end
  return site, nil
end

--- What `error(message, level)` puts before its message, for the native function that the world is just calling.
---@param world table
---@param level? integer
---@return string
function M.position(world, level)
  local site = M.level(world, level or 1)
  return site and format("%s:%d: ", site.proto.short, line_of(site) or 0) or ""
end

--- Drops what no instruction can ask for any more: frames that have been left, and in the others the registers from the
--- running call on.
---@param world table
function M.forget(world)
  local stack = world.stack
  for depth, frame in ipairs(stack) do
    local R, S = frame.R, frame.S
    if depth <= stack.depth then
      local i = frame.code[frame.at]
      if find(i.name, "^CALL") then
        for k in next, R do
          if k >= i.a then R[k], S[k] = nil, nil end
        end
      end
    else
      M.clear(frame)
    end
  end
end

return M
