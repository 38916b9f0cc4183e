--- csv.lua -- tables in text files: `ty.csv`, and .csv and .tsv of `ty.load` and `ty.save`.
-- In: a path or a text. Out: a table of columns (csv.Table): tensors of numbers, lists of strings, categories as codes
-- that count from 1. Trouble with the file gives nil and a message with path, line and column; misuse raises.
--
-- Columns of whole numbers are i64; other numbers f32, or f64 where f32 would lose whole numbers or range. Columns of
-- true and false (True, TRUE) are bool. What is missing (an empty field, NA, nan ...) is NaN, which makes f32 of a
-- column of whole numbers, and of true and false (1 and 0), but where option fill says what it is. Everything else is
-- text, true beside numbers too. The first line is a header unless it holds a number, or nothing but true and false
-- and the next line does too.
--
-- Memory: a file that is refused takes at most its size and 64 MB. A field that is taken is a number of 4 or 8 bytes,
-- and may be one byte of the file (an empty one), so numbers take at most 9 times the file's size and 64 MB, its text
-- included, which goes when they are read; commonly they take less than the text. A field of text takes 8 bytes, and
-- each text that differs from all others about 40 more than its length.

---@param C table the functions of files.so
---@param add fun(name: string, endings: string, format: table)
---@param check table
return function(C, add, check)
  local ty = require "tycho"
  local type, ipairs, pairs = type, ipairs, pairs
  local fail, show = check.fail, check.show

  local DTYPES = {}
  for _, d in ipairs(ty.internals.probe.dtypes()) do DTYPES[d.name] = true end
  local MISSING = { "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "<NA>" }

  ------------------------------------------------------------------------------------------------------ tables

  ---@class tycho.csv.Table
  ---@field rows integer
  ---@field names string[] of the columns, in their order
  ---@field columns table<string, tycho.Tensor|string[]> by name; also :column(i)
  ---@field types table<string, string> "bool" "i64" "f32" "f64" "text" "category"
  ---@field classes table<string, string[]> of categories: the names that the codes stand for
  local Table = {}
  Table.__index = Table

  --- The position of a column that is named, or counted from 1.
  local function position(who, self, key)
    local n = #self.names
    if type(key) == "number" then
      if key % 1 == 0 and key >= 1 and key <= n then return key end
      fail(who, "there is no column %.14g, it has %d", key, n)
    end
    if type(key) ~= "string" then fail(who, "a column must be a name or a number, got %s", show(key)) end
    for i, name in ipairs(self.names) do
      if name == key then return i end
    end
    local near = ty.internals.nearest(key, self.columns)
    return fail(who, "there is no column %q%s", key, near and (", did you mean %q?"):format(near) or "")
  end

  --- A column by name or number: numbers and categories as a tensor [rows], text as a list.
  --- Raises where there is no such column.
  ---@param key string|integer
  ---@return tycho.Tensor|string[]
  function Table:column(key) return self.columns[self.names[position("column", self, key)]] end

  local WIDTH = { bool = 1, i64 = 2, f32 = 3, f64 = 4 }

  --- The narrowest dtype that the columns have in common: floats win over i64, all over bool.
  local function common(self, chosen)
    local dtype = "bool"
    for _, i in ipairs(chosen) do
      local own = self.columns[self.names[i]].dtype
      if WIDTH[own] > WIDTH[dtype] then dtype = own end
    end
    return dtype
  end

  --- Columns side by side, [rows, number of columns]: those of the list, or all that hold numbers or bools. A view
  --- where they lie together already. Raises when one of them is text.
  ---@param keys? (string|integer)[]
  ---@param dtype? string default: the floats' where there are floats, else i64, bool of bools alone
  ---@return tycho.Tensor
  function Table:tensor(keys, dtype)
    local chosen = {}
    if DTYPES[keys] and dtype == nil and not self.columns[keys] then keys, dtype = nil, keys end
    if dtype ~= nil and not DTYPES[dtype] then fail("tensor", "argument 2 must be a dtype, got %s", show(dtype)) end
    if type(keys) == "string" or type(keys) == "number" then keys = { keys } end
    if keys ~= nil and type(keys) ~= "table" then
      fail("tensor", "argument 1 must be a list of columns, got %s", show(keys))
    end
    for i, key in ipairs(keys or self.names) do
      local at = keys and position("tensor", self, key) or i
      local kind = self.types[self.names[at]]
      if kind == "text" and keys then
        local name = self.names[at]
        fail("tensor", "column %q holds text (read it with types = {%s = \"category\"})", name, name)
      end
      if keys or (kind ~= "text" and kind ~= "category") then chosen[#chosen + 1] = at end
    end
    if #chosen == 0 then fail("tensor", "no column holds numbers") end
    dtype = dtype or common(self, chosen)
    local first = self.place[chosen[1]]
    for k, at in ipairs(chosen) do
      local p = self.place[at]
      if not (p and first and p.matrix == first.matrix and p.index == first.index + k - 1) then first = nil end
    end
    if first then
      local whole = first.index == 1 and first.matrix:size(2) == #chosen
      return (whole and first.matrix or first.matrix:narrow(2, first.index, #chosen)):to(dtype)
    end
    local y, k = ty.zeros({ self.rows, #chosen }, { dtype = dtype, device = "cpu" }), 1
    while k <= #chosen do -- columns that lie together are converted together, and nothing is held twice
      local p, last = self.place[chosen[k]], k
      while p and last < #chosen do
        local q = self.place[chosen[last + 1]]
        if not (q and q.matrix == p.matrix and q.index == p.index + last + 1 - k) then break end
        last = last + 1
      end
      local x = p and p.matrix:narrow(2, p.index, last - k + 1) or self.columns[self.names[chosen[k]]]:unsqueeze(2)
      y[{ {}, { k, last } }] = (dtype == "f32" or dtype == "f64") and x or x:to(dtype)
      k = last + 1
    end
    return y
  end

  --- n rows from `first` on, as a table.
  local function rows_of(self, first, n)
    local t = setmetatable({ rows = n, names = {}, columns = {}, types = {}, classes = {}, place = {} }, Table)
    local cut = {} -- by matrix
    for i, name in ipairs(self.names) do
      local p, x = self.place[i], self.columns[name]
      t.names[i], t.types[name], t.classes[name], t.place[i] = name, self.types[name], self.classes[name], false
      if p then
        cut[p.matrix] = cut[p.matrix] or p.matrix:narrow(1, first, n)
        t.place[i] = { matrix = cut[p.matrix], index = p.index }
      end
      if ty.is_tensor(x) then
        t.columns[name] = x:narrow(1, first, n)
      else
        t.columns[name] = {}
        for k = 1, n do t.columns[name][k] = x[first + k - 1] end
      end
    end
    return t
  end

  local function how_many(who, self, n)
    n = check.whole(who, 1, n, "n", 5)
    if n < 0 then fail(who, "argument 1 (n) must not be negative, got %g", n) end
    return math.min(n, self.rows)
  end

  --- The first n rows, as a table whose tensors are views.
  --- Raises where n is negative.
  ---@param n? integer 5
  ---@return tycho.csv.Table
  function Table:head(n) return rows_of(self, 1, how_many("head", self, n)) end

  --- The last n rows, as a table whose tensors are views.
  --- Raises where n is negative.
  ---@param n? integer 5
  ---@return tycho.csv.Table
  function Table:tail(n)
    n = how_many("tail", self, n)
    return rows_of(self, self.rows - n + 1, n)
  end

  local STATISTICS = { "count", "mean", "std", "min", "25%", "50%", "75%", "max" }

  --- Statistics of the columns of numbers, in f64: how many there are, mean, deviation, least, quartiles, largest.
  --- What is missing (NaN) is passed over.
  --- Raises where no column holds numbers.
  ---@return tycho.csv.Table # a row for each statistic, named in the first column
  function Table:describe()
    local t = setmetatable({ rows = #STATISTICS, names = { "statistic" }, columns = { statistic = STATISTICS },
      types = { statistic = "text" }, classes = {}, place = { false } }, Table)
    for _, name in ipairs(self.names) do
      local kind = self.types[name]
      if kind == "i64" or kind == "f32" or kind == "f64" then
        local x = self.columns[name]:to("f64")
        x = x[x:eq(x)]
        local n, y = x:numel(), ty.full({ #STATISTICS }, 0 / 0, { dtype = "f64", device = x.device })
        y[1] = n
        if n > 0 then
          y[2], y[3], y[4], y[8] = x:mean(), x:std(), x:min(), x:max()
          y[{ { 5, 7 } }] = x:quantile(ty.tensor({ 0.25, 0.5, 0.75 }, { dtype = "f64", device = x.device }))
        end
        local k = #t.names + 1
        t.names[k], t.columns[name], t.types[name], t.place[k] = name, y, "f64", false
      end
    end
    if #t.names == 1 then fail("describe", "no column holds numbers") end
    return t
  end

  function Table:__tostring()
    local list = {}
    for i, name in ipairs(self.names) do
      if i > 12 then
        list[i] = ("%d more"):format(#self.names - 12)
        break
      end
      local classes = self.classes[name]
      list[i] = ("%s %s"):format(name, self.types[name]) .. (classes and (" of %d"):format(#classes) or "")
    end
    return ("table of %d rows: %s"):format(self.rows, table.concat(list, ", "))
  end

  ------------------------------------------------------------------------------------------------------ options

  local known = {
    header = "any", delimiter = "string", decimal = "string", comment = "string", skip = "number", columns = "table",
    names = "table", types = "any", dtype = "string", missing = "table", fill = "any", classes = "table",
  }
  local kinds = { auto = true, bool = true, i64 = true, f32 = true, f64 = true, text = true, category = true }

  local function check_path(who, path)
    if type(path) ~= "string" or path == "" or path:find("\0", 1, true) then
      fail(who, "argument 1 must be a path, got %s", show(path))
    end
    return path
  end

  local function one_char(who, opts, name, forbidden)
    local v = opts[name]
    if v == nil or v == "auto" then return nil end
    if #v ~= 1 or v:find(forbidden) then fail(who, "option %s cannot be %q", name, v) end
    return v
  end

  --- A column's name or number as the user wrote it.
  local function quoted(key)
    if type(key) == "string" then return ("%q"):format(key) end
    return type(key) == "number" and ("%.14g"):format(key) or show(key)
  end

  --- What csv_open takes.
  local function native_options(who, opts)
    local header, fill, dtype = opts.header, opts.fill, opts.dtype
    if header == nil or header == "auto" then header = -1
    elseif type(header) == "boolean" then header = header and 1 or 0
    else fail(who, "option header must be true, false or \"auto\", got %s", show(header)) end
    if fill ~= nil and fill ~= "error" and type(fill) ~= "number" then
      fail(who, "option fill must be a number or \"error\", got %s", show(fill))
    end
    if dtype ~= nil and dtype ~= "f32" and dtype ~= "f64" then
      fail(who, "option dtype must be \"f32\" or \"f64\", got %q", dtype)
    end
    local skip = opts.skip or 0
    if not (skip >= 0 and skip < 2 ^ 53) or skip % 1 ~= 0 then
      fail(who, "option skip must be a number of lines, got %.14g", skip)
    end
    local missing = { unpack(MISSING) }
    for i, word in ipairs(opts.missing or {}) do
      if type(word) ~= "string" then fail(who, "option missing must list strings, got %s", show(word)) end
      if word ~= "" then missing[#missing + 1] = word end
      if word:find("\0", 1, true) then fail(who, "option missing: entry %d holds a zero byte", i) end
    end
    local n = {
      header = header, skip = skip, missing = table.concat(missing, "\0") .. "\0", strict = fill == "error",
      fill = fill ~= "error" and fill or nil, plain = dtype ~= nil, wide = dtype == "f64",
      delimiter = one_char(who, opts, "delimiter", "[%w%.%+%-\"\r\n%z]"),
      decimal = one_char(who, opts, "decimal", "[^%.,]"), comment = one_char(who, opts, "comment", "[\"\r\n%z]"),
    }
    if n.decimal and n.decimal == n.delimiter then fail(who, "delimiter and decimal are both %q", n.decimal) end
    return n
  end

  --- The names of the columns: the user's, the header's, or column1, column2 ...; nil and a message where two are
  --- alike.
  local function column_names(who, path, opts, count, header)
    local names, seen = {}, {}
    if opts.names and #opts.names ~= count then
      return nil, ("%s: has %d columns, %d names were given"):format(path, count, #opts.names)
    end
    for i = 1, count do
      local name = opts.names and opts.names[i] or header and header[i] or ""
      if type(name) ~= "string" then fail(who, "option names must list strings, got %s", show(name)) end
      if name == "" then name = "column" .. i end
      if seen[name] then
        return nil, ("%s: columns %d and %d are both called %q (give names)"):format(path, seen[name], i, name)
      end
      seen[name], names[i] = i, name
    end
    return names, seen
  end

  --- The kind of each column for csv_load and its classes; the positions of those that are wanted, in order. nil and
  --- a message where one is asked for that the file has not.
  local function choose(who, path, opts, names, by_name)
    local want, types, classes, order = {}, {}, {}, {}
    local function find(key)
      if type(key) == "number" then return names[key] and key end
      return by_name[key]
    end
    for i = 1, #names do want[i], types[i] = not opts.columns, type(opts.types) == "string" and opts.types or "auto" end
    for _, key in ipairs(opts.columns or names) do
      local at = find(key)
      if not at then return nil, ("%s: there is no column %s"):format(path, quoted(key)) end
      if opts.columns and want[at] then fail(who, "option columns names %s twice", show(key)) end
      want[at], order[#order + 1] = true, at
    end
    if opts.types ~= nil and type(opts.types) ~= "string" and type(opts.types) ~= "table" then
      fail(who, "option types must be a type or a table of them by column, got %s", show(opts.types))
    end
    for key, kind in pairs(type(opts.types) == "table" and opts.types or {}) do
      local at = find(key)
      if not at then return nil, ("%s: there is no column %s"):format(path, quoted(key)) end
      types[at] = kind
    end
    for key, list in pairs(opts.classes or {}) do
      local at = find(key)
      if not at then return nil, ("%s: there is no column %s"):format(path, quoted(key)) end
      if type(list) ~= "table" then fail(who, "option classes must hold lists of names, got %s", show(list)) end
      types[at], classes[at] = "category", list
    end
    for i, kind in ipairs(types) do
      if not kinds[kind] then
        fail(who, "option types must name bool, i64, f32, f64, text, category or auto, got %s", show(kind))
      end
      if kind == "category" then
        classes[i] = classes[i] or true
        types[i] = "text"
      end
      if not want[i] then types[i] = "skip" end
    end
    return types, classes, order
  end

  ------------------------------------------------------------------------------------------------------ reading

  --- Codes in the order of the sorted names instead of that in which they came.
  local function sort_classes(entry)
    if entry.closed then return entry.codes, entry.names end
    local names, rank, map = {}, {}, {}
    for i, name in ipairs(entry.names) do names[i] = name end
    table.sort(names)
    for i, name in ipairs(names) do rank[name] = i end
    for i, name in ipairs(entry.names) do map[i] = rank[name] end
    if #names == 0 then return entry.codes, names end
    return ty.tensor(map, { dtype = "i64", device = entry.codes.device }):index_select(1, entry.codes), names
  end

  local function read(who, path, text, opts)
    opts = check.options(who, opts, known)
    local native = native_options(who, opts)
    local file, why = C.csv_open(path, text, native)
    if not file then return nil, why end
    local names, by_name = column_names(who, path, opts, C.csv_names(file))
    if not names then return nil, by_name end
    local types, classes, order = choose(who, path, opts, names, by_name)
    if not types then return nil, classes end
    local rows, found, matrices, texts = C.csv_load(file, types, classes)
    if not rows then return nil, found end
    local t = setmetatable({ rows = rows, names = {}, columns = {}, types = {}, classes = {}, place = {} }, Table)
    local used, place = {}, {}
    for i, kind in ipairs(found) do
      if matrices[kind] then
        used[kind] = (used[kind] or 0) + 1
        place[i] = { matrix = matrices[kind], index = used[kind] }
      end
    end
    for k, i in ipairs(order) do
      local name, kind = names[i], found[i]
      t.names[k], t.place[k] = name, place[i] or false
      t.types[name] = kind
      if kind ~= "text" then
        t.columns[name] = place[i].matrix[{ {}, place[i].index }]
      elseif classes[i] then
        t.columns[name], t.classes[name] = sort_classes(texts[i])
        t.types[name] = "category"
      else
        t.columns[name] = texts[i]
      end
    end
    return t
  end

  ------------------------------------------------------------------------------------------------------ writing

  local written = { f16 = "f32", bf16 = "f32" }

  --- A tensor as a matrix of a dtype that is written.
  local function matrix(who, x, name)
    if x.ndim == 0 or x.ndim > 2 then
      fail(who, "%s must have one or two dims, got %s", name, check.text(x))
    end
    x = x:detach():to(written[x.dtype] or x.dtype)
    return x.ndim == 1 and x:reshape(x:size(1), 1) or x
  end

  --- Columns of a table of tensors and lists, in the order of `names`; codes of categories as their names.
  local function parts_of(who, value, names)
    local parts, rows = {}, nil
    for i, name in ipairs(names) do
      local column = value[name]
      if type(column) ~= "table" and not ty.is_tensor(column) then
        fail(who, "column %q must be a tensor or a list, got %s", tostring(name), show(column))
      end
      if ty.is_tensor(column) then
        if column.ndim ~= 1 then fail(who, "column %q must have one dim, got %s", name, check.text(column)) end
        parts[i] = matrix(who, column, "")
      else
        parts[i] = {}
        for k, v in ipairs(column) do
          if type(v) ~= "string" and type(v) ~= "number" and type(v) ~= "boolean" then
            fail(who, "column %q, row %d must be a string, a number or a boolean, got %s", name, k, show(v))
          end
          parts[i][k] = type(v) == "boolean" and tostring(v) or v
        end
      end
      local n = ty.is_tensor(column) and column:size(1) or #parts[i]
      if rows and n ~= rows then fail(who, "column %q has %d rows, those before it %d", name, n, rows) end
      rows = n
    end
    return parts, rows or 0
  end

  --- A category's codes as their names.
  local function spelled(self)
    local columns = {}
    for name, column in pairs(self.columns) do
      local classes = self.classes[name]
      if classes then
        local list = column:totable()
        for i, code in ipairs(list) do list[i] = classes[code] end
        column = list
      end
      columns[name] = column
    end
    return columns
  end

  --- Writes a table of csv.load, columns by name ({x = tensor, label = {"a", "b"}}), or a tensor [rows] or
  --- [rows, columns]. Numbers and bools read back as they are. Options: names = the columns' names and order; header =
  --- false; delimiter; missing = how NaN is written, by default as an empty field.
  --- Raises where columns differ in length, or an option is not known.
  ---@param path string
  ---@param value tycho.csv.Table|tycho.Tensor|table<string, tycho.Tensor|string[]>
  ---@param opts? table
  ---@return true? ok, string? message
  local function save(path, value, opts)
    local who = "csv.save"
    check_path(who, path)
    opts = check.options(who, opts, { names = "table", header = "boolean", delimiter = "string", missing = "string" })
    local names, parts, rows = opts.names, nil, nil
    if ty.is_tensor(value) then
      local x = matrix(who, check.tensor(who, 2, value), "argument 2")
      parts, rows = { x }, x:size(1)
      if names and #names ~= x:size(2) then fail(who, "%d names for %d columns", #names, x:size(2)) end
      if x:size(2) == 0 then fail(who, "argument 2 has no columns, %s", check.text(value)) end
    elseif getmetatable(value) == Table then
      names = names or value.names
      parts, rows = parts_of(who, spelled(value), names)
    elseif type(value) == "table" then
      if not names then
        names = {}
        for name in pairs(value) do
          if type(name) ~= "string" then fail(who, "columns must have names, got %s", show(name)) end
          names[#names + 1] = name
        end
        table.sort(names)
      end
      if #names == 0 then fail(who, "argument 2 has no columns") end
      parts, rows = parts_of(who, value, names)
    else
      fail(who, "argument 2 must be a tensor or a table of columns, got %s", show(value))
    end
    local delimiter = one_char(who, opts, "delimiter", "[%w%.%+%-\"\r\n%z]")
      or (path:lower():find("%.tsv$") and "\t" or ",")
    local lone = #parts == 1 and (not ty.is_tensor(parts[1]) or parts[1]:size(2) == 1)
    return C.csv_save(path, rows, parts, opts.header ~= false and names or nil, delimiter,
      opts.missing or (lone and "nan" or ""), false)
  end

  add("csv", "csv tsv", {
    Table = Table,
    --- A table of a text file. Options: header = "auto" | true | false; delimiter = "auto" | a character; decimal =
    --- "."; comment = a character that begins lines to be passed over; skip = lines before the header; columns = which
    --- are read, by name or number, in this order; names = instead of the header's; types = {name = "bool" |
    --- "i64" | "f32" | "f64" | "text" | "category"}, or one for all (bool takes 0 and 1 too); dtype = "f32" | "f64" for
    --- all numbers; missing = more spellings of what is missing, such as {"-"}, beside NA, NaN, null and their kin;
    --- fill = what missing numbers become, or "error"; classes = {name = list}: names whose positions are the codes.
    --- Raises where the path is no string, or an option is not known.
    ---@param path string
    ---@param opts? table
    ---@return tycho.csv.Table? t, string? message
    load = function(path, opts)
      return read("csv.load", check_path("csv.load", path), nil, opts)
    end,
    --- The same of a text.
    --- Raises where the text is no string, or an option is not known.
    ---@param text string
    ---@param opts? table
    ---@return tycho.csv.Table? t, string? message
    parse = function(text, opts)
      if type(text) ~= "string" then fail("csv.parse", "argument 1 must be a text, got %s", show(text)) end
      return read("csv.parse", "text", text, opts)
    end,
    save = save,
  })
end
