--- native_table.lua -- what each function written in C is to a capture: one row a function.
-- In: nothing. Out: rows by name, names as names.lua gives them. natives.lua and library.lua go by the rows. A function
-- of Lua's libraries without a row aborts the capture, one of Tycho's without a row is recorded.
--
-- Columns
--   name     "string.byte" of Lua's libraries, "item" of Tycho's
--   purity   pure    the same results for the same arguments, nothing else
--            reads   depends on contents of tables, closures or tensors
--            writes  changes what it is given, or what it returns has a state of its own
--            state   depends on or changes what is neither argument nor result
--   capture  call    its arguments are pinned and it is called
--            draw    each run calls it again, for a number that decides nothing
--            unary, binary, fold    on one number, two, or many from left to right: numbers of later calls stay numbers
--            model   evaluated by the function of that name in library.lua
--            setting recorded where it has no arguments: what it gives is a part of every key; else as abort
--            abort   the capture ends
--            itself  the same: it changes or shows the function that runs
--   hint     what the user could do instead

local ipairs = ipairs
local OUTSIDE = "call it outside of the compiled function"
local ANEW = "use the form without _, as in x = x:squeeze()"
local KEEP = "keep the value as a tensor, or read it outside of the compiled function"

--- Lua's.
local library = {
  { "assert",           "pure",   "model" },
  { "collectgarbage",   "state",  "draw" },
  { "dofile",           "state",  "abort" },
  { "error",            "pure",   "model" },
  { "gcinfo",           "state",  "abort" },
  { "getfenv",          "reads",  "itself" },
  { "getmetatable",     "reads",  "model" },
  { "ipairs",           "reads",  "model" },
  { "load",             "state",  "abort" },
  { "loadfile",         "state",  "abort" },
  { "loadstring",       "state",  "abort" },
  { "module",           "state",  "itself" },
  { "newproxy",         "writes", "abort" },
  { "next",             "reads",  "model" },
  { "pairs",            "reads",  "model" },
  { "pcall",            "pure",   "model" },
  { "print",            "state",  "abort", "print outside of the compiled function" },
  { "rawequal",         "pure",   "model" },
  { "rawget",           "reads",  "model" },
  { "rawset",           "writes", "model" },
  { "rawlen",           "reads",  "abort" },
  { "require",          "reads",  "model" },
  { "select",           "pure",   "model" },
  { "setfenv",          "writes", "itself" },
  { "setmetatable",     "writes", "model" },
  { "tonumber",         "pure",   "model" },
  { "tostring",         "pure",   "model" },
  { "type",             "pure",   "model" },
  { "unpack",           "reads",  "model" },
  { "xpcall",           "pure",   "abort" },

  { "coroutine.create", "writes", "model" },
  { "coroutine.isyieldable", "state", "model" },
  { "coroutine.resume", "writes", "model" },
  { "coroutine.running", "state", "model" },
  { "coroutine.status", "reads",  "model" },
  { "coroutine.wrap",   "writes", "model" },
  { "coroutine.yield",  "writes", "model" },

  { "string.byte",      "pure",   "call" },
  { "string.char",      "pure",   "call" },
  { "string.dump",      "reads",  "abort" },
  { "string.find",      "pure",   "call" },
  { "string.format",    "pure",   "call" },
  { "string.gmatch",    "writes", "model" },
  { "string.gsub",      "pure",   "call" },
  { "string.len",       "pure",   "call" },
  { "string.lower",     "pure",   "call" },
  { "string.match",     "pure",   "call" },
  { "string.rep",       "pure",   "call" },
  { "string.reverse",   "pure",   "call" },
  { "string.sub",       "pure",   "call" },
  { "string.upper",     "pure",   "call" },

  { "table.clear",      "writes", "abort" },
  { "table.clone",      "reads",  "abort" },
  { "table.concat",     "reads",  "model" },
  { "table.foreach",    "reads",  "abort" },
  { "table.foreachi",   "reads",  "abort" },
  { "table.getn",       "reads",  "model" },
  { "table.insert",     "writes", "model" },
  { "table.isarray",    "reads",  "abort" },
  { "table.isempty",    "reads",  "abort" },
  { "table.maxn",       "reads",  "abort" },
  { "table.move",       "writes", "abort" },
  { "table.new",        "pure",   "model" },
  { "table.nkeys",      "reads",  "abort" },
  { "table.pack",       "pure",   "abort" },
  { "table.remove",     "writes", "model" },
  { "table.sort",       "writes", "model" },
  { "table.unpack",     "reads",  "model" },

  { "math.abs",         "pure",   "unary" },
  { "math.acos",        "pure",   "unary" },
  { "math.asin",        "pure",   "unary" },
  { "math.atan",        "pure",   "unary" },
  { "math.atan2",       "pure",   "binary" },
  { "math.ceil",        "pure",   "unary" },
  { "math.cos",         "pure",   "unary" },
  { "math.cosh",        "pure",   "unary" },
  { "math.deg",         "pure",   "unary" },
  { "math.exp",         "pure",   "unary" },
  { "math.floor",       "pure",   "unary" },
  { "math.fmod",        "pure",   "binary" },
  { "math.frexp",       "pure",   "model" },
  { "math.ldexp",       "pure",   "binary" },
  { "math.log",         "pure",   "unary" },
  { "math.log10",       "pure",   "unary" },
  { "math.max",         "pure",   "fold" },
  { "math.min",         "pure",   "fold" },
  { "math.modf",        "pure",   "model" },
  { "math.pow",         "pure",   "binary" },
  { "math.rad",         "pure",   "unary" },
  { "math.random",      "state",  "draw", "use ty.rand, or pass the number as an argument" },
  { "math.randomseed",  "state",  "abort" },
  { "math.sin",         "pure",   "unary" },
  { "math.sinh",        "pure",   "unary" },
  { "math.sqrt",        "pure",   "unary" },
  { "math.tan",         "pure",   "unary" },
  { "math.tanh",        "pure",   "unary" },

  { "os.clock",         "state",  "draw" },
  { "os.time",          "state",  "draw" },

  { "bit.arshift",      "pure",   "call" },
  { "bit.band",         "pure",   "call" },
  { "bit.bnot",         "pure",   "call" },
  { "bit.bor",          "pure",   "call" },
  { "bit.bswap",        "pure",   "call" },
  { "bit.bxor",         "pure",   "call" },
  { "bit.lshift",       "pure",   "call" },
  { "bit.rol",          "pure",   "call" },
  { "bit.ror",          "pure",   "call" },
  { "bit.rshift",       "pure",   "call" },
  { "bit.tobit",        "pure",   "call" },
  { "bit.tohex",        "pure",   "call" },
}

--- Tycho's.
local tycho = {
  { "allclose",         "reads",  "abort", KEEP },
  { "cholesky",         "reads",  "abort", KEEP },
  { "data",             "reads",  "abort", KEEP },
  { "det",              "reads",  "abort", KEEP },
  { "eigh",             "reads",  "abort", KEEP },
  { "equal",            "reads",  "abort", KEEP },
  { "get",              "reads",  "abort", KEEP },
  { "inv",              "reads",  "abort", KEEP },
  { "item",             "reads",  "abort", KEEP },
  { "lstsq",            "reads",  "abort", KEEP },
  { "lu",               "reads",  "abort", KEEP },
  { "masked_select",    "reads",  "abort", KEEP },
  { "nonzero",          "reads",  "abort", KEEP },
  { "qr",               "reads",  "abort", KEEP },
  { "slogdet",          "reads",  "abort", KEEP },
  { "solve",            "reads",  "abort", KEEP },
  { "_solve_triangular", "reads", "abort", KEEP },
  { "svd",              "reads",  "abort", KEEP },
  { "totable",          "reads",  "abort", KEEP },
  { "unique",           "reads",  "abort", KEEP },
  { "budget",           "state",  "abort" },
  { "deadline",         "state",  "abort" },
  { "check",            "state",  "abort" },
  { "compile",          "state",  "abort" },
  { "disable",          "state",  "abort" },
  { "explain",          "state",  "abort" },
  { "from_ptr",         "state",  "abort" },
  { "graph",            "state",  "abort" },
  { "help",             "state",  "abort" },
  { "load",             "state",  "abort" },
  { "load_checkpoint",  "state",  "abort" },
  { "load_weights",     "state",  "abort" },
  { "manual_seed",      "state",  "abort" },
  { "pass",             "state",  "abort" },
  { "precision",        "state",  "abort" },
  { "random_state",     "state",  "abort" },
  { "release",          "writes", "abort" },
  { "reset",            "state",  "abort" },
  { "save",             "state",  "abort" },
  { "save_checkpoint",  "state",  "abort" },
  { "scope",            "state",  "abort" },
  { "set",              "writes", "abort" },
  { "set_print",        "state",  "abort" },
  { "squeeze_",         "writes", "abort", ANEW },
  { "stance",           "state",  "abort" },
  { "stats",            "state",  "abort" },
  { "swapaxes_",        "writes", "abort", ANEW },
  { "swapdims_",        "writes", "abort", ANEW },
  { "t_",               "writes", "abort", ANEW },
  { "threads",          "state",  "abort" },
  { "transpose_",       "writes", "abort", ANEW },
  { "unsqueeze_",       "writes", "abort", ANEW },
  { "warmup",           "state",  "abort" },
  { "blas",             "state",  "setting" },
  { "default_dtype",    "state",  "setting" },
  { "deterministic",    "state",  "setting" },
}

---@class tycho.NativeRow
---@field name string
---@field purity string
---@field capture string
---@field hint string

local function by_name(rows)
  local list = {}
  for _, r in ipairs(rows) do
    list[r[1]] = { name = r[1], purity = r[2], capture = r[3], hint = r[4] or OUTSIDE }
  end
  return list
end

--- OUTSIDE: the hint for a function that has no row.
return { library = by_name(library), tycho = by_name(tycho), OUTSIDE = OUTSIDE }
