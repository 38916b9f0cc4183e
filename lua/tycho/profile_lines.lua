--- profile_lines.lua -- what `jit.profile` tells: lines of the user's source, and what their operations cost.
-- In: a profile, its events, the places of operations. Out: a table that prints well. Cannot fail; lines whose source
-- cannot be read have none.

local plan_text = require "tycho.plan_text"
local terminal = require "tycho.terminal"

local ipairs, pairs, tonumber, setmetatable = ipairs, pairs, tonumber, setmetatable
local format, gsub, sub, rep = string.format, string.gsub, string.sub, string.rep
local concat, max, min, sort = table.concat, math.max, math.min, table.sort

local M = {}

---@class tycho.LineProfile
---@field seconds number from the begin to the end of the function
---@field busy number of them, in kernels
---@field lines table[] {file, line, source, seconds, backward, runs, bytes, flops, share}; the hottest first
---@field kernels table[] as those of ty.profile
---@field lost integer events that had no room
local Profile = {}
Profile.__index = Profile

local function add_events(list, sites, row_of)
  local known = {} -- shares by list of places and step
  for _, e in ipairs(list) do
    local shares
    if e.step then
      local by = known[e.sites] or {}
      known[e.sites] = by
      shares = by[e.step]
      if not shares then
        shares = plan_text.shares(e.plan.groups, e.plan.nodes, e.step.node, sites[e.sites] or {})
        by[e.step] = shares
      end
    elseif e.site ~= nil then
      local back = e.site and sub(e.site, 1, 1) == "<"
      shares = { { site = back and sub(e.site, 2) or e.site, share = 1, back = back } }
    end
    for _, s in ipairs(shares or {}) do
      local row, seconds = row_of(s.site), (e.stop - e.begin) * s.share
      row.runs, row.seconds = row.runs + 1, row.seconds + seconds
      if s.back then row.backward = row.backward + seconds end
      row.bytes, row.flops = row.bytes + (e.bytes or 0) * s.share, row.flops + (e.flops or 0) * s.share
    end
  end
end

--- The profile by line.
---@param y table the profile as ty.profile has it
---@param list table[] its events
---@param sites table<integer, (string|false)[]> places of a plan's nodes, by number
---@return tycho.LineProfile
function M.of(y, list, sites)
  local rows, by_site, files = {}, {}, {}
  add_events(list, sites, function(site)
    local row = by_site[site]
    if not row then
      row = { runs = 0, seconds = 0, backward = 0, bytes = 0, flops = 0 }
      if site then row.file, row.line = plan_text.place(site) end
      row.line = tonumber(row.line)
      by_site[site], rows[#rows + 1] = row, row
    end
    return row
  end)
  for _, row in ipairs(rows) do
    row.share = row.seconds / max(y.busy, 1e-12)
    if row.file then
      files[row.file] = files[row.file] or plan_text.read_lines(row.file)
      row.source = files[row.file][row.line]
    end
  end
  sort(rows, function(a, b)
    if a.seconds ~= b.seconds then return a.seconds > b.seconds end
    return (a.line or 0) < (b.line or 0)
  end)
  y.lines = rows
  return setmetatable(y, Profile)
end

--- The same without what makes it print.
---@return table
function Profile:table()
  local y = {}
  for k, v in pairs(self) do y[k] = v end
  return y
end

local function time_text(s)
  if s < 1e-3 then return format("%.1f us", s * 1e6) end
  if s < 1 then return format("%.2f ms", s * 1e3) end
  return format("%.2f s", s)
end

local function bytes_text(n)
  for _, unit in ipairs { { 1e12, "TB" }, { 1e9, "GB" }, { 1e6, "MB" }, { 1e3, "KB" } } do
    if n >= unit[1] then return format("%.1f %s", n / unit[1], unit[2]) end
  end
  return format("%d B", n)
end

local SHOWN, WIDEST, LEAST = 24, 72, 16

--- A line of source without its indentation, cut where it is too wide.
local function source_text(s, widest)
  s = gsub(gsub(s or "", "^%s+", ""), "[%s\r]+$", "")
  return #s > widest and sub(s, 1, widest - 3) .. "..." or s
end

function Profile:__tostring()
  local out = { format("%s, of them %.0f %% in kernels", time_text(self.seconds),
    100 * self.busy / max(self.seconds, 1e-12)) }
  if self.lost > 0 then out[2] = format("%d events had no room: the oldest are missing", self.lost) end
  local table_of, widths = { { "time", "share", "backward", "kernels", "bytes", "place", "line" } }, {}
  for i = 1, min(#self.lines, SHOWN) do
    local r = self.lines[i]
    table_of[i + 1] = { time_text(r.seconds), format("%.0f %%", 100 * r.share),
      r.backward > 0 and format("%.0f %%", 100 * r.backward / r.seconds) or "-", format("%d", r.runs),
      bytes_text(r.bytes),
      r.file and format("%s:%d", gsub(r.file, "^.*[/\\]", ""), r.line) or "elsewhere", r.source or "" }
  end
  local columns = terminal.size(1)
  for _, row in ipairs(table_of) do
    for k = 1, 6 do
      widths[k] = max(widths[k] or 0, #row[k])
    end
  end
  local left = (columns or 1e4) - 13
  for k = 1, 6 do left = left - widths[k] end
  for _, row in ipairs(table_of) do row[7] = source_text(row[7], max(LEAST, min(WIDEST, left))) end
  for _, row in ipairs(table_of) do
    for k, cell in ipairs(row) do
      local room = rep(" ", (widths[k] or 0) - #cell)
      row[k] = k >= 6 and cell .. room or room .. cell
    end
    out[#out + 1] = gsub(concat(row, "  "), " +$", "")
  end
  if #self.lines > SHOWN then out[#out + 1] = format("and %d more", #self.lines - SHOWN) end
  return concat(out, "\n")
end

return M
