--- plan_text.lua -- the text of a plan's passes, read: which operations each of its steps computes, of which lines.
-- In: the text that jit.explain shows as a trace's graph. Out: tables. Cannot fail; what is not understood is left out.

local ipairs, tonumber = ipairs, tonumber
local gmatch, match, sub = string.gmatch, string.match, string.sub

local M = {}

--- What an element of these costs beside one of an addition, roughly: of a kernel's time its lines get shares by that.
--- Functions that are not exact are expansions: so many primitives.
local COST, EXPANSION = { pow = 40, div = 3, sqrt = 4, random = 10 }, 20
for _, row in ipairs(require("tycho").internals.probe.ops()) do
  if row.class == "map" and row.bound > 0 then COST[row.name] = COST[row.name] or EXPANSION end
end
local FREE = { input = true, const = true, scalar = true, view = true, param = true }
local FLOPS = 4 -- of a product, in the time of an addition

local function elements(dims)
  local n = 1
  for size in gmatch(dims, "%d+") do n = n * tonumber(size) end
  return n
end

local function last_size(dims) return tonumber(match(dims, "(%d+)%]$")) or 1 end

--- The nodes of a plan's text by number: {op, dims, elements (that it looks at), flops (of a product)}.
local function nodes_of(text)
  local nodes = {}
  for number, op, rest, dims in gmatch(text, "\n?%%(%d+) = (%w+)([^\n]-) : %w+(%b[])") do
    local n = { op = op, elements = elements(dims), dims = dims }
    local from = nodes[tonumber(match(rest, "^ %%(%d+)"))]
    if op == "matmul" and from then n.flops = 2 * n.elements * last_size(from.dims) end
    if from and from.elements > n.elements and op ~= "view" and op ~= "gather" then n.elements = from.elements end
    nodes[tonumber(number)] = n
  end
  return nodes
end

--- The groups of a plan's text by root and outputs: {ops (names of the operations), nodes (their numbers), program}.
---@return table groups, table nodes
function M.groups(text)
  local nodes, groups, by_number = nodes_of(text), {}, {}
  for number, head in gmatch(text, "group (%d+) ([^\n]*)") do
    local list, outs = match(head, ":(.-)%->([^a-z]*)")
    local group = { ops = {}, nodes = {} }
    for node in gmatch(list or "", "%%(%d+)") do
      local n = nodes[tonumber(node)]
      if n and not FREE[n.op] then
        group.ops[#group.ops + 1], group.nodes[#group.nodes + 1] = n.op, tonumber(node)
      end
    end
    by_number[number] = group
    for node in gmatch(outs or "", "%%(%d+)") do groups[tonumber(node)] = group end
  end
  local at
  for line in gmatch(text, "[^\n]+") do
    local number = match(line, "^program of group (%d+)")
    if number then at = by_number[number] end
    if at then at.program = (at.program or "") .. line .. "\n" end
  end
  return groups, nodes
end

--- Of a step's time the shares of the places where its operations stand: a list of {site, share, back}, whose shares
--- are 1 together. back: of a backward pass. A place that is not known is false.
---@param root integer the step's node
---@param sites (string|false)[] by node + 1: "file:line", behind "<" where it is of a backward pass
function M.shares(groups, nodes, root, sites)
  local weights, order, total = {}, {}, 0
  local function add(node, weight)
    local site = sites[node + 1] or false
    if not weights[site] then weights[site], order[#order + 1] = 0, site end
    weights[site], total = weights[site] + weight, total + weight
  end
  local group = groups[root]
  for _, node in ipairs(group and group.nodes or {}) do
    local n = nodes[node]
    add(node, n.flops and n.flops / FLOPS or n.elements * (COST[n.op] or 1))
  end
  if total == 0 then -- a copy, or of a plan without a text
    add(root, 1)
    total = weights[order[1]]
  end
  for i, site in ipairs(order) do
    local back = site and sub(site, 1, 1) == "<"
    order[i] = { site = back and sub(site, 2) or site, share = weights[site] / total, back = back or false }
  end
  return order
end

--- Texts of chunks that stand in no file, by name: the prompt's inputs.
M.texts = {}

--- The lines of a file or a text; none where it cannot be read.
function M.read_lines(path)
  local text, lines = M.texts[path], {}
  if not text then
    local file = io and io.open and io.open(path, "r")
    text = file and file:read "*a"
    if file then file:close() end
  end
  for line in gmatch(text and text .. "\n" or "", "([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

--- "file", line of a site.
function M.place(site) return match(site, "^(.*):(%d+)$") end

return M
