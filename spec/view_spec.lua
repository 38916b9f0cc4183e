--- view_spec.lua -- jit.view: the page tells what the compiled function did, and stands by itself.

local H = require "spec.helper"
local ty = H.ty
local view = jit.view

local path = os.tmpname()
local function page(f)
  assert.equal(true, view(f, path))
  local file = assert(io.open(path))
  local html = file:read "*a"
  file:close()
  return html
end

--- Every element that is opened is closed again, save those that HTML closes by itself.
local function balanced(html)
  local open = {}
  local body = html:gsub("<style>.-</style>", ""):gsub("<!doctype html>", "")
  local alone = { meta = true, tr = true, td = true, th = true, li = true }
  for close, name, rest in body:gmatch "<(/?)(%a%w*)([^>]*)>" do
    if close == "" and not alone[name] and rest:sub(-1) ~= "/" then
      open[#open + 1] = name
    elseif close == "/" then
      if table.remove(open) ~= name then return false, name end
    end
  end
  return #open == 0, open[#open]
end

describe("jit.view", function()
  teardown(function() os.remove(path) end)

  local x = ty.tensor { 1, 2, 3 }
  local function sure(v, limit) -- a < b & "c"
    local y = (v * 2):softmax()
    if y:max():item() > limit then return y end
    return (y + 1):exp()
  end

  it("tells of a product with an epilogue by its operands, each once", function()
    local w = ty.ones(3, 4)
    local f = ty.compile(function(v) return (v:reshape(1, 3):matmul(w) + 1):relu() end)
    for _ = 1, 3 do f(x) end
    local html = page(f)
    assert.truthy(html:find "Group 0: a product with epilogue of %d nodes that writes %%%d+<")
    local what, reads, writes = html:match "<td class=n>0<td>gemm<td>([^<]*).-<td>(in[^<]*)<td>(out[^<]*)"
    assert.truthy(what and what:find ", epilogue%s*$", what)
    assert.same({ "in0 in1", "out0" }, { reads:match "^(.-)%s*$", writes:match "^(.-)%s*$" })
  end)

  it("shows source, parts, guards, plans and kernels, and needs nothing from elsewhere", function()
    local f = ty.compile(sure)
    for i = 1, 6 do f(x, i % 2) end
    local html = page(f)
    assert.truthy(html:find("local function sure(v, limit) -- a &lt; b &amp; &quot;c&quot;", 1, true))
    assert.falsy(html:find('a < b & "c"', 1, true))
    local e = ty.explain(f)
    assert.truthy(#e.parts == 2, tostring(e))
    for _, text in ipairs { "part 1 begins", "part 2 begins", "part 1 ends: item reads data", "<h2>Part 2", "loop program",
      "machine code", "store f32 elem", "<b>6</b>calls" } do
      assert.truthy(html:find(text, 1, true), text)
    end
    for _, part in ipairs(e.parts) do
      for _, t in ipairs(part.traces) do
        for _, g in ipairs(t.guards) do assert.truthy(html:find((g:gsub("<", "&lt;"):gsub(">", "&gt;")), 1, true), g) end
        assert.truthy(html:find(("%d hit"):format(t.hits), 1, true))
      end
    end
    assert.truthy(html:find "Group 0: a kernel of %d+ nodes that writes %%%d+<")
    assert.falsy(html:find "https?:" or html:find "src=" or html:find "@import")
    assert.same({ true }, { balanced(html) })
    local native = ty.stats().machine == "x64" and not ty.stats().no_native
    assert.equal(native, html:find("ret", 1, true) ~= nil and html:find("push rbp", 1, true) ~= nil)
    assert.falsy(tostring(ty.explain(f):full()):find("push rbp", 1, true)) -- in the page alone
  end)

  it("draws a bar from the step that writes a buffer to the last that reads it", function()
    local m = ty.nn.Sequential(ty.nn.Linear(3, 4), ty.nn.Tanh(), ty.nn.Linear(4, 2))
    local f = ty.compile(function(v) return m(v):detach() end)
    for _ = 1, 3 do f(x) end
    local t = ty.explain(f).traces[1]
    local name, first, last = t.plan:match "(t%d+)%s+at.-steps (%d+)%-(%d+)"
    assert.truthy(name, t.plan)
    assert.truthy(page(f):find(("<title>%s: steps %s to %s</title>"):format(name, first, last), 1, true))
  end)

  it("shows what each step took, and each line", function()
    local m = ty.nn.Linear(3, 4)
    local function scaled(v) return v:exp() * 2 end
    local function step(v)
      local y = m(v):detach()
      y = scaled(y)
      return y:sum()
    end
    local f = ty.compile(step)
    f(x)
    assert.falsy(page(f):find("that were timed", 1, true))
    for _ = 1, 20 do f(x) end
    local html, t = page(f), ty.explain(f).traces[1]
    assert.truthy(t.timed >= 2 and #t.seconds == t.steps, t.timed)
    assert.truthy(html:find(("the mean of %d runs that were timed"):format(t.timed), 1, true))
    local first = debug.getinfo(step, "S").linedefined
    local own = html:match("<h2>Source</h2>.-</table>")
    for k, timed in ipairs { false, true, false, true } do -- the third calls another function, where the operations are
      local row = own:match("<tr class=''><td class=n>" .. first + k - 1 .. "(.-)\n<tr") or own:match("<td class=n>"
        .. first + k - 1 .. "(.*)")
      assert.equal(timed, row:find("<i style='width:", 1, true) ~= nil, row)
    end
    assert.truthy(html:find("Lines of other functions.-view_spec.lua:" .. first - 1 .. ".-local function scaled"))
    assert.same({ true }, { balanced(html) })
  end)

  it("says what could not be captured, and where", function()
    local f = ty.compile(function(v)
      local y = v + 1
      return y, setfenv(1, _G)
    end)
    for _ = 1, 4 do f(x) end
    local html = page(f)
    assert.truthy(html:find "<tr class='bad'>.-setfenv%(1, _G%)")
    assert.truthy(html:find("What could not be captured", 1, true))
    assert.same({ true }, { balanced(html) })
  end)

  it("shows a function that was not called, and one without a file", function()
    assert.truthy(page(ty.compile(function(v) return v end)):find("<b>0</b>calls", 1, true))
    local f = ty.compile(loadstring("local v = ...\nreturn v * 3", "=made"))
    f(x)
    assert.truthy(page(f):find("The source cannot be read", 1, true))
    local g = ty.compile(loadstring "local v = ...\nreturn v * 3")
    g(x)
    assert.truthy(page(g):find("return v * 3", 1, true))
  end)

  it("tells bad arguments, and a file that cannot be written", function()
    H.raises("view: argument 1 must be a compiled function, got a function that is not compiled", view, sure, path)
    H.raises("view: argument 2 must be the path of a file, got nil", view, ty.compile(sure))
    H.raises("view: argument 2 must be the path of a file, got 1", view, ty.compile(sure), 1)
    local done, why = view(ty.compile(sure), "/nowhere/f.html")
    assert.equal(nil, done)
    assert.truthy(why:find("/nowhere/f.html", 1, true))
  end)
end)
