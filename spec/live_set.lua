--- live_set.lua -- the least memory that a plan's order of steps leaves it, read off the plan's text.
-- In: the text that jit.explain gives of a trace: graph, groups, plan. Out: bytes that must live at once, and what the plan
-- takes. A value is a node that some step stores. It lives from the step that makes it to the last that reads it, outputs
-- to the end. While a product or a step of the host runs, all that it reads and writes is alive; in a kernel a result may
-- take the place of what dies there, so that what lives before it counts, or what lives behind it, whichever is more.
-- Inputs, and parameters that are overwritten where they lie, are nobody's new memory.

local M = {}

local bytes_of = { bool = 1, u8 = 1, i8 = 1, i16 = 2, i32 = 4, i64 = 8, f16 = 2, bf16 = 2, f32 = 4, f64 = 8 }

local function numbers(text)
  local list = {}
  for n in text:gmatch "%%(%d+)" do list[#list + 1] = tonumber(n) end
  return list
end

--- Nodes by number: {bytes, input = true?}.
local function read_nodes(text)
  local nodes = {}
  for n, op, dtype, dims in text:gmatch "%%(%d+) = ([%w_]+)[^\n]- : (%w+)%[([%d,]*)%]" do
    local bytes = bytes_of[dtype]
    for d in dims:gmatch "%d+" do bytes = bytes * tonumber(d) end
    nodes[tonumber(n)] = { bytes = bytes, input = op == "input" }
  end
  return nodes
end

--- Groups by each node that is theirs: {stores = list, reads = list}.
local function read_groups(text)
  local of = {}
  for line in text:gmatch "group %d+ ([^\n]+)" do
    local members, rest = line:match "^[^:]*: (.-) %-> (.*)$"
    if members then
      local stores, reads = rest:match "^(.-) reads (.*)$"
      local group = { stores = numbers(stores or rest), reads = numbers(reads or "") }
      for _, n in ipairs(numbers(members)) do of[n] = of[n] or group end
      for _, n in ipairs(group.stores) do of[n] = group end
    end
  end
  return of
end

--- What a text says: {steps = nodes, kernels = {[step] = true}, outputs = {[node] = bytes of its own}, arena = bytes,
--- output_bytes = their sum}.
local function read_plan(text)
  local plan = { steps = {}, kernels = {}, outputs = {}, output_bytes = 0 }
  plan.arena = tonumber(text:match "(%d+) in the arena")
  for kind, node in text:gmatch "\n +%d+ +(%a+) +%%(%d+) " do
    plan.steps[#plan.steps + 1] = tonumber(node)
    plan.kernels[#plan.steps] = kind == "kernel"
  end
  for node, bytes, how in text:gmatch "\n +out%d+ +%%(%d+) +(%d+) bytes([^\n]*)" do
    local own = how:find("in place", 1, true) and 0 or tonumber(bytes)
    node = tonumber(node)
    plan.outputs[node] = math.max(plan.outputs[node] or 0, own)
    plan.output_bytes = plan.output_bytes + own
  end
  return plan
end

--- The least bytes that live at once in the order of the plan's steps, and what the plan asks for: arena and outputs.
---@param trace {graph: string, plan: string} as jit.explain gives it
---@return integer least, integer taken, integer step where the least is reached
function M.measure(trace)
  local nodes, of, plan = read_nodes(trace.graph), read_groups(trace.graph), read_plan(trace.plan)
  local first, last = {}, {}
  for i, node in ipairs(plan.steps) do
    local group = of[node]
    for _, n in ipairs(group and group.stores or { node }) do first[n], last[n] = first[n] or i, i end
    for _, n in ipairs(group and group.reads or {}) do
      if last[n] then last[n] = i end
    end
  end
  for node in pairs(plan.outputs) do last[node] = #plan.steps end
  local least, at = 0, 0
  for i = 1, #plan.steps do
    local before, behind, all = 0, 0, 0
    for n, from in pairs(first) do
      local bytes = from <= i and i <= last[n] and (plan.outputs[n] or nodes[n].bytes) or 0
      all = all + bytes
      if from < i then before = before + bytes end
      if i < last[n] or from == i then behind = behind + bytes end
    end
    local alive = plan.kernels[i] and math.max(before, behind) or all
    if alive > least then least, at = alive, i end
  end
  return least, plan.arena + plan.output_bytes, at
end

return M
