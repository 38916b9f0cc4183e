-- Random statements on tables whose layout shows: nils among the elements, names, writes that thin and fill.
-- In: the table of statements by kind, see fuzz_function.lua. Out: that table with more kinds, and a function that gives the
-- fields of a constructor. Tables "H" hold numbers and have no objects as keys, so that their order may be told.

return function(make)
  -- What a constructor of such a table holds: positions and names, constants and others, nils. Names are different ones
  -- and have values, a position that is written as a key is far away: else nobody can know what the parser made of it.
  local function parts_of(g, d)
    local parts, names = {}, { "a", "b", "c", "d", "e", "n", "x" }
    for i = 1, g.r(6) do
      local choice, n = g.r(11), g:N(d)
      if choice <= 3 then parts[i] = "nil"
      elseif choice <= 6 then parts[i] = n
      elseif choice == 7 then parts[i] = tostring(g.r(9))
      elseif choice <= 10 then parts[i] = ("%s = %s"):format(table.remove(names, g.r(#names)), g:pick { n, n, n, "7", "'x'" })
      else parts[i] = ("[%s] = %s"):format(g:pick { "0", "9", "u_s", "u_i + 2", "#W.l" }, g:pick { n, n, "1" }) end
    end
    if g:chance(25) then
      local several = ("unpack({ nil, %s }, 1, %d)"):format(g:N(0), g.r(3))
      parts[#parts + 1] = g.vararg and g:pick { "...", "select(2, ...)" } or several
    end
    if g.vararg and g:chance(15) then return { "n = select('#', ...)", "..." } end
    return parts
  end

  function make.holes(g, d)
    local name = g:name "h"
    local out = { ("local %s = { %s }"):format(name, table.concat(parts_of(g, d), ", ")) }
    g:declare(name, "H")
    return out
  end

  local function key_of(g) return g:pick { "1", "2", "3", "4", "6", '"a"', '"b"', '"d"', '"q"', "u_s", g:expression("I", 1) } end

  function make.thin(g, d)
    local h = g:place "H" or "u_h"
    local choice, i, j = g.r(10), g.r(4), g.r(5)
    if choice <= 3 then return { ("%s[%s] = nil"):format(h, key_of(g)) } end
    if choice <= 5 then return { ("%s[%s] = %s"):format(h, key_of(g), g:N(d)) } end
    if choice == 6 then return { ("for i = %d, %d do %s[i] = %s end"):format(i, i + j, h, g:pick { "nil", "i", "i * 2" }) } end
    if choice == 7 then return { ("for i = 1, %d do %s[i] = i end for i = %d, %d do %s[i] = nil end"):format(j + 2, h, i, j, h) } end
    if choice == 8 then return { ("%s.a, %s.b = %s.b, %s"):format(h, h, h, g:pick { "nil", g:N(d), h .. "[1]" }) } end
    local l = h
    if choice == 9 then return { ("if #%s < 8 then table.insert(%s, %s%s) end"):format(l, l, g:pick { "", "", "1, " }, g:N(d)) } end
    return { g:pick { "table.remove(%s)", "table.remove(%s, 1)", "%s[#%s + 1] = 3", "%s[#%s] = nil" }:format(h, h) }
  end

  function make.look(g)
    local h = g:place "H" or "u_h"
    return { g:pick { "log(#%s, (next(%s)))", "for k, v in pairs(%s) do log(k, v) end", "log(unpack(%s))", "log(unpack(%s, 1, 5))",
      "for i, v in ipairs(%s) do log(i, v) end", "log(next(%s))", "for k in next, %s do log(k) end", "log({ n = #%s, unpack(%s) })" }
      :format(h, h) }
  end

  return parts_of
end
