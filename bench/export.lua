-- export.lua -- exported C beside Tycho itself: `make bench-export`, ONLY="softmax sort" for some rows.
-- In: names of rows as Lua patterns; BENCH_CC="gcc -O3 -march=native;clang -O3 -march=native" for other compilers.
-- Out: a line a row: microseconds of Tycho on one thread, and what C takes of that. Fails where a row takes more than
-- twice as long, or gives other bits.

local ty = require "tycho"
local X = dofile "spec/exported.lua"

local nn, format, concat = ty.nn, string.format, table.concat
local MOST, ROUNDS, SECONDS = 2, 9, 1e-3

ty.manual_seed(1)
local rows = {}
local function row(name, f, ...) rows[#rows + 1] = { name = name, f = f, args = { ... } } end

--- Methods of a tensor along its last dim, for some shapes and dtypes.
local function along(names, shapes, dtypes)
  for name, f in pairs(names) do
    for i, shape in ipairs(shapes) do
      for _, dtype in ipairs(dtypes) do
        local x = ty.randn(shape)
        if dtype ~= "f32" then x = dtype == "f64" and x:to "f64" or (x * 1000):to(dtype) end
        row(name .. "_" .. dtype .. "_" .. i, f, x)
      end
    end
  end
end

local shapes = { { 8, 8 }, { 2000, 3 }, { 2000, 10 }, { 2000, 33 }, { 2000, 100 }, { 512, 256 }, { 1, 1000000 } }
along({ sum = function(x) return x:sum(-1) end, max = function(x) return x:max(-1) end,
  argmax = function(x) return x:argmax(-1) end, cumsum = function(x) return x:cumsum(-1) end,
  cumprod = function(x) return x:cumprod(-1) end, cummax = function(x) return x:cummax(-1) end,
  sort = function(x) return x:sort(-1) end, topk = function(x) return x:topk(3, -1) end,
  median = function(x) return x:median(-1) end, any = function(x) return x:gt(2):any(-1) end },
  shapes, { "f32", "f64", "i64" })
along({ softmax = function(x) return x:softmax(-1) end, log_softmax = function(x) return x:log_softmax(-1) end,
  logsumexp = function(x) return x:logsumexp(-1) end, var = function(x) return x:var(-1) end,
  norm = function(x) return x:norm(2, -1) end }, shapes, { "f32", "f64" })
along({ sqrt = function(x) return x:abs():sqrt() end, exp = function(x) return x:exp() end,
  erf = function(x) return x:erf() end, tanh = function(x) return x:tanh() end,
  cbrt = function(x) return x:cbrt() end, turned = function(x) return x:t():contiguous() * 2 end,
  across = function(x) return x:sum(1), x:argmax(1), x:cumsum(1) end,
  quantised = function(x) return (x * 10):round():clamp(-128, 127):to "i8" end }, { { 512, 256 } }, { "f32", "f64" })
along({ remainder = function(x) return x % (x + 7) end, halves = function(x) return x * x + x end }, { { 512, 256 } },
  { "i32", "i64", "f16", "bf16" })

local function model(name, m, ...)
  m:eval()
  row(name, function(...) return (m(...)) end, ...)
end
model("mlp", nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)), ty.randn(32, 64))
model("conv", nn.Sequential(nn.Conv2d(16, 32, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2)), ty.randn(4, 16, 32, 32))
model("lstm", nn.LSTM(32, 64), ty.randn(16, 8, 32))
model("transformer", nn.TransformerEncoderLayer(64, 4), ty.randn(2, 32, 64))
row("attention", function(q) return ty.scaled_dot_product_attention(q, q, q, { causal = true }) end,
  ty.randn(1, 4, 128, 64))
row("matmul", function(x, y) return x:matmul(y) end, ty.randn(256, 256), ty.randn(256, 256))

-- Fourier transforms of one line, of a few, along another dim, of images: powers of two, products of small primes,
-- larger
-- primes.
local fft, real, pairs_of = ty.fft, ty.view_as_real, ty.view_as_complex
local kinds = {
  fft = function(dim) return function(x) return real(fft.fft(pairs_of(x), nil, dim)) end end,
  ifft = function(dim) return function(x) return real(fft.ifft(pairs_of(x), nil, dim)) end end,
  rfft = function(dim) return function(x) return real(fft.rfft(x, nil, dim)) end end,
  irfft = function(dim, n) return function(x) return fft.irfft(pairs_of(x), n, dim) end end,
}
local function transforms(kind, dtype, sizes, dim)
  local n, shape = sizes[dim], { unpack(sizes) }
  if kind == "irfft" then shape[dim] = (n - n % 2) / 2 + 1 end
  if kind ~= "rfft" then shape[#shape + 1] = 2 end
  row(format("%s_%s_%s_%d", kind, dtype, concat(sizes, "x"), dim), kinds[kind](dim, n), ty.randn(shape,
    { dtype = dtype }))
end
for _, dtype in ipairs { "f32", "f64" } do
  for _, n in ipairs { 64, 1000, 1024, 15000, 65536, 1009 } do transforms("fft", dtype, { 1, n }, 2) end
  for _, n in ipairs { 8, 100, 512, 97 } do transforms("fft", dtype, { 64, n }, 2) end
  transforms("ifft", dtype, { 64, 1024 }, 2)
  for _, n in ipairs { 100, 1024 } do
    transforms("fft", dtype, { n, 64 }, 1)
    for _, kind in ipairs { "rfft", "irfft" } do
      transforms(kind, dtype, { 1, n }, 2)
      transforms(kind, dtype, { 64, n }, 2)
      transforms(kind, dtype, { n, 64 }, 1)
    end
  end
  for _, n in ipairs { 625, 1001, 177 } do
    for _, kind in ipairs { "rfft", "irfft" } do transforms(kind, dtype, { 64, n }, 2) end
  end
  row("fft2_" .. dtype, function(x) return real(fft.fft2(pairs_of(x))) end, ty.randn({ 128, 128, 2 },
    { dtype = dtype }))
  row("rfft2_" .. dtype, function(x) return real(fft.rfft2(x)) end, ty.randn({ 128, 100 }, { dtype = dtype }))
end

local TIMED = [[
#define _GNU_SOURCE
#include "%s.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
static int order(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static void *take(FILE *f, size_t n) {
  void *p = aligned_alloc(64, n / 64 * 64 + 64);
  if (!p || (f && fread(p, 1, n, f) != n)) exit(9);
  return p;
}
int main(int argc, char **argv) {
  FILE *in = fopen(argv[1], "rb"), *to = fopen(argv[2], "wb");
  const int turns = argc > 3 && in && to ? atoi(argv[3]) : 0;
  %s
  double t[%d];
  for (int r = 0; r < %d; r++) {
    const double from = now();
    for (int k = 0; k < turns; k++) %s;
    t[r] = (now() - from) / turns;
  }
  qsort(t, %d, 8, order);
  %s
  printf("%%g", t[%d]);
}
]]

local stored = { i8 = "int8_t", i32 = "int32_t", i64 = "int64_t", f16 = "uint16_t", bf16 = "uint16_t", f32 = "float",
  f64 = "double", bool = "uint8_t", u8 = "uint8_t" }

local function write(path, text)
  local f = assert(io.open(path, "wb"))
  f:write(text)
  f:close()
end

--- The program that times a model: its text, its input, what it is to give.
local function program(name, args, results)
  local declared, given, input, want, out = {}, {}, {}, {}, {}
  for i, v in ipairs(args) do
    input[i] = X.raw(v)
    declared[#declared + 1] = format("%s *x%d = take(in, %d);", stored[v.dtype], i, #input[i])
    given[#given + 1] = "x" .. i
  end
  for i, v in ipairs(results) do
    want[i] = X.raw(v)
    declared[#declared + 1] = format("%s *y%d = take(NULL, %d);", stored[v.dtype], i, #want[i])
    given[#given + 1] = "y" .. i
    out[i] = format("fwrite(y%d, 1, %d, to);", i, #want[i])
  end
  declared[#declared + 1] = format("void *work = take(NULL, %s_WORKSPACE);", name:upper())
  local call = format("%s_run(%s, work)", name, concat(given, ", "))
  return format(TIMED, name, concat(declared, "\n  "),
    ROUNDS, ROUNDS, call, ROUNDS, concat(out, " ") .. " fclose(to);", (ROUNDS - 1) / 2), concat(input), concat(want)
end

--- The median of so many seconds, and how many calls one measurement takes.
local function timed(call)
  local n, times = 1, {}
  local function measure()
    local from = os.clock()
    for _ = 1, n do call() end
    return os.clock() - from
  end
  while measure() < SECONDS do n = n * 2 end
  for i = 1, ROUNDS do times[i] = measure() / n end
  table.sort(times)
  return times[(ROUNDS + 1) / 2], n
end

local compilers = {}
for c in (os.getenv "BENCH_CC" or "gcc -O3 -march=native;clang -O3 -march=native"):gmatch "[^;]+" do
  if os.execute("command -v " .. c:match "%S+" .. " > /dev/null") == 0 then compilers[#compilers + 1] = c end
end

local folder, slow = X.folder(), 0
--- Times one row by every compiler, and once more where the machine was busy.
local function run(r)
  local call, name = jit.compile(r.f), "model" -- of the C file
  local results = { call(unpack(r.args)) }
  local made = X.export(folder, r.f, { unpack(r.args) }, name)
  local text, input, want = program(made.name, r.args, results)
  write(folder .. "/main.c", text)
  write(folder .. "/in", input)
  local said = {}
  for i, c in ipairs(compilers) do
    assert(os.execute(format("cd %s && %s -std=c11 main.c %s.c -o run", folder, c, name)) == 0, c)
    local ratio, own = math.huge, 0
    for _ = 1, 3 do
      if ratio > MOST then
        local n
        own, n = timed(function() call(unpack(r.args)) end)
        local pipe = io.popen(format("cd %s && ./run in out %d", folder, n))
        ratio = math.min(ratio, tonumber(pipe:read "*a") / own)
        pipe:close()
      end
    end
    local f = assert(io.open(folder .. "/out", "rb"))
    local same = f:read "*a" == want
    f:close()
    if ratio > MOST or not same then slow = slow + 1 end
    said[i] = format("%s %.2f%s", c:match "%S+", ratio, same and "" or ", other bits")
    if i == 1 then said[0] = format("%10.1f us", own * 1e6) end
  end
  print(format("%-24s %s  %s", r.name, said[0], concat(said, "   ")))
end

table.sort(rows, function(a, b) return a.name < b.name end)
for _, r in ipairs(rows) do
  local wanted = #arg == 0
  for _, pattern in ipairs(arg) do wanted = wanted or r.name:find(pattern) ~= nil end
  if wanted then ty.no_grad(function() run(r) end) end
end
X.remove(folder)
if slow > 0 then print(slow .. " above " .. MOST .. " x, or of other bits") end
os.exit(slow == 0)
