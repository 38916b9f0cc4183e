-- Damaged ONNX models: whatever the bytes, `ty.load` gives a model or nil and a message, and what a model then gives is a
-- value or an error.
--   luajit spec/fuzz_onnx.lua [programs = 2000] [seed = another each time] [only this program]
-- A program is one of some models that ty.save and the specs' own encoder write, with bytes changed, cut out, repeated, or
-- taken from another model. A load takes little memory beyond the file's, and never long; what a model takes that still
-- runs is its own affair, up to the limit of the process.

local ty = require "tycho"
local here = arg[0]:match("^(.*)/[^/]*$") or "."
package.path = here:gsub("spec$", "") .. "./?.lua;" .. package.path
local frame = dofile(here .. "/fuzz_frame.lua")
local W = require "spec.onnx_encode"
local nn = ty.nn

local path = os.tmpname() .. ".onnx"
local MOST, SECONDS = 80, 10 -- MB of memory and seconds of CPU that a load may take
local LIMIT = 2 ^ 31 -- bytes of the process

local ffi = require "ffi"
if ffi.os == "Linux" then
  ffi.cdef "int setrlimit(int what, const unsigned long *limits);"
  ffi.C.setrlimit(9, ffi.new("unsigned long[2]", LIMIT, LIMIT)) -- of its addresses
end

-- --- seeds

local function whole(list) return ty.tensor(list, { dtype = "i64" }) end

--- {bytes, arguments} of models.
local seeds = {}

local function bytes_of(name)
  local f = assert(io.open(name, "rb"))
  local text = f:read "*a"
  f:close()
  return text
end

local function saved(f, given)
  assert(ty.save(path, f, given))
  local args = {}
  for i, v in ipairs(given) do args[i] = v end
  seeds[#seeds + 1] = { bytes = bytes_of(path), args = args }
end

local function written(graph, args)
  seeds[#seeds + 1] = { bytes = W.model(graph), args = args }
end

ty.manual_seed(1)
saved(nn.Sequential(nn.Linear(4, 5), nn.GELU(), nn.LayerNorm(5)), { ty.randn(2, 4), dynamic = { x = { 1 } } })
saved(nn.Sequential(nn.Conv2d(1, 2, 3, { padding = 1 }), nn.ReLU(), nn.MaxPool2d(2)), { ty.randn(1, 1, 4, 4) })
saved(nn.LSTM(2, 3), { ty.randn(1, 2, 2) })
saved(nn.Embedding(5, 2), { whole { 1, 2, 3 } })
saved(function(x) return x:topk(2), x:cumsum(1), x:argmax(), x:t():flip(1), x[{ { 1, 2 } }] end, { ty.randn(3, 4) })
saved(function(x, i) return x:gather(1, i), x:scatter_add(1, i, x[{ { 1, 2 } }]), ty.cat({ x, x }, 2), x:pad { { 1, 1 }, { 0, 2 } } end,
  { ty.randn(3, 2), whole { { 1, 2 }, { 3, 1 } } })
local value, node = W.value, W.node
local branch = { node = { node("Neg", { "x" }, { "b" }) }, output = { value "b" } }
local other = { node = { node("Abs", { "x" }, { "b" }) }, output = { value "b" } }
written({ node = { node("If", { "c" }, { "y" }, { then_branch = branch, else_branch = other }) },
  input = { value("c", "bool", {}), value "x" }, output = { value "y" } }, { ty.tensor(true), ty.randn(3) })
written({ node = { node("Reshape", { "x", "s" }, { "y" }), node("Split", { "y" }, { "a", "b" }, { axis = 0, num_outputs = 2 }) },
  input = { value "x" }, output = { value "a", value "b" }, initializer = { W.tensor("s", whole { 2, -1 }) } },
  { ty.randn(6) })

-- --- programs

local function make(seed, number)
  local r = frame.random(seed, 7)
  local at = r(#seeds)
  local program = { seed = seed, number = number, args = seeds[at].args }
  local s = seeds[at].bytes
  local function place() return r(#s) end
  for _ = 1, 1 + (r(3) == 1 and r(6) or 0) do
    local kind, p = r(8), place()
    if kind <= 3 then s = s:sub(1, p - 1) .. string.char(r(256) - 1) .. s:sub(p + 1)
    elseif kind == 4 then s = s:sub(1, p - 1) .. string.char((s:byte(p) + (r(2) == 1 and 1 or 255)) % 256) .. s:sub(p + 1)
    elseif kind == 5 then s = s:sub(1, p - 1) .. s:sub(p + r(8))
    elseif kind == 6 then s = s:sub(1, p) .. s:sub(p - r(math.min(p, 40)) + 1)
    elseif kind == 7 then s = s:sub(1, p - 1) .. ("\255"):rep(r(9)) .. s:sub(p)
    else
      local t = seeds[r(#seeds)].bytes
      s = s:sub(1, p) .. t:sub(r(#t))
    end
    if #s == 0 then s = "\0" end
  end
  program.bytes = s
  return program
end

--- The most memory that the process had since it was asked with `anew`, in MB; 0 where nobody can tell.
local function peak(anew)
  local f = io.open "/proc/self/status"
  if not f then return 0 end
  local text = f:read "*a"
  f:close()
  if anew then
    f = io.open("/proc/self/clear_refs", "w")
    if f then
      f:write "5"
      f:close()
    end
    return (tonumber(text:match "VmRSS:%s*(%d+)") or 0) / 1024
  end
  return (tonumber(text:match "VmHWM:%s*(%d+)") or 0) / 1024
end

local counts = { models = 0, ran = 0, most = 0 }

local function check(program)
  local before = peak(true)
  local began = os.clock()
  local f = assert(io.open(path, "wb"))
  f:write(program.bytes)
  f:close()
  local ok, m, why = pcall(ty.load, path)
  if not ok then return "load raised: " .. tostring(type(m) == "table" and m[1] or m) end
  local took, seconds = peak() - before, os.clock() - began
  counts.most = math.max(counts.most, took)
  if took > MOST then return ("the load took %.0f MB"):format(took) end
  if seconds > SECONDS then return ("the load took %.1f s"):format(seconds) end
  if m == nil and (type(why) ~= "string" or why == "") then return "a refusal without a message" end
  local ran = false
  if m then
    local text
    ok, text = pcall(tostring, m)
    if not ok then return "printing raised: " .. tostring(text) end
    ran = pcall(function() return m(unpack(program.args)) end)
  end
  return nil, { model = m ~= nil, ran = ran }
end

local fuzzer = frame.fuzzer("fuzz_onnx", 2000, {
  make = make, check = check,
  show = function(p) return ("%d bytes: %s"):format(#p.bytes, frame.readable(p.bytes, 200)) end,
  report = function(p)
    local kept = os.tmpname() .. ".onnx"
    local f = assert(io.open(kept, "wb"))
    f:write(p.bytes)
    f:close()
    print("the model is kept in " .. kept)
  end,
  passed = function(_, _, known)
    if known.model then counts.models = counts.models + 1 end
    if known.ran then counts.ran = counts.ran + 1 end
  end,
})
fuzzer:run(5000)
os.remove(path)
print(("fuzz_onnx: %d programs, seed %d, %.0f s: %d still models, %d of them ran; a load took %.1f MB at most"):format(fuzzer.programs,
  fuzzer.seed, fuzzer:seconds(), counts.models, counts.ran, counts.most))
fuzzer:claim(fuzzer.failures == 0, "%d programs failed", fuzzer.failures)
fuzzer:claim(not fuzzer:ran(200) or counts.models > fuzzer.programs / 30, "only %d models were left", counts.models)
fuzzer:claim(not fuzzer:ran(200) or counts.ran > fuzzer.programs / 50, "only %d models ran", counts.ran)
fuzzer:leave()
