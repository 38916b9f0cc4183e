--- repl/compiled_loops.lua -- so that Ctrl-C can leave loops that LuaJIT has compiled.
-- In: LuaJIT's word of each trace that it makes (`jit.attach`). Out: nothing. Cannot fail: where LuaJIT does not tell,
-- nothing happens.
--
-- Compiled code asks for no debug hooks: it is left where a guard fails (core/base/loop_exit.c).
-- 1. A loop whose body has no guard, such as `while true do n = n + 1 end`, would run for ever: it is thrown away, and
--    its function is interpreted from then on. It has no way out but an error, so nobody needs it fast.
-- 2. A side trace takes the place of an exit. Which one must be known to leave the loop there all the same.

local GUARD = 128 -- in the type of an instruction of LuaJIT's intermediate code

---@param internals table of the module tycho
return function(internals)
  local found, util = pcall(require, "jit.util")
  local named, vmdef = pcall(require, "jit.vmdef")
  if not (found and named and type(jit) == "table" and jit.attach) then return end
  local traceinfo, traceir, names = util.traceinfo, util.traceir, vmdef.irnames
  local shift, band = bit.rshift, bit.band
  local started, exit -- the function whose loop is being compiled; of a side trace the exit

  --- Whether the body of a loop has a guard.
  local function has_guard(trace, count)
    local inside = false
    for i = 1, count do
      local _, ot = traceir(trace, i)
      if not ot then break end
      local at = 6 * shift(ot, 8)
      if names:sub(at + 1, at + 6) == "LOOP  " then inside = true
      elseif inside and band(ot, GUARD) ~= 0 then return true end
    end
    return not inside
  end

  jit.attach(function(what, trace, fn, _, _, number)
    if what == "start" then started, exit = fn, number end
    if what ~= "stop" or not started then return end
    local info = traceinfo(trace)
    if info and info.linktype == "loop" and not has_guard(trace, info.nins) then
      jit.off(started) -- which throws its traces away
      return
    end
    local _, begin = util.tracemc(trace)
    local stub = exit and util.traceexitstub(exit)
    internals.side_trace(trace, stub and begin or 0, stub or 0)
  end, "trace")
end
