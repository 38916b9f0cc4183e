--- help_spec.lua -- ty.help of what stands in nn, optim, data, csv, image, files, linalg, plot, graph.
-- Every public function there has a call and a text, which are those of the comments in the sources.

local H = require "spec.helper"
local ty = H.ty

local groups = {
  nn = ty.nn, optim = ty.optim, data = ty.data, csv = ty.csv, image = ty.image, files = ty.files,
  dist = ty.dist, linalg = ty.linalg, fft = ty.fft, plot = getmetatable(ty.plot {}), graph = require "tycho.graph",
}

--- Classes whose methods users call; of other classes the class alone must be known.
local classes = { [ty.nn.Module] = true, [ty.optim.Optimizer] = true, [ty.data.Dataset] = true, [ty.data.Loader] = true }

local function is_callable(v) return type(v) == "function" or (getmetatable(v) or {}).__call ~= nil end

--- Calls visit(name) for each public function.
local function each_public(prefix, t, visit)
  for k, v in pairs(t) do
    local kind = type(v)
    if type(k) == "string" and not k:find "^_" and (kind == "function" or kind == "table") then
      local name = prefix .. "." .. k
      if is_callable(v) then visit(name) end
      local of_files = prefix == "files" and groups[k]
      if kind == "table" and not of_files and (classes[v] or not is_callable(v)) then each_public(name, v, visit) end
    end
  end
end

--- What a call writes, and gives.
local function written(fn, ...)
  local parts, write = {}, io.write
  io.write = function(...) -- luacheck: ignore
    for _, text in ipairs { ... } do parts[#parts + 1] = text end
  end
  local ok, y = pcall(fn, ...)
  io.write = write -- luacheck: ignore
  assert(ok, y)
  return table.concat(parts), y
end

describe("help of a group", function()
  it("knows every public function: the call, and what it does", function()
    local count = 0
    for group, t in pairs(groups) do
      each_public(group, t, function(name)
        count = count + 1
        local text = ty.help(name)
        local head, about = text:match "^([^\n]*)\n  (.*)$"
        assert.truthy(head, name .. ": " .. text)
        assert.truthy(head:gsub(":", "."):find("^" .. name:gsub("%p", "%%%0") .. "[({]"), text)
        assert.truthy(head:find "[)}]$", text)
        assert.truthy(#about >= 10, text)
        assert.falsy(about:find "%-%-%-" or about:find "@param", text)
      end)
    end
    assert.truthy(count > 150, tostring(count))
  end)

  it("is the comment in the source, to the letter", function()
    local source = H.read "lua/tycho/nn/layers.lua"
    local head, about = ty.help("nn.Linear"):match "^(.-)\n  ([^\n]*)\n"
    assert.truthy(source:find("--- " .. head .. ": " .. about .. "\n", 1, true))
    about = ty.help("data.images"):match "\n  (Images.-)\n    dir: string"
    assert.truthy(H.read("lua/tycho/data.lua"):find("--- " .. about:gsub("\n  ", "\n--- ") .. "\n", 1, true))
  end)

  it("gives calls as they are written", function()
    assert.truthy(ty.help("nn.Linear"):find("^nn%.Linear%(inputs, outputs, {bias = true}%)\n"))
    assert.truthy(ty.help("optim.AdamW"):find("^optim%.AdamW%(params, {lr = 1e%-3, "))
    assert.truthy(ty.help("linalg.solve"):find("^linalg%.solve%(a, b%)\n  x with a x = b"))
    assert.truthy(ty.help("plot.line"):find("^plot:line%(x, y, opts%)\n"))
    assert.equal(ty.help "plot.line", ty.help "plot:line")
    assert.truthy(ty.help("nn.ConvTranspose1d"):find("^nn%.ConvTranspose1d%([^\n]* groups = 1, bias = true}%)\n"))
  end)

  it("says what stands in it, and is named among all names", function()
    local names = {}
    local _, list = written(ty.help)
    for _, name in ipairs(list) do names[name] = true end
    for group, t in pairs(groups) do
      assert.truthy(names[group .. ".*"], group)
      local text = "\n" .. ty.help(group) .. "\n"
      assert.equal(ty.help(group), ty.help(group .. ".*"))
      each_public(group, t, function(name)
        assert.truthy(text:gsub(":", "."):find("\n" .. name:gsub("%p", "%%%0") .. "[({]"), name)
      end)
    end
    assert.truthy(ty.help("plot"):find("^plot%({title, "))
  end)

  it("names what may have been meant", function()
    local meant = { Linear = "nn.Linear", ["nn.Linaer"] = "nn.Linear", solve = "linalg.solve", ["csv.lod"] = "csv.load",
      AdamW = "optim.AdamW", epoch = "data.Loader.epoch", sofmax = "softmax" }
    for name, want in pairs(meant) do
      local text = H.raises(ty.help, name)
      assert.truthy(text:find(("did you mean %q?"):format(want), 1, true), text)
    end
    assert.truthy(H.raises(ty.help, "nn.init"):find "no function")
    assert.truthy(H.raises(ty.help, "no such thing at all"):find "no function")
    assert.truthy(H.raises(ty.help, 3):find "must be a name")
  end)

  it("knows a name where the sources cannot be read", function()
    local text = H.script [[
      local open = io.open
      io.open = function(path, ...) if not path:find("%.lua$") then return open(path, ...) end end
      local ty = require "tycho"
      print((ty.help "nn.Linear":gsub("\n", " ")))
      print((ty.help "softmax":gsub("\n", " ")))
      print(#ty.help() > 200, pcall(ty.help, "nn.Linaer"))
    ]]
    assert.truthy(text:find "nn.Linear[^\n]*cannot be read", text)
    assert.truthy(text:find "softmax%(x, dim", text)
    assert.truthy(text:find 'did you mean "nn.Linear"', text)
  end)
end)

describe("help", function()
  it("explains what Lua does with tensors by itself", function()
    assert.truthy(ty.help("=="):find("x:eq(1)", 1, true))
    assert.equal(ty.help "==", ty.help "~=")
    assert.truthy(ty.help("<"):find("x:lt(1)", 1, true))
    assert.truthy(ty.help("tonumber"):find("x:item()", 1, true))
    assert.truthy(ty.help("reshape_"):find("x = x:reshape(...) is a view", 1, true))
    assert.truthy(H.raises(function() return ty.tensor(1).reshape_ end):find("did you mean \"reshape\"", 1, true))
    assert.equal(ty.help "tonumber", ty.help(tonumber))
    local x = ty.tensor(1) -- and it is so
    assert.same({ false, true }, { x == 1, x:eq(1):item() })
    assert.is_nil(tonumber(x))
  end)

  it("explains the properties of tensors", function()
    for name in ("shape dtype ndim requires_grad is_leaf nbytes T mT"):gmatch "%S+" do
      assert.truthy(ty.help(name):find("^x%." .. name .. "\n  %u"), name)
      assert.truthy(pcall(function() return ty.ones(2, 2)[name] end), name)
    end
  end)

  it("of nothing prints all groups and names", function()
    local text = written(ty.help)
    for _, group in ipairs(H.sorted(groups)) do assert.truthy(text:find("\n" .. group .. "\n  ", 1, true), group) end
    for name in pairs(ty.internals.help) do
      local plain = name:gsub("_$", "")
      local listed = ty.internals.help[plain] and plain or name
      assert.truthy(text:find("%f[%w_]" .. listed:match "[^.]*$" .. "%f[^%w_]"), name)
    end
  end)

  it("of a function is that of its name", function()
    for name, f in pairs { softmax = ty.softmax, ["nn.Linear"] = ty.nn.Linear, ["data.csv"] = ty.data.csv, reshape = ty.ones(1).reshape } do
      assert.same(ty.help(name), ty.help(f))
    end
    assert.truthy(H.raises(ty.help, function() end):find("no function of the library", 1, true))
  end)

  it("knows jit, plot's options and progress, and names with ty. before them", function()
    assert.truthy(ty.help("jit.compile"):find "^jit.compile%(f, {fast, ")
    assert.truthy(ty.help("jit"):find "jit.explain%(f%)")
    assert.truthy(ty.help("plot"):find "^plot%({title, xlabel")
    assert.truthy(ty.help("progress.step"):find "^progress:step%(n, values%)\n  One step more")
    assert.same(ty.help "softmax", ty.help "ty.softmax")
    assert.truthy(H.raises(ty.help, "jit.compil"):find('did you mean "compile"', 1, true))
  end)
end)
