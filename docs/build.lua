--- build.lua -- the site: luajit docs/build.lua [folder], build/docs by default; `make docs`.
-- In: tutorials/*.md, whose code runs here and draws the pictures they show; the examples, some of which run and draw;
-- the texts of every public name (lua/tycho/texts.lua); README.md's figures. Out: a folder of HTML that needs nothing
-- else, from the net or a server. Fails where a page's code fails or prints what the page does not show.

local blocks, markdown, highlight = require "docs.blocks", require "docs.markdown", require "docs.highlight"
local reference = require "docs.reference"
local texts = require "tycho.texts"
local escape = markdown.escape

local ROOT = io.popen("pwd"):read "*l"
local OUT = (arg[1] or "build/docs"):gsub("/$", "")
if OUT:sub(1, 1) ~= "/" then OUT = ROOT .. "/" .. OUT end
local WORK = OUT .. "/work"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "*a"
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(OUT .. "/" .. path, "wb"))
  file:write(text)
  file:close()
end

local function shell(command) assert(os.execute(command) == 0, command) end

------------------------------------------------------------------------------------------------------------- the plan

local tutorials = {
  { "first-model", "A first model", "Tensors, a function, compiled; a network that learns, in five minutes." },
  { "training", "Training", "Modules, optimisers, compiled steps, schedules, checkpoints, what to do about NaN." },
  { "data", "Data", "Tables, images, loaders, files of other libraries." },
  { "games", "Games", "Networks inside a frame: budgets, slices of time, random streams, learning while the game runs." },
  { "embedding", "Embedding", "Models in C and C++ programs: the C API, a C file made ahead of time, Lua's own." },
  { "speed", "Speed", "What makes calls fast, and how to see why one is not." },
  { "compiled", "Compiled functions in depth", "What is captured, guarded, replayed; parts, sizes, gradients." },
}

--- Examples in the gallery: file, arguments of a short run, the picture that it draws, what it is.
local examples = {
  { "digits_mlp", nil, nil, "A network reads hand-written digits: 98 of 100 it never saw." },
  { "digits_cnn", nil, nil, "The same by convolutions." },
  { "regression", "examples/data/cars.csv regression.svg 60", "regression.svg",
    "How far a car goes on a gallon: a table, a network, a plot." },
  { "vae", "8 vae.png", "vae.png", "Digits that nobody wrote: a variational autoencoder." },
  { "pendulum", "14 pendulum.svg 3", "pendulum.svg", "Learns to swing up while a game runs, within its frames." },
  { "mandelbrot", "mandelbrot.ppm 640 400", "mandelbrot.ppm", "The Mandelbrot set, compiled." },
  { "heat", nil, nil, "A stencil by views: heat spreads over a plate." },
  { "nbody", nil, nil, "Stars that attract each other." },
  { "chargpt", nil, nil, "A small GPT over the characters of a file." },
  { "classify", nil, nil, "Which digit is on an image?" },
  { "modes", nil, nil, "One module that trains in one mode and predicts in another." },
  { "fold_batchnorm", nil, nil, "A pass over captured graphs: batch norms go into the layers before." },
  { "count_operations", nil, nil, "What each operation of a model costs." },
  { "custom_backend", nil, nil, "A backend that writes loops in Lua." },
  { "digits", nil, nil, "Digits from nothing: no modules, gradients by hand." },
}

------------------------------------------------------------------------------------------------------------- the page

local LIGHT = "--bg:#fff;--fg:#1c1e21;--dim:#626972;--line:#dfe3e8;--soft:#f5f7f9;--link:#0b62c4;--bad:#a3271f;--out:#2b4a3a;"
  .. "--type:#6b4a9c;--str:#1a7f4b;--key:#9a3b8f;--num:#a15c00;--fun:#0b5cad;"
local DARK = "--bg:#15181c;--fg:#e4e7eb;--dim:#98a1ab;--line:#30363d;--soft:#1c2126;--link:#6cb2f5;--bad:#f2897f;--out:#a8d5bd;"
  .. "--type:#c3a6f0;--str:#7fd1a6;--key:#e79bdc;--num:#e5a445;--fun:#8cc4ff;"

--- The list of all pages, as seen from a page: `base` leads to the top.
local function navigation(base, current)
  local out = {}
  local function add(form, ...) out[#out + 1] = form:format(...) end
  local function item(address, title)
    add("<a href=\"%s%s\"%s>%s</a>", base, address, address == current and " aria-current=page" or "", escape(title))
  end
  add "<nav class=site aria-label=pages><h2>Tutorials</h2>"
  for _, t in ipairs(tutorials) do item(t[1] .. ".html", t[2]) end
  item("examples.html", "Examples")
  item("names.html", "Names of PyTorch and NumPy")
  add "<h2>Reference</h2>"
  for _, p in ipairs(reference.pages()) do item("reference/" .. p[1] .. ".html", p[2]) end
  add "</nav>"
  return table.concat(out, "\n")
end

--- Writes a page. toc: {{id, text, sub}}.
local function page(address, title, body, toc)
  local base = address:find "/" and "../" or ""
  local out = {}
  local function add(form, ...) out[#out + 1] = select("#", ...) > 0 and form:format(...) or form end
  add("<!doctype html>\n<html lang=en data-base=\"%s\"><head><meta charset=utf-8>", base)
  add "<meta name=viewport content=\"width=device-width, initial-scale=1\">"
  add("<title>%s</title><link rel=stylesheet href=\"%ssite.css\">", escape(title == "Tycho" and title or title .. " · Tycho"), base)
  add "<script>try{var t=localStorage.getItem('theme');if(t)document.documentElement.setAttribute('data-theme',t)}catch(e){}</script>"
  add "</head><body><a class=skip href=\"#content\">to the content</a>"
  add("<header><button id=menu aria-label=pages aria-expanded=false>☰</button><a class=home href=\"%sindex.html\">Tycho</a>", base)
  add "<span class=grow></span><div class=search role=search><input type=search placeholder=\"Search  ( / )\" role=combobox "
  add "aria-label=\"search names and pages\" aria-expanded=false aria-controls=found autocomplete=off spellcheck=false>"
  add "<ul id=found role=listbox hidden></ul></div><button id=theme>☾</button></header><div class=page>"
  add(navigation(base, address))
  add "<main id=content>"
  add(body)
  add "</main><nav class=toc aria-label=\"on this page\">"
  for _, entry in ipairs(toc or {}) do
    add("<a href=\"#%s\"%s>%s</a>", escape(entry[1]), entry[3] and " class=sub" or "", escape(entry[2]))
  end
  add "</nav></div>"
  add("<script src=\"%sindex.js\"></script><script src=\"%ssite.js\"></script></body></html>", base, base)
  write(address, table.concat(out, "\n"))
end

---------------------------------------------------------------------------------------------------------- the search

local index, addresses = {}, {} -- what is found; where names are described

--- also: further words by which it is found.
local function findable(name, address, about, also) index[#index + 1] = { name, address, about, also } end

local function js(text) return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", " "):gsub("<", "\\x3c") .. '"' end

local function write_index()
  local lines = {}
  for i, e in ipairs(index) do lines[i] = ("[%s,%s,%s,%s]"):format(js(e[1]), js(e[2]), js(e[3]), js(e[4] or "")) end
  write("index.js", "var INDEX = [\n" .. table.concat(lines, ",\n") .. "\n];\n")
end

--- What links code in a text to the reference, seen from a page.
local function linker(base)
  return function(code)
    local name = code:match "^ty%.([%a_][%w_.]*)" or code:match "^(jit%.[%a_]+)" or code:match "^(nn%.[%w_.]+)"
      or code:match "^(optim%.[%w_.]+)"
    local method = code:match "^[%a_]+:([%a_][%w_]*)"
    if method then
      local of_tensors = texts.of(method) and texts.of(method).is_method
      for _, class in ipairs { "nn.Module", "optim.Optimizer", "data.Loader", "data.Dataset", "csv.Table", "run" } do
        name = name or (not of_tensors and addresses[class .. "." .. method] and class .. "." .. method)
      end
      name = name or of_tensors and method
    end
    if not name then return nil end
    local to = addresses[name] or addresses[texts.in_place(name) or ""]
    return to and base .. to
  end
end

------------------------------------------------------------------------------------------------------------- pictures

local SCHEME = "@media %(prefers%-color%-scheme: dark%)"

--- Takes a page's pictures from a folder. One that follows its reader's scheme becomes two, of which the page shows one:
--- a picture in a page does not know of the page's own switch. Gives the HTML with both. base: leads to the top.
local function with_pictures(html, folder, base)
  base = base or ""
  return (html:gsub("<img src=\"([^\"/]+)\"([^>]*)>", function(src, rest)
    local svg = src:find "%.svg$" and read(folder .. "/" .. src)
    if not svg or not svg:find(SCHEME) then
      shell(("cp '%s/%s' '%s/%s'"):format(folder, src, OUT, src))
      return ("<img src=\"%s%s\"%s>"):format(base, src, rest)
    end
    local dark = src:gsub("%.svg$", "-dark.svg")
    write(src, (svg:gsub(SCHEME, "@media not all")))
    write(dark, (svg:gsub(SCHEME, "@media all")))
    return ("<img class=on-light src=\"%s%s\"%s><img class=on-dark src=\"%s%s\"%s>"):format(base, src, rest, base, dark, rest)
  end))
end

------------------------------------------------------------------------------------------------------------ reference

--- The examples of the reference: by name {code, out}. See reference.txt.
local function reference_examples()
  local list = require "docs.doctest"
  return list.read(read(ROOT .. "/docs/reference.txt"))
end

--- An example of plots with its picture: what it calls p.
local function drawn(name, example)
  if not example or not name:find "^plot" then return example end
  local _, names = require("docs.doctest").run(example.example, require "tycho")
  local picture = name:gsub("%.", "-") .. ".svg"
  local p = rawget(names, "p")
  if not p then return example end
  p.theme = "auto"
  assert(p:save(WORK .. "/" .. picture))
  return { code = example.code, out = "", picture = picture }
end

local function build_reference()
  local names, by_page, shown = reference.names(), {}, reference_examples()
  for _, n in ipairs(names) do
    local address = "reference/" .. n.page[1] .. ".html#" .. n.name
    addresses[n.name] = address
    if n.name:find "^jit%." then addresses[n.name:sub(5)] = addresses[n.name:sub(5)] or address end
    by_page[n.page] = by_page[n.page] or {}
    table.insert(by_page[n.page], n)
  end
  for _, p in ipairs(reference.pages()) do
    local out, toc, link, section = {}, {}, linker "../", nil
    local function add(html) out[#out + 1] = html end
    add("<h1>" .. escape(p[2]) .. "</h1><p>" .. markdown.inline(p[3], link) .. "</p>")
    add "<div class=names>"
    for _, n in ipairs(by_page[p]) do add(("<a href=\"#%s\">%s</a>"):format(escape(n.name), escape(n.name))) end
    add "</div>"
    local several = #(p[4] or {}) + (p[5] and 1 or 0) > 1
    for _, n in ipairs(by_page[p]) do
      if several and n.section ~= section then
        section = n.section
        add(("<h2 id=\"%s\">%s</h2>"):format(markdown.slug(section), escape(section)))
        toc[#toc + 1] = { markdown.slug(section), section }
      end
      add(with_pictures(reference.entry(n.name, link, drawn(n.name, shown[n.name])), WORK, "../"))
      toc[#toc + 1] = { n.name, n.name, true }
      local called = not n.name:find "%." and "ty." .. n.name or n.name
      findable(called, addresses[n.name], reference.summary(n.name), reference.also[n.name])
    end
    add "<footer>Errors name the function, the argument and the shapes, at the line of the call. Dims and positions count from 1.</footer>"
    page("reference/" .. p[1] .. ".html", p[2], table.concat(out, "\n"), toc)
  end
  return names
end

------------------------------------------------------------------------------------------------------------ tutorials

local function build_tutorials()
  for i, t in ipairs(tutorials) do
    local text = read(("%s/docs/tutorials/%s.md"):format(ROOT, t[1]))
    for _, b in ipairs(blocks.run(blocks.of(text), WORK, t[1])) do
      local wrong = blocks.wrong(b)
      if wrong then error(("docs/tutorials/%s.md: %s"):format(t[1], wrong), 0) end
    end
    local html, headings = markdown.html(text, linker "")
    html = with_pictures(html, WORK)
    local toc = {}
    for _, h in ipairs(headings) do
      if h.level > 1 then
        toc[#toc + 1] = { h.id, (h.text:gsub("`", "")), h.level > 2 }
        findable((h.text:gsub("`", "")), ("%s.html#%s"):format(t[1], h.id), "Tutorial: " .. t[2])
      end
    end
    findable(t[2], t[1] .. ".html", "Tutorial: " .. t[3])
    local before, after = tutorials[i - 1], tutorials[i + 1]
    html = html .. ("<div class=next><span>%s</span><span>%s</span></div>"):format(
      before and ("← <a href=\"%s.html\">%s</a>"):format(before[1], before[2]) or "",
      after and ("<a href=\"%s.html\">%s</a> →"):format(after[1], after[2]) or "<a href=\"examples.html\">Examples</a> →")
    page(t[1] .. ".html", t[2], html, toc)
  end
end

------------------------------------------------------------------------------------------------------------- examples

--- A PPM as PNG, which browsers show.
local function as_png(name)
  local ty = require "tycho"
  local image = assert(ty.image.load(WORK .. "/" .. name))
  local png = name:gsub("%.ppm$", ".png")
  assert(ty.image.save(WORK .. "/" .. png, image))
  return png
end

local function build_examples()
  local out, toc = { "<h1>Examples</h1><p>Each runs from the repository's folder: <code>./tycho examples/heat.lua</code>. "
    .. "Their data come with it.</p>" }, {}
  local function add(form, ...) out[#out + 1] = select("#", ...) > 0 and form:format(...) or form end
  for _, e in ipairs(examples) do
    local source = read(("%s/examples/%s.lua"):format(ROOT, e[1]))
    add("<h2 id=\"%s\">%s</h2><p>%s</p>", e[1], e[1], escape(e[4]))
    toc[#toc + 1] = { e[1], e[1] }
    findable("examples/" .. e[1] .. ".lua", "examples.html#" .. e[1], e[4])
    if e[2] then
      local printed, status = blocks.shell(WORK, ("TYCHO_LOG=0 luajit examples/%s.lua %s"):format(e[1], e[2]))
      if status ~= 0 then error(("examples/%s.lua: %s"):format(e[1], printed), 0) end
      local picture = e[3]:find "%.ppm$" and as_png(e[3]) or e[3]
      shell(("cp '%s/%s' '%s/%s'"):format(WORK, picture, OUT, picture))
      add("<figure><img src=\"%s\" alt=\"what %s draws\" loading=lazy></figure>", picture, e[1])
      add("<pre class=\"code sh\">./tycho examples/%s.lua %s</pre><pre class=\"code text\">%s</pre>", e[1], escape(e[2]),
        escape((printed:gsub("[^\n]*\r", ""):gsub("\n$", ""))))
    else
      add("<pre class=\"code sh\">./tycho examples/%s.lua</pre>", e[1])
    end
    out[#out + 1] = "<details><summary>Source</summary><pre class=\"code lua\">" .. highlight.lua((source:gsub("\n$", "")))
      .. "</pre></details>"
  end
  findable("Examples", "examples.html", "Programs that run")
  page("examples.html", "Examples", table.concat(out, "\n"), toc)
end

------------------------------------------------------------------------------------------------------- others' names

local function build_names()
  local names = require "docs.names"
  local html, headings = markdown.html(names.page(names.load()), nil)
  local toc = {}
  for _, h in ipairs(headings) do
    if h.level > 1 then toc[#toc + 1] = { h.id, h.text } end
  end
  findable("Names of PyTorch and NumPy", "names.html", "Which of their names there are", "torch numpy port")
  page("names.html", "Names of PyTorch and NumPy", html, toc)
end

------------------------------------------------------------------------------------------------------------ the front

local function build_front()
  local text = read(ROOT .. "/docs/front.md")
  for _, b in ipairs(blocks.run(blocks.of(text), WORK, "front")) do
    local wrong = blocks.wrong(b)
    if wrong then error("docs/front.md: " .. wrong, 0) end
  end
  shell(("cp '%s/docs/pictures/prompt.svg' '%s/bench/figures.svg' '%s'"):format(ROOT, ROOT, WORK))
  local html = with_pictures((markdown.html(text, linker "")), WORK)
  local cards = { "<h2>Tutorials</h2><div class=cards>" }
  for _, t in ipairs(tutorials) do
    cards[#cards + 1] = ("<a href=\"%s.html\"><b>%s</b><span>%s</span></a>"):format(t[1], escape(t[2]), escape(t[3]))
  end
  cards[#cards + 1] = "</div><h2>Reference</h2><div class=cards>"
  for _, p in ipairs(reference.pages()) do
    cards[#cards + 1] = ("<a href=\"reference/%s.html\"><b>%s</b><span>%s</span></a>"):format(p[1], escape(p[2]),
      markdown.inline((p[3]:match "^[^.]*%."), nil))
  end
  cards[#cards + 1] = "</div>"
  page("index.html", "Tycho", html .. table.concat(cards, "\n"), {})
end

shell(("rm -rf '%s' && mkdir -p '%s/reference'"):format(OUT, OUT))
blocks.folder(ROOT, WORK)
local names = build_reference()
build_tutorials()
build_examples()
build_names()
build_front()
write_index()
write("site.css", (read(ROOT .. "/docs/site.css"):gsub("/%*.-%*/\n", ""):gsub("LIGHT", LIGHT):gsub("DARK", DARK)))
write("site.js", read(ROOT .. "/docs/site.js"))
shell(("rm -rf '%s'"):format(WORK))
print(("docs: %d names, %d pages; open %s/index.html"):format(#names, #reference.pages() + #tutorials + 3, OUT))
