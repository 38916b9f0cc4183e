--- gpu_spec.lua -- the software GPU (spec/gpu): what PTX computes on it, which faults it reports, what its driver does.
-- Kernels that nvcc made (fixtures/kernels.ptx) and ptxas's answers (fixtures/ptx_answers.lua) check how the manual was read.

local bit, ffi = require "bit", require "ffi"

local G = require "spec.soft_gpu"
local S = require "spec.gpu_snippets"
local H = require "spec.module"

local cu = G.cu

local function read_file(path)
  local f = assert(io.open(H.root .. path))
  local text = f:read "*a"
  f:close()
  return text
end

--- A kernel of a body: parameters are p0, p1 ... of .u64, loaded into %a0, %a1 ...; %i is the thread's number in the grid.
local function kernel(n, body, options)
  options = options or {}
  local params, loads = {}, {}
  for i = 0, n - 1 do
    params[i + 1] = (".param .u64 p%d"):format(i)
    loads[i + 1] = ("ld.param.u64 %%a%d, [p%d];"):format(i, i)
  end
  local text = ([[
.extern .shared .align 16 .b8 dyn[];
.visible .entry k(%s) {
.reg .pred %%p<16>; .reg .b16 %%h<32>; .reg .b32 %%r<64>, %%i, %%t; .reg .f32 %%f<32>; .reg .b64 %%rd<32>, %%a<8>, %%o; .reg .f64 %%d<32>;
%s
mov.u32 %%t, %%tid.x; mov.u32 %%i, %%ctaid.x; mov.u32 %%r63, %%ntid.x; mad.lo.u32 %%i, %%i, %%r63, %%t;
%s
ret;
}
]]):format(table.concat(params, ", "), table.concat(loads, "\n"), body)
  return G.kernel(G.load(G.ptx((options.before or "") .. text, options.target, options.version)), "k")
end

--- out[i] = the result of an instruction with operands of one 32-bit (or 64-bit) word from arrays.
local function map(body, out, ins, n, options)
  local address = { "mul.wide.u32 %o, %i, " .. ffi.sizeof(out) .. "; add.u64 %rd0, %a0, %o;" }
  local list = { G.array(out, n) }
  for k, v in ipairs(ins) do
    address[#address + 1] = ("mul.wide.u32 %%o, %%i, %d; add.u64 %%rd%d, %%a%d, %%o;"):format(ffi.sizeof(v[1]), k, k)
    list[#list + 1] = G.array(v[1], n, v[2])
  end
  local f = kernel(#list, table.concat(address, "\n") .. "\n" .. body, options)
  local block = math.min(n, 128)
  assert(n % block == 0)
  G.launch(f, n / block, block, list)
  return G.read(list[1])
end

local function fails(body, what, options)
  options = options or {}
  local list = options.list or { G.array("uint32_t", 64, 0) }
  local f = kernel(#list, body, options)
  local status, text = G.try(f, options.grid or 1, options.block or 64, list, options.shared)
  assert.truthy(status ~= 0, "nothing was reported: " .. what)
  assert.truthy(text:find(what, 1, not options.pattern), text)
  G.reset()
  return status, text
end

after_each(function() if cu.cuCtxSynchronize() ~= 0 then G.reset() end end)

describe("the parser", function()
  it("accepts and refuses what ptxas does", function()
    local answers = dofile(H.root .. "spec/fixtures/ptx_answers.lua")
    --- Words in another order, and forms without .sync for sm_75: ptxas takes them still, the manual does not have them.
    local lax = { ["add.ftz.rz.f32 %f1, %f2, %f3;"] = true, ["shfl.down.b32 %r1, %r2, 1, 31;"] = true, ["vote.ballot.b32 %r1, %p2;"] = true }
    for _, pair in ipairs(S.targets) do
      G.set("CAPABILITY", pair[1])
      for _, snippet in ipairs(S.list) do
        local ok, why = pcall(G.load, S.text(pair[1], pair[2], snippet))
        local refused = answers[pair[1]][snippet]
        if not lax[snippet] then
          assert.truthy(ok == not refused, ("sm_%d: %s: ptxas: %s; here: %s"):format(pair[1], snippet, refused or "accepts", ok and "accepts" or why))
        end
      end
    end
    G.set("CAPABILITY", 80)
  end)

  it("names the line of an error", function()
    local ok, why = pcall(G.load, G.ptx ".visible .entry k() {\n.reg .b32 %r<2>;\nadd.u32 %r0, %r1, %f1;\nret;\n}\n")
    assert.falsy(ok)
    assert.truthy(why:find("line 6; error", 1, true), why)
  end)

  it("tells versions that the driver is too old for, and targets that the device is too old for", function()
    local handle = ffi.new "void *[1]"
    G.set("DRIVER", 11080)
    assert.equal(222, cu.cuModuleLoadDataEx(handle, ".version 8.0\n.target sm_75\n.address_size 64\n", 0, nil, nil))
    G.set("DRIVER", 12040)
    assert.equal(209, cu.cuModuleLoadDataEx(handle, ".version 8.0\n.target sm_90\n.address_size 64\n", 0, nil, nil))
    assert.equal(218, cu.cuModuleLoadDataEx(handle, ".version 6.0\n.target sm_80\n.address_size 64\n", 0, nil, nil))
  end)
end)

describe("kernels of nvcc", function()
  local loaded
  local function nvcc(name)
    if not loaded then
      G.set("DRIVER", 13000)
      G.set("APPROXIMATE", 1)
      local text = read_file "spec/fixtures/kernels.ptx"
      loaded = G.load(text)
      G.set("APPROXIMATE", 0)
      G.set("DRIVER", 12040)
    end
    return G.kernel(loaded, name)
  end
  local function random(n, low, high) return function() return math.random(low, high) end end

  it("add", function()
    local n = 1000
    local a, b, c = G.array("float", n, function(i) return i / 2 end), G.array("float", n, function(i) return 3 * i end), G.array("float", n)
    G.launch(nvcc "add", 4, 256, { a, b, c, n })
    local r = G.read(c)
    for i = 0, n - 1 do assert.equal(3.5 * i, r[i]) end
  end)

  it("sums by shuffles, shared memory and atomics", function()
    local n, want = 5000, 0
    local a, sum = G.array("int32_t", n, random(n, -1000, 1000)), G.array("int32_t", 1, 0)
    for i = 0, n - 1 do want = want + a.host[i] end
    G.launch(nvcc "total", 7, 256, { a, sum, n })
    assert.equal(want, G.read(sum)[0])
  end)

  it("a product by tiles", function()
    local n = 48
    local a, b, c = G.array("float", n * n, random(0, -9, 9)), G.array("float", n * n, random(0, -9, 9)), G.array("float", n * n)
    G.launch(nvcc "product", { 3, 3 }, { 16, 16 }, { a, b, c, n })
    local r = G.read(c)
    for i = 0, n - 1 do
      for j = 0, n - 1 do
        local sum = 0
        for k = 0, n - 1 do sum = sum + a.host[i * n + k] * b.host[k * n + j] end
        assert.equal(sum, r[i * n + j])
      end
    end
  end)

  it("a transpose, without bank conflicts", function()
    local n = 64
    local a, b = G.array("uint32_t", n * n, function(i) return i end), G.array("uint32_t", n * n)
    cu.soft_gpu_reset_counts()
    G.launch(nvcc "transpose", { 2, 2 }, { 32, 8 }, { a, b, n })
    local r = G.read(b)
    for i = 0, n - 1 do for j = 0, n - 1 do assert.equal(j * n + i, r[i * n + j]) end end
    assert.equal(G.count "shared_ideal", G.count "shared_wavefronts")
    assert.equal(G.count "global_ideal", G.count "global_sectors")
  end)

  it("lanes that leave a loop at different times", function()
    local n = 500
    local a, b = G.array("uint32_t", n, function(i) return i + 1 end), G.array("uint32_t", n)
    G.launch(nvcc "collatz", 4, 128, { a, b, n })
    local r = G.read(b)
    for i = 1, n do
      local v, s = i, 0
      while v ~= 1 do v, s = v % 2 == 1 and 3 * v + 1 or v / 2, s + 1 end
      assert.equal(s, r[i - 1])
    end
  end)

  it("calls, a switch, 64-bit division and bits", function()
    local n = 900
    local a, b, c = G.array("int64_t", n, function() return math.random(-2 ^ 31, 2 ^ 31) * 1048573LL + math.random(0, 99) end),
      G.array("int32_t", n, random(n, -2 ^ 31, 2 ^ 31 - 1)), G.array("int64_t", n)
    G.launch(nvcc "integers", 8, 128, { a, b, c, n })
    local r = G.read(c)
    local function power(x, e) local p = 1LL for _ = 1, e do p = p * x end return p end
    local function bits(x) local k, v = 0, ffi.cast("uint64_t", x) while v ~= 0 do k, v = k + tonumber(v % 2), v / 2 end return k end
    local function clz(x) local v, k = ffi.cast("uint64_t", x), 64 while v ~= 0 do v, k = v / 2, k - 1 end return k end
    for i = 0, n - 1 do
      local x, y, want = a.host[i], b.host[i], nil
      local odd = bit.bor(y, 1)
      local case = i % 9
      if case == 0 then want = power(x, bit.band(y, 7))
      elseif case == 1 then want = x / odd
      elseif case == 2 then want = x % odd
      elseif case == 3 then want = ffi.cast("int64_t", ffi.cast("uint64_t", x) / (odd % 2 ^ 32))
      elseif case == 4 then want = bits(x) * 1000LL + clz(x)
      elseif case == 8 then want = bit.bxor(bit.arshift(x, bit.band(y, 63)), bit.lshift(x, bit.band(y, 31))) end
      if want then assert.truthy(want == r[i], ("case %d of %d: %s, %s"):format(case, i, tostring(want), tostring(r[i]))) end
    end
  end)

  it("f32 operations and conversions", function()
    local n = 512
    local special = { 0, -0.0, 1, -1, 1 / 0, -1 / 0, 0.5, 1.5, 2.5, -2.5, 1e-40, 3e9, -3e9, 5e9, 65504, 65520, 1e-8, 6e-8 }
    local function fill(step) return function(i) return special[i * step % #special + 1] * (i < 324 and 1 or math.random() * 4 - 2) end end
    local a, b, c = G.array("float", n, fill(1)), G.array("float", n, function(i) return special[math.floor(i / 18) % 18 + 1] end), G.array("float", 16 * n)
    G.launch(nvcc "reals", 4, 128, { a, b, c, n })
    local r = G.read(c)
    local function f(x) return tonumber(ffi.new("float", x)) end
    local function even(x) return math.abs(x) < 2 ^ 51 and (x < 0 and x - 2 ^ 52 + 2 ^ 52 or x + 2 ^ 52 - 2 ^ 52) or x end
    local function same(x, y) return x ~= x and y ~= y or x == y and 1 / x == 1 / y end
    for i = 0, n - 1 do
      local x, y = a.host[i], b.host[i]
      local function claim(k, want) assert.truthy(same(want, r[k * n + i]), ("%d: %g, %g: %g, not %g"):format(k, x, y, r[k * n + i], want)) end
      local sign = (x < 0 or 1 / x < 0) and -1 or 1
      claim(0, f(x + y))
      claim(1, f(x * y))
      claim(2, f(x / y))
      claim(3, f(math.sqrt(math.abs(x))))
      claim(10, math.floor(math.abs(x)) * sign)
      claim(11, math.floor(x))
      claim(9, even(math.abs(x)) * sign)
      claim(12, f(x ~= x and 0 or math.max(-2 ^ 31, math.min(2 ^ 31 - 1, even(x)))) + 0)
      claim(13, f(x ~= x and 0 or math.max(0, math.min(2 ^ 32 - 1, math.floor(x)))) + 0)
    end
  end)

  it("f64 functions, to 2 ulp", function()
    local n = 256
    local a, c = G.array("double", n, function(i) return (i - 128) * 0.37 end), G.array("double", 8 * n)
    G.launch(nvcc "doubles", 2, 128, { a, c, n })
    local r = G.read(c)
    for i = 0, n - 1 do
      local x = a.host[i]
      for k, want in ipairs { math.exp(x), math.log(math.abs(x) + 0.5), math.sin(x), math.tanh(x), x / 3, math.sqrt(math.abs(x)) } do
        local got = r[(k - 1) * n + i]
        assert.truthy(math.abs(got - want) <= 5e-16 * math.abs(want), ("%d: %.17g: %.17g, not %.17g"):format(k, x, got, want))
      end
      assert.truthy(math.abs(r[7 * n + i] - (math.abs(x) + 0.1) ^ 1.7) <= 1e-15 * r[7 * n + i])
    end
  end)

  it("votes, matches and reductions of a warp", function()
    local n = 64
    local a, rank, group, most = G.array("int32_t", n, random(n, 0, 7)), G.array("int32_t", n), G.array("int32_t", n), G.array("int32_t", n)
    G.launch(nvcc "lanes", 1, n, { a, rank, group, most })
    local x, y, z = G.read(rank), G.read(group), G.read(most)
    for i = 0, n - 1 do
      local first, odd, mask, top = i - i % 32, 0, 0, 0
      for j = first, first + 31 do
        if j < i and a.host[j] % 2 == 1 then odd = odd + 1 end
        if a.host[j] == a.host[i] then mask = bit.bor(mask, bit.lshift(1, j - first)) end
        top = math.max(top, a.host[j])
      end
      assert.same({ odd, mask, top }, { x[i], y[i], z[i] })
    end
  end)

  it("asynchronous copies in two stages", function()
    local n = 5
    local a, b = G.array("float", n * 512, function(i) return i end), G.array("float", n * 512)
    G.launch(nvcc "stages", 1, 128, { a, b, n })
    local r = G.read(b)
    for i = 0, n * 512 - 1 do assert.equal(math.floor(i / 512) * 512 + (127 - math.floor(i / 4) % 128) * 4 + i % 4, r[i]) end
  end)

  it("local arrays, constants and dynamic shared memory", function()
    local n = 96
    local a, b = G.array("int32_t", n * 8, random(n, 0, 99)), G.array("int32_t", n)
    local weights = { 3, 1, 4, 1, 5, 9, 2, 6 }
    G.launch(nvcc "local", 1, n, { a, b }, n * 4)
    local r = G.read(b)
    for i = 0, n - 1 do
      local t = n - 1 - i
      local j = a.host[t] % 8
      assert.equal(a.host[t * 8 + j] * weights[j + 1], r[i])
    end
  end)
end)

describe("a fault in a kernel is reported:", function()
  it("an address outside of its allocation", function()
    local status, text = fails("mul.wide.u32 %o, %i, 4; add.u64 %rd0, %a0, %o; st.global.u32 [%rd0+4], %i;", "behind the end of the 256")
    assert.equal(700, status)
    assert.truthy(text:find "kernel k, line %d+, block %(0, 0, 0%), thread %(63, 0, 0%)", text)
    fails("st.global.u32 [%a0+-4], %i;", "4 bytes before the 256")
    fails("mov.u64 %rd0, 64; ld.global.u32 %r0, [%rd0];", "no device memory")
  end)

  it("an address in freed memory", function()
    local a = G.array("uint32_t", 4, 0)
    G.check(cu.cuMemFree_v2(a.address))
    fails("ld.global.u32 %r0, [%a0];", "memory that is free", { list = { a } })
  end)

  it("an address that is not aligned", function()
    local status = fails("ld.global.v2.u32 {%r0, %r1}, [%a0+4];", "not aligned")
    assert.equal(716, status)
  end)

  it("memory that nobody wrote", function()
    fails("ld.global.u32 %r0, [%a0];", "read and were not written", { list = { G.array("uint32_t", 64) } })
    fails(".shared .b32 x[64]; ld.shared.u32 %r0, [x];", "shared memory: 4 bytes at 0x0 are read and were not written")
    fails("ld.global.u8 %r0, [%a0+3]; ld.global.u32 %r0, [%a0];", "read and were not written",
      { list = { { address = (function() local a = G.array("uint8_t", 4) G.check(cu.cuMemsetD8Async(a.address + 3, 1, 1, nil)) return a.address end)() } } })
  end)

  it("registers and predicates that were not written", function()
    fails("add.u32 %r0, %r1, 1;", "a register is read that was not written")
    fails("@%p1 mov.u32 %r0, 1;", "a predicate is read that was not written")
    fails("setp.lt.u32 %p1, %t, 3; @%p1 mov.u32 %r0, 1; add.u32 %r1, %r0, 1;", "thread (3, 0, 0): a register is read")
  end)

  it("shared memory beyond what the block has", function()
    fails("mov.u32 %r0, dyn; st.shared.u32 [%r0+256], %r0;", "outside of the 0x100 that the block has", { shared = 256 })
  end)

  it("races in shared memory", function()
    local own = "shl.b32 %r1, %t, 2; mov.u32 %r0, dyn; add.u32 %r0, %r0, %r1; st.shared.u32 [%r0], %t;"
    fails(own .. "ld.shared.u32 %r2, [dyn];", "this read of byte 0x0 meets a write by lane 0 of warp 0", { shared = 256 })
    fails(own .. "bar.sync 0; ld.shared.u32 %r2, [dyn]; st.shared.u32 [%r0], %t;", "meets a read", { shared = 256 })
    fails("mov.u32 %r0, 1; st.shared.u32 [dyn], %r0;", "this write of byte 0x0 meets a write", { shared = 256 })
    fails("st.shared.u32 [dyn], %t;", "store different values", { shared = 256 })
    -- between lanes of one warp, bar.warp.sync is enough; between warps it is not
    local next_one = "xor.b32 %r3, %r1, 4; mov.u32 %r4, dyn; add.u32 %r3, %r4, %r3; ld.shared.u32 %r2, [%r3];"
    fails(own .. next_one, "this read", { shared = 256 })
    local f = kernel(1, own .. "bar.warp.sync -1;" .. next_one)
    G.launch(f, 1, 64, { G.array("uint32_t", 1, 0) }, 256)
    local far = "xor.b32 %r3, %r1, 128; mov.u32 %r4, dyn; add.u32 %r3, %r4, %r3; ld.shared.u32 %r2, [%r3];"
    fails(own .. "bar.sync 0;" .. own .. "bar.warp.sync -1;" .. far, "meets a read by lane 0 of warp", { shared = 256 })
    G.launch(kernel(1, own .. "bar.sync 0;" .. far .. "bar.sync 0;" .. own), 1, 64, { G.array("uint32_t", 1, 0) }, 256)
  end)

  it("words of global memory that several blocks write, or one writes and another reads", function()
    local at = "mul.wide.u32 %o, %t, 4; add.u64 %rd0, %a0, %o;"
    fails(at .. "st.global.u32 [%rd0], %t;", "this write at 0x%x+ meets a write by block 0 of the same launch", { grid = 2, pattern = true })
    local two = "setp.eq.u32 %p1, %i, %t; @%p1 st.global.u32 [%rd0], %t; @!%p1 ld.global.u32 %r0, [%rd0];"
    fails(at .. two, "this read at 0x%x+ meets a write by block 0", { grid = 2, pattern = true })
    G.launch(kernel(1, at .. "red.global.add.u32 [%rd0], 1; ld.volatile.global.u32 %r0, [%rd0];"), 2, 64, { G.array("uint32_t", 64, 0) })
    local f = kernel(1, at .. "st.global.u32 [%rd0], %t;")
    local list = { G.array("uint32_t", 64, 0) }
    G.launch(f, 1, 64, list)
    G.launch(f, 1, 64, list) -- launches are in order
  end)

  it("what cp.async brings, read too early", function()
    local copy = "shl.b32 %r1, %t, 2; cvt.u64.u32 %o, %r1; add.u64 %rd0, %a0, %o; mov.u32 %r0, dyn; add.u32 %r0, %r0, %r1;" ..
      "cp.async.ca.shared.global [%r0], [%rd0], 4; cp.async.commit_group;"
    fails(copy .. "ld.shared.u32 %r2, [%r0];", "read before its cp.async was waited for", { shared = 256 })
    fails(copy .. "cp.async.wait_group 1; ld.shared.u32 %r2, [%r0];", "read before its cp.async was waited for", { shared = 256 })
    fails(copy .. "cp.async.wait_group 0; ld.shared.u32 %r2, [dyn];", "meets a write", { shared = 256 })
    G.launch(kernel(1, copy .. "cp.async.wait_all; bar.sync 0; ld.shared.u32 %r2, [dyn];"), 1, 64, { G.array("uint32_t", 64, 0) }, 256)
  end)

  it("barriers where lanes part, that some never reach, and of another count", function()
    fails("setp.lt.u32 %p1, %t, 7; @%p1 bra A; bar.sync 0; A:", "barrier divergence: lanes 0x")
    fails("setp.lt.u32 %p1, %t, 7; @%p1 exit; bar.sync 0;", "barrier divergence: lanes 0x7f of the warp have exited")
    fails("setp.lt.u32 %p1, %t, 32; @%p1 exit; bar.sync 0;", "barrier 0: 32 of 64 threads came")
    fails("setp.lt.u32 %p1, %t, 32; @%p1 bar.sync 1; @!%p1 bar.sync 2;", "the others have exited or wait elsewhere")
  end)

  it("lanes that a member mask names and that do not come", function()
    fails("setp.lt.u32 %p1, %t, 7; @%p1 shfl.sync.idx.b32 %r0, %t, 0, 31, -1;", "of the member mask 0xffffffff")
    fails("setp.lt.u32 %p1, %t, 7; @%p1 shfl.sync.idx.b32 %r0, %t, 9, 31, 0x7f;", "shfl reads lane 9, which does not take part", { block = 32 })
    fails("shfl.sync.idx.b32 %r0, %t, 0, 31, 0x7fffffff;", "thread (31, 0, 0): the lane is not in its member mask", { block = 32 })
    fails("setp.lt.u32 %p1, %t, 7; @%p1 exit; vote.sync.ballot.b32 %r0, %p1, -1;", "have exited", { block = 32 })
  end)

  it("a loop without an end, a trap", function()
    G.set("STEPS", 10000)
    fails("A: bra A;", "does not end")
    G.set("STEPS", 2 ^ 32)
    fails("trap;", "trap")
  end)
end)

describe("counts", function()
  local function counted(body, list, shared)
    local f = kernel(#list, body)
    cu.soft_gpu_reset_counts()
    G.launch(f, 1, 32, list, shared)
    return { G.count "global_sectors", G.count "global_ideal" }, { G.count "shared_wavefronts", G.count "shared_ideal" }
  end

  it("sectors of loads in order, off by 16 bytes, with a stride, and all from one place", function()
    local a = G.array("uint32_t", 4096, 0)
    local at = "mul.wide.u32 %%o, %%t, %d; add.u64 %%rd0, %%a0, %%o; ld.global.%s [%%rd0+%d];"
    assert.same({ 4, 4 }, (counted(at:format(4, "u32 %r0,", 0), { a })))
    assert.same({ 16, 16 }, (counted(at:format(16, "v4.u32 {%r0, %r1, %r2, %r3},", 0), { a })))
    assert.same({ 17, 16 }, (counted(at:format(16, "v4.u32 {%r0, %r1, %r2, %r3},", 16), { a })))
    assert.same({ 32, 4 }, (counted(at:format(128, "u32 %r0,", 0), { a })))
    assert.same({ 1, 1 }, (counted(at:format(0, "u32 %r0,", 0), { a })))
  end)

  it("passes over the banks of shared memory", function()
    local function passes(stride, store)
      local _, got = counted(("mul.lo.u32 %%r1, %%t, %d; mov.u32 %%r0, dyn; add.u32 %%r0, %%r0, %%r1; %s"):format(stride, store), { G.array("uint32_t", 1, 0) }, 32768)
      return got
    end
    local word = "st.shared.u32 [%r0], %t;"
    assert.same({ 1, 1 }, passes(4, word))
    assert.same({ 2, 1 }, passes(8, word))
    assert.same({ 32, 1 }, passes(128, word))
    assert.same({ 1, 1 }, passes(132, word))
    assert.same({ 4, 4 }, passes(16, "st.shared.v4.u32 [%r0], {%t, %t, %t, %t};"))
    assert.same({ 2, 2 }, passes(8, "st.shared.v2.u32 [%r0], {%t, %t};"))
  end)
end)

describe("the driver", function()
  local function pinned(n)
    local p = ffi.new "void *[1]"
    G.check(cu.cuMemAllocHost_v2(p, 4 * n))
    return ffi.cast("int32_t *", p[0])
  end
  local function handle(create, flags)
    local h = ffi.new "void *[1]"
    G.check(cu[create](h, flags))
    return h[0]
  end
  local add = "mul.wide.u32 %o, %i, 4; add.u64 %rd0, %a0, %o; ld.global.u32 %r0, [%rd0]; add.u32 %r0, %r0, 1; st.global.u32 [%rd0], %r0;"

  it("does work late: who does not wait reads what was there", function()
    local a, stream = G.array("int32_t", 64, 5), handle("cuStreamCreate", 1)
    local f, values = kernel(1, add), G.params { a }
    local host = pinned(64)
    host[0] = -1
    G.check(cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, stream, values, nil))
    G.check(cu.cuMemcpyDtoHAsync_v2(host, a.address, 256, stream))
    assert.equal(-1, host[0])
    assert.equal(600, cu.cuStreamQuery(stream))
    G.check(cu.cuStreamSynchronize(stream))
    assert.equal(6, host[0])
    assert.equal(0, cu.cuStreamQuery(stream))
    G.check(cu.cuStreamDestroy_v2(stream))
  end)

  it("keeps streams apart but for events, in every order", function()
    local f = kernel(1, add)
    local stale = 0
    for seed = 0, 20 do
      G.set("SEED", seed)
      local a, one, two = G.array("int32_t", 64, 5), handle("cuStreamCreate", 1), handle("cuStreamCreate", 1)
      local values, event, host = G.params { a }, handle("cuEventCreate", 2), pinned(128)
      G.check(cu.cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, one, values, nil))
      G.check(cu.cuEventRecord(event, one))
      G.check(cu.cuMemcpyDtoHAsync_v2(host + 64, a.address, 256, two)) -- does not wait
      G.check(cu.cuStreamWaitEvent(two, event, 0))
      G.check(cu.cuMemcpyDtoHAsync_v2(host, a.address, 256, two))
      G.check(cu.cuStreamSynchronize(two))
      assert.equal(6, host[0])
      if host[64] == 5 then stale = stale + 1 end
      G.check(cu.cuCtxSynchronize())
    end
    G.set("SEED", 0)
    assert.truthy(stale > 0 and stale <= 21, stale)
  end)

  it("reports work on memory that was freed before it ran", function()
    local a, stream = G.array("int32_t", 64, 5), handle("cuStreamCreate", 1)
    local values = G.params { a }
    G.check(cu.cuLaunchKernel(kernel(1, add), 1, 1, 1, 64, 1, 1, 0, stream, values, nil))
    G.check(cu.cuMemFree_v2(a.address))
    assert.equal(700, cu.cuStreamSynchronize(stream))
    G.reset()
    a = G.array("int32_t", 64, 5)
    values = G.params { a }
    G.check(cu.cuLaunchKernel(kernel(1, add), 1, 1, 1, 64, 1, 1, 0, stream, values, nil))
    G.check(cu.cuMemFreeAsync(a.address, stream))
    G.check(cu.cuStreamSynchronize(stream))
  end)

  it("keeps an error: every call gives it until the context is reset", function()
    local a = G.array("int32_t", 1, 0)
    local status = G.try(kernel(1, "trap;"), 1, 32, { a })
    assert.equal(719, status)
    assert.equal(719, cu.cuMemFree_v2(a.address))
    assert.equal(719, cu.cuCtxSynchronize())
    G.reset()
    assert.equal(0, cu.cuCtxSynchronize())
  end)

  it("fails where it is told to", function()
    local address = ffi.new "CUdeviceptr[1]"
    G.set("FAIL_ALLOC", 2)
    assert.equal(0, cu.cuMemAlloc_v2(address, 16))
    assert.equal(2, cu.cuMemAlloc_v2(address, 16))
    assert.equal(0, cu.cuMemAlloc_v2(address, 16))
    assert.equal(2, cu.cuMemAlloc_v2(address, 2 ^ 40))
    local f, a = kernel(1, add), G.array("int32_t", 64, 0)
    G.set("FAIL_LAUNCH", 2)
    G.launch(f, 1, 64, { a })
    assert.equal(719, (G.try(f, 1, 64, { a })))
    G.reset()
    cu.soft_gpu_lose(46)
    assert.equal(46, cu.cuMemAlloc_v2(address, 16))
    G.reset()
  end)

  it("refuses launches that no device runs", function()
    local f, a = kernel(1, add), G.array("int32_t", 64, 0)
    local function launch(...) return (G.try(f, ...)) end
    assert.equal(1, launch(1, 1025, { a }))
    assert.equal(1, launch(0, 32, { a }))
    assert.equal(1, launch({ 1, 65536 }, 32, { a }))
    assert.equal(1, launch(1, 32, { a }, 49153))
    assert.equal(1, cu.cuFuncSetAttribute(f, 8, 200 * 1024))
    assert.equal(0, cu.cuFuncSetAttribute(f, 8, 100 * 1024))
    assert.equal(0, launch(1, 32, { a }, 100 * 1024))
    assert.equal(400, cu.cuLaunchKernel(a.host, 1, 1, 1, 32, 1, 1, 0, nil, nil, nil))
  end)

  it("runs graphs of kernels and sets, with new parameters", function()
    for seed = 0, 5 do
      G.set("SEED", seed)
      local a, b = G.array("int32_t", 64), G.array("int32_t", 64, 7)
      local f, graph, set, first, second = kernel(1, add), handle("cuGraphCreate", 0), ffi.new "void *[1]", ffi.new "void *[1]", ffi.new "void *[1]"
      local function node(array)
        local values, kept = G.params { array }
        local p = ffi.new "KernelNode"
        p.grid, p.block, p["function"], p.params = { 1, 1, 1 }, { 64, 1, 1 }, f, values
        return p, values, kept
      end
      G.check(cu.cuGraphAddMemsetNode(set, graph, nil, 0, ffi.new("MemsetNode", { a.address, 256, 40, 4, 64, 1 }), nil))
      local p, values, kept = node(a)
      G.check(cu.cuGraphAddKernelNode_v2(first, graph, set, 1, p))
      G.check(cu.cuGraphAddKernelNode_v2(second, graph, first, 1, p))
      local exec = ffi.new "void *[1]"
      G.check(cu.cuGraphInstantiateWithFlags(exec, graph, 0))
      G.check(cu.cuGraphLaunch(exec[0], nil))
      assert.equal(42, G.read(a)[63])
      p, values, kept = node(b)
      G.check(cu.cuGraphExecKernelNodeSetParams_v2(exec[0], second[0], p))
      G.check(cu.cuGraphLaunch(exec[0], nil))
      assert.same({ 41, 8 }, { G.read(a)[63], G.read(b)[63] })
      G.check(cu.cuGraphExecDestroy(exec[0]))
      G.check(cu.cuGraphDestroy(graph))
      assert.truthy(values and kept)
    end
    G.set("SEED", 0)
  end)

  it("links PTX to an image for one generation of devices", function()
    local link, image, size, loaded = ffi.new "void *[1]", ffi.new "void *[1]", ffi.new "size_t[1]", ffi.new "void *[1]"
    local text = G.ptx ".visible .entry k() { ret; }"
    G.check(cu.cuLinkCreate_v2(0, nil, nil, link))
    G.check(cu.cuLinkAddData_v2(link[0], 1, ffi.cast("void *", text), #text + 1, "k", 0, nil, nil))
    G.check(cu.cuLinkComplete(link[0], image, size))
    local bytes = ffi.string(image[0], size[0])
    G.check(cu.cuLinkDestroy(link[0]))
    G.check(cu.cuLibraryLoadData(loaded, bytes, nil, nil, 0, nil, nil, 0))
    G.check(cu.cuLibraryGetKernel(image, loaded[0], "k"))
    assert.equal(500, cu.cuLibraryGetKernel(image, loaded[0], "other"))
    G.set("CAPABILITY", 90)
    assert.equal(209, cu.cuLibraryLoadData(loaded, bytes, nil, nil, 0, nil, nil, 0))
    G.set("CAPABILITY", 80)
  end)

  it("finds functions by name and version", function()
    local f, status = ffi.new "void *[1]", ffi.new "int[1]"
    assert.equal(0, cu.cuGetProcAddress_v2("cuMemAlloc", f, 12000, 0, status))
    assert.equal(ffi.cast("void *", cu.cuMemAlloc_v2), f[0])
    assert.equal(500, cu.cuGetProcAddress_v2("cuNothing", f, 12000, 0, status))
  end)
end)

describe("conversions", function()
  --- All finite halves from +0 upwards as {bits, value}: the ascending order of the bits is that of the values.
  local function halves(exponent_bits, mantissa_bits)
    local list, bias = {}, 2 ^ (exponent_bits - 1) - 1
    for b = 0, (2 ^ exponent_bits - 1) * 2 ^ mantissa_bits - 1 do
      local e, m = math.floor(b / 2 ^ mantissa_bits), b % 2 ^ mantissa_bits
      list[b] = e == 0 and m * 2 ^ (1 - bias - mantissa_bits) or (1 + m / 2 ^ mantissa_bits) * 2 ^ (e - bias)
    end
    return list
  end

  --- Values between neighbours: below, at and above the middle, of both signs; what each rounding makes of them.
  local function claims(name, list, steps, run)
    local n = #list
    local cases = {}
    for b = 0, n - 1, steps do
      local low, high = list[b], list[b + 1]
      local middle, off = (low + high) / 2, (high - low) / 8
      cases[#cases + 1] = { low, b, b, b, b }
      cases[#cases + 1] = { middle - off, b, b, b, b + 1 }
      cases[#cases + 1] = { middle, b % 2 == 0 and b or b + 1, b, b, b + 1 }
      cases[#cases + 1] = { middle + off, b + 1, b, b, b + 1 }
    end
    local top = list[n] + (list[n] - list[n - 1]) / 2 -- from here on to nearest gives infinity
    cases[#cases + 1] = { top, n + 1, n, n, n + 1 }
    cases[#cases + 1] = { top * (1 - 2 ^ -20), n, n, n, n + 1 }
    cases[#cases + 1] = { 1 / 0, n + 1, n + 1, n + 1, n + 1 }
    while #cases % 128 ~= 0 do cases[#cases + 1] = { 0, 0, 0, 0, 0 } end
    for k, mode in ipairs { "rn", "rz", "rm", "rp" } do
      for sign = 1, -1, -2 do
        local got = run(mode, function(i) return sign * cases[i + 1][1] end, #cases)
        local column = sign > 0 and k or mode == "rm" and 4 or mode == "rp" and 3 or k
        for i, case in ipairs(cases) do
          local want = case[column + 1] + (sign < 0 and 0x8000 or 0)
          if got and want ~= got[i - 1] then
            error(("%s.%s of %.9g: 0x%04x, not 0x%04x"):format(name, mode, sign * case[1], got[i - 1], want))
          end
        end
      end
    end
  end

  local store = "mul.wide.u32 %o, %i, 2; add.u64 %o, %a0, %o; st.global.b16 [%o], %h0;"
  it("f32 to f16: every value, the middles between them, every rounding", function()
    claims("f16", halves(5, 10), 3, function(mode, fill, n)
      return map("ld.global.f32 %f0, [%rd1]; cvt." .. mode .. ".f16.f32 %h0, %f0;" .. store, "uint16_t", { { "float", fill } }, n)
    end)
  end)

  it("f64 to f16, and f32 to bf16", function()
    claims("f16", halves(5, 10), 17, function(mode, fill, n)
      return map("ld.global.f64 %d0, [%rd1]; cvt." .. mode .. ".f16.f64 %h0, %d0;" .. store, "uint16_t", { { "double", fill } }, n)
    end)
    claims("bf16", halves(8, 7), 5, function(mode, fill, n)
      if mode == "rm" or mode == "rp" then return end
      return map("ld.global.f32 %f0, [%rd1]; cvt." .. mode .. ".bf16.f32 %h0, %f0;" .. store, "uint16_t", { { "float", fill } }, n)
    end)
  end)

  it("f16 and bf16 to f32: every value", function()
    local list, brains = halves(5, 10), halves(8, 7)
    local body = "ld.global.b16 %%h0, [%%rd1]; %s; st.global.f32 [%%rd0], %%f0;"
    G.set("CAPABILITY", 90)
    local got = map(body:format "cvt.f32.f16 %f0, %h0", "float", { { "uint16_t", function(i) return i end } }, 65536)
    local wide = map(body:format "cvt.f32.bf16 %f0, %h0", "float", { { "uint16_t", function(i) return i end } }, 65536, { target = 90 })
    G.set("CAPABILITY", 80)
    for b = 0, 65535 do
      local sign, rest = b >= 0x8000 and -1 or 1, b % 0x8000
      local want = rest == 0x7c00 and 1 / 0 or rest < 0x7c00 and list[rest]
      if want then assert.truthy(got[b] == sign * want and 1 / got[b] == sign / want) else assert.truthy(got[b] ~= got[b]) end
      local brain = rest == 0x7f80 and 1 / 0 or rest < 0x7f80 and brains[rest]
      if brain then assert.truthy(wide[b] == sign * brain) else assert.truthy(wide[b] ~= wide[b]) end
    end
  end)

  it("floats to integers: clamped, NaN as the manual has it", function()
    local nan = 0 / 0
    local values = { 0.5, 1.5, -0.5, -1.5, 2.5, 127.5, 128.5, -128.5, -129.5, 255.5, 300, 2147483520, 2147483648, -2147483648, -2147483904,
      4294967040, 4294967296, 9.2e18, 9.3e18, -9.2e18, -9.3e18, 1.8e19, 1.9e19, 1 / 0, -1 / 0, nan }
    local function even(x) return x + 6755399441055744 - 6755399441055744 end
    for _, from in ipairs { { "f32", "%f0", "float" }, { "f64", "%d0", "double" } } do
      for _, to in ipairs { { "s32", -2 ^ 31, 2 ^ 31 - 1, "%r0", "int32_t" }, { "u32", 0, 2 ^ 32 - 1, "%r0", "uint32_t" },
        { "s8", -128, 127, "%r0", "int32_t" }, { "u8", 0, 255, "%r0", "int32_t" }, { "u16", 0, 65535, "%r0", "int32_t" } } do
        local body = ("ld.global.%s %s, [%%rd1]; cvt.rni.%s.%s %s, %s; st.global.b32 [%%rd0], %s;"):format(from[1], from[2], to[1], from[1], to[4], from[2], to[4])
        local got = map(body, to[5], { { from[3], function(i) return values[i % #values + 1] end } }, 32)
        for i = 1, #values do
          local x = values[i]
          local want = x ~= x and (from[1] == "f64" and (to[2] < 0 and to[2] or (to[3] + 1) / 2) or 0) or
            math.max(to[2], math.min(to[3], math.abs(x) < 2 ^ 40 and even(x) or x))
          assert.truthy(want == got[i - 1], ("%s.%s of %g: %s, not %s"):format(to[1], from[1], x, tostring(got[i - 1]), tostring(want)))
        end
      end
      local got = map(("ld.global.%s %s, [%%rd1]; cvt.rzi.s64.%s %%rd9, %s; st.global.b64 [%%rd0], %%rd9;"):format(from[1], from[2], from[1], from[2]),
        "int64_t", { { from[3], { 9.3e18, -9.3e18, nan, 1e18, -0.9, 1 / 0, 3, 4 } } }, 8)
      assert.same({ "9223372036854775807LL", "-9223372036854775808LL", "-9223372036854775808LL", "0LL", "9223372036854775807LL" },
        { tostring(got[0]), tostring(got[1]), tostring(got[2]), tostring(got[4]), tostring(got[5]) })
    end
  end)

  it("integers to integers: cut, extended, saturated", function()
    local values = { 0, 1, -1, 127, 128, 255, 256, -128, -129, 32767, 32768, 65535, 65536, -32769, 2147483647, -2147483648 }
    for _, case in ipairs { { "s8", -128, 127 }, { "u8", 0, 255 }, { "s16", -32768, 32767 }, { "u16", 0, 65535 } } do
      local load = { { "int32_t", function(i) return values[i + 1] end } }
      local cut = map(("ld.global.s32 %%r0, [%%rd1]; cvt.%s.s32 %%r1, %%r0; st.global.b32 [%%rd0], %%r1;"):format(case[1]), "int32_t", load, 16)
      local kept = map(("ld.global.s32 %%r0, [%%rd1]; cvt.sat.%s.s32 %%r1, %%r0; st.global.b32 [%%rd0], %%r1;"):format(case[1]), "int32_t", load, 16)
      for i, x in ipairs(values) do
        local size = case[3] - case[2] + 1
        assert.equal((x - case[2]) % size + case[2], cut[i - 1])
        assert.equal(math.max(case[2], math.min(case[3], x)), kept[i - 1])
      end
    end
  end)
end)

describe("instructions", function()
  local words = { 0, 1, 2, 31, 32, 33, 0x7fffffff, 0x80000000, 0xffffffff, 0xfffffffe, 0x12345678, 0x87654321, 0x00ff00ff, 0xf0f0f0f0, 5, 0xdeadbeef }
  local function u32(x) return x % 2 ^ 32 end
  local function s32(x) x = u32(x) return x >= 2 ^ 31 and x - 2 ^ 32 or x end

  --- Every pair of words through an instruction of two operands.
  local function pairs_of(instruction, want)
    local got = map("ld.global.b32 %r0, [%rd1]; ld.global.b32 %r1, [%rd2];" .. instruction .. " %r2, %r0, %r1; st.global.b32 [%rd0], %r2;", "uint32_t",
      { { "uint32_t", function(i) return words[i % 16 + 1] end }, { "uint32_t", function(i) return words[math.floor(i / 16) + 1] end } }, 256)
    for i = 0, 255 do
      local a, b = words[i % 16 + 1], words[math.floor(i / 16) + 1]
      local w = want(a, b)
      if w and u32(w) ~= got[i] then error(("%s of 0x%x, 0x%x: 0x%x, not 0x%x"):format(instruction, a, b, got[i], u32(w))) end
    end
  end
  local function trunc(x) return x < 0 and math.ceil(x) or math.floor(x) end

  it("of integers", function()
    pairs_of("add.u32", function(a, b) return a + b end)
    pairs_of("sub.s32", function(a, b) return a - b end)
    pairs_of("add.sat.s32", function(a, b) return math.max(-2 ^ 31, math.min(2 ^ 31 - 1, s32(a) + s32(b))) end)
    pairs_of("mul.lo.u32", function(a, b) return tonumber((ffi.cast("uint64_t", a) * ffi.cast("uint64_t", b)) % 2 ^ 32) end)
    pairs_of("mul.hi.u32", function(a, b) return tonumber(ffi.cast("uint64_t", a) * ffi.cast("uint64_t", b) / 2 ^ 32) end)
    pairs_of("mul.hi.s32", function(a, b) return tonumber(bit.arshift(ffi.cast("int64_t", s32(a)) * ffi.cast("int64_t", s32(b)), 32)) end)
    pairs_of("div.u32", function(a, b) return b ~= 0 and math.floor(a / b) end)
    pairs_of("div.s32", function(a, b) return s32(b) ~= 0 and not (s32(b) == -1 and a == 2 ^ 31) and trunc(s32(a) / s32(b)) end)
    pairs_of("rem.s32", function(a, b) return s32(b) ~= 0 and not (s32(b) == -1 and a == 2 ^ 31) and s32(a) - trunc(s32(a) / s32(b)) * s32(b) end)
    pairs_of("min.s32", function(a, b) return math.min(s32(a), s32(b)) end)
    pairs_of("max.u32", function(a, b) return math.max(a, b) end)
    pairs_of("and.b32", function(a, b) return bit.band(a, b) end)
    pairs_of("xor.b32", function(a, b) return bit.bxor(a, b) end)
    pairs_of("shl.b32", function(a, b) return b > 31 and 0 or u32(a * 2 ^ b) end)
    pairs_of("shr.u32", function(a, b) return b > 31 and 0 or math.floor(a / 2 ^ b) end)
    pairs_of("shr.s32", function(a, b) return math.floor(s32(a) / 2 ^ math.min(b, 31)) end)
  end)

  it("of bits and bytes", function()
    local function one(text) return "ld.global.b32 %r0, [%rd1]; " .. text .. " st.global.b32 [%rd0], %r2;" end
    local ins = { { "uint32_t", function(i) return words[i + 1] end } }
    local function each(text, want)
      local got = map(one(text), "uint32_t", ins, 16)
      for i, x in ipairs(words) do
        if u32(want(x)) ~= got[i - 1] then error(("%s of 0x%x: 0x%x, not 0x%x"):format(text, x, got[i - 1], u32(want(x)))) end
      end
    end
    local function field(x, pos, len) return math.floor(x / 2 ^ pos) % 2 ^ len end
    each("popc.b32 %r2, %r0;", function(x) local n = 0 for i = 0, 31 do n = n + field(x, i, 1) end return n end)
    each("clz.b32 %r2, %r0;", function(x) local n = 32 while x > 0 do x, n = math.floor(x / 2), n - 1 end return n end)
    each("brev.b32 %r2, %r0;", function(x) local r = 0 for i = 0, 31 do r = r + field(x, i, 1) * 2 ^ (31 - i) end return r end)
    each("bfind.u32 %r2, %r0;", function(x) local n = -1 while x > 0 do x, n = math.floor(x / 2), n + 1 end return n end)
    each("bfind.shiftamt.s32 %r2, %r0;", function(x)
      x = s32(x) < 0 and -1 - s32(x) or x
      local n = 32
      while x > 0 do x, n = math.floor(x / 2), n - 1 end
      return n == 32 and -1 or n
    end)
    each("bfe.u32 %r2, %r0, 4, 8;", function(x) return field(x, 4, 8) end)
    each("bfe.s32 %r2, %r0, 4, 8;", function(x) local v = field(x, 4, 8) return v >= 128 and v - 256 or v end)
    each("bfe.s32 %r2, %r0, 28, 8;", function(x) return math.floor(s32(x) / 2 ^ 28) end)
    each("bfe.u32 %r2, %r0, 40, 8;", function() return 0 end)
    each("mov.u32 %r3, 0x11111111; bfi.b32 %r2, %r0, %r3, 8, 4;", function(x) return 0x11111011 + field(x, 0, 4) * 256 end)
    each("mov.u32 %r3, 0xa1b2c3d4; prmt.b32 %r2, %r0, %r3, 0x7531;", function(x) return 0xa1c30000 + field(x, 24, 8) * 256 + field(x, 8, 8) end)
    each("mov.u32 %r3, 0; prmt.b32 %r2, %r0, %r3, 0x444b;", function(x) return x >= 2 ^ 31 and 255 or 0 end)
    each("mov.u32 %r3, 0xdddddddd; shf.l.wrap.b32 %r2, %r3, %r0, 36;", function(x) return u32(x * 16) + 13 end)
    each("mov.u32 %r3, 0xdddddddd; shf.r.clamp.b32 %r2, %r0, %r3, 40;", function() return 0xdddddddd end)
    each("mov.u32 %r3, 0xff00ff00; mov.u32 %r4, 0x0ff00ff0; lop3.b32 %r2, %r0, %r3, %r4, 0xca;", function(x)
      return bit.bor(bit.band(x, 0xff00ff00), bit.band(bit.bnot(x), 0x0ff00ff0))
    end)
    each("dp4a.s32.s32 %r2, %r0, %r0, 7;", function(x)
      local sum = 7
      for i = 0, 3 do local v = field(x, 8 * i, 8) v = v >= 128 and v - 256 or v sum = sum + v * v end
      return sum
    end)
    each("add.cc.u32 %r3, %r0, 1; addc.u32 %r2, 5, 0;", function(x) return x == 2 ^ 32 - 1 and 6 or 5 end)
    each("sub.cc.u32 %r3, %r0, 2; subc.u32 %r2, 5, 0;", function(x) return x < 2 and 4 or 5 end)
  end)

  it("min, max and comparisons of floats with NaN and signed zeros", function()
    local values = { 0, -0.0, 1, -1, 1 / 0, -1 / 0, 0 / 0, 1e-40 }
    local function run(text)
      return map("ld.global.f32 %f0, [%rd1]; ld.global.f32 %f1, [%rd2];" .. text .. " st.global.b32 [%rd0], %r0;", "uint32_t",
        { { "float", function(i) return values[i % 8 + 1] end }, { "float", function(i) return values[math.floor(i / 8) + 1] end } }, 64)
    end
    local function bits(x) return x ~= x and 0x7fffffff or tonumber(ffi.cast("uint32_t *", ffi.new("float[1]", x))[0]) end
    local low, nan, less, unordered = run "min.f32 %f2, %f0, %f1; mov.b32 %r0, %f2;", run "max.NaN.f32 %f2, %f0, %f1; mov.b32 %r0, %f2;",
      run "setp.lt.f32 %p0, %f0, %f1; selp.u32 %r0, 1, 0, %p0;", run "setp.geu.f32 %p0, %f0, %f1; selp.u32 %r0, 1, 0, %p0;"
    for i = 0, 63 do
      local a, b = values[i % 8 + 1], values[math.floor(i / 8) + 1]
      local any = a ~= a or b ~= b
      local first = a < b or a == b and 1 / a < 0
      assert.equal(bits(a ~= a and b or b ~= b and a or first and a or b), low[i])
      assert.equal(any and 0x7fffffff or bits(first and b or a), nan[i])
      assert.equal(a < b and 1 or 0, less[i])
      assert.equal((any or a >= b) and 1 or 0, unordered[i])
    end
  end)

  it("shuffles in segments: every mode", function()
    local modes = {
      up = function(l, w) local from = l - 3 return from >= l - l % w and from or l end,
      down = function(l, w) local from = l + 3 return from < l - l % w + w and from or l end,
      bfly = function(l, w) local from = bit.bxor(l, 3) return from < l - l % w + w and from or l end,
      idx = function(l, w) return l - l % w + 3 % w end,
    }
    for mode, from in pairs(modes) do
      for _, width in ipairs { 32, 16, 8 } do
        local c = (32 - width) * 256 + (mode == "up" and 0 or 31)
        local got = map(("shfl.sync.%s.b32 %%r0, %%t, 3, %d, -1; st.global.b32 [%%rd0], %%r0;"):format(mode, c), "uint32_t", {}, 32)
        for l = 0, 31 do assert.equal(from(l, width), got[l], mode .. width) end
      end
    end
  end)
end)

describe("products on tensor cores", function()
  --- 16 x 16 by 16 x 8 in small whole numbers, which every order of sums gives exactly; fragments by ldmatrix.
  it("of f16, with fragments that ldmatrix loads", function()
    local function half(v) -- of a whole number below 2048
      if v == 0 then return 0 end
      local sign, m, e = v < 0 and 0x8000 or 0, math.abs(v), 0
      while m >= 2 do m, e = m / 2, e + 1 end
      return sign + (e + 15) * 1024 + (m - 1) * 1024
    end
    local A, B = {}, {}
    for i = 1, 256 do A[i] = (i * 7) % 11 - 5 end
    for i = 1, 128 do B[i] = (i * 5) % 13 - 6 end
    local function halves(list) return function(i) return half(list[i + 1]) end end
    local a, b, c = G.array("uint16_t", 256, halves(A)), G.array("uint16_t", 128, halves(B)), G.array("float", 128)
    local body = [[
.shared .align 16 .b8 x[512], y[256];
mul.wide.u32 %o, %t, 16; add.u64 %rd1, %a1, %o; ld.global.v4.b32 {%r0, %r1, %r2, %r3}, [%rd1];
mov.u32 %r4, x; mad.lo.u32 %r4, %t, 16, %r4; st.shared.v4.b32 [%r4], {%r0, %r1, %r2, %r3};
mul.wide.u32 %o, %t, 8; add.u64 %rd1, %a2, %o; ld.global.v2.b32 {%r0, %r1}, [%rd1];
mov.u32 %r4, y; mad.lo.u32 %r4, %t, 8, %r4; st.shared.v2.b32 [%r4], {%r0, %r1};
bar.sync 0;
and.b32 %r5, %t, 15; shl.b32 %r5, %r5, 5; and.b32 %r6, %t, 16; add.u32 %r5, %r5, %r6;
mov.u32 %r4, x; add.u32 %r4, %r4, %r5;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r4];
and.b32 %r5, %t, 15; shl.b32 %r5, %r5, 4; mov.u32 %r4, y; add.u32 %r4, %r4, %r5;
ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r4];
mov.f32 %f0, 0f00000000;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f4, %f5, %f6, %f7}, {%r10, %r11, %r12, %r13}, {%r14, %r15}, {%f0, %f0, %f0, %f0};
shr.u32 %r5, %t, 2; and.b32 %r6, %t, 3; shl.b32 %r5, %r5, 5; shl.b32 %r6, %r6, 3; add.u32 %r5, %r5, %r6;
cvt.u64.u32 %o, %r5; add.u64 %rd0, %a0, %o;
st.global.v2.f32 [%rd0], {%f4, %f5}; st.global.v2.f32 [%rd0+256], {%f6, %f7};
]]
    G.launch(kernel(3, body), 1, 32, { c, a, b })
    local r = G.read(c)
    for i = 0, 15 do
      for j = 0, 7 do
        local sum = 0
        for k = 0, 15 do sum = sum + A[i * 16 + k + 1] * B[k * 8 + j + 1] end
        assert.equal(sum, r[i * 8 + j], i .. "," .. j)
      end
    end
  end)
end)
