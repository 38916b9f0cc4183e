--- plain_debug.lua -- the debug library for functions that are evaluated: of the plain world's stack, not of the host's.
-- In: the plain world's table of special functions, which gets those of debug. They take (world, arguments, their
-- number), and return packed results. What they are not asked about an evaluated function is the host's own answer.
-- Hooks are left out: the host would call them for the evaluator's lines.

local evaluate = require "tycho.capture.evaluate"

local debug, type, select, unpack = debug, type, select, unpack

--- Below the first function of a program there is C, below that of a coroutine nothing. Some hosts give the main thread.
local function in_main()
  local thread, main = coroutine.running()
  return thread == nil or main == true
end

local function pack(...) return { n = select("#", ...), ... } end

---@param special table by native function
---@param placeholders table functions that stand for closures
---@param called_as fun(frame: table): string?, string? kind and name by which a frame calls
---@param bad_argument fun(k: integer, why: string) raises
return function(special, placeholders, called_as, bad_argument)
  local function native(f, args, n) return pack(f(unpack(args, 1, n))) end

  local events = {} -- by the instruction that calls a metamethod
  for event, names in pairs { index = "GGET TGETV TGETS TGETB", newindex = "GSET TSETV TSETS TSETB", lt = "ISLT ISGE",
    le = "ISLE ISGT", eq = "ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP", concat = "CAT", unm = "UNM", len = "LEN",
    add = "ADDVN ADDNV ADDVV", sub = "SUBVN SUBNV SUBVV", mul = "MULVN MULNV MULVV", div = "DIVVN DIVNV DIVVV",
    mod = "MODVN MODNV MODVV", pow = "POW" } do
    for name in names:gmatch("%S+") do events[name] = "__" .. event end
  end

  --- What is at a level: an evaluated frame; or false and the frame below a native function; or nil.
  local function at_level(world, level)
    local frame, below = evaluate.level(world, level)
    if frame then return frame end
    if below or frame == nil and level > 1 and evaluate.level(world, level - 1) and in_main() then
      return false, below
    end
    return nil
  end

  local function last_level(world)
    local there, gone = 0, 1
    while at_level(world, gone) ~= nil do there, gone = gone, gone * 2 end
    while gone - there > 1 do
      local middle = math.floor((there + gone) / 2)
      if at_level(world, middle) ~= nil then there = middle else gone = middle end
    end
    return there
  end

  local function frame_below(world, frame) return world.stack[frame.depth - 1] end

  --- Kind and name by which a frame's function was called.
  local function name_of(world, frame)
    local below = frame_below(world, frame)
    if frame.caller == "native" or not below then return nil end
    local event = events[below.code[below.at].name]
    if event then return "metamethod", event end
    local kind, name = called_as(below)
    return kind, name
  end

  -- getinfo and traceback ----------------------------------------------------------------------------------------------

  --- What getinfo tells of a prototype.
  local function describe(proto, f)
    local first = proto.first_line or -1
    local info = { source = proto.source or "=?", short_src = proto.short, linedefined = first,
      what = (first > 0 or proto.n_lines == 0) and "Lua" or "main", lastlinedefined = first + proto.n_lines,
      currentline = -1, nups = #proto.upvalues, nparams = proto.params, isvararg = proto.vararg, namewhat = "", func = f }
    info.activelines = {}
    for _, line in ipairs(proto.lines or {}) do info.activelines[line] = true end
    return info
  end

  local fields = { S = { "source", "short_src", "linedefined", "what", "lastlinedefined" }, l = { "currentline" },
    u = { "nups", "nparams", "isvararg" }, n = { "name", "namewhat" }, f = { "func" }, L = { "activelines" } }

  local function choose(info, what)
    local out = {}
    for letter in what:gmatch(".") do
      for _, field in ipairs(fields[letter] or {}) do out[field] = info[field] end
    end
    return out
  end

  --- Of the native function that is just being called.
  local function info_of_native(world)
    local info, site = debug.getinfo(debug.getinfo), evaluate.level(world, 1)
    local kind
    if site then kind, info.name = called_as(site) end
    info.namewhat = kind or ""
    return info
  end

  local function info_of_level(world, level)
    local frame, below = at_level(world, level)
    if frame == nil then return nil end
    local info, kind, name
    if frame then
      info = describe(frame.proto, frame.fn)
      info.currentline = frame.proto.lines and frame.proto.lines[frame.at] or 0
      kind, name = name_of(world, frame)
    else
      local f = below and world.stack[-below.depth - 1] or debug.getinfo
      info = debug.getinfo(f)
      if below then kind, name = called_as(below) end
    end
    info.name, info.namewhat = name, kind or ""
    return info
  end

  special[debug.getinfo] = function(world, args, n)
    local f, what = args[1], args[2] or "nSluf"
    if type(what) ~= "string" then return native(debug.getinfo, args, n) end
    if what:find("[^nSlufL]") then bad_argument(2, "invalid option") end
    local closure = type(f) == "function" and world:closure_of(f)
    if closure then return pack(choose(describe(closure.proto, f), what)) end
    if type(f) ~= "number" or f < 0 then return native(debug.getinfo, args, n) end
    local info = f == 0 and info_of_native(world) or f > 0 and info_of_level(world, f)
    return pack(info and choose(info, what))
  end

  local function line_of_traceback(info)
    local place = info.short_src .. ":" .. (info.currentline > 0 and info.currentline .. ":" or "")
    if info.namewhat ~= "" then return ("%s in function '%s'"):format(place, info.name) end
    if info.what == "main" then return place .. " in main chunk" end
    if info.what == "C" then return ("%s at %p"):format(place, info.func) end
    return ("%s in function <%s:%d>"):format(place, info.short_src, info.linedefined)
  end

  special[debug.traceback] = function(world, args, n)
    local message, level = args[1], tonumber(args[2]) or 1
    if type(message) == "thread" or message ~= nil and type(message) ~= "string" and type(message) ~= "number" then
      return native(debug.traceback, args, n)
    end
    local lines, last = { "stack traceback:" }, last_level(world)
    while level <= last do
      lines[#lines + 1] = "\t" .. line_of_traceback(info_of_level(world, level))
      level = level + 1
      if #lines == 12 and level + 11 <= last then -- the first 11 and the last 10
        lines[#lines + 1] = "\t..."
        level = last - 9
      end
    end
    return pack((message and message .. "\n" or "") .. table.concat(lines, "\n"))
  end

  -- Local variables ----------------------------------------------------------------------------------------------------

  --- Name of the local variable in a register that a frame has now.
  local function variable(frame, slot)
    for _, v in ipairs(frame.proto.variables or {}) do
      if v.first <= frame.at and frame.at <= v.last then
        slot = slot - 1
        if slot == 0 then return v.name end
      end
    end
  end

  special[debug.getlocal] = function(world, args, n)
    local f, slot = args[1], args[2]
    local closure = type(f) == "function" and world:closure_of(f)
    if closure then
      local v = closure.proto.variables and closure.proto.variables[slot]
      return pack(slot <= closure.proto.params and v and v.name or nil)
    end
    if type(f) ~= "number" or f < 1 then return native(debug.getlocal, args, n) end
    local frame = at_level(world, f)
    if frame == nil then bad_argument(1, "level out of range") end
    if not frame then return pack(nil) end
    if slot < 0 then
      if -slot > (frame.proto.vararg and frame.n_extra or 0) then return pack(nil) end
      return pack("(*vararg)", frame.extra[-slot])
    end
    local name = variable(frame, slot)
    if name then return pack(name, frame.R[slot]) end
    return pack(nil)
  end

  special[debug.setlocal] = function(world, args, n)
    if type(args[1]) ~= "number" or args[1] < 1 then return native(debug.setlocal, args, n) end
    local frame = at_level(world, args[1])
    if frame == nil then bad_argument(1, "level out of range") end
    local name = frame and variable(frame, args[2])
    if name then frame.R[args[2]] = args[3] end
    return pack(name)
  end

  -- Upvalues -----------------------------------------------------------------------------------------------------------

  local function cell_of(world, f, i)
    local closure = placeholders[f] and world:closure_of(f)
    return closure, closure and closure.cells[i], closure and closure.proto.upvalues[i]
  end

  special[debug.getupvalue] = function(world, args, n)
    local closure, cell, upvalue = cell_of(world, args[1], args[2])
    if not closure then return native(debug.getupvalue, args, n) end
    if not cell then return pack() end
    local v
    if cell.fn then v = world:upvalue(cell.fn, nil, cell.index) else v = cell.values[cell.index] end
    return pack(upvalue.name or "", v)
  end

  special[debug.setupvalue] = function(world, args, n)
    local closure, cell, upvalue = cell_of(world, args[1], args[2])
    if not closure then return native(debug.setupvalue, args, n) end
    if not cell then return pack() end
    if cell.fn then
      world:set_upvalue(cell.fn, nil, cell.index, args[3])
    else
      cell.values[cell.index] = args[3]
    end
    return pack(upvalue.name or "")
  end

  local ids = setmetatable({}, { __mode = "k" }) -- by cell

  if debug.upvalueid then
    special[debug.upvalueid] = function(world, args, n)
      local closure, cell = cell_of(world, args[1], args[2])
      if not closure then return native(debug.upvalueid, args, n) end
      if not cell then bad_argument(2, "invalid upvalue index") end
      if cell.fn then return pack(debug.upvalueid(cell.fn, cell.index)) end
      ids[cell] = ids[cell] or newproxy()
      return pack(ids[cell])
    end

    special[debug.upvaluejoin] = function(world, args, n)
      local one, _ = cell_of(world, args[1], args[2])
      local other, cell = cell_of(world, args[3], args[4])
      if not one then return native(debug.upvaluejoin, args, n) end
      one.cells[args[2]] = other and cell or { fn = args[3], index = args[4] }
      return pack()
    end
  end

  special[debug.getfenv] = special[getfenv]
  special[debug.setfenv] = special[setfenv]
end
