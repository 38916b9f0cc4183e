--- view_spec.lua -- jit.view: the page beside what jit.explain tells; every tag is closed, nothing comes from elsewhere.

local H = require "spec.helper"
local ty = H.ty

local path = os.tmpname()
teardown(function() os.remove(path) end)

local function page_of(f)
  assert.is_true(jit.view(f, path))
  local file = io.open(path, "rb")
  local page = file:read "*a"
  file:close()
  return page
end

--- Elements that HTML lets stay open.
local OPEN = { meta = true, br = true, td = true, th = true, tr = true, html = true, ["!doctype"] = true }

local function is_balanced(page)
  local stack = {}
  for slash, name in page:gsub("<style>.-</style>", ""):gmatch "<(/?)([!%w]+)" do
    if not OPEN[name] and slash == "" and name ~= "body" and name ~= "li" then stack[#stack + 1] = name end
    if not OPEN[name] and slash == "/" and name ~= "body" and name ~= "li" then
      assert.equal(stack[#stack], name)
      stack[#stack] = nil
    end
  end
  assert.same({}, stack)
end

local w = ty.randn(8, 4)
local function model(x, rate)
  local h = x:matmul(w) * rate -- "a" < b & c
  if h:sum():item() > 1e9 then h = h + 1 end
  return (h:softmax() + 1):log():sum(2)
end

describe("jit.view", function()
  it("shows source, guards, parts, graph, lifetimes, loop programs and machine code", function()
    local f = jit.compile(model)
    for _ = 1, 6 do f(ty.ones(16, 8), 0.5) end
    local page = page_of(f)
    local e = jit.explain(f)
    is_balanced(page)
    local first = debug.getinfo(model, "S").linedefined
    assert.truthy(page:find(("<td class=no>%d</td><td>  local h = x:matmul(w) * rate -- &quot;a&quot; &lt; b &amp; c</td>")
      :format(first + 1), 1, true))
    assert.truthy(page:find("the part ends: item reads data", 1, true))
    assert.truthy(page:find("<tr class=\"taken cut\"><td class=no>" .. first + 2, 1, true))
    assert.truthy(#e.parts >= 2)
    local kernels = 0
    for _, p in ipairs(e.parts) do
      for _, t in ipairs(p.traces) do
        kernels = kernels + select(2, t.graph:gsub("program of group", ""))
        assert.truthy(page:find((t.graph:match "^(.-)\nprogram of group" or t.graph):gsub("[&<>]", { ["<"] = "&lt;",
          [">"] = "&gt;", ["&"] = "&amp;" }), 1, true))
      end
    end
    assert.truthy(kernels >= 2)
    assert.equal(kernels, select(2, page:gsub("<summary>kernel of group", "")))
    assert.truthy(page:find("Lifetimes of buffers", 1, true))
    assert.truthy(page:find("title=\"steps 0 to 0\"", 1, true))
    assert.falsy(page:find("https?://"))
    assert.falsy(page:find("<script", 1, true))
  end)

  it("lists the code that a loop program becomes, or says why there is none", function()
    local f = jit.compile(function(x) return x * 2 + 1 end)
    for _ = 1, 3 do f(ty.ones(100)) end
    local program = jit.explain(f).traces[1].graph:match "program of group 0\n(.*)$"
    local code, why = ty.internals.probe.code(program)
    if code then assert.truthy(code:find "\n *%x+ +%x+ +ret")
    else assert.equal("string", type(why)) end
    assert.same({ nil, "?" }, { (ty.internals.probe.code "nonsense"), "?" })
  end)

  it("runs nothing, and shows a function that was not called", function()
    local n = 0
    local f = jit.compile(function(x) n = n + 1 return x end)
    is_balanced(page_of(f))
    assert.equal(0, n)
    assert.equal(0, jit.explain(f).calls)
  end)

  it("refuses what is not compiled, and tells when the file cannot be written", function()
    local function says(text, ...)
      local _, e = pcall(jit.view, ...)
      assert.truthy(tostring(e):find(text, 1, true), tostring(e))
    end
    says("view: argument 1 must be a compiled function, got a function that is not compiled", print, path)
    says("view: argument 2 must be a path, got nil", jit.compile(model))
    local ok, why = jit.view(jit.compile(model), "/nowhere/at/all.html")
    assert.is_nil(ok)
    assert.equal("string", type(why))
  end)
end)
