--- files.lua -- tensors in files: `ty.load`, `ty.save`, `ty.files`.
-- In: paths. Out: tensors, tables of them by name, metadata. What the world does wrong (no such file, a file that is
-- damaged or hostile, a full disk) gives nil and a message that begins with the path; misuse raises.
--
-- A format is a table {load = fn(path, opts), save = fn(path, value, opts)} in ty.files under its name; `endings` says
-- which files it is for. The work is done in files.so, which is loaded with this file.

local ty = require "tycho"
local check = require("tycho.check")(ty)

local type, ipairs = type, ipairs

--- files.so lies where core.so does. `require` would find this file under its name.
local function load_native()
  local places, why = {}, nil
  for template in package.cpath:gmatch("[^;]+") do places[#places + 1] = template:gsub("%?", "tycho/files") end
  local dir = type(debug) == "table" and debug.getinfo(1, "S").source:match("^@(.*[/\\])")
  places[#places + 1] = dir and dir .. "files.so"
  for _, place in ipairs(places) do
    local open, message = package.loadlib(place, "luaopen_tycho_files")
    if open then return open() end
    if not why or not message:find("No such file", 1, true) then why = message end
  end
  return error("tycho.files: files.so was not found: " .. tostring(why), 0)
end

local C = load_native()

local M = {}

--- Which format a path's ending stands for.
local endings = {}

--- Adds a format: M[name] = {load = fn(path, opts), save = fn(path, value, opts)}, either may be missing.
local function add(name, list, format)
  M[name] = format
  for ending in list:gmatch("%S+") do endings[ending] = name end
end

local function check_path(who, path)
  if type(path) ~= "string" or path == "" then
    check.fail(who, "argument 1 must be a path, got %s", check.show(path))
  end
  if path:find("\0", 1, true) then check.fail(who, "the path holds a zero byte") end
  return path
end

--- The format of a path, which knows how to do `what`.
local function format_of(who, what, path)
  local ending = check_path(who, path):match("%.([%w_]+)$")
  local format = ending and M[endings[ending:lower()]]
  if format and format[what] then return format end
  local known = {}
  for e, name in pairs(endings) do
    if M[name][what] then known[#known + 1] = "." .. e end
  end
  table.sort(known)
  return check.fail(who, "%q does not end in one of %s", path, table.concat(known, " "))
end

--- What a file holds, by its ending; see the format's own load.
---@param path string
---@param opts? table
---@return any value, any more  nil and a message where the file cannot be read
function M.load(path, opts) return format_of("load", "load", path).load(path, opts) end

--- Writes a file, by its ending; the file is whole or, where that fails, as it was before.
---@param path string
---@param value any a tensor, or tensors by name: what the format takes
---@param opts? table
---@return true? ok, string? message
function M.save(path, value, opts) return format_of("save", "save", path).save(path, value, opts) end

---------------------------------------------------------------------------------------------------------- npy

local npy_types = {
  bool = "|b1", u8 = "|u1", i8 = "|i1", i16 = "<i2", i32 = "<i4", i64 = "<i8", f16 = "<f2", f32 = "<f4", f64 = "<f8",
}

--- The front of an npy file of such a tensor; elements begin at a multiple of 64 bytes.
local function npy_header(who, t)
  local descr, sizes = npy_types[t.dtype], t.shape
  if not descr then check.fail(who, "NumPy has no %s (use :to(\"f32\"))", t.dtype) end
  for i, n in ipairs(sizes) do sizes[i] = ("%d"):format(n) end
  local shape = table.concat(sizes, ", ") .. (#sizes == 1 and "," or "")
  local dict = ("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }"):format(descr, shape)
  dict = dict .. (" "):rep(-(10 + #dict + 1) % 64) .. "\n"
  return "\147NUMPY\1\0" .. string.char(#dict % 256, math.floor(#dict / 256)) .. dict
end

--- Reverses the dims where a file has them column by column.
local function turned(t, reversed)
  if not reversed then return t end
  local order = {}
  for d = t.ndim, 1, -1 do order[#order + 1] = d end
  return t:permute(order)
end

add("npy", "npy", {
  --- A tensor of a .npy file. u16 becomes i32, u32 and u64 i64; column-major files give a view with turned strides.
  ---@param path string
  ---@param opts? {mmap: boolean?} mmap: the elements stay in the file, which must not be cut short meanwhile
  ---@return tycho.Tensor? t, string? message
  load = function(path, opts)
    opts = check.options("npy.load", opts, { mmap = "boolean" })
    local file, why = C.open("npy", check_path("npy.load", path), opts.mmap)
    if not file then return nil, why end
    local t, reversed = C.read(file, 1)
    C.close(file)
    if not t then return nil, reversed end
    return turned(t, reversed)
  end,
  --- Writes a tensor as .npy.
  ---@param path string
  ---@param t tycho.Tensor
  ---@return true? ok, string? message
  save = function(path, t)
    check_path("npy.save", path)
    check.tensor("npy.save", 2, t)
    return C.write(path, { npy_header("npy.save", t), t:detach() })
  end,
})

M._native = C
require("tycho.csv")(C, add, check)
require("tycho.image")(M, C, add, check)

return M
