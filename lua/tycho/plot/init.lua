--- plot/init.lua -- `ty.plot`: images of numbers, to SVG or PNG; no display and no library is needed.
--
--   ty.plot{ title = "Training", xlabel = "step", ylabel = "loss", yscale = "log" }
--     :line(train, { label = "train" }):line(steps, held_out, { label = "held out" })
--     :save "loss.svg"
--   ty.plot{ { p, q }, { r } }:save "all.png"             -- plots side by side and below each other
--
-- In: tensors or plain lists of numbers; NaN and infinite values leave gaps. Out: the plot itself, so that calls follow
-- each other. Wrong use raises at the user's line; a file that cannot be written gives nil and why.
-- Here is what users call and what is checked; axes.lua lays out, svg.lua and raster.lua draw.

local ty = require "tycho"
local axes = require "tycho.plot.axes"
local color = require "tycho.plot.color"

local check = require("tycho.arguments")(ty)
local fail, show = check.fail, check.show

---@class tycho.Plot
local Plot = {}

local WIDTH, HEIGHT, CELL_WIDTH, CELL_HEIGHT = 640, 420, 440, 320

---------------------------------------------------------------------------------------------------------- checks

--- A list of numbers from a tensor of one dim or a table.
local function numbers(who, i, v, what)
  if ty.is_tensor(v) then
    check.tensor(who, i, v)
    if v.ndim ~= 1 then fail(who, "argument %d (%s) must have one dim, got %s", i, what, check.text(v)) end
    return v:to("f64"):totable()
  end
  if type(v) ~= "table" then
    fail(who, "argument %d (%s) must be a tensor or a list of numbers, got %s", i, what, show(v))
  end
  local list = {}
  for k = 1, #v do
    if type(v[k]) ~= "number" then fail(who, "argument %d (%s): element %d is %s", i, what, k, show(v[k])) end
    list[k] = v[k]
  end
  return list
end

local function same_length(who, a, b, names)
  if #a ~= #b then fail(who, "%s differ in length, %d and %d", names, #a, #b) end
end

local SHARED = { label = "string", color = "any", alpha = "number" }

--- Options of one mark: the shared ones and these. Colours are looked up.
local function options(who, opts, known)
  for k, v in pairs(SHARED) do known[k] = v end
  local y = {}
  for k, v in pairs(check.options(who, opts, known)) do y[k] = v end
  if y.color ~= nil then
    y.color = color.parse(y.color)
      or fail(who, "option color must be a name, \"#rrggbb\" or {r, g, b} in 0..1, got %s", show(opts.color))
  end
  if y.alpha and not (y.alpha >= 0 and y.alpha <= 1) then fail(who, "option alpha must be in 0..1, got %g", y.alpha) end
  for _, name in ipairs { "width", "size" } do
    if type(y[name]) == "number" and not (y[name] > 0 and y[name] < 1e4) then
      fail(who, "option %s must be positive, got %g", name, y[name])
    end
  end
  return y
end

local function one_of(who, name, v, list)
  if v == nil or list[v] then return v end
  local names = {}
  for k in pairs(list) do names[#names + 1] = k end
  table.sort(names)
  return fail(who, "option %s must be one of %s, got %s", name, table.concat(names, " "), show(v))
end

--- {low, high}, low below high.
local function pair(who, name, v)
  if v == nil then return nil end
  local fits = type(v) == "table" and type(v[1]) == "number" and type(v[2]) == "number" and v[1] < v[2]
  if not fits or v[2] - v[1] == math.huge then
    fail(who, "option %s must be {low, high}, low below high, got %s", name,
      type(v) == "table" and ("{%s, %s}"):format(tostring(v[1]), tostring(v[2])) or show(v))
  end
  return { v[1], v[2] }
end

--- (values, opts) or (x, values, opts): x counts from 1 where it is left out.
local function x_and_y(who, x, y, opts)
  if y == nil or check.is_options(y) then
    local values = numbers(who, 1, x, "y")
    x = {}
    for i = 1, #values do x[i] = i end
    return x, values, y
  end
  local xs, ys = numbers(who, 1, x, "x"), numbers(who, 2, y, "y")
  same_length(who, xs, ys, "x and y")
  return xs, ys, opts
end

--- Adds a mark; without a colour it gets the next of the cycle.
local function add(plot, mark)
  if not mark.color and not mark.plain then
    plot.turn = plot.turn + 1
    mark.color = color.cycle[(plot.turn - 1) % #color.cycle + 1]
  end
  plot.marks[#plot.marks + 1] = mark
  return plot
end

---------------------------------------------------------------------------------------------------------- marks

local DASHES = { solid = {}, dashed = { 6, 4 }, dotted = { 0.1, 3.5 }, dashdot = { 7, 3.5, 0.1, 3.5 } }

--- A curve through points. line(y) counts x from 1. A point that is not finite breaks it.
--- Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param x tycho.Tensor|number[]
---@param y? tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, width: number?, dash: string?, marker: string?}
---@return tycho.Plot
function Plot:line(x, y, opts)
  local xs, ys, o = x_and_y("line", x, y, opts)
  o = options("line", o, { width = "number", dash = "any", marker = "any" })
  o.dash = DASHES[one_of("line", "dash", o.dash, DASHES) or "solid"]
  one_of("line", "marker", o.marker, axes.markers)
  o.kind, o.x, o.y = "line", xs, ys
  return add(self, o)
end

--- The area between two curves, behind what is drawn in the same colour: a range of errors. Without a colour it has
--- that of the curve drawn last.
--- Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param x tycho.Tensor|number[]
---@param low tycho.Tensor|number[]
---@param high tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?}
---@return tycho.Plot
function Plot:band(x, low, high, opts)
  local xs, lows, highs = numbers("band", 1, x, "x"), numbers("band", 2, low, "low"), numbers("band", 3, high, "high")
  same_length("band", xs, lows, "x and low")
  same_length("band", xs, highs, "x and high")
  local o = options("band", opts, {})
  local last = self.marks[#self.marks]
  o.color = o.color or last and last.kind == "line" and last.color or nil
  o.kind, o.x, o.y, o.high, o.alpha = "band", xs, lows, highs, o.alpha or 0.18
  return add(self, o)
end

--- Points. values gives each a colour from a map, with a bar that explains it.
--- Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param x tycho.Tensor|number[]
---@param y? tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, size: number?, marker: string?, values: any, map: string?,
---  lim: number[]?}
---@return tycho.Plot
function Plot:scatter(x, y, opts)
  local xs, ys, given = x_and_y("scatter", x, y, opts)
  local o = options("scatter", given, { size = "number", marker = "any", values = "any", map = "any", lim = "any" })
  one_of("scatter", "marker", o.marker, axes.markers)
  o.map, o.lim = one_of("scatter", "map", o.map, color.maps) or "viridis", pair("scatter", "lim", o.lim)
  if o.values then
    o.values = numbers("scatter", 3, o.values, "values")
    same_length("scatter", xs, o.values, "x and values")
    o.bar, o.plain = o.label or "", true
  end
  o.kind, o.x, o.y = "scatter", xs, ys
  return add(self, o)
end

--- How many values fall into each of equal bins: `bins` of them, or by the rule of Freedman and Diaconis.
--- Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param values tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, bins: integer?, density: boolean?, lim: number[]?}
---@return tycho.Plot
function Plot:hist(values, opts)
  local flat = ty.is_tensor(values) and check.tensor("hist", 1, values):reshape(-1) or values
  local list = numbers("hist", 1, flat, "values")
  local o = options("hist", opts, { bins = "number", density = "boolean", lim = "any" })
  if o.bins and (o.bins < 1 or o.bins > 10000 or o.bins % 1 ~= 0) then
    fail("hist", "option bins must be a whole number from 1 to 10000, got %g", o.bins)
  end
  o.lim = pair("hist", "lim", o.lim)
  o.edges, o.counts = axes.bins(list, o)
  o.kind = "hist"
  return add(self, o)
end

--- Bars with names: bars({"a", "b"}, {3, 4}); several calls with the same names stand beside each other. base: where
--- they begin.
--- Raises where arguments are neither tensors nor lists of numbers, differ in length, or an option is not known.
---@param names (string|number)[]
---@param values tycho.Tensor|number[]
---@param opts? {label: string?, color: any, alpha: number?, base: number?, horizontal: boolean?}
---@return tycho.Plot
function Plot:bars(names, values, opts)
  if type(names) ~= "table" then fail("bars", "argument 1 must be a list of names, got %s", show(names)) end
  local list = {}
  for i = 1, #names do
    if type(names[i]) ~= "string" and type(names[i]) ~= "number" then
      fail("bars", "argument 1: name %d is %s", i, show(names[i]))
    end
    list[i] = tostring(names[i])
  end
  local heights = numbers("bars", 2, values, "values")
  same_length("bars", list, heights, "names and values")
  local o = options("bars", opts, { base = "number", horizontal = "boolean" })
  o.kind, o.names, o.y = "bars", list, heights
  return add(self, o)
end

local MOST = 2 ^ 24 -- numbers that become colours: more than any screen shows

--- Rows of numbers from a tensor of `ndim` dims or nested tables.
local function nested(who, v, ...)
  local ok, t = true, v
  if type(v) == "table" then ok, t = pcall(ty.tensor, v, { dtype = "f64" }) end
  if not ok then fail(who, "argument 1: %s", (tostring(t):gsub("^.-tensor: ", ""))) end
  check.tensor(who, 1, t)
  if t:numel() > MOST then
    fail(who, "argument 1 is too large to draw, %s (at most %d numbers: take steps, or means)", check.text(t), MOST)
  end
  for _, ndim in ipairs { ... } do
    if t.ndim == ndim then return t:to "f64" end
  end
  return fail(who, "argument 1 must have %s dims, got %s", table.concat({ ... }, " or "), check.text(t))
end

--- A matrix as colours, row 1 on top, with a bar that explains them. x and y: {low, high} of what the axes show; with y
--- the last row is on top.
--- Raises where the matrix has other dims than two or no elements, or an option is not known.
---@param matrix tycho.Tensor|number[][]
---@param opts? {map: string?, lim: number[]?, bar: boolean?, label: string?, x: number[]?, y: number[]?}
---@return tycho.Plot
function Plot:heat(matrix, opts)
  local t = nested("heat", matrix, 2)
  local o = options("heat", opts, { map = "any", lim = "any", bar = "boolean", x = "any", y = "any" })
  if t:numel() == 0 then fail("heat", "argument 1 has no elements, %s", check.text(t)) end
  o.map, o.lim = one_of("heat", "map", o.map, color.maps) or "viridis", pair("heat", "lim", o.lim)
  o.xs, o.ys = pair("heat", "x", o.x), pair("heat", "y", o.y)
  o.kind, o.cells, o.plain = "heat", t:totable(), true
  o.bar = o.bar ~= false and (o.label or "") or nil
  return add(self, o)
end

--- Images without axes: [h, w], [3, h, w] in colour, [n, h, w] or [n, c, h, w] as a sheet. Values go from black at
--- lim[1] to white at lim[2], or through a map; by default u8 from 0 to 255, others from the least to the greatest.
--- columns: of the sheet. sheet = true: [3, h, w] is three images.
--- Raises where it has other dims or channels, or an option is not known.
---@param t tycho.Tensor|number[][]
---@param opts? {columns: integer?, gap: integer?, lim: number[]?, map: string?, sheet: boolean?}
---@return tycho.Plot
function Plot:image(t, opts)
  local bytes = ty.is_tensor(t) and t.dtype == "u8"
  local x = nested("image", t, 2, 3, 4)
  local o = options("image", opts, { columns = "number", gap = "number", lim = "any", map = "any", sheet = "boolean" })
  local s = x.shape
  if x:numel() == 0 then fail("image", "argument 1 has no elements, %s", check.text(x)) end
  if x.ndim == 2 then x = x:reshape(1, 1, s[1], s[2])
  elseif x.ndim == 3 and s[1] == 3 and not o.sheet then x = x:reshape(1, 3, s[2], s[3])
  elseif x.ndim == 3 then x = x:reshape(s[1], 1, s[2], s[3]) end
  if x:size(2) ~= 1 and x:size(2) ~= 3 then
    fail("image", "argument 1 must have 1 or 3 channels, got %s", check.text(t))
  end
  for _, name in ipairs { "columns", "gap" } do
    local v = o[name]
    if v and (v % 1 ~= 0 or v < (name == "gap" and 0 or 1) or v > 1e4) then
      fail("image", "option %s must be a whole number, got %g", name, v)
    end
  end
  one_of("image", "map", o.map, color.maps)
  o.lim = pair("image", "lim", o.lim) or bytes and { 0, 255 } or nil
  o.kind, o.images, o.plain = "image", x:totable(), true
  return add(self, o)
end

--- A straight line over the whole plot at this y.
--- Raises where it is no number.
---@param at number
---@param opts? {label: string?, color: any, alpha: number?, width: number?, dash: string?}
---@return tycho.Plot
function Plot:hline(at, opts)
  local o = options("hline", opts, { width = "number", dash = "any" })
  o.at, o.kind, o.axis = check.number("hline", 1, at, "y"), "rule", "y"
  o.dash = DASHES[one_of("hline", "dash", o.dash, DASHES) or "dashed"]
  o.color, o.width = o.color or axes.soft, o.width or 1.2
  return add(self, o)
end

--- A straight line over the whole plot at this x.
--- Raises where it is no number.
---@param at number
---@param opts? {label: string?, color: any, alpha: number?, width: number?, dash: string?}
---@return tycho.Plot
function Plot:vline(at, opts)
  local o = options("vline", opts, { width = "number", dash = "any" })
  o.at, o.kind, o.axis = check.number("vline", 1, at, "x"), "rule", "x"
  o.dash = DASHES[one_of("vline", "dash", o.dash, DASHES) or "dashed"]
  o.color, o.width = o.color or axes.soft, o.width or 1.2
  return add(self, o)
end

--- Words at a point of the data.
--- Raises where the place is no number, or the text no string.
---@param x number
---@param y number
---@param text string
---@param opts? {color: any, anchor: "start"|"middle"|"end"|nil, size: number?}
---@return tycho.Plot
function Plot:note(x, y, text, opts)
  local o = options("note", opts, { anchor = "any", size = "number" })
  one_of("note", "anchor", o.anchor, { start = true, middle = true, ["end"] = true })
  o.x, o.y = { check.number("note", 1, x, "x") }, { check.number("note", 2, y, "y") }
  if type(text) ~= "string" then fail("note", "argument 3 must be a string, got %s", show(text)) end
  o.kind, o.text, o.color = "note", text, o.color or axes.ink
  return add(self, o)
end

---------------------------------------------------------------------------------------------------------- out

--- The plot as SVG.
--- Raises never.
---@return string
function Plot:svg() return ty.internals.load("tycho.plot.svg").text(axes.scene(self)) end

--- The plot as the bytes of a PNG, `scale` pixels for each unit of its size: 2, unless told otherwise.
--- Raises where the scale lies outside of 0 to 16.
---@param scale? number
---@return string
function Plot:png(scale)
  scale = check.number("png", 1, scale, "scale", 2)
  if not (scale > 0 and scale <= 16) then fail("png", "argument 1 (scale) must be in 0..16, got %g", scale) end
  local width, height, sample = ty.internals.load("tycho.plot.raster").draw(axes.scene(self), scale)
  return ty.internals.load("tycho.plot.png").encode(width, height, 3, sample)
end

--- Writes a file, SVG or PNG by its name.
--- Raises where the path ends in neither .svg nor .png. What cannot be written gives nil and a message.
---@param path string
---@return true? ok, string? message
function Plot:save(path)
  if type(path) ~= "string" then fail("save", "argument 1 must be a path, got %s", show(path)) end
  local kind = path:lower():match "%.(%w+)$"
  if kind ~= "svg" and kind ~= "png" then fail("save", "the path must end in .svg or .png, got %q", path) end
  return ty.internals.load("tycho.files")._native.write(path, { kind == "svg" and self:svg() or self:png() })
end

function Plot:__tostring()
  if self.rows then return ("plot of %d rows"):format(#self.rows) end
  return ("plot%s: %d mark%s"):format(self.title and (" %q"):format(self.title) or "", #self.marks,
    #self.marks == 1 and "" or "s")
end

local KNOWN = {
  title = "string", xlabel = "string", ylabel = "string", xscale = "any", yscale = "any", xlim = "any", ylim = "any",
  width = "number", height = "number", legend = "any", grid = "boolean", theme = "any", axes = "boolean",
}
local SCALES = { linear = true, log = true }

--- A method that is missing raises; options may be missing.
function Plot.__index(_, name)
  local method = Plot[name]
  if method ~= nil or KNOWN[name] or name == "rows" then return method end
  local list = {}
  for known in pairs(Plot) do
    if not known:find "^__" then list[#list + 1] = known end
  end
  table.sort(list)
  return fail("plot", "there is no method %s; there are %s", tostring(name), table.concat(list, " "))
end
local LEGENDS = {
  [true] = true, [false] = true, ["top left"] = true, ["top right"] = true, ["bottom left"] = true,
  ["bottom right"] = true,
}

local HINT = " (values are drawn by ty.plot{}:line(values))"

local function is_plot(v) return getmetatable(v) == Plot end

--- The rows of plots in a table's list part; nil when there are none.
local function rows_of(opts)
  if opts[1] == nil then return nil end
  local rows = {}
  for i, row in ipairs(opts) do
    if is_plot(row) then row = { row } end
    if type(row) ~= "table" or #row == 0 then
      fail("plot", "row %d must be a list of plots, got %s%s", i, show(row), type(row) == "number" and HINT or "")
    end
    rows[i] = {}
    for k, p in ipairs(row) do
      if not is_plot(p) or p.rows then fail("plot", "row %d: element %d must be a plot, got %s", i, k, show(p)) end
      rows[i][k] = p
    end
  end
  return rows
end

--- A plot, still empty; or rows of plots as one. Options: title, xlabel, ylabel; xscale, yscale = "log"; xlim, ylim =
--- {low, high}; width, height in pixels, beside others in proportion; legend = false or a corner such as "top left" (by
--- default where there is
--- room); grid = false; axes = false; theme = "dark", or "auto": an SVG follows its reader's light or dark scheme.
--- Raises where an option is not known, or a row holds something else than plots.
---@param opts? {title: string?, xlabel: string?, ylabel: string?, xscale: "linear"|"log"|nil,
---  yscale: "linear"|"log"|nil, xlim: number[]?, ylim: number[]?, width: number?, height: number?,
---  legend: boolean|string|nil, grid: boolean?, theme: string?, axes: boolean?, [integer]: tycho.Plot[]}
---@return tycho.Plot
return function(opts)
  local y = { marks = {}, turn = 0 }
  if opts ~= nil and (type(opts) ~= "table" or is_plot(opts)) then
    fail("plot", "argument 1 must be a table of options, got %s%s", show(opts), ty.is_tensor(opts) and HINT or "")
  end
  local named = {}
  if opts then
    y.rows = rows_of(opts)
    for k, v in pairs(opts) do
      if type(k) ~= "number" then named[k] = v end
    end
  end
  for k, v in pairs(check.options("plot", named, KNOWN)) do y[k] = v end
  one_of("plot", "xscale", y.xscale, SCALES)
  one_of("plot", "yscale", y.yscale, SCALES)
  one_of("plot", "theme", y.theme, axes.themes)
  if y.legend ~= nil and not LEGENDS[y.legend] then
    fail("plot", "option legend must be true, false or a corner such as \"top left\", got %s", show(y.legend))
  end
  for _, axis in ipairs { "x", "y" } do
    local lim = pair("plot", axis .. "lim", y[axis .. "lim"])
    y[axis .. "lim"] = lim
    if lim and y[axis .. "scale"] == "log" and lim[1] <= 0 then
      fail("plot", "option %slim must be above 0 on a log axis, got %g", axis, lim[1])
    end
  end
  local columns = 1
  for _, row in ipairs(y.rows or {}) do columns = math.max(columns, #row) end
  y.width = y.width or y.rows and columns * CELL_WIDTH or WIDTH
  y.height = y.height or y.rows and #y.rows * CELL_HEIGHT or HEIGHT
  for _, name in ipairs { "width", "height" } do
    if not (y[name] >= 40 and y[name] <= 8000) then
      fail("plot", "option %s must be from 40 to 8000, got %g", name, y[name])
    end
  end
  return setmetatable(y, Plot)
end
