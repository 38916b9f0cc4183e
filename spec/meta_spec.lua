--- meta_spec.lua -- lua/tycho/meta.lua: the definitions for language servers are current, complete, and true of what calls give.

local H = require "spec.helper"
local ty = H.ty

local text = H.read "lua/tycho/meta.lua"

--- The functions of the file by the name before their arguments: {params = {{name, optional, type}}, returns, list}.
local function definitions()
  local found, params, returns = {}, {}, {}
  for line in text:gmatch "([^\n]*)\n" do
    local name, may, of = line:match "^%-%-%-@param ([%w_.]+)(%??) (.*)$"
    local given = line:match "^%-%-%-@return (.*)$"
    local fn, list = line:match "^function ([%w_.:]+)(%b()) end$"
    if name then params[#params + 1] = { name = name, optional = may == "?", type = of:gsub(" # .*$", "") }
    elseif given then returns[#returns + 1] = given:gsub(" # .*$", ""):gsub("(%S) [%a_]+$", "%1"):gsub(" %.%.%.$", "...")
    elseif fn then
      assert(not found[fn], fn .. " is defined twice")
      found[fn] = { params = params, returns = returns, list = list:sub(2, -2) }
      params, returns = {}, {}
    elseif line == "" then params, returns = {}, {} end
  end
  return found
end

describe("the definitions for language servers", function()
  local found = definitions()

  it("are what make meta writes", function()
    assert.truthy(dofile(H.root .. "/editors/make_meta.lua")() == text, "lua/tycho/meta.lua is not current: make meta")
  end)

  it("load as Lua, and change nothing", function()
    local compile, view = jit.compile, jit.view
    local env = setmetatable({}, { __index = _G, __newindex = function(_, k) error("sets the global " .. k) end })
    local meta = setfenv(assert(loadstring(text, "=meta.lua")), env)()
    assert.equal("table", type(meta.nn))
    assert.equal(compile, jit.compile)
    assert.equal(view, jit.view)
  end)

  it("name every function of the module, every method, all of jit", function()
    local count = 0
    for name, fn in pairs(ty) do
      if type(fn) == "function" and not name:find "^_" then
        count = count + 1
        assert.truthy(found["ty." .. name], name)
      end
    end
    for name in pairs(ty.internals.methods) do
      count = count + 1
      assert.truthy(found["Tensor:" .. name], name)
    end
    for name in ty.help("jit"):gmatch "jit%.([%w_]+)" do assert.truthy(found["jitlib." .. name], name) end
    assert.truthy(count > 550, count)
  end)

  it("name every function and class that the help of a group lists", function()
    local count = 0
    for _, group in ipairs { "nn", "optim", "data", "csv", "image", "files", "dist", "linalg", "fft", "plot", "progress", "run",
      "graph" } do
      for name in ("\n" .. ty.help(group)):gmatch("\n(" .. group .. "[.:][%w_.:]+)[({]") do
        count = count + 1
        local of, last = name:match "^(.*)[.:]([^.:]*)$"
        local object = "objects." .. of:gsub("%.", "_")
        assert.truthy(found[name] or found[object .. ":" .. last] or found[object .. "." .. last], name)
      end
    end
    assert.truthy(count > 190, count)
  end)

  it("give each argument a type, in the order of the call, and a text to each function", function()
    for name, d in pairs(found) do
      local names = {}
      for i, p in ipairs(d.params) do names[i] = p.name end
      assert.equal(d.list, table.concat(names, ", "), name)
    end
    assert.falsy(text:match "\n\nfunction ([%w_.:]+)")
    assert.falsy(text:match "\n\n%-%-%-@param[^\n]*")
  end)

  it("have of a module the arguments of the function that its text refers to", function()
    assert.same({ { name = "dim", optional = true, type = "integer" } }, found["nn.Softmax"].params)
    assert.same({ "tycho.nn.Softmax" }, found["nn.Softmax"].returns)
    local loss = found["nn.MSELoss"].params
    assert.same(found["ty.mse_loss"].params[3], loss[1])
    assert.equal(1, #loss)
    assert.truthy(loss[1].type:find('"mean"|"sum"|"none"', 1, true))
  end)

  it("have types that go on in the next line, several results, and other forms of a call", function()
    local function type_of(name, i) return found[name].params[i].type end
    assert.truthy(type_of("plot:scatter", 3):find "^{label: .* lim: number%[%]%?}$")
    assert.same({ "tycho.Profile?", "..." }, found["ty.profile"].returns)
    assert.same({ "any..." }, found["ty.scope"].returns)
    assert.truthy(text:find("---@overload fun(stop: number, opts?: {dtype: tycho.dtype?, device: string?}): tycho.Tensor\n"
      .. "function ty.arange(", 1, true))
  end)

  it("are of LuaLS's tags alone, with brackets that close", function()
    local tags = { meta = true, alias = true, class = true, field = true, operator = true, param = true, overload = true }
    tags["return"] = true
    for line in text:gmatch "%-%-%-(@[^\n]*)" do
      assert.truthy(tags[line:match "^@(%a+)"], line)
      local code = line:gsub(" # .*$", "")
      for _, pair in ipairs { "()", "{}", "[]", "<>" } do
        local open, close = pair:sub(1, 1), pair:sub(2)
        local depth = select(2, code:gsub("%" .. open, "")) - select(2, code:gsub("%" .. close, ""))
        assert.equal(0, depth, line)
      end
    end
  end)

  it("declare every class that a type names", function()
    local declared = {}
    for name in text:gmatch "@class (tycho[%w_.]*)" do declared[name] = true end
    for name in text:gmatch "@alias (tycho[%w_.]*)" do declared[name] = true end
    for line in text:gmatch "%-%-%-(@[^\n]*)" do
      for name in line:gmatch "tycho%.[%w_.]*[%w_]" do assert.truthy(declared[name], line) end
    end
  end)
end)

------------------------------------------------------------------------------------------------- what calls really give

--- An argument of a type, as a user might give it.
local function sample(of)
  if of:find("tycho.Tensor[]", 1, true) == 1 then return { ty.ones(2, 2), ty.ones(2, 2) } end
  if of:find("integer[]", 1, true) and of:find "^tycho" then return ty.tensor({ { 1, 2 }, { 2, 1 } }, { dtype = "i64" }) end
  if of:find "^tycho.Tensor" then return ty.tensor { { 0.25, 0.5 }, { 0.75, 0.5 } } end
  if of:find "^tycho.dtype" then return "f32" end
  if of:find "^integer" or of:find "^number" then return 1 end
  if of:find "^boolean" then return true end
  if of:find "^fun" then return function(x) return x end end
  if of:find "^integer%[%]%[%]" then return { { 1, 1 }, { 1, 1 } } end
end

local function fits(v, of)
  for one in (of .. "|"):gmatch "([^|]*)|" do
    local may = one:sub(-1) == "?"
    one = one:gsub("%.%.%.$", ""):gsub("%?$", "")
    if v == nil and (may or one == "any" or one == "" or one == "nil") then return true end
    if one == "any" or one == "" then return true end
    if one == "tycho.Tensor" and ty.is_tensor(v) then return true end
    if one == "tycho.Tensor[]" and type(v) == "table" and ty.is_tensor(v[1]) then return true end
    if one == "integer" and type(v) == "number" and v % 1 == 0 then return true end
    if one == "true" and v == true or one == "tycho.dtype" and type(v) == "string" then return true end
    if (one:find "^fun" or one == "function") and type(v) == "function" then return true end
    if one:find "%[%]$" and type(v) == "table" or one:find "^table" and type(v) == "table" then return true end
    if one == type(v) or one:find "^ffi" and type(v) == "cdata" then return true end
    if one:find "^tycho%.%u" and one ~= "tycho.Tensor" and type(v) == "table" then return true end
  end
  return false
end

describe("the results that they promise", function()
  --- Not to be called with samples: they run what is given, or change the process.
  local passed = { release = true, synchronize = true, help = true, show = true }

  it("are what functions and methods give", function()
    local found, checked = definitions(), 0
    for name, d in pairs(found) do
      local of, last = name:match "^(%a+)[.:](.*)$"
      local method = of == "Tensor" and ty.internals.methods[last]
      local fn = method or of == "ty" and rawget(ty, last) or of == "linalg" and ty.linalg[last]
      if fn and not passed[last] then
        local args, n = {}, 0
        if method then args[1], n = sample "tycho.Tensor", 1 end
        for _, p in ipairs(d.params) do
          if p.optional or p.name == "..." then break end
          n = n + 1
          args[n] = sample(p.type)
        end
        local results = { pcall(fn, unpack(args, 1, n)) }
        if results[1] then
          checked = checked + 1
          for i, promised in ipairs(d.returns) do
            assert.truthy(fits(results[i + 1], promised), ("%s gives %s as result %d, not %s"):format(name, type(results[i + 1]), i,
              promised))
          end
          local last_one = d.returns[#d.returns] or ""
          if not last_one:find("...", 1, true) then assert.truthy(#results - 1 <= #d.returns, name .. " gives more results") end
        end
      end
    end
    assert.truthy(checked > 430, checked .. " of them were called")
  end)
end)
