--- docs_spec.lua -- what is said of public names, and the site that is made of it: every name has a text with arguments, results
--- and errors, in ty.help and on the site; every example on the site runs and prints what stands there.

package.path = "./?.lua;" .. package.path -- docs/

local H = require "spec.helper"
local texts = require "tycho.texts"
local reference = require "docs.reference"
local blocks = require "docs.blocks"
local doctest = require "docs.doctest"

local ty, internals = H.ty, H.internals

local groups = {
  nn = ty.nn, optim = ty.optim, data = ty.data, csv = ty.csv, image = ty.image, files = ty.files,
  dist = ty.dist, linalg = ty.linalg, fft = ty.fft,
  plot = getmetatable(ty.plot {}), progress = getmetatable(ty.progress()), graph = require "tycho.graph",
  run = getmetatable(ty.start(function() end)).__index,
}

--- Classes whose methods users call; of layers the class alone must be known: a layer is called.
local classes = { [ty.nn.Module] = true, [ty.optim.Optimizer] = true, [ty.data.Dataset] = true, [ty.data.Loader] = true }

local function is_callable(v) return type(v) == "function" or (getmetatable(v) or {}).__call ~= nil end

local function walk(prefix, t, visit)
  for k, v in pairs(t) do
    local kind = type(v)
    if type(k) == "string" and not k:find "^_" and (kind == "function" or kind == "table") then
      local name = prefix .. "." .. k
      if is_callable(v) then visit(name) end
      local of_files = prefix == "files" and groups[k]
      if kind == "table" and not of_files and (classes[v] or not is_callable(v)) then walk(name, v, visit) end
    end
  end
end

--- Every public name, found without what is said of them: fields of the module, methods of tensors, of LuaJIT's table what is
--- the library's, members of the groups, methods of what functions of groups make.
local function public_names()
  local names, of_jit = {}, {}
  for k in pairs(loadstring 'return require "tycho.compile"' ().open(ty)) do of_jit[k] = true end
  for _, t in ipairs { ty, internals.methods } do
    for name, v in pairs(t) do
      if type(v) == "function" and not name:find "^_" then names[name] = true end
    end
  end
  for name in pairs(of_jit) do names["jit." .. name] = true end
  for group, t in pairs(groups) do
    walk(group, t, function(name) names[name] = true end)
  end
  local opt = ty.optim.SGD(ty.nn.Linear(1, 1):parameters())
  for class, object in pairs { Schedule = ty.optim.StepLR(opt, { every = 1 }), Plateau = ty.optim.ReduceLROnPlateau(opt),
    GradScaler = ty.optim.GradScaler {} } do
    walk("optim." .. class, getmetatable(object).__index, function(name) names[name] = true end)
  end
  return names
end

local names = H.sorted(public_names())

--- The names of a call's arguments: "(x, dim = -1, {keep = true})" gives x, dim and, for a table of options, false.
local function arguments_of(call)
  if call:find "^{" then return { false } end
  local list = {}
  local inner = call:match "^%((.*)%)$":gsub("%b{}", "{}"):gsub("%b()", "")
  for arg in (inner .. ","):gmatch "([^,]*)," do
    arg = arg:gsub("=.*", ""):match "^%s*(.-)%s*$"
    if arg ~= "" then list[#list + 1] = not arg:find "[{ ]" and arg end
  end
  return list
end

--- What is wrong with the arguments that are described, nil: nothing. One `...` may stand for all from somewhere on.
local function arguments_differ(entry)
  local want, got = arguments_of(entry.call), entry.params
  for i, p in ipairs(got) do
    if p.name == "..." then return i < #got and "arguments stand behind ..." or nil end
    if want[i] ~= false and want[i] ~= p.name then return ("%s is described as %s"):format(tostring(want[i]), p.name) end
  end
  return #got < #want and "arguments are not described" or nil
end

describe("what is said of public names", function()
  it("covers all of them, in ty.help and on the site", function()
    assert.truthy(#names > 560, #names)
    local on_site = {}
    for _, n in ipairs(reference.names()) do on_site[n.name] = true end
    for _, name in ipairs(names) do
      local entry = texts.of(name)
      assert.truthy(entry and #entry.text >= 10, name .. " has no text")
      local known = on_site[name] or on_site[texts.in_place(name) or ""] or on_site["jit." .. name]
      assert.truthy(known, name .. " is not in the reference")
      assert.truthy(ty.help(name):find(entry.text:match "^[^\n]*", 1, true), name)
    end
  end)

  it("describes every argument under the name that the call has", function()
    for _, name in ipairs(names) do
      local entry = texts.of(name)
      if not (entry.see and #entry.params == 0) then
        local wrong = arguments_differ(entry)
        assert.falsy(wrong, name .. entry.call .. ": " .. tostring(wrong))
      end
    end
  end)

  it("tells the sizes of tensors that are given, or that it is the same one", function()
    for _, name in ipairs(names) do
      local entry = texts.of(name)
      local last = entry.returns[#entry.returns]
      local in_nn = name:find "^nn%.%u%w*$" -- layers: what calling them gives
      if last and last.type:find "^tycho%.Tensor" or in_nn and not entry.see and name ~= "nn.Module" then
        assert.truthy(last and (#last.text >= 3 or entry.text:find "%["), name .. " does not tell what it gives")
      end
    end
  end)

  it("tells what fails: an error, or nil and a message", function()
    for _, name in ipairs(names) do assert.truthy(texts.tells_errors(texts.of(name)), name .. " tells of no error") end
  end)

  it("is true: who asks for a tensor raises for a function and a file, and names itself", function()
    local count = 0
    for _, name in ipairs(names) do
      local entry, last = texts.of(name), name:match "[^.]*$"
      local first = entry.params[1]
      local f = rawget(ty, name) or internals.methods[name] or name:find "^linalg%." and ty.linalg[last]
      if f and first and first.type:find "^tycho%.Tensor" and not first.type:find "table" then
        count = count + 1
        for _, v in ipairs { function() end, io.stdout } do
          local ok, why = pcall(f, v, v, v)
          assert.truthy(not ok and type(why) == "string" and why:find(last, 1, true), name .. ": " .. tostring(why))
        end
      end
    end
    assert.truthy(count > 280, count)
  end)

  it("names functions that there are", function()
    for _, name in ipairs(names) do
      local text = texts.of(name).text
      for other in text:gmatch "%f[%w.]ty%.([%a_][%w_.]*)" do
        other = other:gsub("%.$", "")
        assert.truthy(internals.help[other] or groups[other] or texts.of(other), name .. " names ty." .. other)
      end
    end
  end)
end)

--- Calls that the texts say raise.
local refused = [[
  ty.ones(2, 3):cumsum()
  ty.ones(2, 3):logcumsumexp()
  ty.tensor({2^53}, {dtype="i64"}):add(1):item()
  ty.linspace(0, 1, -1)
  ty.linspace(0, 1, 1.5)
  ty.blas("x")
  ty.deterministic("x")
  ty.linalg.qr(ty.ones(3))
  ty.linalg.svd(ty.ones(3))
  ty.linalg.lstsq(ty.ones(3, 2), ty.ones(2))
  ty.unfold(ty.range(5), 1, 2, 0)
  ty.range(5):narrow(1, 0, 2)
  ty.range(5):slice(1, 1, 9)
  ty.flatten(ty.ones(2, 3), 2, 1)
  ty.roll(ty.ones(2, 3), {1}, {1, 2})
  ty.tile(ty.ones(2), -1)
  ty.repeat_interleave(ty.ones(2), ty.tensor({1}, {dtype="i64"}), 1)
  ty.ones():rows()
  ty.pad(ty.ones(2), {{1, 1}, {1, 1}})
  ty.split(ty.range(4), -1)
  ty.cat({ty.ones(2)}, 3)
  ty.threads(2000)
  ty.movedim(ty.ones(2, 3), {1, 2}, {1})
  ty.diagonal(ty.ones(3))
  ty.stack({})
  ty.masked_select(ty.ones(2, 3), ty.ones(2):gt(0))
  ty.searchsorted(ty.ones(2, 3), ty.ones(3, 4))
  ty.to(ty.ones(2), 3)
  ty.copy_(ty.ones(2):requires_grad_(), 1)
  ty.fill_(ty.ones(2):requires_grad_(), 1)
  ty.zero_(ty.ones(2):requires_grad_())
  ty.normal_(ty.ones(2), 0, -1)
  ty.one_hot(ty.tensor({4}, {dtype="i64"}), 3)
  ty.cross_entropy(ty.ones(2, 3), ty.tensor({1, 4}, {dtype="i64"}))
  ty.mse_loss(ty.ones(2, 1), ty.ones(1, 2))
  ty.mse_loss(ty.ones(2), ty.ones(3))
  ty.nn.BatchNorm1d(3)(ty.ones(1, 3))
  ty.nn.Linear(2, 3)(ty.ones(3))
  ty.nn.GroupNorm(2, 3)
  ty.optim.SGD({ty.ones(2)})
  ty.optim.Adam({ty.nn.Parameter(ty.ones(2))}, {lr=-1})
  ty.optim.StepLR(3)
  ty.data.loader(3)
  ty.data.tensors(ty.ones(2), ty.ones(3))
  ty.meshgrid()
  ty.einsum("ij, jk", ty.ones(2, 2))
  ty.interpolate(ty.ones(2, 2), {scale=2})
  ty.set(ty.ones(2), 1, 1, 5)
  ty.view(ty.ones(4), 3)
  ty.randperm(2.5)
  ty.eye(-1)
  ty.hessian(3)
  ty.vmap(3)
  ty.scan(function(c, x) return ty.ones(2), x end, ty.zeros(), ty.range(3))
]]

describe("the page of others' names", function()
  local others = require "docs.names"

  it("is true of each name: it is there, another is used, or a reason is told", function()
    local text = others.load()
    local page = others.page(text)
    for _, title in ipairs { "torch", "Tensor", "torch.linalg", "torch.nn", "torch.optim", "torch.utils.data", "numpy" } do
      assert.truthy(page:find("\n## " .. title .. "\n", 1, true), title)
    end
    assert.truthy(H.raises(others.read, text .. "no_such_name\n"):find("it is not there", 1, true))
    assert.truthy(H.raises(others.read, text .. "# torch\nsoftmax - rare\n"):find("it is there", 1, true))
    assert.truthy(H.raises(others.read, text .. "nothing > no_such_name\n"):find("there is no", 1, true))
    assert.truthy(H.raises(others.read, text .. "nothing - whim\n"):find("no reason", 1, true))
  end)
end)

describe("errors", function()
  it("come where the texts say so, and name the function", function()
    local count = 0
    for call in refused:gmatch "[^\n]+" do
      local message = H.raises(loadstring("local ty = ... return " .. call), ty)
      local name = call:match "^%s*ty%.[%w_.]*%f[%W]" and call:match "^%s*ty%.([%w_.]+)":match "[^.]*$"
      local method = call:match ":([%w_]+)%b()%s*$"
      assert.truthy(message:find(method or name, 1, true), call .. ": " .. message)
      count = count + 1
    end
    assert.truthy(count > 50, count)
  end)
end)

describe("the reference", function()
  local examples = doctest.list(H.read "docs/reference.txt")

  it("has examples, each of a name that there is", function()
    assert.truthy(#examples > 150, #examples)
    for _, e in ipairs(examples) do
      for _, name in ipairs(e.names) do assert.truthy(texts.of(name), name) end
    end
  end)

  for _, e in ipairs(examples) do
    it("prints what stands there: " .. table.concat(e.names, " "), function()
      for i, out in ipairs(doctest.run(e, ty)) do
        assert.equal(e.lines[i].out, out, ("docs/reference.txt, line %d: %s"):format(e.line, e.lines[i].code))
      end
    end)
  end
end)

describe("the site", function()
  local out = os.tmpname()
  os.remove(out)
  local pages = {}

  --- All pages by address.
  local function read_pages()
    local pipe = io.popen(("cd '%s' && find . -name '*.html' | sed 's,^./,,'"):format(out))
    for address in pipe:lines() do
      local file = assert(io.open(out .. "/" .. address))
      pages[address] = file:read "*a"
      file:close()
    end
    pipe:close()
  end

  teardown(function() os.execute(("rm -rf '%s'"):format(out)) end)

  it("is built: the code of its pages runs, and prints what they show", function()
    local printed, status = blocks.shell(H.root, ("LUA_PATH=\"./?.lua;$LUA_PATH\" luajit docs/build.lua '%s'"):format(out))
    assert.equal(0, status, printed)
    read_pages()
    assert.truthy(#H.sorted(pages) >= 25)
  end)

  it("needs nothing from elsewhere: no script, style, font or picture of the net", function()
    for address, html in pairs(pages) do
      for src in html:gmatch "src=\"([^\"]*)\"" do assert.falsy(src:find "^%a+:" or src:find "^//", address .. ": " .. src) end
      for href in html:gmatch "<link[^>]*href=\"([^\"]*)\"" do assert.falsy(href:find "^%a+:", address) end
      assert.falsy(html:find("@import", 1, true) or html:find("url(http", 1, true), address)
    end
  end)

  it("leads nowhere else than to what there is", function()
    local ids = {}
    for address, html in pairs(pages) do
      ids[address] = {}
      for id in html:gmatch " id=\"?([^\" >]+)" do
        assert.falsy(ids[address][id], address .. " has " .. id .. " twice")
        ids[address][id] = true
      end
    end
    local links = 0
    for address, html in pairs(pages) do
      local folder = address:match "^(.*/)" or ""
      for attribute, to in html:gmatch "(%l+)=\"([^\"]*)\"" do
        if (attribute == "href" or attribute == "src") and not to:find "^https?:" then
          links = links + 1
          local path, id = to:match "^([^#]*)#?(.*)$"
          path = path == "" and address or (folder .. path):gsub("[^/]+/%.%./", "")
          local file = io.open(out .. "/" .. path)
          assert.truthy(file, address .. " leads to " .. to)
          file:close()
          if id ~= "" then assert.truthy(ids[path][id], address .. " leads to " .. to) end
        end
      end
    end
    assert.truthy(links > 2000, links)
  end)

  it("finds every public name by its search", function()
    local file = assert(io.open(out .. "/index.js"))
    local found = {}
    for line in file:lines() do
      local name, to = line:match "^%[\"([^\"]*)\",\"([^\"]*)\""
      if name then found[name] = to end
    end
    file:close()
    for _, n in ipairs(reference.names()) do
      local name = n.name:find "%." and n.name or "ty." .. n.name
      assert.truthy(found[name], name)
    end
  end)
end)

describe("the picture of the prompt", function()
  local has_library = pcall(H.ffi.load, "libedit.so.2")

  it("shows what the prompt says to the lines that are typed into it", function()
    if not has_library then return pending "libedit is not there" end
    local prompt = require "docs.prompt"
    local drawn, now = H.read "docs/pictures/prompt.svg", prompt.svg(prompt.session())
    local function words(svg) -- without the first line, which names versions
      local list = {}
      for text in svg:gmatch "<text[^>]*>([^<]*)</text>" do list[#list + 1] = text end
      return table.concat(list, "\n", 2)
    end
    assert.truthy(words(drawn):find("the input must be", 1, true))
    assert.equal(words(drawn), words(now))
  end)
end)

describe("pages", function()
  it("are told when what they show is not what the code prints", function()
    local page = "```lua\nprint(1)\n```\n\n```text\n2\n```\n\n```lua\nerror 'no'\n```\n\n```lua\nprint(3)\n```\n"
    local folder = os.tmpname()
    os.remove(folder)
    blocks.folder(H.root:gsub("/$", ""), folder)
    local list = blocks.run(blocks.of(page), folder, "page")
    os.execute(("rm -rf '%s'"):format(folder))
    assert.truthy(blocks.wrong(list[1]):find("it prints\n1\n\ninstead of\n2", 1, true))
    assert.falsy(blocks.wrong(list[2])) -- text
    assert.truthy(blocks.wrong(list[3]):find("fails", 1, true))
    assert.truthy(blocks.wrong(list[4]):find("not reached", 1, true))
  end)
end)
