--- graph_match.lua -- patterns of nodes: what they look like, and how they are matched.
-- In: a pattern as text or table, and a node. Out: a table of the nodes that its names stand for, or nil. Texts that
-- are no pattern raise at the user's line.
--
-- As text:
--   add(mul(?x, ?y), ?z)    operations with their operands; ?name is any node, twice the same name the same node
--   sum                     a node of that operation, whatever its operands
--   _                       any node          2.5    a constant of that value in every element
--   ?m = matmul(?x, ?w)     a name for the node of a pattern
-- As a table: { "add", pattern, pattern, as = name, dtype = name, where = function(node) ... end }: the operation and
-- the patterns of all operands, or of none. A function is a pattern too: it is given the node and says whether it
-- matches. Operands of operations that commute match in either order: every choice is tried until all of it holds.

---@param ops table what graph_ops.lua gives
---@param internals table
return function(ops, internals)
  local M = {}

  local fail, nearest = internals.error, internals.nearest

  -- A pattern is a table {kind, name =, ...}: any; number (value); op (op, operands or nil, dtype, where); test (fn).

  local function op_pattern(who, op, operands)
    local row = ops.row[op]
    if not row then
      local near = nearest(op, ops.row)
      fail(("%s: there is no operation %q%s"):format(who, op, near and (", did you mean %q?"):format(near) or ""))
    end
    if operands and #operands ~= row.arity then
      fail(("%s: %s has %d operands, the pattern gives %d"):format(who, op, row.arity, #operands))
    end
    return { kind = "op", op = op, operands = operands, commutes = row.commutes }
  end

  -- Text: a recursive descent over the rest of the string.
  local parse

  local function check_name(who, name)
    if name == "root" then fail(who .. ": the name root is that of the whole match") end
    return name
  end

  local function lost(who, rest, text)
    fail(("%s: %s in the pattern %q"):format(who, rest == "" and "the end comes too early"
      or ("%q is not understood"):format(rest:sub(1, 20)), text))
  end

  local function parse_operands(who, rest, text)
    local list = {}
    if rest:find("^%s*%)") then return list, rest:match("^%s*%)(.*)$") end
    while true do
      list[#list + 1], rest = parse(who, rest, text)
      local mark, behind = rest:match("^%s*([,)])(.*)$")
      if not mark then lost(who, rest, text) end
      rest = behind
      if mark == ")" then return list, rest end
    end
  end

  function parse(who, rest, text)
    rest = rest:match("^%s*(.*)$")
    local name, behind = rest:match("^%?([%a_][%w_]*)(.*)$")
    if name then
      check_name(who, name)
      local inner = behind:match("^%s*=(.*)$")
      if not inner then return { kind = "any", name = name }, behind end
      local p
      p, behind = parse(who, inner, text)
      if p.name then fail(("%s: two names for one node in the pattern %q"):format(who, text)) end
      p.name = name
      return p, behind
    end
    local word
    word, behind = rest:match("^(%-?%.?%d[%w.+-]*)(.*)$")
    if word then
      local value = tonumber(word)
      if not value then lost(who, rest, text) end
      return { kind = "number", value = value }, behind
    end
    word, behind = rest:match("^([%a_][%w_]*)(.*)$")
    if not word then lost(who, rest, text) end
    if word == "_" then return { kind = "any" }, behind end
    local operands = behind:match("^%s*%((.*)$")
    if not operands then return op_pattern(who, word), behind end
    local list
    list, behind = parse_operands(who, operands, text)
    return op_pattern(who, word, list), behind
  end

  --- The pattern of a text, a table, a number or a function.
  function M.compile(who, given)
    if type(given) == "string" then
      local p, rest = parse(who, given, given)
      if rest:find("%S") then lost(who, rest, given) end
      return p
    end
    if type(given) == "number" then return { kind = "number", value = given } end
    if type(given) == "function" then return { kind = "test", fn = given } end
    if type(given) ~= "table" or type(given[1]) ~= "string" then
      fail(("%s: a pattern is a text, a number, a function or a table that begins with an operation's name, got %s")
        :format(who, type(given)))
    end
    local operands
    for i = 2, #given do
      operands = operands or {}
      operands[i - 1] = M.compile(who, given[i])
    end
    local p = op_pattern(who, given[1], operands)
    if given.where ~= nil and type(given.where) ~= "function" then
      fail(("%s: `where` of a pattern must be a function, got %s"):format(who, type(given.where)))
    end
    p.name, p.dtype, p.where = check_name(who, given.as), given.dtype, given.where
    return p
  end

  local function is_constant(n, value)
    return n.op == "const" and not n.bits and n.value == value
  end

  -- Each match goes on with what is still to be matched, so that a choice made early can be taken back late.
  local match

  local function match_operands(p, n, order, i, found, go_on)
    if i > #p.operands then return go_on() end
    return match(p.operands[i], n.inputs[order and order[i] or i], found,
      function() return match_operands(p, n, order, i + 1, found, go_on) end)
  end

  local swapped = { 2, 1 }

  local function match_inside(p, n, found, go_on)
    if p.kind == "number" then return is_constant(n, p.value) and go_on() end
    if p.kind == "test" then return p.fn(n) and go_on() end
    if p.kind == "op" then
      if n.op ~= p.op or (p.dtype and n.dtype ~= p.dtype) or (p.where and not p.where(n)) then return false end
      if not p.operands then return go_on() end
      return match_operands(p, n, nil, 1, found, go_on)
        or (p.commutes and match_operands(p, n, swapped, 1, found, go_on)) or false
    end
    return go_on()
  end

  function match(p, n, found, go_on)
    local name = p.name
    if not name then return match_inside(p, n, found, go_on) end
    local old = found[name]
    if old ~= nil and old ~= n then return false end
    found[name] = n
    if match_inside(p, n, found, go_on) then return true end
    found[name] = old
    return false
  end

  local function yes() return true end

  --- The nodes of the pattern's names, and `root`, or nil.
  function M.match(p, n)
    local found = {}
    if not match(p, n, found, yes) then return nil end
    found.root = n
    return found
  end

  return M
end
