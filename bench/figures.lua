-- figures.lua -- the table of run.lua as one picture.
-- In: a path; rows {name, value, ours, numpy, torch}, the last three as ratios to the row's floor, or nil.
-- Out: an SVG with horizontal bars that begin at the floor, on a logarithmic scale; it follows the
-- reader's light or dark scheme. Raises when the file cannot be written.

local LEFT, RIGHT, TOP, BAR, GAP, FROM, TO = 246, 150, 74, 7, 12, 0.5, 128
local WIDTH = 860
local SERIES = { { "ours", "Tycho" }, { "numpy", "NumPy" }, { "torch", "PyTorch" } }

local STYLE = [[
  text { font: 12px system-ui, sans-serif; fill: #24292f }
  .title { font-size: 15px; font-weight: 600 } .small { font-size: 10.5px; fill: #57606a }
  .back { fill: #ffffff } .grid { stroke: #d8dee4 } .floor { stroke: #24292f; stroke-width: 1.5 }
  .ours { fill: #0969da } .numpy { fill: #bf8700 } .torch { fill: #cf5b50 }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 } .small { fill: #9198a1 } .back { fill: #0d1117 } .grid { stroke: #30363d }
    .floor { stroke: #e6edf3 } .ours { fill: #58a6ff } .numpy { fill: #d29922 } .torch { fill: #f2837a }
  }]]

local function escape(text) return (text:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" })) end

--- Where a ratio stands; what is off the scale stands at its end.
local function place(ratio)
  local share = math.log(math.min(math.max(ratio, FROM), TO) / FROM) / math.log(TO / FROM)
  return LEFT + share * (WIDTH - LEFT - RIGHT)
end

return function(path, rows, versions)
  local out = {}
  local function put(format, ...) out[#out + 1] = format:format(...) end
  local function text(x, y, class, anchor, words)
    put('<text x="%.1f" y="%.1f" class="%s" text-anchor="%s">%s</text>', x, y, class, anchor, escape(words))
  end
  local tall = #SERIES * BAR + GAP
  local bottom = TOP + #rows * tall
  local height = bottom + 30
  put('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">', WIDTH, height,
    WIDTH, height)
  put("<title>Time of Tycho, NumPy and PyTorch as a multiple of the machine's floor</title>")
  put("<style>\n%s\n</style>", STYLE)
  put('<rect class="back" width="%d" height="%d" rx="6"/>', WIDTH, height)
  text(16, 26, "title", "start", "Time as a multiple of the floor: shorter is better, the floor is 1")
  local x = 16
  for _, s in ipairs(SERIES) do
    put('<rect class="%s" x="%d" y="38" width="12" height="10" rx="2"/>', s[1], x)
    text(x + 18, 47, "", "start", s[2])
    x = x + 90
  end
  text(WIDTH - 16, 47, "small", "end", "one thread; beside " .. (versions or "nobody"))
  for power = -1, 7 do
    local at = place(2 ^ power)
    put('<line class="%s" x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>', power == 0 and "floor" or "grid", at, TOP - 8, at,
      bottom)
    text(at, bottom + 16, "small", "middle", power == 0 and "floor" or ("%gx"):format(2 ^ power))
  end
  local one = place(1)
  for i, r in ipairs(rows) do
    local y = TOP + (i - 1) * tall
    text(LEFT - 10, y + 15, "", "end", r.name)
    for k, s in ipairs(SERIES) do
      local ratio = r[s[1]]
      if ratio then
        local at, top = place(ratio), y + (k - 1) * BAR
        put('<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%d" rx="1.5"/>', s[1], math.min(one, at), top,
          math.max(math.abs(at - one), 1.5), BAR - 1)
      end
    end
    text(WIDTH - 16, y + 15, "small", "end", ("%s, %.2fx"):format(r.value, r.ours))
  end
  put("</svg>")
  local f = assert(io.open(path, "w"))
  f:write(table.concat(out, "\n"), "\n")
  f:close()
end
