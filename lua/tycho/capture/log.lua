--- log.lua -- one line for a compiled function that goes on running its Lua code.
-- In: the record of a compiled function, what its captures come to, why. Out: at most one line for each function, to
-- stderr or to the user's own function. Cannot fail: what that function raises is dropped, but what a debug hook raises
-- meanwhile goes on to the caller. Nothing here runs in calls that a trace answers.
--
-- A function is told of when captures are in vain, and most calls since the one before ran without: so neither a first
-- miss is, nor a function that needs many traces and has use of them, nor one that a print ends now and then.

local format, gsub, find = string.format, string.gsub, string.find
local type, rawget = type, rawget
local getinfo = type(debug) == "table" and debug.getinfo
local silent = type(os) == "table" and os.getenv and os.getenv "TYCHO_LOG" == "0"
local jit_table = rawget(_G, "jit")

local M = {}

--- Captures in a row that failed, and captures in a row whose traces nobody used again, beyond those that are free,
--- from which on they are in vain.
local FAILED, UNUSED = 2, 4

--- Lines that were written: functions that are made anew in a loop are told of once. At most MOST are known.
local said, nsaid, MOST = {}, 0, 1000

--- What the call in progress is called by, which is `level` frames above the caller; else where the function stands.
local function name_of(h, level)
  local info = getinfo and getinfo(level + 1, "n")
  local name = info and info.namewhat ~= "" and info.name
  return name and find(name, "^[%a_][%w_]*$") and name or "the function at " .. h.place
end

--- What jit.log says: false, a function, or nil for stderr.
local function choice()
  local log = type(jit_table) == "table" and rawget(jit_table, "log")
  if log == nil then return not silent end
  return log
end

local function write(text)
  local log = choice()
  if type(log) == "function" then return log(text) end
  if log and type(io) == "table" and io.stderr then io.stderr:write(text, "\n") end
end

--- Whether captures are in vain; to be asked after each, and after each plan for another size.
---@param core table
---@param h table the compiled function's record
---@return boolean
function M.in_vain(core, h)
  local failed, unused, rests, calls, answered = core._vain(h.handle)
  local since, by_traces = calls - (h.tried_calls or calls), answered - (h.tried_answered or answered)
  h.tried_calls, h.tried_answered = calls, answered
  return not h.told and (failed >= FAILED or unused >= UNUSED or rests) and by_traces * 2 < since
end

--- Writes the line. level: frames from the caller to the one that runs in the compiled function's place.
---@param core table
---@param h table
---@param level integer
---@param reason string
---@param remedy? string
---@param at? string "file:line" of what ends captures; that of the function by default
function M.tell(core, h, level, reason, remedy, at)
  h.told = true
  local text = format("tycho: %s: %s runs without compiling: %s%s", at or h.place, name_of(h, level + 1), reason,
    remedy and "; " .. remedy or "")
  text = (gsub(text, "%s*\n%s*", " "))
  if said[text] then return end
  if nsaid == MOST then said, nsaid = {}, 0 end
  said[text], nsaid = true, nsaid + 1
  core.internals.protect(write, text)
end

return M
