--- export/scans.lua -- running sums, products and extremes as C: part of program.lua.
-- In: the class of programs on their way, what program.lua shares. Out: its method `scan`.
--
-- A row goes in spans. What a scan reads is put in an array, the scan works on it in place, and what reads the scan
-- goes on from there. The order of sums and products is tile.c's: groups of 16 by Hillis and Steele, of which any
-- compiler's vectors make the same; extremes are taken of whole numbers in the order of floats (rows.lua).

require "tycho.export.sums"
local prelude = require "tycho.export.prelude"
local primitives = require "tycho.export.primitives"
local sizes = require "tycho.export.sizes"

local format, gsub, find, sub = string.format, string.gsub, string.find, string.sub
local ipairs, max = ipairs, math.max
local text = sizes.text
local ctype, identity, floating = primitives.ctype, primitives.identity, primitives.floating

local BLOCK, SPAN = 4096, 256

-- Groups --------------------------------------------------------------------------------------------------------------

-- @V, @B: what comes of a and b, by vectors and by numbers; @I: what changes nothing; @E: each sees those before it.
local GROUPS = [[
/* n running values, in place: s[0] is what the block came to so far, s[1] the blocks before. */
static void ty_scan_@N_@S(@T *restrict s, @T *restrict x, int n) {
  for (int i = n; i % 16; i++) x[i] = @I;
#ifdef TY_WIDE
  typedef @T V __attribute__((vector_size(TY_WIDE), aligned(sizeof(@T)), may_alias));
  enum { E = TY_WIDE / sizeof(@T), H = 16 / E };
#define TY_JOIN(a, b) @V
#define TY_STEP_OF(k) \
  TY_UNROLL \
  for (int j = H - 1; j >= 0; j--) { \
    V low = none, high = w[j]; \
    if ((k) < E && j) low = w[j - 1]; \
    if ((k) < E) low = TY_SLIDE_@ZB(low, high, ((k) < E ? (k) : 1)); \
    else if (j >= (k) / E) low = w[j - (k) / E]; \
    w[j] = TY_JOIN(low, high); \
  }
  const V none = @I - (V){0}, offset = s[1] - (V){0};
  V carry = s[0] - (V){0};
  for (int i = 0; i < n; i += 16) {
    V w[H];
    TY_UNROLL
    for (int j = 0; j < H; j++) w[j] = *(const V *)(x + i + j * E);
    TY_STEP_OF(1) TY_STEP_OF(2) TY_STEP_OF(4) TY_STEP_OF(8)
    const V last = TY_LAST_@ZB(w[H - 1]);
    TY_UNROLL
    for (int j = H - 1; j >= 0; j--) {
      V y = w[j], low = none;
      if (@E && j) low = w[j - 1];
      if (@E) y = TY_SLIDE_@ZB(low, y, 1);
      y = TY_JOIN(carry, y);
      *(V *)(x + i + j * E) = TY_JOIN(offset, y);
    }
    carry = TY_JOIN(carry, last);
  }
  s[0] = carry[0];
#undef TY_STEP_OF
#undef TY_JOIN
#else
  for (int i = 0; i < n; i += 16) {
    @T v[32], w[32]; /* behind 16 that change nothing */
    for (int j = 0; j < 16; j++) v[j] = w[j] = @I, v[16 + j] = x[i + j];
#define TY_JOIN(a, b) @B
    for (int j = 16; j < 32; j++) w[j] = TY_JOIN(v[j - 1], v[j]);
    for (int j = 16; j < 32; j++) v[j] = TY_JOIN(w[j - 2], w[j]);
    for (int j = 16; j < 32; j++) w[j] = TY_JOIN(v[j - 4], v[j]);
    for (int j = 16; j < 32; j++) v[j] = TY_JOIN(w[j - 8], w[j]);
    for (int j = 0; j < 16; j++) {
      const @T y = v[16 + j - @E], z = TY_JOIN(s[0], y);
      x[i + j] = TY_JOIN(s[1], z);
    }
    s[0] = TY_JOIN(s[0], v[31]);
#undef TY_JOIN
  }
#endif
}
]]

local ORDERED = [[
TY_INLINE void ty_scan_block_@N_@S(@T *s) { s[1] = s[1] @O s[0], s[0] = @I; }
]]

for _, t in ipairs { { "f32", "float", 4 }, { "f64", "double", 8 }, { "i32", "uint32_t", 4 },
  { "i64", "uint64_t", 8 } } do
  for _, op in ipairs { { "sum", "+", "-0.0", "0" }, { "prod", "*", "1.0", "1" } } do
    local start = not floating[t[1]] and op[4] or t[1] == "f32" and op[3] .. "f" or op[3]
    local names = { N = op[1], S = t[1], T = t[2], Z = t[3], O = op[2], I = start, E = "0",
      V = "((a) " .. op[2] .. " (b))", B = "((a) " .. op[2] .. " (b))" }
    prelude.piece("scan_" .. op[1] .. "_" .. t[1], { "slides" },
      (gsub(GROUPS .. (floating[t[1]] and ORDERED or ""), "@(%u)", names)))
  end
end
for _, t in ipairs { { "i32", "int32_t", 4, "INT32" }, { "i64", "int64_t", 8, "INT64" } } do
  for _, op in ipairs { { "max", ">", "_MIN", "0" }, { "maxx", ">", "_MIN", "1" }, { "min", "<", "_MAX", "0" } } do
    prelude.piece("scan_" .. op[1] .. "_" .. t[1], { "slides" }, (gsub(GROUPS, "@(%u)",
      { N = op[1], S = t[1], T = t[2], Z = t[3], I = t[4] .. op[3], E = op[4],
        V = format("((((a) %s (b)) & (a)) | (~((a) %s (b)) & (b)))", op[2], op[2]),
        B = format("((a) %s (b) ? (a) : (b))", op[2]) })))
  end
end

-- Programs ------------------------------------------------------------------------------------------------------------

local order_types = { f32 = "i32", f64 = "i64" }
local unsigned = { i32 = "uint32_t", i64 = "uint64_t" }

local function is_sum(ins) return ins.op == "ssum" or ins.op == "sprod" end

---@param Emit table
---@param h table functions of program.lua
return function(Emit, h)
  local is_scan = h.is_scan

  --- The type of a scan's array in C, and the type by whose name its function goes.
  local function array_of(ins)
    if is_sum(ins) then return unsigned[ins.type] or ctype[ins.type], ins.type end
    if ins.op == "slin" then return ctype[ins.type], ins.type end
    local kind = order_types[ins.type] or ins.type
    return ctype[kind], kind
  end

  --- Values that a later segment of a span reads, and that are not computed again there.
  function Emit:scan_crosses(segments)
    local p, crosses = self.p, {}
    local function wants(v, segment)
      local ins = p.body[v]
      if self.class[v] ~= "elem" or ins.op == "load" or is_scan(ins) then return end
      if self.segment[v] < segment then
        crosses[v] = true
        return
      end
      for k = 1, 3 do
        if ins[k] then wants(ins[k], segment) end
      end
    end
    for v = 0, p.n - 1 do
      local ins = p.body[v]
      for k = 1, self.live[v] and 3 or 0 do
        if ins[k] then
          wants(ins[k], is_scan(ins) and self.segment[v] - 1 or ins.op == "store" and segments or self.segment[v])
        end
      end
    end
    return crosses
  end

  --- Declares arrays of a span, and what each scan has come to.
  function Emit:scan_states(scans, crosses)
    local p = self.p
    for v = 0, p.n - 1 do
      if crosses[v] then self:line("%s x%d[%d];", ctype[p.body[v].type], v, SPAN) end
    end
    for _, v in ipairs(scans) do
      local ins = p.body[v]
      local kind = array_of(ins)
      self:line("%s g%d[%d];", kind, v, SPAN)
      if ins.op == "slin" then
        self:line("%s h%d[%d];", kind, v, SPAN)
        self:line("double z%d = 0.0;", v)
      else
        local start = identity[ins.op][ins.type]
        if find(start, "ty_float") then self.use("bits_" .. ins.type) end
        start = self:scan_key(ins, start)
        self:line("%s z%d[2] = {%s, %s};", kind, v, start, start)
      end
    end
  end

  --- What an element becomes in the array of a scan of extremes, and back.
  function Emit:scan_key(ins, x)
    if is_sum(ins) or ins.op == "slin" or not floating[ins.type] then return x end
    self.use("order_" .. ins.type)
    return format("ty_order_%s_%s(%s)", ins.op == "smin" and "min" or "max", ins.type, x)
  end

  function Emit:scan_value(v)
    local ins = self.p.body[v]
    if is_sum(ins) or ins.op == "slin" or not floating[ins.type] then
      return floating[ins.type] and format("g%d[j]", v) or format("(%s)g%d[j]", ctype[ins.type], v)
    end
    self.use("order_" .. ins.type)
    return format("ty_unorder_%s(g%d[j])", ins.type, v)
  end

  --- The loop between two scans: what crosses, what the next scans read, in the last one the stores.
  function Emit:scan_segment(segment, segments, scans, crosses, index)
    local p, known = self.p, {}
    local function declare(v)
      local ins = p.body[v]
      if known[v] or self.class[v] ~= "elem" then return end
      known[v] = true
      if is_scan(ins) then
        self:line("const %s v%d = %s;", ctype[ins.type], v, self:scan_value(v))
      elseif crosses[v] and self.segment[v] < segment then
        self:line("const %s v%d = x%d[j];", ctype[ins.type], v, v)
      else
        for k = 1, 3 do
          if ins[k] then declare(ins[k]) end
        end
        self:line("const %s v%d = %s;", ctype[ins.type], v, self:value(v, index))
      end
    end
    local stores = {}
    for v = 0, p.n - 1 do
      if segment == segments and self.live[v] and p.body[v].op == "store" and self.class[v] == "elem" then
        stores[#stores + 1] = v
        declare(p.body[v][1])
      end
    end
    for v = 0, p.n - 1 do
      if crosses[v] and self.segment[v] == segment then
        declare(v)
        self:line("x%d[j] = v%d;", v, v)
      end
    end
    for _, v in ipairs(scans) do
      local ins = p.body[v]
      if self.segment[v] == segment + 1 then
        declare(ins[1])
        self:line("g%d[j] = %s;", v, self:scan_key(ins, self:name(ins[1])))
        if ins.op == "slin" then
          declare(ins[2])
          self:line("h%d[j] = %s;", v, self:name(ins[2]))
        end
      end
    end
    for _, v in ipairs(stores) do self:store(v, index) end
  end

  function Emit:scan_step(v)
    local ins = self.p.body[v]
    if ins.op == "slin" then
      self.use "fma_f64"
      self:open "for (int j = 0; j < n; j++)"
      self:line("z%d = ty_fma_f64(z%d, g%d[j], h%d[j]);", v, v, v, v)
      self:line("g%d[j] = (%s)z%d;", v, ctype[ins.type], v)
      self:close()
      return
    end
    local _, kind = array_of(ins)
    local name = sub(ins.op, 2) .. "_" .. kind
    self.use("scan_" .. name)
    self:line("ty_scan_%s(z%d, g%d, n);", name, v, v)
  end

  --- Spans of a row; between two scans values wait in arrays.
  function Emit:scan(part, names, R)
    local p, segments, scans = self.p, 0, {}
    for v = 0, p.n - 1 do
      if self.live[v] then
        segments = max(segments, self.segment[v])
        if is_scan(p.body[v]) then scans[#scans + 1] = v end
      end
    end
    local crosses = self:scan_crosses(segments)
    self:scan_states(scans, crosses)
    self:open("for (int64_t r = 0; r < %s; r += %d)", text(R), SPAN)
    if sizes.at_most(R, SPAN) then self:line("enum { n = %d };", R)
    else self:line("const int n = %s - r < %d ? (int)(%s - r) : %d;", text(R), SPAN, text(R), SPAN) end
    for _, v in ipairs(scans) do
      local ins = p.body[v]
      if floating[ins.type] and is_sum(ins) and not sizes.at_most(R, BLOCK) then
        self:line("if (r && r %% %d == 0) ty_scan_block_%s_%s(z%d);", BLOCK, sub(ins.op, 2), ins.type, v)
      end
    end
    local index_at = self:row_index(names, part)
    local function index(k) return index_at(k, "(r + j)") end
    for segment = 0, segments do
      self:open "for (int j = 0; j < n; j++)"
      self:scan_segment(segment, segments, scans, crosses, index)
      self:close()
      for _, v in ipairs(scans) do
        if self.segment[v] == segment + 1 then self:scan_step(v) end
      end
    end
    self:close()
  end
end
