--- csv_spec.lua -- tables in text, as Python's csv and pandas read them; numbers to their nearest floats.
-- fixtures/data.lua says what these have made of the same texts.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
local csv = ty.csv
local data = dofile(H.root .. "spec/fixtures/data.lua")

ffi.cdef [[ char *setlocale(int category, const char *locale); ]]

local path = os.tmpname()
teardown(function() os.remove(path) end)

local function write(text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
  return path
end

local function slurp()
  local f = assert(io.open(path, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

--- The bits of element i, as hexadecimal.
local function bits(t, i)
  local p, n = ffi.cast("uint8_t *", t:contiguous():data()), t.dtype == "f32" and 4 or 8
  local s = {}
  for k = n - 1, 0, -1 do s[#s + 1] = ("%02x"):format(p[(i - 1) * n + k]) end
  return table.concat(s)
end

local function refused(pattern, text, opts)
  local t, why = csv.parse(text, opts)
  assert.is_nil(t)
  assert.truthy(why:find(pattern), why)
end

describe("a number in a table", function()
  it("becomes the nearest double, for all that are hard to round", function()
    local list = {}
    for i, n in ipairs(data.numbers) do list[i] = n[1] .. "," .. n[1] end
    local t = assert(csv.parse(table.concat(list, "\n"), { header = false, types = "f64" }))
    for i, n in ipairs(data.numbers) do
      for column = 1, 2 do assert.equal(n[2], bits(t:column(column), i), n[1]) end
    end
  end)

  it("becomes the nearest float, not the nearest of the nearest double", function()
    for _, n in ipairs(data.numbers) do
      local t, why = csv.parse(n[1] .. "," .. n[1], { header = false, types = "f32" })
      if n[3]:find "^[7f]f8" then assert.truthy(why:find "too large for an f32", n[1])
      else assert.same({ n[3], n[3] }, { bits(t:column(1), 1), bits(t:column(2), 1) }, n[1]) end
    end
  end)

  it("is read and written alike where the locale has a comma for a point", function()
    local known = ffi.C.setlocale(6, nil)
    known = known ~= nil and ffi.string(known) or "C"
    for _, name in ipairs { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8" } do
      if ffi.C.setlocale(6, name) ~= nil then break end
    end
    local t = csv.parse("1.5,0.1234567890123456789012,1.448997445238699\n", { header = false, types = "f64" })
    csv.save(path, t)
    ffi.C.setlocale(6, known)
    assert.equal("column1,column2,column3\n1.5,0.12345678901234568,1.448997445238699\n", slurp())
  end)

  it("may have a decimal comma", function()
    local t = csv.parse("a;b\n1,5;-0,25\n1234567890,12345678901234567890;1e-3", { decimal = ",", types = "f64" })
    assert.same({ { 1.5, -0.25 }, { 1234567890.1234567, 0.001 } }, t:tensor():totable())
  end)

  it("is infinite or NaN by name, in any case", function()
    local t = csv.parse("a\ninf\n-Infinity\nNaN\n+INF\n", { types = "f64" }):column("a"):totable()
    assert.same({ math.huge, -math.huge, math.huge }, { t[1], t[2], t[4] })
    assert.truthy(t[3] ~= t[3])
  end)

  it("is not what C or Lua would take for one", function()
    for _, text in ipairs { "0x10", "1e", "1e+", "--1", "1.2.3", "1_000", ".", "+", "e5", "1 2", "infinit", "nane" } do
      assert.equal("text", csv.parse("a\n" .. text .. "\n").types.a, text)
    end
  end)
end)

describe("the fields of a table", function()
  for i, f in ipairs(data.fields) do
    it(("are those of Python's csv, text %d"):format(i), function()
      if #f.rows == 0 then return end
      local t, why = csv.parse(f.text, { header = false, types = "text", delimiter = f.delimiter })
      local ragged
      for _, row in ipairs(f.rows) do ragged = ragged or #row ~= #f.rows[1] end
      if ragged then
        assert.truthy(why:find "field", why)
        return
      end
      assert(t, why)
      assert.equal(#f.rows, t.rows)
      for r, row in ipairs(f.rows) do
        for c, want in ipairs(row) do assert.equal(want, t:column(c)[r]) end
      end
    end)
  end

  for _, f in ipairs(data.tables) do
    it("have the types and values of pandas, delimiter found out: " .. f.text:match("[,;|\t]"), function()
      local t = assert(csv.parse(f.text, { types = { real = "f64", gaps = "f64" } }))
      assert.same({ "whole", "real", "gaps", "word" }, t.names)
      assert.equal("i64", t.types.whole)
      assert.equal("text", t.types.word)
      assert.same(f.whole, t.columns.whole:totable())
      assert.same(f.real, t.columns.real:totable())
      assert.same(f.word, t.columns.word)
      for i, v in ipairs(t.columns.gaps:totable()) do
        assert.truthy(v == f.gaps[i] or v ~= v and f.gaps[i] ~= f.gaps[i])
      end
    end)
  end

  it("begin behind a byte order mark, and behind lines that are passed over", function()
    local t = csv.parse("\239\187\191a,b\n1,2\n")
    assert.same({ "a", "b" }, t.names)
    t = csv.parse("made by a tool\nx\na,b\n# no row\n1,2\n", { skip = 2, comment = "#" })
    assert.same({ { 1, 2 } }, t:tensor():totable())
  end)
end)

describe("the header", function()
  it("is found out: no field of the first line is a number", function()
    assert.same({ "column1", "column2" }, csv.parse("1,x\n2,y\n").names)
    assert.same({ "a", "b" }, csv.parse("a,b\n1,x\n").names)
    assert.same({ "column1", "b" }, csv.parse(",b\n1,x\n").names)
  end)

  it("can be told to be there or not, and be replaced", function()
    assert.equal(2, csv.parse("a\nb\n", { header = false }).rows)
    assert.same({ "7" }, csv.parse("7\n8\n", { header = true }).names)
    assert.same({ "x", "y" }, csv.parse("a,b\n1,2\n", { names = { "x", "y" } }).names)
  end)

  it("must not name two columns alike", function()
    refused("columns 1 and 3 are both called \"a\"", "a,b,a\n1,2,3\n")
  end)
end)

describe("true and false", function()
  --- Type and values of the first column.
  local function first(text, opts)
    local t = assert(csv.parse(text, opts))
    local column = t:column(1)
    return t.types[t.names[1]], ty.is_tensor(column) and column:totable() or column
  end

  it("make a column of bools, spelled as pandas takes them", function()
    for _, pair in ipairs { { "true", "false" }, { "True", "False" }, { "TRUE", "FALSE" }, { " true", '"False"' } } do
      local kind, values = first(("a,b\n%s,1\n%s,2\n"):format(pair[1], pair[2]))
      assert.equal("bool", kind)
      assert.same({ true, false }, values)
    end
    for _, word in ipairs { "tRue", "yes", "T", "t", "truefalse" } do
      assert.equal("text", (first("a,b\ntrue,1\n" .. word .. ",2\n")), word)
    end
  end)

  it("are text among numbers, in whatever row the first of them stands", function()
    for _, row in ipairs { 1, 2, 99, 100, 101, 250 } do
      for _, pair in ipairs { { "true", "1" }, { "1", "true" }, { "2.5", "false" }, { "false", "inf" } } do
        local lines = { "a,b" }
        for i = 1, 250 do lines[i + 1] = (i == row and pair[1] or pair[2]) .. ",1" end
        local kind, values = first(table.concat(lines, "\n"))
        assert.equal("text", kind, row)
        assert.equal(pair[1], values[row])
      end
    end
  end)

  it("become numbers where a gap does not fit in, be it the first row or the last", function()
    for _, row in ipairs { 1, 50, 101, 250 } do
      local lines = { "a,b" }
      for i = 1, 250 do lines[i + 1] = (i == row and "" or i % 3 == 0 and "true" or "false") .. ",1" end
      for fill, want in pairs { [0] = "bool", [1] = "bool", [-1] = "i64", [0.5] = "f32", none = "f32" } do
        local kind, values = first(table.concat(lines, "\n"), { fill = fill ~= "none" and fill or nil })
        assert.equal(want, kind)
        for i, v in ipairs(values) do
          local expected = i % 3 == 0 and 1 or 0
          if i == row then expected = fill end
          if v == true then v = 1 elseif v == false then v = 0 end
          assert.truthy(v == expected or fill == "none" and i == row and v ~= v, i)
        end
      end
    end
    assert.same({ "bool", { true } }, { first("a,b\ntrue,1\n", { fill = "error" }) })
    refused('text:3: column 1 %("a"%): an empty field where true or false is needed', "a,b\ntrue,1\n,2\n",
      { fill = "error" })
  end)

  it("may begin behind a hundred rows of gaps, and gaps alone are floats", function()
    local gaps = (",1\n"):rep(150)
    assert.equal("f32", (first("a,b\n" .. gaps)))
    assert.equal("bool", (first("a,b\n" .. gaps .. "true,1\n", { fill = 0 })))
    assert.equal("i64", (first("a,b\n" .. gaps .. "7,1\n", { fill = 0 })))
    assert.equal("f64", (first("a,b\n" .. gaps .. "1e300,1\n", { fill = 0 })))
    assert.equal("f32", (first("a,b\n" .. gaps .. "true,1\n")))
    assert.equal("text", (first("a,b\n" .. gaps .. "true,1\n3,1\n")))
  end)

  it("can be asked for, of 0 and 1 too", function()
    assert.same({ "bool", { true, false, true } }, { first("a\n1\n0\ntrue\n", { types = "bool" }) })
    refused('text:3: column 1 %("a"%): "2" is neither true nor false', "a\n1\n2\n", { types = "bool" })
    refused('text:3: column 1 %("a"%): "NA" is neither true nor false', "a\n1\nNA\n", { types = { a = "bool" } })
    refused('text:2: column 1 %("a"%): "true" is no number', "a,b\ntrue,1\n", { types = "f64" })
    assert.same({ "text", { "true" } }, { first("a,b\ntrue,1\n", { types = "text" }) })
  end)

  it("are no header, unless the line below has something else", function()
    assert.equal(2, csv.parse("true\nfalse\n").rows)
    assert.equal(1, csv.parse("True,FALSE\n").rows)
    assert.same({ "true", "false" }, csv.parse("true,false\n1,2\n").names)
    assert.same({ "true", "predicted" }, csv.parse("true,predicted\ntrue,false\n").names)
  end)

  it("come back from a file as the bools they were", function()
    for _, x in ipairs { ty.tensor { true, false, true }, ty.tensor { { true, false }, { false, true } } } do
      assert(csv.save(path, x))
      local y = csv.load(path):tensor()
      assert.equal("bool", y.dtype)
      assert.same(x:flatten():totable(), y:flatten():totable())
    end
    assert(csv.save(path, { a = ty.tensor { true, false }, b = { false, true }, c = ty.tensor { 1, 2 } }))
    assert.equal("a,b,c\ntrue,false,1\nfalse,true,2\n", slurp())
    assert.equal("bool", csv.load(path).columns.b.dtype)
  end)

  it("are 1 and 0 beside numbers", function()
    local t = csv.parse("a,b,c\ntrue,1,2.5\nfalse,2,3\n")
    assert.same({ { 1, 1, 2.5 }, { 0, 2, 3 } }, t:tensor():totable())
    assert.same({ "i64", { { 1, 1 }, { 2, 0 } } }, { t:tensor({ "b", "a" }).dtype, t:tensor({ "b", "a" }):totable() })
    assert.equal("bool", t:tensor({ "a" }).dtype)
  end)
end)

describe("a column", function()
  it("widens from whole numbers to floats to text, wherever it must", function()
    for _, row in ipairs { 1, 50, 99, 100, 101, 150, 299, 300 } do
      for last, kind in pairs { ["1.5"] = "f32", ["x"] = "text", [""] = "f32", ["16777217.5"] = "f32", ["1e39"] = "f64" } do
        local lines = { "a,b" }
        for i = 1, 300 do lines[#lines + 1] = i .. "," .. (i == row and last or tostring(i)) end
        local t = assert(csv.parse(table.concat(lines, "\n")))
        assert.equal("i64", t.types.a)
        assert.equal(kind, t.types.b)
        local b = ty.is_tensor(t.columns.b) and t.columns.b:totable() or t.columns.b
        for i = 1, 300 do
          local want = i == row and last or tostring(i)
          if kind ~= "text" then want = tonumber(want) and tonumber(want) or 0 / 0 end
          if kind == "f32" and want == want then want = tonumber(ffi.new("float", want)) end
          assert.truthy(b[i] == want or want ~= want and b[i] ~= b[i], i)
        end
      end
    end
  end)

  it("is f64 where f32 would lose whole numbers, unless f32 is asked for", function()
    assert.equal("f64", csv.parse("a\n16777217\n\n0.5\n").types.a)
    assert.equal("f64", csv.parse("a,b\n0.5,1\n" .. ("0.5,1\n"):rep(200) .. "16777217,1\n").types.a)
    assert.equal("f32", csv.parse("a\n16777216\n0.5\n").types.a)
    assert.equal("f32", csv.parse("a\n16777217\n0.5\n", { dtype = "f32" }).types.a)
  end)

  it("is spelled as the options say, beside the usual spellings", function()
    local t = csv.parse("a,b\n1,x\n-,y\nNA,-\n4,z\n", { missing = { "-" } })
    assert.equal("f32", t.types.a)
    assert.same({ true, false, false, true }, t.columns.a:eq(t.columns.a):totable())
    assert.equal("text", csv.parse("a\n1\n-\n").types.a)
  end)

  it("of numbers has NaN, or what is wished, where values are missing", function()
    local text = "a,b\n1,NA\n,2.5\n\"\",nan\nnull, \n"
    for _, name in ipairs { "a", "b" } do
      local t = csv.parse(text):column(name):totable()
      local gaps = 0
      for _, v in ipairs(t) do gaps = gaps + (v ~= v and 1 or 0) end
      assert.equal(3, gaps)
    end
    assert.same({ { 1, -1 }, { -1, 2.5 }, { -1, -1 }, { -1, -1 } }, csv.parse(text, { fill = -1 }):tensor():totable())
    refused('text:2: column 2 %("b"%): "NA" where a number is needed', text, { fill = "error" })
    refused('text:3: column 1 %("a"%): an empty field where', "a,b\n1,2\n,2\n", { fill = "error" })
    assert.equal("text", csv.parse("a\n1\n?\n").types.a)
    assert.equal("f32", csv.parse("a\n1\n?\n", { missing = { "?" } }).types.a)
  end)

  it("of categories has codes from 1 in the order of the names", function()
    local t = csv.parse("k\nred\nblue\nred\ngreen\n", { types = { k = "category" } })
    assert.same({ 3, 1, 3, 2 }, t.columns.k:totable())
    assert.same({ "blue", "green", "red" }, t.classes.k)
    t = csv.parse("k\nred\nblue\n", { classes = { k = { "red", "green", "blue" } } })
    assert.same({ 1, 3 }, t.columns.k:totable())
    refused('text:3: column 1 %("k"%): "pink" is none of the classes', "k\nred\npink\n", { classes = { k = { "red" } } })
  end)

  it("can be chosen, by name and by number, and gets the type it is told", function()
    local t = csv.parse("a,b,c\n1,2,x\n3,4,y\n", { columns = { "c", 1 }, types = { a = "f64" } })
    assert.same({ "c", "a" }, t.names)
    assert.equal("f64", t:column(2).dtype)
    assert.same({ "x", "y" }, t:column("c"))
    refused("there is no column", "a,b\n1,2\n", { columns = { "z" } })
    refused('text:3: column 1 %("a"%): "x" is no number', "a\n1\nx\n", { types = { a = "f32" } })
    refused('text:3: column 1 %("a"%): "1.5" is no whole number', "a\n1\n1.5\n", { types = { a = "i64" } })
    refused("is no whole number of an i64", "a\n9223372036854775808\n", { types = { a = "i64" } })
    assert.equal("-9223372036854775808", tostring(csv.parse("a\n-9223372036854775808\n").columns.a):match("%-%d+"))
  end)

  it("lies in a matrix beside those of its dtype, without a copy", function()
    local t = csv.parse("a,b,n,c\n1.5,2.5,1,3.5\n4.5,5.5,2,6.5\n")
    assert.same({ { 1.5, 2.5, 3.5 }, { 4.5, 5.5, 6.5 } }, t:tensor { "a", "b", "c" }:totable())
    assert.same({ { 2.5, 3.5 }, { 5.5, 6.5 } }, t:tensor { "b", "c" }:totable())
    assert.same({ { 3.5, 1 }, { 6.5, 2 } }, t:tensor { "c", "n" }:totable())
    assert.equal("f32", t:tensor().dtype)
    assert.equal("i64", t:tensor { "n" }.dtype)
    assert.same({ 2, 4 }, t:tensor("f64").shape)
  end)
end)

describe("a damaged table", function()
  it("is refused with path, line and what is wrong", function()
    refused("^text:3: 3 fields where the header has 2$", "a,b\n1,2\n1,2,3\n")
    refused("^text:2: 1 field where the header has 2$", "a,b\n1\n")
    refused("^text:4: 1 field where the first row has 2$", "1,\"x\ny\"\n2,3\n4\n")
    refused("^text:2: a quote is opened and never closed$", 'a,b\n1,"2\n3,4\n')
    refused("^text:3: text behind a closing quote$", 'a,b\n1,2\n"3"x,4\n')
    refused("^text: holds no rows$", "")
    refused("^text: holds no rows$", "\n\r\n\n")
    local t, why = csv.load("/nowhere/x.csv")
    assert.is_nil(t)
    assert.truthy(why:find "^/nowhere/x.csv: ")
    assert.is_nil((csv.load("/tmp")))
    assert.truthy(select(2, csv.load(write "a,b\n1\n")):find(path .. ":2: ", 1, true))
  end)

  it("never costs memory for rows that it cannot have", function()
    local wide = ("a,"):rep(5000) .. "a\n"
    refused("1 field where", wide .. ("1\n"):rep(20000), { header = false })
  end)

  it("cut or with any bit turned is read or refused, never worse", function()
    local text = 'id,"na""me",x\r\n1,"a,\nb",2.5\r\n22,c,-1e5\r\n,"",nan\r\n'
    for n = 0, #text do csv.parse(text:sub(1, n)) end
    for i = 1, #text do
      for b = 0, 7 do
        local byte = bit.bxor(text:byte(i), bit.lshift(1, b))
        local t, why = csv.parse(text:sub(1, i - 1) .. string.char(byte) .. text:sub(i + 1))
        assert.truthy(t or type(why) == "string")
      end
    end
  end)

  it("is refused when memory ends, and nothing is lost", function()
    local C = ty.files._native
    for after = 0, 4 do
      C.starve(after)
      local t, why = csv.parse("a,b\n1,x\n")
      C.starve(-1)
      assert.truthy(t or why:find "out of memory", why)
    end
  end)
end)

describe("ty.csv.save", function()
  it("writes what reads back as it was, to the bit", function()
    local r = H.random(3)
    local list = {}
    for i = 1, 400 do list[i] = (r.unit() - 0.5) * 10 ^ r.whole(-40, 38) end
    for _, dtype in ipairs { "f32", "f64" } do
      local x = ty.tensor(list, { dtype = dtype }):reshape(100, 4)
      assert(csv.save(path, x))
      local y = csv.load(path, { header = false, types = dtype }):tensor()
      assert.truthy(ty.equal(x, y), dtype)
    end
  end)

  it("writes tables, with quotes where they are needed and gaps as empty fields", function()
    local columns = { n = ty.tensor({ 1, -2, 3 }, { dtype = "i64" }), word = { 'a "b"', "c,d", " e\n" },
      x = ty.tensor { 0.1, 0 / 0, -1 / 0 } }
    assert(csv.save(path, columns))
    assert.equal('n,word,x\n1,"a ""b""",0.1\n-2,"c,d",\n3," e\n",-inf\n', slurp())
    local t = csv.load(path)
    assert.same(columns.word, t.columns.word)
    assert.same({ 1, -2, 3 }, t.columns.n:totable())
    assert(csv.save(path, t, { delimiter = ";", names = { "word", "n" } }))
    assert.equal('word;n\n"a ""b""";1\nc,d;-2\n" e\n";3\n', slurp())
  end)

  it("writes whole numbers of every dtype, and more lines than it keeps in memory", function()
    local ends = { u8 = { 0, 255 }, i8 = { -128, 127 }, i16 = { -32768, 32767 }, i32 = { -2 ^ 31, 2 ^ 31 - 1 },
      i64 = { -2 ^ 53, 2 ^ 53 } }
    for dtype, list in pairs(ends) do
      csv.save(path, { n = ty.tensor(list, { dtype = dtype }) })
      assert.equal(("n\n%.0f\n%.0f\n"):format(list[1], list[2]), slurp(), dtype)
    end
    local n, lines = 30000, { "n,word" }
    local words = {}
    for i = 1, n do
      words[i] = ("w"):rep(i % 7) .. i
      lines[i + 1] = i .. "," .. words[i]
    end
    csv.save(path, { n = ty.range(n, { dtype = "i32" }), word = words }, { names = { "n", "word" } })
    assert.equal(table.concat(lines, "\n") .. "\n", slurp())
  end)

  it("refuses names that are not as many as columns, and columns that are not there", function()
    refused("^text: has 2 columns, 1 names were given$", "1,2\n", { names = { "a" } })
    refused("^text: there is no column 7$", "a\n1", { types = { [7] = "number" } })
    refused("^text: there is no column true$", "a\n1", { types = { [true] = "number" } })
  end)

  it("writes categories by their names, and a lone gap so that its line is not empty", function()
    csv.save(path, csv.parse("k\nred\nblue\n", { types = "category" }))
    assert.equal("k\nred\nblue\n", slurp())
    csv.save(path, ty.tensor { 1, 0 / 0, 2 })
    assert.equal("1\nnan\n2\n", slurp())
    csv.save(path, { k = { "", "x" } })
    assert.equal('k\n""\nx\n', slurp())
    assert.same({ "", "x" }, csv.load(path).columns.k)
  end)

  it("is reached by ty.save and ty.load, tabs for .tsv", function()
    local name = path .. ".tsv"
    assert(ty.save(name, ty.tensor { { 1, 2 } }))
    assert.same({ { 1, 2 } }, ty.load(name):tensor():totable())
    local f = io.open(name)
    assert.equal("1\t2", f:read())
    f:close()
    os.remove(name)
  end)
end)

describe("misuse", function()
  it("raises at the user's line", function()
    for text, fn in pairs {
      ["csv.load: argument 1 must be a path, got number 3"] = function() csv.load(3) end,
      ["csv.load: unknown option delimeter, did you mean delimiter?"] = function() csv.load("x", { delimeter = ";" }) end,
      ["csv.parse: option delimiter cannot be \"5\""] = function() csv.parse("a", { delimiter = "5" }) end,
      ["csv.parse: delimiter and decimal are both \",\""] = function() csv.parse("a", { delimiter = ",", decimal = "," }) end,
      ["csv.parse: option types must name"] = function() csv.parse("a\n1", { types = { a = "int" } }) end,
      ["column: there is no column \"speces\", did you mean \"species\"?"] = function()
        csv.parse("species\nx"):column("speces")
      end,
      ["tensor: column \"s\" holds text"] = function() csv.parse("s\nx"):tensor { "s" } end,
      ["tensor: no column holds numbers"] = function() csv.parse("s\nx"):tensor() end,
      ["csv.save: column \"b\" has 1 rows"] = function() csv.save(path, { a = { "x", "y" }, b = { "z" } }) end,
      ["csv.save: argument 2 must be a tensor or a table"] = function() csv.save(path, 5) end,
      ["csv.save: argument 2 has no columns"] = function() csv.save(path, {}) end,
      ["csv.save: argument 1 must be a path, got string \"\""] = function() csv.save("", { a = { 1 } }) end,
      ["csv.parse: option types must be a type or a table"] = function() csv.parse("a\n1", { types = 5 }) end,
      ["csv.parse: option skip must be a number of lines, got 1e+300"] = function() csv.parse("a\n1", { skip = 1e300 }) end,
      ["tensor: there is no column \"zz\""] = function() csv.parse("a\n1"):tensor "zz" end,
      ["tensor: argument 2 must be a dtype, got string \"f99\""] = function() csv.parse("a\n1"):tensor({ "a" }, "f99") end,
    } do
      local ok, why = pcall(fn)
      assert.is_false(ok)
      assert.truthy(why:find(text, 1, true), why)
      assert.truthy(why:find("csv_spec.lua:%d+: "), why)
    end
  end)
end)

describe("a table's", function()
  local t = csv.parse("city,people,area\nRome,3,1.5\nOslo,1,\nBern,2,0.5\nLyon,6,2.5\n")

  it("head and tail are its first and last rows, as tables", function()
    local h = t:head(2)
    assert.same({ 2, { "city", "people", "area" }, { "Rome", "Oslo" }, { 3, 1 } },
      { h.rows, h.names, h.columns.city, h.columns.people:totable() })
    assert.same({ 2, 6 }, t:tail(2).columns.people:totable())
    assert.same({ { 2 }, { 6 } }, t:tail(2):tensor({ "people" }):totable())
    assert.equal(4, t:head().rows)
    assert.same({ 0, 3 }, t:head(0):tensor({ "people", "area", "people" }).shape)
    assert.truthy(H.raises(t.head, t, -1):find "^head: argument 1")
    assert.equal("table of 1 rows: city text, people i64, area f32", tostring(t:head(1)))
  end)

  it("describe is a table of statistics of its numbers, NaN passed over", function()
    local d = t:describe()
    assert.same({ "statistic", "people", "area" }, d.names)
    assert.same({ "count", "mean", "std", "min", "25%", "50%", "75%", "max" }, d.columns.statistic)
    local people = d.columns.people:totable()
    for i, v in ipairs { 4, 3, math.sqrt(14 / 3), 1, 1.75, 2.5, 3.75, 6 } do assert.near(v, people[i], 1e-12) end
    for i, v in ipairs { 3, 1.5, 1, 0.5, 1, 1.5, 2, 2.5 } do assert.near(v, d.columns.area:totable()[i], 1e-12) end
    assert.same({ "count" }, d:head(1).columns.statistic)
    assert.near(2, t:head(3):describe().columns.people[2]:item(), 1e-12)
    assert.truthy(H.raises(function() csv.parse("a\nx\n"):describe() end):find "^describe: no column")
  end)
end)
