--- data_spec.lua -- datasets and loaders: every sample once, in an order that a seed gives, whoever reads the files.

local H = require "spec.helper"
local ty, ffi = H.ty, H.ffi
local data, image = ty.data, ty.image

ffi.cdef [[
int fork(void);
int waitpid(int pid, int *status, int options);
void _exit(int status);
]]

local folder = os.tmpname()
os.remove(folder)
assert(H.make_folder(folder))
teardown(function() H.remove_folder(folder) end)

local function write(name, text)
  local f = assert(io.open(folder .. "/" .. name, "wb"))
  f:write(text)
  f:close()
  return folder .. "/" .. name
end

--- A dataset of n rows that tell their number: x[i] = {i, 10 i}, y[i] = i.
local function counted(n)
  local i = ty.range(1, n)
  return data.tensors(ty.stack({ i, i * 10 }, 2), i:to("i64"))
end

--- The sample numbers of an epoch, batch by batch.
local function numbers(loader)
  local batches = {}
  for x, y, i in loader:epoch() do
    assert.equal(#batches + 1, i)
    assert.truthy(ty.equal(x[{ {}, 2 }], y:to("f32") * 10))
    batches[i] = y:totable()
  end
  return batches
end

local function flat(batches)
  local y = {}
  for _, b in ipairs(batches) do
    for _, v in ipairs(b) do y[#y + 1] = v end
  end
  return y
end

describe("an epoch", function()
  it("gives every sample once, in order or shuffled", function()
    for _, n in ipairs { 1, 2, 7, 64, 100 } do
      for _, batch in ipairs { 1, 3, 7, 100, 1000 } do
        local want = ty.range(1, n):to("i64"):totable()
        assert.same(want, flat(numbers(counted(n):loader { batch = batch })))
        local got = flat(numbers(counted(n):loader { batch = batch, shuffle = true, seed = n }))
        table.sort(got)
        assert.same(want, got)
      end
    end
  end)

  it("ends with a smaller batch, or without it", function()
    local function sizes(opts)
      local y = {}
      local loader = counted(10):loader(opts)
      for i, b in ipairs(numbers(loader)) do y[i] = #b end
      assert.equal(#y, loader:count())
      return y
    end
    assert.same({ 4, 4, 2 }, sizes { batch = 4 })
    assert.same({ 4, 4 }, sizes { batch = 4, last = "drop" })
    assert.same({ 5, 5 }, sizes { batch = 5, last = "drop" })
    assert.same({}, sizes { batch = 11, last = "drop" })
    assert.same({ 10 }, sizes { batch = 11 })
  end)

  it("has another order than the one before, the same as with that seed elsewhere", function()
    local function two(seed)
      local loader = counted(50):loader { batch = 8, shuffle = true, seed = seed }
      return numbers(loader), numbers(loader)
    end
    local a1, a2 = two(1)
    local b1, b2 = two(1)
    local c1 = two(2)
    assert.same(a1, b1)
    assert.same(a2, b2)
    assert.are_not.same(a1, a2)
    assert.are_not.same(a1, c1)
  end)

  it("is shuffled by Philox: counter (draw, epoch), key seed", function()
    local n, seed, epoch = 23, -5, 2
    local want, word = {}, ffi.new("uint32_t[4]")
    for i = 1, n do want[i] = i end
    for i = n - 1, 1, -1 do
      local key = ffi.cast("uint64_t", ffi.cast("int64_t", seed))
      H.oracle.oracle_philox(ffi.new("uint32_t[4]", i, 0, epoch, 0),
        ffi.new("uint32_t[2]", tonumber(key % 2 ^ 32), tonumber(key / 2ULL ^ 32)), word)
      -- (word0 * 2^32 + word1) * (i + 1) >> 64, which is exact in doubles of 53 bits for numbers as small
      local low = word[1] * (i + 1)
      local j = math.floor((word[0] * (i + 1) + math.floor(low / 2 ^ 32)) / 2 ^ 32)
      want[i + 1], want[j + 1] = want[j + 1], want[i + 1]
    end
    local loader = counted(n):loader { batch = 100, shuffle = true, seed = seed }
    loader:epoch()()
    assert.same(want, numbers(loader)[1])
  end)

  it("leaves the random numbers of the library alone", function()
    ty.manual_seed(3)
    local want = ty.rand(4):totable()
    ty.manual_seed(3)
    numbers(counted(50):loader { batch = 8, shuffle = true })
    counted(9):split({ 0.5, 0.5 }, 4)
    assert.same(want, ty.rand(4):totable())
  end)

  it("can be left early; the next loop is another epoch", function()
    local loader = counted(20):loader { batch = 5, shuffle = true }
    local whole = counted(20):loader { batch = 5, shuffle = true }
    local first, second = numbers(whole), numbers(whole)
    local seen = {}
    for _, y in loader do
      seen[#seen + 1] = y:totable()
      if #seen == 2 then break end
    end
    assert.same({ first[1], first[2] }, seen)
    for _, y, i in loader do assert.same(second[i], y:totable()) end
  end)

  it("stacks the entries of lists, and the columns of a table of csv.load", function()
    local t = ty.files.csv.parse "x,name\n1.5,a\n2.5,b\n"
    for batch in ty.data.tensors(t):loader { batch = 2 } do
      H.same(ty.tensor { 1.5, 2.5 }, batch.x)
      assert.same({ "a", "b" }, batch.name)
    end
    for x, yes, name in ty.data.tensors({ 1, 2 }, { true, false }, { "a", "b" }):loader { batch = 2 } do
      H.same(ty.tensor { 1, 2 }, x)
      H.same(ty.tensor { true, false }, yes)
      assert.same({ "a", "b" }, name)
    end
  end)

  it("can be a part of a checkpoint", function()
    local path = os.tmpname() .. ".safetensors"
    local loader, whole = counted(10):loader { batch = 3, shuffle = true, seed = 9 }, {}
    for _, y, i in loader:epoch() do
      whole[i] = y:totable()
      if i == 2 then assert(ty.save_checkpoint(path, { loader = loader })) end
    end
    local other = counted(10):loader { batch = 3, shuffle = true }
    assert(ty.load_checkpoint(path, { loader = other }))
    os.remove(path)
    local seen = 2
    for _, y, i in other:epoch() do
      assert.same(whole[i], y:totable())
      seen = seen + 1
    end
    assert.equal(4, seen)
  end)

  it("is not walked through by two loops at once", function()
    local loader = counted(20):loader { batch = 5 }
    for _, leave in ipairs { true, false } do
      assert.equal("data.loader: another epoch of this loader has begun", H.raises(function()
        for _ in loader do
          for _ in loader do
            if leave then break end
          end
        end
      end))
    end
    assert.equal(4, #numbers(loader))
  end)

  it("can be taken up in its middle by its state", function()
    for shuffled = 0, 1 do
      local opts = { batch = 3, shuffle = shuffled == 1, seed = 9 }
      local whole = counted(10):loader(opts)
      local want = { numbers(whole), numbers(whole), numbers(whole) }
      for stop = 0, 8 do
        local loader = counted(10):loader(opts)
        local epoch, batch = 1, 0
        for _ = 1, stop do
          if batch == 0 then loader.walk = loader:epoch() end
          if batch == 4 then
            assert.is_nil(loader.walk())
            loader.walk, epoch, batch = loader:epoch(), epoch + 1, 0
          end
          loader.walk()
          batch = batch + 1
        end
        local other = counted(10):loader { batch = 3, shuffle = shuffled == 1 }
        other:restore(loader:state())
        if batch == 4 then epoch, batch = epoch + 1, 0 end
        for _, y, i in other:epoch() do
          batch = batch + 1
          assert.same(want[epoch][batch], y:totable(), i)
        end
        assert.equal(4, batch)
        assert.same(want[epoch + 1] or {}, want[epoch + 1] and numbers(other) or {})
      end
    end
  end)

  it("belongs to one loop at a time", function()
    local loader = counted(10):loader {}
    local first = loader:epoch()
    first()
    loader:epoch()
    assert.has_error(function() first() end)
  end)

  it("hands batches through a transform", function()
    local loader = counted(4):loader { batch = 2, transform = function(x, y) return x * 2, y, "more" end }
    for x, y, word, i in loader:epoch() do
      assert.equal("more", word)
      assert.same({ 20 * (2 * i - 1), 20 * 2 * i }, (x[{ {}, 2 }]):totable())
      assert.same({ 2 * i - 1, 2 * i }, y:totable())
    end
  end)
end)

describe("a dataset", function()
  it("of tensors by name gives tables, and lists go beside tensors", function()
    local ds = data.tensors { x = ty.range(1, 3), name = { "a", "b", "c" } }
    assert.same({ 3, "c" }, { ds:get(3).x:item(), ds:get(-1).name })
    local loader = ds:loader { batch = 2, shuffle = true, seed = 1 }
    for b in loader do
      for i, v in ipairs(b.x:totable()) do assert.equal(("abc"):sub(v, v), b.name[i]) end
    end
  end)

  it("maps sample by sample, when they are asked for", function()
    local calls = 0
    local ds = counted(5):map(function(x, y)
      calls = calls + 1
      return { sum = x:sum(), number = 0.5, odd = y:item() % 2 == 1, word = "w", n = y }
    end)
    assert.equal(0, calls)
    assert.equal(22, ds:get(2).sum:item())
    for b in ds:loader { batch = 5 } do
      assert.same({ 11, 22, 33, 44, 55 }, b.sum:totable())
      assert.same({ "f32", "bool", "i64" }, { b.number.dtype, b.odd.dtype, b.n.dtype })
      assert.same({ true, false, true, false, true }, b.odd:totable())
      assert.same({ "w", "w", "w", "w", "w" }, b.word)
    end
    assert.equal(6, calls)
  end)

  it("gives rows of any dtype and layout, and gradients their way", function()
    local base = ty.arange(60):reshape(6, 10)
    for name, x in pairs { rows = base, columns = base:t(), part = base:narrow(1, 2, 4), wide = base:reshape(6, 5, 2),
      half = base:to("f16"), bytes = base:to("u8"), flat = base:reshape(60), empty = ty.zeros(5, 0),
      learned = ty.ones({ 6, 2 }, { requires_grad = true }) } do
      local order = ty.tensor({ 3, 1, 3, 2 }, { dtype = "i64" })
      for y in data.tensors(x):subset(order):loader { batch = 4 } do
        assert.truthy(ty.equal(x:index_select(1, order), y), name)
        assert.same({ x.dtype, x.requires_grad }, { y.dtype, y.requires_grad })
      end
    end
  end)

  it("has subsets of subsets, in the order of their lists", function()
    local ds = counted(10):subset({ 9, 7, 5, 3 }):subset({ 4, 1, 1 })
    assert.equal(3, ds:count())
    assert.same({ { 3, 9, 9 } }, numbers(ds:loader { batch = 3 }))
    assert.same({ 9 }, { select(2, ds:get(2)):item() })
    assert.equal(0, counted(3):subset({}):count())
    assert.same({}, numbers(counted(3):subset({}):loader {}))
  end)

  it("splits into parts that share nothing and miss nothing", function()
    for _, n in ipairs { 1, 2, 3, 10, 101 } do
      for _, seed in ipairs { false, 5 } do
        local parts = { counted(n):split({ 0.6, 0.3, 0.1 }, seed or nil) }
        local all = {}
        for _, p in ipairs(parts) do
          for _, v in ipairs(flat(numbers(p:loader { batch = 4 }))) do all[#all + 1] = v end
        end
        if seed then table.sort(all) end
        assert.same(ty.range(1, n):to("i64"):totable(), all)
      end
    end
    local a, b = counted(10):split({ 0.5, 0.25 }, 1), counted(10):split({ 0.5, 0.25 }, 1)
    assert.equal(5, a:count())
    assert.same(numbers(a:loader { batch = 9 }), numbers(b:loader { batch = 9 }))
  end)

  it("of a list or a function", function()
    local ds = data.list { { ty.ones(2), 1 }, { ty.zeros(2), 2 } }
    for x, y in ds:loader { batch = 2 } do
      assert.same({ { 1, 1 }, { 0, 0 } }, x:totable())
      assert.same({ 1, 2 }, y:totable())
    end
    ds = data.lazy(3, function(i) return i * i end)
    for x in ds:loader { batch = 3 } do assert.same({ 1, 4, 9 }, x:totable()) end
  end)

  it("of a CSV file: inputs, a target, its classes", function()
    local path = write("t.csv", "kind,a,b,note\nred,1,2.5,x\nblue,3,4.5,y\nred,5,6.5,z\n")
    local ds = assert(data.csv(path, { target = "kind" }))
    assert.same({ "blue", "red" }, ds.classes)
    for x, y in ds:loader { batch = 3 } do
      assert.same({ { 1, 2.5 }, { 3, 4.5 }, { 5, 6.5 } }, x:totable())
      assert.same({ 2, 1, 2 }, y:totable())
      assert.equal("f32", x.dtype)
    end
    ds = assert(data.csv(path, { inputs = { "b" }, target = "a" }))
    assert.same({ { 2.5 } }, { ds:get(1):totable() })
    local none, why = data.csv(path, { target = "nothing" })
    assert.is_nil(none)
    assert.truthy(why:find("there is no column", 1, true))
    assert.is_nil((data.csv("/nowhere.csv")))
  end)

  it("of a CSV file with true and false: inputs of 1 and 0, a target of two classes, or bool where that is asked for",
  function()
    local path = write("u.csv", "sick,smokes,age\nFALSE,true,30\nTRUE,false,50\n")
    local ds = assert(data.csv(path, { target = "sick" }))
    assert.same({ "FALSE", "TRUE" }, ds.classes)
    local x, y = ds:get(2)
    assert.same({ { 0, 50 }, 2 }, { x:totable(), y:item() })
    ds = assert(data.csv(path, { target = "sick", types = { sick = "bool" } }))
    assert.equal("bool", select(2, ds:get(1)).dtype)
  end)

  it("of records, as they lie in the file", function()
    local bytes = {}
    for i = 0, 99 do bytes[i + 1] = string.char(i) end
    local path = write("records.bin", table.concat(bytes))
    for workers = 0, 2 do
      local ds = assert(data.records(path, { shape = { 2, 3 }, offset = 4 }))
      assert.equal(16, ds:count())
      local n = 0
      for x in ds:loader { batch = 5, workers = workers } do
        for i, r in x:rows() do
          assert.same({ { 4 + n * 6, 5 + n * 6, 6 + n * 6 }, { 7 + n * 6, 8 + n * 6, 9 + n * 6 } }, r:totable(), i)
          n = n + 1
        end
      end
      assert.equal(16, n)
    end
    local ds = data.records(path, { shape = { 2 }, dtype = "i16" })
    assert.same({ 5 * 256 + 4, 7 * 256 + 6 }, ds:get(2):totable())
    local none, why = data.records(path, { shape = { 3 }, count = 34 })
    assert.is_nil(none)
    assert.truthy(why:find("holds 100 bytes", 1, true), why)
  end)

  it("refuses what makes no batch", function()
    for text, fn in pairs {
      ["data.tensors: 1 has 2 rows, 2 has 3"] = function() data.tensors(ty.ones(2), ty.ones(3)) end,
      ["data: samples of one batch differ in size, f32[1] and f32[2]"] = function()
        data.list({ ty.ones(1), ty.ones(2) }):loader({ batch = 2 }):epoch()()
      end,
      ["map: the function returned nothing"] = function() counted(2):map(function() end):get(1) end,
      ["get: sample 3 of 2"] = function() counted(2):get(3) end,
      ["subset: sample numbers go from 1 to 2, got 1 to 3"] = function() counted(2):subset { 1, 3 } end,
      ["split: the fractions add up to more than 1"] = function() counted(2):split { 0.5, 0.6 } end,
      ["data.loader: option batch must be a whole number from 1"] = function() counted(2):loader { batch = 0 } end,
      ["data.loader: unknown option bath, did you mean batch?"] = function() counted(2):loader { bath = 1 } end,
      ["restore: position 9 of 2 batches"] = function()
        counted(2):loader():restore { epoch = 1, position = 9, seed = 0 }
      end,
    } do
      local ok, why = pcall(fn)
      assert.is_false(ok)
      assert.truthy(why:find(text, 1, true), why)
    end
  end)
end)

describe("a folder of pictures", function()
  local n = 12
  for _, name in ipairs { "b class", "a", ".hidden", "c" } do H.make_folder(folder .. "/set/" .. name) end
  for i = 1, n do
    local x = ty.full({ 3, 6, 8 }, i * 9):to("u8")
    x[{ 1, {}, { 1, 4 } }] = i
    local kind = i % 3 == 0 and "png" or i % 3 == 1 and "jpg" or "ppm"
    assert(image.save(("%s/set/%s/%02d.%s"):format(folder, i % 2 == 0 and "a" or "b class", i, kind), x))
  end
  write("set/a/notes.txt", "no picture")

  --- Sums and labels of an epoch.
  local function sums(opts, ds)
    local y = {}
    for x, label in (ds or data.images(folder .. "/set", { channels = 3 })):loader(opts):epoch() do
      y[#y + 1] = { x:to("i64"):sum({ 2, 3, 4 }):totable(), label:totable() }
    end
    return y
  end

  it("has its sub-folders' sorted names as classes, and every picture with its label", function()
    local ds = assert(data.images(folder .. "/set", { channels = 3 }))
    assert.same({ "a", "b class", "c" }, ds.classes)
    assert.equal(n, ds:count())
    for i = 1, n do
      local x, label = ds:get(i)
      local number = ({ 2, 4, 6, 8, 10, 12, 1, 3, 5, 7, 9, 11 })[i]
      assert.equal(number % 2 + 1, label:item())
      assert.truthy(math.abs(x:get(2, 1, 1) - number * 9) < 6)
    end
    for x, label in ds:loader { batch = 5, shuffle = true } do
      for i, y in ipairs(label:totable()) do
        assert.equal(y, math.floor(x:get(i, 2, 1, 1) / 9 + 0.5) % 2 + 1)
      end
    end
  end)

  it("gives the same bits in the same order with any number of workers", function()
    for _, batch in ipairs { 1, 4, 5, 12 } do
      local want = sums { batch = batch, shuffle = true, seed = 3, workers = 0 }
      for workers = 1, 4 do
        for _, ahead in ipairs { 1, 3 } do
          assert.same(want, sums { batch = batch, shuffle = true, seed = 3, workers = workers, ahead = ahead })
        end
      end
    end
  end)

  it("can be mapped, split and taken up in the middle, whoever reads", function()
    local ds = data.images(folder .. "/set", { channels = 3, dtype = "f32" })
    local mapped = ds:map(function(x, y) return (x * 255):to("i64"), y end)
    local train = mapped:split({ 0.5 }, 2)
    assert.same(sums({ batch = 4, workers = 0 }, train), sums({ batch = 4, workers = 2 }, train))
    local whole = sums({ batch = 4, shuffle = true })
    local loader = data.images(folder .. "/set", { channels = 3 }):loader { batch = 4, shuffle = true }
    loader:restore { epoch = 1, position = 2, seed = 0 }
    for x, y, i in loader:epoch() do
      assert.equal(3, i)
      assert.same(whole[3], { x:to("i64"):sum({ 2, 3, 4 }):totable(), y:totable() })
    end
  end)

  it("can have one size for all", function()
    local ds = data.images(folder .. "/set", { channels = 1, size = { 4, 5 } })
    for x in ds:loader { batch = 12 } do assert.same({ 12, 1, 4, 5 }, x.shape) end
    assert.truthy(ty.equal((ds:get(1)), image.load(ds.paths[1], { channels = 1, size = { 4, 5 } })))
  end)

  it("names the file that cannot be read, when its turn has come", function()
    H.shell(("cp -r '%s/set' '%s/bad'"):format(folder, folder))
    local ds = data.images(folder .. "/bad", { channels = 3 })
    write("bad/b class/07.jpg", "nonsense")
    for workers = 0, 2 do
      local loader, seen = ds:loader { batch = 3, workers = workers }, 0
      local ok, why = pcall(function()
        for _ in loader do seen = seen + 1 end
      end)
      assert.is_false(ok)
      assert.equal(3, seen)
      assert.truthy(why:find("bad/b class/07.jpg: is no PNG, JPEG, PPM or PGM", 1, true), why)
      assert.truthy(why:find "data_spec.lua:%d+: ")
    end
    local x, why = ds:get(10)
    assert.is_nil(x)
    assert.truthy(why:find("07.jpg", 1, true))
    os.remove(ds.paths[1])
    assert.truthy(select(2, ds:get(1)):find "No such file")
  end)

  it("says when sizes differ within a batch", function()
    H.make_folder(folder .. "/sizes")
    image.save(folder .. "/sizes/1.png", ty.zeros(3, 2, 2))
    image.save(folder .. "/sizes/2.png", ty.zeros(3, 2, 3))
    local loader = data.images(folder .. "/sizes"):loader { batch = 2 }
    local ok, why = pcall(loader:epoch())
    assert.is_false(ok)
    assert.truthy(why:find("images of 3 x 2 x 2 and 3 x 2 x 3 in one batch (give channels and size)", 1, true), why)
    local count = 0
    for x in data.images(folder .. "/sizes"):loader {} do count = count + x:numel() end
    assert.equal(30, count)
  end)

  it("that is none is answered with nil and a message", function()
    for name, text in pairs { ["/nowhere"] = "No such file", ["/set/c"] = "holds no images" } do
      local ds, why = data.images(folder .. name)
      assert.is_nil(ds)
      assert.truthy(why:find(text, 1, true), why)
    end
  end)

  it("can be left early, forgotten and collected while it is read", function()
    for i = 1, 60 do
      local loader = data.images(folder .. "/set", { channels = 3 }):loader { batch = 2, workers = 1 + i % 3, shuffle = true }
      local count = 0
      for _ in loader do
        count = count + 1
        if count > i % 5 then break end
      end
      if i % 7 == 0 then loader:close() end
      if i % 10 == 0 then collectgarbage() end
    end
    collectgarbage()
    collectgarbage()
    local tasks = io.popen("ls /proc/$PPID/task 2>/dev/null | wc -l")
    local threads = tasks:read "*n"
    tasks:close()
    assert.truthy(not threads or threads < 20, threads)
  end)

  it("gives the same pictures in each epoch, whose memory is that of the one before", function()
    local sizes = { { 9, 7 }, { 2, 2 }, { 30, 40 }, { 3, 5 }, { 12, 1 } }
    H.make_folder(folder .. "/epochs")
    local pictures = {}
    for i, s in ipairs(sizes) do
      pictures[i] = ty.randint(0, 255, { 3, s[1], s[2] }, { dtype = "u8" })
      image.save(("%s/epochs/%d.png"):format(folder, i), pictures[i])
    end
    local ds = data.images(folder .. "/epochs")
    local loader, order = ds:loader { shuffle = true, workers = 2, ahead = 2 }, {}
    for epoch = 1, 5 do
      order[epoch] = {}
      for x in loader:epoch() do
        for i, s in ipairs(sizes) do
          if x:size(-2) == s[1] then
            H.same(pictures[i], x:reshape(3, s[1], s[2]), ("epoch %d, picture %d"):format(epoch, i))
            table.insert(order[epoch], i)
          end
        end
      end
      assert.truthy(loader.spare.ring)
      local all = { unpack(order[epoch]) }
      table.sort(all)
      assert.same({ 1, 2, 3, 4, 5 }, all)
    end
    loader:close()
    assert.is_nil(loader.spare.ring)
  end)

  it("tells samples of unlike numbers of values, and paths and lists that are none", function()
    local ds = data.lazy(4, function(i)
      if i == 3 then return i, i end
      return i
    end)
    assert.equal("data: samples of 1 and of 2 values in one batch", H.raises(ds:loader({ batch = 4 }):epoch()))
    assert.equal("data.images: argument 1 must be a folder, got number 5", H.raises(data.images, 5))
    assert.truthy(H.raises(data.records, "", {}):find("^data.records: argument 1 must be a path, got string \"\""))
    assert.equal("subset: argument 1 must be a list of sample numbers, got number 5", H.raises(ds.subset, ds, 5))
  end)

  it("goes on in a forked child, whose parent goes on too", function()
    local want = sums { batch = 4, workers = 0 }
    local loader = data.images(folder .. "/set", { channels = 3 }):loader { batch = 4, workers = 2 }
    local walk, y = loader:epoch(), {}
    local function note(x, label)
      y[#y + 1] = { x:to("i64"):sum({ 2, 3, 4 }):totable(), label:totable() }
    end
    note(walk())
    local child = ffi.C.fork()
    note(walk())
    note(walk())
    local same = pcall(assert.same, want, y)
    if child == 0 then
      loader:close()
      ffi.C._exit(same and 7 or 1)
    end
    local status = ffi.new "int[1]"
    ffi.C.waitpid(child, status, 0)
    assert.equal(7 * 256, status[0])
    assert.truthy(same)
  end)

  it("does not hinder a process that ends in the middle", function()
    local script = write("ends.lua", ([[
      local ty = require "tycho"
      local loader = ty.data.images("%s/set", { channels = 3 }):loader { batch = 1, workers = 3, ahead = 4 }
      for _, _, i in loader:epoch() do
        if i == 2 then break end
      end
      if arg[1] == "error" then error("over", 0) end
      if arg[1] == "exit" then os.exit(0) end
      if arg[1] == "close" then os.exit(0, true) end
      io.write("fine")]]):format(folder))
    for _, how in ipairs { "", "error", "exit", "close" } do
      local p = io.popen(("timeout 20 luajit '%s' %s 2>&1; echo \" status $?\""):format(script, how))
      local said = p:read "*a"
      p:close()
      assert.truthy(said:find(how == "error" and "status 1" or "status 0", 1, true), said)
    end
  end)
end)
