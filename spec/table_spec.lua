--- table_spec.lua -- one table of operations: complete, and the only one. Files include downwards. All is documented.

local H = require "spec.helper"
local ty, ops, dtypes = H.ty, H.ops, H.dtypes

local function files(pattern)
  local list = {}
  local pipe = io.popen(("cd '%s' && ls -1 %s 2>/dev/null"):format(H.root, pattern))
  for name in pipe:lines() do list[#list + 1] = name end
  pipe:close()
  return list
end

local function without_comments(text)
  return (text:gsub("/%*.-%*/", " "):gsub("//[^\n]*", " "))
end

describe("the table of operations", function()
  local rows = {} -- by enum name, the columns as they are written
  for line in H.read("core/ir/ops.h"):gsub("\\\n%s*", " "):gmatch("_%(([A-Z0-9_]+%s*,[^\n]-)%)%s") do
    local name = line:match("^([A-Z0-9_]+)")
    rows[name:lower()] = line
  end

  it("gives every row a name, a class, an arity and a rule of types", function()
    local classes = { leaf = 0, map = 1, view = 1, reduce = 1, scan = 1, dot = 2, move = 1 }
    for _, row in ipairs(ops) do
      assert.truthy(row.name:match("^[a-z][a-z0-9_]*$"), row.name)
      assert.truthy(classes[row.class], row.name)
      assert.truthy(row.rule, row.name)
      if row.class == "leaf" then assert.equal(0, row.arity, row.name)
      else assert.truthy(row.arity >= classes[row.class] and row.arity <= (row.class == "move" and 7 or 3), row.name) end
    end
  end)

  it("has help in every row: one line that begins small and has no full stop", function()
    for _, row in ipairs(ops) do
      assert.truthy(row.help and #row.help >= 10, row.name)
      assert.falsy(row.help:find("[\n\t]"), row.name)
      assert.falsy(row.help:find("%.$"), row.name)
    end
  end)

  it("names every row once, and no composite has a row's name", function()
    local seen, public = {}, {}
    for _, row in ipairs(ops) do
      assert.falsy(seen[row.name], row.name)
      seen[row.name] = true
      if row.lua then
        assert.falsy(public[row.lua], row.lua)
        public[row.lua] = true
      end
    end
    for _, composite in ipairs(ty.internals.composites) do
      assert.falsy(public[composite.name], composite.name)
      public[composite.name] = true
    end
  end)

  it("gives maps a value and other classes none", function()
    for _, row in ipairs(ops) do
      local text = assert(rows[row.name], row.name)
      local value = text:match("^[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,[^,]*,%s*(.-),%s*%d+,%s*\"")
      assert.truthy(value, row.name)
      local own = value ~= "0"
      local made_by_lower = row.name == "cast" or row.name == "bitcast"
      assert.equal(row.class == "map" and not made_by_lower, own, row.name)
    end
  end)

  it("bounds the error of maps by at most 4 units, those that round once by 0", function()
    local exact = { "neg", "abs", "ceil", "floor", "round", "trunc", "sqrt", "add", "sub", "mul", "div", "maximum",
      "minimum", "copysign", "where", "eq", "ne", "lt", "le", "bitwise_not", "lshift", "rshift" }
    for _, row in ipairs(ops) do
      if row.class == "map" then assert.truthy(row.bound <= 4, row.name) end
    end
    local bound = {}
    for _, row in ipairs(ops) do bound[row.lua or 0] = row.bound end
    for _, name in ipairs(exact) do assert.equal(0, bound[name], name) end
    for _, name in ipairs { "exp", "log", "sin", "cos" } do assert.truthy(bound[name] <= 2, name) end
  end)

  it("lets operands be exchanged only where that changes no bit", function()
    local list = {}
    for _, row in ipairs(ops) do
      if row.commutes then list[#list + 1] = row.name end
    end
    table.sort(list)
    assert.same({ "add", "and", "eq", "maximum", "minimum", "mul", "ne", "or", "xor" }, list)
  end)

  it("offers every row with a public name in the module and as a method, in place where it says so", function()
    local methods = ty.internals.methods
    for _, row in ipairs(ops) do
      if row.lua then
        assert.equal("function", type(ty[row.lua]), row.lua)
        assert.equal("function", type(methods[row.lua]), row.lua)
        assert.equal(row.in_place, methods[row.lua .. "_"] ~= nil, row.lua)
      end
    end
  end)

  it("stays a table of about 70 rows", function()
    assert.truthy(#ops <= 87, #ops)
    assert.equal(13, #dtypes)
  end)

  -- Who must tell operations apart may do so by the enum, a handful at a time. A long list of them elsewhere would be a
  -- second table. Allowed at most, for each file: different operations named.
  local allowed = { ["core/ir/fold.c"] = 26, ["core/record/record.c"] = 26, ["core/ir/graph.c"] = 24, ["core/compile/fuse.c"] = 18,
    ["core/compile/lower_value.c"] = 26, ["core/lua/lua_ops.c"] = 22, ["core/lua/lua_random.c"] = 20,
    ["core/record/value_range.c"] = 26, ["core/record/grad_attend.c"] = 17, ["core/record/loop.c"] = 13 }

  it("is the only list of operations in C", function()
    for _, path in ipairs(files "core/*/*.[ch] core/*/*/*.[ch] kernels/*") do
      if path ~= "core/ir/ops.h" and path ~= "core/record/grad_words.c" then -- words for the table's own last column
        local named, count = {}, 0
        for name in without_comments(H.read(path)):gmatch("%f[%w_]OP_([A-Z0-9_]+)") do
          if not named[name] then
            named[name] = true
            count = count + 1
          end
        end
        local most = allowed[path] or 12
        assert.truthy(count <= most, ("%s names %d operations, at most %d are allowed"):format(path, count, most))
      end
    end
  end)

  local function longest_run(text, known)
    local run, most = 0, 0
    for word, gap in text:gmatch("([%a_][%w_]*)([^%a_]*)") do
      run = known[word] and run + 1 or 0
      if #gap > 12 then run = 0 end
      most = math.max(most, run)
    end
    return most
  end

  it("is the only list of operations in Lua", function()
    local known = {}
    for _, row in ipairs(ops) do
      known[row.name] = true
      if row.lua then known[row.lua] = true end
    end
    for _, path in ipairs(files "lua/tycho/*.lua lua/tycho/*/*.lua") do
      local text = H.read(path):gsub("%-%-[^\n]*", "")
      assert.truthy(longest_run(text, known) <= 8, path)
    end
  end)
end)

describe("core", function()
  it("leaves Lua to the binding, to the C API beside it, and to what brings other shared objects into Lua", function()
    for _, path in ipairs(files "core/*/*.[ch] core/*/*/*.[ch]") do
      if not path:find("^core/lua/") and not path:find("^core/embed/") and not path:find("_lua%.[ch]$") then
        assert.falsy(H.read(path):find("#include <l?u?a?[ulx]*aux?lib?%.h>") or H.read(path):find("#include <lua", 1, true),
          path)
      end
    end
  end)

  it("never ends the process and never prints to stdout", function()
    for _, path in ipairs(files "core/*/*.[ch] core/*/*/*.[ch] kernels/*") do
      local text = without_comments(H.read(path)):gsub('"[^"\n]*"', '""')
      for _, call in ipairs { "abort", "exit", "_exit", "printf", "puts", "putchar" } do
        assert.falsy(text:find("%f[%w_]" .. call .. "%s*%("), path .. " calls " .. call)
      end
      assert.falsy(text:find("%f[%w_]stdout%f[^%w_]"), path)
    end
  end)
end)

describe("help", function()
  local internals = ty.internals

  local function public_names()
    local names = {}
    for _, from in ipairs { { "", ty }, { "", internals.methods }, { "linalg.", ty.linalg }, { "fft.", ty.fft } } do
      for name, v in pairs(from[2]) do
        if type(v) == "function" and not name:find("^_") then names[from[1] .. name] = true end
      end
    end
    return names
  end

  it("describes every public function: arguments and one line", function()
    for name in pairs(public_names()) do
      local text = internals.help[name]
      assert.truthy(text, name .. " has no help")
      local args, line = text:match("^" .. name:gsub("%p", "%%%0") .. "(%b())\n  ([^\n]+)$")
      assert.truthy(args and line and #line >= 10, name .. ": " .. text)
    end
  end)

  it("is matched by specs: each public function is called in one, forms with a trailing _ by their plain form", function()
    local called = {}
    for _, row in ipairs(ops) do called[row.lua or ""] = row.lua and true end -- ops_spec.lua calls each by its name
    for _, path in ipairs(files "spec/*_spec.lua") do
      local text = H.read(path):gsub("%-%-[^\n]*", "")
      for name in text:gmatch "[%w_%])][:.]([%a_][%w_]*)%s*[%({\"%[]" do called[name] = true end -- x:f(, ty.f {
      for name in text:gmatch "[(,]%s*ty%.([%a_][%w_]*)%s*[,)]" do called[name] = true end -- pcall(ty.f,
      for name in text:gmatch "%] = ty%.([%a_][%w_]*)," do called[name] = true end -- rows of a table of calls
      for name in text:gmatch '{ "([%a_][%w_]*)", function' do called[name] = true end -- rows of a list of formulas
    end
    for name in pairs(public_names()) do
      local last = name:match "[^.]*$"
      assert.truthy(called[last] or called[last:gsub("_$", "")], name .. " is called nowhere")
    end
  end)

  it("describes nothing that is not there", function()
    local names = public_names()
    for _, name in ipairs { "view", "profile" } do -- others than those of ty
      names["jit." .. name] = rawget(jit, name) ~= nil and rawget(jit, name) ~= ty[name]
    end
    for name in pairs(internals.help) do assert.truthy(names[name], name) end
  end)

  it("gives the text of a function, and the nearest name of one that is not known", function()
    assert.truthy(ty.help("matmul"):find("matmul(", 1, true))
    assert.same(ty.help "matmul", ty.help(ty.matmul))
    assert.truthy(H.raises(ty.help, "matmull"):find('did you mean "matmul"', 1, true))
  end)

  it("has a row with shape, help and arguments for every composite", function()
    for _, row in ipairs(internals.composites) do
      assert.truthy(row.shape and #row.shape > 0, row.name)
      assert.truthy(row.help and row.args, row.name)
      assert.equal("function", type(row.fn), row.name)
    end
  end)
end)
