--- tiles_spec.lua -- how a domain is cut into tiles shows nowhere: what one tile keeps for the next, tiles that go together,
-- elements that are only moved, rows that are turned many at once, rows of 2 to 32. Under each instruction set, on one thread
-- and on more; expected are elements one by one, or the sums that the canonical order writes out.

local H = require "spec.helper"

local worlds = { {}, { TYCHO_THREADS = "1" }, { TYCHO_ISA = "avx2" }, { TYCHO_MACHINE = "tile" },
  { TYCHO_MACHINE = "tile", TYCHO_ISA = "base" } }

--- Runs the code, which raises where a claim does not hold, in every world.
local function everywhere(code)
  local head = [[
    local ty, ffi = require "tycho", require "ffi"
    ty.manual_seed(7)
    local function same(a, b, text)
      local equal = a:eq(b):bitwise_or(a:ne(a):bitwise_and(b:ne(b)))
      assert(equal:all():item(), text)
    end
    local ctype = { bool = "uint8_t", u8 = "uint8_t", f32 = "float", f64 = "double", i64 = "int64_t" }
    local kept = setmetatable({}, { __mode = "k" })
    local function at(t)
      local p = ffi.cast(ctype[t.dtype] .. " *", t:data())
      kept[p] = t
      return p
    end
  ]]
  for _, env in ipairs(worlds) do
    local out, status = H.script(head .. code, env)
    local world = {}
    for k, v in pairs(env) do world[#world + 1] = k .. "=" .. v end
    assert.equal(0, status, table.concat(world, " ") .. ": " .. out)
  end
end

describe("tiles", function()
  it("of a row that is settled early are all there for what reads them later", function()
    everywhere [[
      local f = ty.compile(function(x) return x * x:max(), x:logical_not() * x:any(), x + x:all() end)
      for _, n in ipairs { 5, 4095, 4097, 9000, 70001 } do
        local x = ty.arange(n):fmod(3):eq(1)
        local held, p = {}, at(x)
        for i = 0, n - 1 do held[i] = p[i] end
        local times, never, plus = f(x)
        times, never, plus = at(times), at(never), at(plus)
        for i = 0, n - 1 do
          assert(times[i] == held[i], "x * max of " .. n .. " at " .. i)
          assert(never[i] == 1 - held[i], "not x * any of " .. n .. " at " .. i)
          assert(plus[i] == held[i], "x + all of " .. n .. " at " .. i)
        end
      end
    ]]
  end)

  it("see one value for all elements, however many they are", function()
    everywhere [[
      for _, n in ipairs { 5, 1024, 1025, 16383, 16384, 16385, 70001, 300000 } do
        local one, x = ty.full({}, 3), ty.arange(n)
        for name, y in pairs { read = one:expand(n):contiguous() + 0, alone = one:expand(n):contiguous(),
          sum = x + one, turned = one - x, both = (x * one + one):contiguous() } do
          local p = at(y)
          for i = 0, n - 1, n > 20000 and 37 or 1 do
            local want = ({ read = 3, alone = 3, sum = i + 3, turned = 3 - i, both = i * 3 + 3 })[name]
            assert(p[i] == want, name .. " " .. n .. " at " .. i)
          end
          assert(p[n - 1] == ({ read = 3, alone = 3, sum = n + 2, turned = 4 - n, both = n * 3 })[name], name .. n)
        end
      end
    ]]
  end)

  it("see a row that is the same for all rows, a column, and positions, in pieces of every width", function()
    everywhere [[
      for _, dtype in ipairs { "f32", "f16", "f64", "i64", "u8" } do
        for _, size in ipairs { { 3, 40 }, { 70, 1000 }, { 9, 1024 }, { 7, 2500 }, { 5, 3, 700 }, { 40, 33, 30 } } do
          local n, m = size[#size], 1
          for d = 1, #size - 1 do m = m * size[d] end
          local row = (ty.arange(n, { dtype = "i64" }) % 7):to(dtype)
          local x = (ty.arange(m * n, { dtype = "i64" }) % 5):to(dtype):reshape(unpack(size))
          local column = (ty.arange(m, { dtype = "i64" }) % 3):to(dtype):reshape(unpack(size, 1, #size - 1)):unsqueeze(-1)
          local one = ty.full({}, 2, { dtype = dtype })
          local y = ((x + row) * column + one):to("i64")
          local p = at(y)
          for i = 0, m * n - 1 do
            local want = (i % 5 + i % n % 7) * (math.floor(i / n) % 3) + 2
            assert(tonumber(p[i]) == want, dtype .. " " .. table.concat(size, "x") .. " at " .. i)
          end
        end
      end
      for _, size in ipairs { { 70, 1000 }, { 7, 2500 }, { 1300, 600 } } do
        local triangle, unit = ty.ones(unpack(size)):tril(2), ty.eye(unpack(size))
        local low, eye = at(triangle), at(unit)
        for i = 0, size[1] * size[2] - 1 do
          local r, c = math.floor(i / size[2]), i % size[2]
          assert(low[i] == (c - r <= 2 and 1 or 0) and eye[i] == (r == c and 1 or 0), table.concat(size, "x") .. " at " .. i)
        end
        assert(triangle.ndim == unit.ndim) -- they are there as long as their elements are read
      end
    ]]
  end)

  it("move elements from view to view as they are", function()
    everywhere [[
      for _, dtype in ipairs { "f32", "f64", "i64", "u8" } do
        for _, size in ipairs { { 1000, 300 }, { 33, 1 }, { 17, 65, 40 }, { 5000, 3 }, { 3, 5000 }, { 70001 } } do
          local count = 1
          for _, s in ipairs(size) do count = count * s end
          local x = (ty.arange(count, { dtype = "i64" }) % 251):to(dtype):reshape(unpack(size))
          local last, order = #size, {}
          for d = 1, last do order[d] = last + 1 - d end
          local views = { flipped = x:flip(), swapped = x:permute(unpack(order)), lastflip = x:flip(last),
            both = x:permute(unpack(order)):flip(1), half = x:slice(last, 1, -1, 2) }
          for name, v in pairs(views) do
            local to = ty.zeros(v.shape, { dtype = dtype })
            local back = ty.zeros(x.shape, { dtype = dtype })
            to:copy_(v)
            local p, q, n, shape, stride = at(v:contiguous()), at(to), v:numel(), v.shape, {}
            for d = 1, #shape do stride[d] = v:stride(d) end
            local base = at(v)
            for i = 0, n - 1, n > 20000 and 13 or 1 do
              local rest, from = i, 0
              for d = #shape, 1, -1 do
                from, rest = from + rest % shape[d] * stride[d], math.floor(rest / shape[d])
              end
              local want = base[from]
              assert(p[i] == want and q[i] == want, dtype .. " " .. name .. " " .. table.concat(size, "x") .. " at " .. i)
            end
            local window = name == "flipped" and back:flip() or name == "swapped" and back:permute(unpack(order))
            if window then
              window:copy_(v)
              same(back:to("f64"), x:to("f64"), dtype .. " " .. name .. " written " .. table.concat(size, "x"))
            end
          end
        end
      end
    ]]
  end)

  it("read what is the same along a row as one value, whatever the rows", function()
    everywhere [[
      for _, size in ipairs { { 3, 64 }, { 300, 100 }, { 7, 5000 }, { 70, 63 }, { 2, 70000 }, { 5, 9, 64 }, { 4, 33, 8, 40 } } do
        local whole, last = 1, size[#size]
        for _, s in ipairs(size) do whole = whole * s end
        local few, one = { unpack(size) }, {}
        few[#few] = 1
        for d = 1, #size do one[d] = d == 2 and size[d] or 1 end -- as a bias of channels
        local x = (ty.arange(whole) % 1009):reshape(size)
        local rows, channels = ty.arange(whole / last) * 3 + 1, ty.arange(size[2]) - 7
        local v, w = rows:reshape(few), channels:reshape(one)
        local inner = whole / size[1] / size[2]
        local function row(i) return math.floor(i / last) * 3 + 1 end
        local function channel(i) return math.floor(i / inner) % size[2] - 7 end
        for name, case in pairs {
          sum = { function(x) return x + v end, function(a, i) return a + row(i) end },
          work = { function(x) return (v - 1) * 2 * x end, function(a, i) return (row(i) - 1) * 2 * a end },
          bias = { function(x) return w - x end, function(a, i) return channel(i) - a end },
          both = { function(x) return (x + w):maximum(v * 2) end, function(a, i) return math.max(a + channel(i), row(i) * 2) end },
          truth = { function(x) return (x:lt(v)):to "u8" end, function(a, i) return a < row(i) and 1 or 0 end },
        } do
          local f = ty.compile(case[1])
          for _, y in ipairs { case[1](x), f(x), f(x) } do
            local p, step = at(y), whole > 20000 and 13 or 1
            for i = 0, whole - 1, step do
              local want = case[2](i % 1009, i)
              assert(p[i] == want, name .. " " .. table.concat(size, "x") .. " at " .. i)
            end
          end
        end
        local cut = x:clone()
        cut:add_(v)
        same(cut, x + v, "in place")
      end
      for _, n in ipairs { 40, 64, 65, 500 } do
        local k = n % 3 - 1
        local low, x = ty.tri(n, n + 9, k), ty.arange(n * (n + 9)):reshape(n, n + 9) + 1
        local p, q, r = at(low), at(x:tril(k)), at(x:triu(k))
        for i = 0, n - 1 do
          for j = 0, n + 8 do
            local e = i * (n + 9) + j
            assert(p[e] == (j <= i + k and 1 or 0) and q[e] == (j <= i + k and e + 1 or 0) and r[e] == (j >= i + k and e + 1 or 0))
          end
        end
      end
    ]]
  end)

  it("give the place of the first of equals, and of a NaN before all", function()
    everywhere [[
      for _, dtype in ipairs { "f32", "f64", "i64" } do
        for _, n in ipairs { 1, 3, 4, 7, 8, 9, 31, 32, 33, 64, 65, 100, 257, 1000, 2049, 5000 } do
          for _, rows in ipairs { 1, 9 } do
            local x = ty.randint(-3, 3, { rows, n }):to(dtype)
            if n % 2 == 1 and dtype ~= "i64" then x[{ 1, n - math.floor(n / 3) }] = 0 / 0 end
            local p, top, low = at(x), at(x:argmax(2)), at(x:argmin(2))
            for r = 0, rows - 1 do
              local best, least, nan = 0, 0
              for i = 0, n - 1 do
                local e = p[r * n + i]
                if e ~= e then nan = nan or i end
                if e > p[r * n + best] then best = i end
                if e < p[r * n + least] then least = i end
              end
              local text = dtype .. " of " .. rows .. "x" .. n
              assert(top[r] == (nan or best) + 1 and low[r] == (nan or least) + 1, text)
              if rows == 1 then assert(x:argmax():item() == (nan or best) + 1, text .. ", all") end
            end
          end
        end
      end
    ]]
  end)

  it("of long rows that lie apart reduce to the bits of their copies", function()
    everywhere [[
      for _, size in ipairs { { 300, 200 }, { 200, 1000 }, { 1111, 257 }, { 40, 30, 50 }, { 9000, 20 }, { 20, 9000 } } do
        local x, z = ty.randn(unpack(size)), ty.randn(unpack(size))
        local order = {}
        for d = 1, #size do order[d] = #size + 1 - d end
        local v, w = x:permute(unpack(order)), z:permute(unpack(order))
        local a, b, text = v:contiguous(), w:contiguous(), table.concat(size, "x")
        for name, f in pairs {
          sum = function(v) return v:sum() end, norm = function(v) return v:norm() end, max = function(v) return v:max() end,
          dot = function(v, w) return (v * w):sum() end, mixed = function(v) return (v * b - 1):mean() end,
          best = function(v) return v:argmax() end, double = function(v, w) return (v:to("f64") * w):sum() end,
          every = function(v, w) return (v - w):abs():sum() + (v * v):sum() end,
        } do
          local g = ty.compile(f)
          same(f(v, w), f(a, b), name .. " " .. text)
          for _ = 1, 2 do same(g(v, w), f(a, b), name .. " compiled " .. text) end
        end
      end
      local x = ty.randn(3, 400, 150) -- more rows than one
      same(x:transpose(2, 3):sum { 2, 3 }, x:transpose(2, 3):contiguous():sum { 2, 3 }, "rows")
    ]]
  end)

  it("of short rows join the halves of each, and spread a value to each", function()
    everywhere [[
      for _, dtype in ipairs { "f32", "f64" } do
        for _, n in ipairs { 2, 3, 4, 5, 6, 7, 8, 9, 16, 32 } do
          for _, rows in ipairs { 1, 3, 15, 16, 17, 40, 333, 5000 } do
            local x = ty.rand(rows, n):gt(0.05):where((ty.randn(rows, n) * 1000):to(dtype), 0 / 0)
            local column, text = {}, dtype .. " " .. n .. " of " .. rows
            for i = 1, n do column[i] = x[{ {}, i }]:contiguous() end
            for name, join in pairs { sum = ty.add, max = ty.maximum, min = ty.minimum } do
              local v, left = { unpack(column) }, n
              while left > 1 do
                local half = 1
                while half * 2 < left do half = half * 2 end
                for i = 1, left - half do v[i] = join(v[i], v[i + half]) end
                left = half
              end
              same(x[name](x, 2), v[1], name .. " " .. text)
            end
            local wide = column[1]:unsqueeze(2):expand(rows, n):contiguous()
            for i = 1, n do same(wide[{ {}, i }], column[1], "spread " .. text) end
          end
        end
      end
      local zeros = -ty.zeros(64, 4) -- of nothing but -0 the sum is -0
      assert((1 / zeros:sum(2)):max():item() == -math.huge)
    ]]
  end)

  it("are made of words where bytes are combined bit by bit, wherever these begin and end", function()
    everywhere [[
      local bit = require "bit"
      for _, n in ipairs { 2047, 2048, 2049, 2050, 2051, 5003, 70001 } do
        for _, from in ipairs { 1, 2, 4, 5 } do
          for _, kind in ipairs { "bool", "u8", "i8", "i16" } do
            local function draw()
              local x = ty.randint(kind == "bool" and 0 or kind == "u8" and 0 or -99, kind == "bool" and 1 or 99, { n + 8 })
              return x:to(kind):narrow(1, from, n)
            end
            local x, y, mask = draw(), draw(), kind == "bool" and 1 or -1
            local a, b = x:to("i64"), y:to("i64")
            local p, q = at(a:contiguous()), at(b:contiguous())
            local results = { { x:bitwise_and(y), bit.band }, { x:bitwise_or(y), bit.bor }, { x:bitwise_xor(y), bit.bxor },
              { x:bitwise_not(), function(v) return bit.bxor(v, mask) end } }
            for k, r in ipairs(results) do
              local got = r[1]:to("i64")
              local g = at(got)
              for i = 0, n - 1, n > 20000 and 37 or 1 do
                local want = r[2](tonumber(p[i]), tonumber(q[i]))
                if kind == "u8" then want = want % 256 end
                assert(tonumber(g[i]) == want, ("%s %d: %d from %d, at %d"):format(kind, k, n, from, i))
              end
              local last = r[2](tonumber(p[n - 1]), tonumber(q[n - 1]))
              assert(tonumber(g[n - 1]) == (kind == "u8" and last % 256 or last))
            end
          end
        end
      end
    ]]
  end)
end)
