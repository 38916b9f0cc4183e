--- repl/history.lua -- what was typed, in a file.
-- In: inputs. Out: those of earlier sessions. Each is written when it is entered, so that nothing is lost with the
-- process. The file is TYCHO_HISTORY, else ~/.tycho_history; where it cannot be written, there is none. It is made so
-- that nobody but its owner can read it.
--
-- A line holds an input: a line's end in it is written \n, a backslash \\.

local M = {}
M.__index = M

local MOST = 5000 -- inputs that are kept; the file is cut when it has twice as many

local function encode(text) return (text:gsub("\\", "\\\\"):gsub("\n", "\\n")) end
local function decode(line) return (line:gsub("\\(.)", function(c) return c == "n" and "\n" or c end)) end

local function default_path()
  local path, home = os.getenv "TYCHO_HISTORY", os.getenv "HOME"
  if path then return path ~= "" and path or nil end
  return home and home ~= "" and home .. "/.tycho_history" or nil
end

--- Opens a file to write; where it is made, it is its owner's alone.
local function open_private(path, mode)
  local found, ffi = pcall(require, "ffi")
  local masks = found and pcall(ffi.cdef, "unsigned umask(unsigned mask);")
  local was = masks and ffi.C.umask(63) -- 077
  local file = io.open(path, mode)
  if was then ffi.C.umask(was) end
  return file
end

--- Cuts the file by writing another one that takes its place.
local function cut(path, list)
  local fresh = path .. ".new"
  os.remove(fresh)
  local file = open_private(fresh, "w")
  if not file then return end
  for _, text in ipairs(list) do file:write(encode(text), "\n") end
  if file:close() then os.rename(fresh, path) end
end

--- Reads the file.
---@return table
function M.open()
  local self = setmetatable({ path = default_path(), list = {} }, M)
  local file = self.path and io.open(self.path, "r")
  if not file then return self end
  local all = {}
  for line in file:lines() do all[#all + 1] = decode(line) end
  file:close()
  for i = math.max(1, #all - MOST + 1), #all do self.list[#self.list + 1] = all[i] end
  if #all > 2 * MOST then cut(self.path, self.list) end
  return self
end

--- Notes an input, unless it is the last one again.
---@param text string
---@return boolean whether it is new
function M:add(text)
  if not text:find "%S" or self.list[#self.list] == text then return false end
  self.list[#self.list + 1] = text
  local file = self.path and open_private(self.path, "a")
  if file then
    file:write(encode(text), "\n")
    file:close()
  end
  return true
end

return M
