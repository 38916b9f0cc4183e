--- slot_name.lua -- how messages of Lua name the value in a register: "local 'x'", "field 'y'", "method 'z'" ...
-- As LuaJIT finds it: the local variable that lives in the register, else what the last instruction before has put there.

--- Opcodes that use all registers from a on.
local sets_from = {}
for name in ("KNIL TSETM CALLM CALL ITERC ITERN VARG ISNEXT FORI FORL ITERL"):gmatch("%S+") do sets_from[name] = true end

--- Opcodes whose a is a register that they do not write to, or no register.
local reads = {}
for name in ([[ISLT ISGE ISLE ISGT ISEQV ISNEV ISEQS ISNES ISEQN ISNEN ISEQP ISNEP IST ISF USETV USETS USETN USETP UCLO
  GSET TSETV TSETS TSETB CALLMT CALLT RETM RET RET0 RET1 LOOP JMP]]):gmatch("%S+") do
  reads[name] = true
end

--- The name of the local variable in a register at a position.
local function variable(proto, position, slot)
  for _, v in ipairs(proto.variables or {}) do
    if v.first > position then return nil end
    if position <= v.last then
      slot = slot - 1
      if slot == 0 then return v.name end
    end
  end
end

--- Kind and name of what is in a register before the instruction at the position runs; nil where it has no name.
---@param proto tycho.Prototype
---@param position integer
---@param slot integer
---@return string|nil kind
---@return string|nil name
local function slot_name(proto, position, slot)
  local name = variable(proto, position, slot)
  if name then return "local", name end
  local code = proto.code
  for at = position - 1, 1, -1 do
    local i = code[at]
    if sets_from[i.name] then
      if slot >= i.a and (i.name ~= "KNIL" or slot <= i.d) then return nil end
    elseif not reads[i.name] and i.a == slot then
      if i.name == "MOV" then return slot_name(proto, at, i.d) end
      if i.name == "GGET" then return "global", i.k end
      if i.name == "UGET" then return "upvalue", proto.upvalues[i.d].name or "" end
      if i.name ~= "TGETS" then return nil end
      local before = code[at - 1]
      if before and before.name == "MOV" and before.a == slot + 1 + proto.fr2 and before.d == i.b then
        return "method", i.k
      end
      return "field", i.k
    end
  end
end

return slot_name
