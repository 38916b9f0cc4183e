--- ctc.lua -- composite: the loss of labels without times, connectionist temporal classification.
-- Graves and others 2006. Paths through the times spell the labels with blanks between them or not; the loss is minus
-- the logarithm of the sum of their chances, by the recursion over prefixes. A sum of chances that is 0 counts as the
-- logarithm NONE, which is finite: so gradients are, too. Up to LONG times are written out, more are one ty.scan, whose
-- gradient is kept outside of a composite's plan: so the row is `single`.

---@param ty table the core module
---@param check table arguments.lua
---@param row fun(r: table) adds a composite, see functions.lua
return function(ty, check, row, _, as_one)
  local fail, is_tensor, where, maximum, exp, log = check.fail, ty.is_tensor, ty.where, ty.maximum, ty.exp, ty.log
  local half_floats = require("tycho.half")(ty, check)
  local NONE, LONG = -1e30, 64

  --- log(exp(a) + exp(b) + exp(c)).
  local function log_sum(a, b, c)
    local most = maximum(maximum(a, b), c):detach()
    return most + log(exp(a - most) + exp(b - most) + exp(c - most))
  end

  --- The row moved by n places, NONE before it.
  local function moved(x, n)
    local size = x:size(2)
    local front = ty.full({ x:size(1), n }, NONE, { dtype = x.dtype, device = x.device })
    if size <= n then return front:narrow(2, 1, size) end
    return ty.cat({ front, x:narrow(2, 1, size - n) }, 2)
  end

  --- Lengths as an i64 tensor [batch], given as such, a list, or one number.
  local function lengths_of(who, i, v, batch, device)
    if type(v) == "number" then v = { v } end
    if type(v) == "table" and not is_tensor(v) then
      v = check.named(who, "tensor", ty.tensor, v, { dtype = "i64", device = device })
    end
    if not is_tensor(v) or v.dtype == "bool" or v.dtype:find("f", 1, true) or v:numel() ~= batch or v.ndim > 1 then
      fail(who, "argument %d must be %d whole numbers, got %s", i, batch, check.show(v))
    end
    return v:to("i64"):reshape(batch)
  end

  --- The logarithms of the chances of all labels, [batch].
  local function log_chance(lp, labels, times, counts, blank)
    local time, batch, states = lp:size(1), lp:size(2), 2 * labels:size(2) + 1
    local blanks = ty.full_like(labels, blank)
    -- blank, label 1, blank, label 2, ... blank
    local spelled = ty.stack({ blanks, labels }, 3):flatten(2)
    spelled = ty.cat({ spelled, ty.full({ batch, 1 }, blank, { dtype = labels.dtype, device = labels.device }) }, 2)
    local at = ty.range(1, states, 1, { dtype = "i64", device = lp.device })
    local first, rest = math.min(2, states), math.max(states - 2, 0)
    local before = ty.cat({ spelled:narrow(2, 1, first), spelled:narrow(2, 1, rest) }, 2)
    -- a blank may be left out between two labels that differ
    local jumps = spelled:ne(blank):logical_and(spelled:ne(before:narrow(2, 1, states))):logical_and(at:gt(2))
    local emitted = lp:gather(3, spelled:unsqueeze(1):expand(time, batch, states))
    local alpha = where(at:le(2), emitted[1], NONE)
    local function step(a, now, goes_on)
      local jumped = where(jumps, moved(a, 2), NONE)
      return where(goes_on, maximum(log_sum(a, moved(a, 1), jumped) + now, NONE), a)
    end
    local number = ty.range(1, time, 1, { dtype = "i64", device = lp.device })
    local running = number:unsqueeze(2):le(times):unsqueeze(3) -- [time, batch, 1]
    if time > LONG then
      alpha = ty.scan(function(a, x)
        local y = step(a, x[1], x[2])
        return y, y
      end, alpha, { emitted:narrow(1, 2, time - 1), running:narrow(1, 2, time - 1) })
    else
      for t = 2, time do alpha = step(alpha, emitted[t], running[t]) end
    end
    local last = (counts * 2):unsqueeze(2)
    local ends = at:eq(last + 1):logical_or(at:eq(last))
    local chosen = where(ends, alpha, NONE)
    local most = chosen:max(2, true):detach()
    return (most + log(exp(chosen - most):sum(2, true))):squeeze(2)
  end
  local short_chance = as_one(log_chance) -- what is written out is one plan

  local known = { blank = "number", reduction = "string", zero_infinity = "boolean" }

  --- Minus the logarithm of the chance that the labels are spelled by any path through the times. Graves and others
  --- 2006.
  --- Options: blank = 1, the class between labels; reduction = "mean": each loss divided by its number of labels,
  --- then their mean, "sum" or "none"; zero_infinity = false: infinite losses, of more labels than times, count as 0.
  --- Raises where sizes do not fit each other, or the blank is no class.
  ---@param x tycho.Tensor floats: log-probabilities [time, batch, classes]
  ---@param target tycho.Tensor integer labels from 1 [batch, labels]
  ---@param times integer[]|tycho.Tensor how many times each sequence has
  ---@param lengths integer[]|tycho.Tensor how many labels each has
  ---@param opts? {blank: integer?, reduction: "mean"|"sum"|"none"|nil, zero_infinity: boolean?}
  ---@return tycho.Tensor # 0-d, or [batch]
  local function ctc_loss(x, target, times, lengths, opts)
    local who = "ctc_loss"
    local w, half = half_floats.whole(who, 1, x)
    check.tensor(who, 2, target)
    opts = check.options(who, opts, known)
    if x.ndim ~= 3 or x:size(1) < 1 then
      fail(who, "argument 1 must be [time, batch, classes], got %s", check.text(x))
    end
    local batch, blank, reduction = x:size(2), opts.blank or 1, opts.reduction or "mean"
    if target.ndim ~= 2 or target:size(1) ~= batch or target.dtype == "bool" or target.dtype:find("f", 1, true) then
      fail(who, "argument 2 must be integer labels [%d, labels], got %s", batch, check.text(target))
    end
    if blank % 1 ~= 0 or blank < 1 or blank > x:size(3) then
      fail(who, "option blank must be a class from 1 to %d, got %.14g", x:size(3), blank)
    end
    local counts = lengths_of(who, 4, lengths, batch, x.device)
    local places = ty.range(1, target:size(2), 1, { dtype = "i64", device = x.device })
    local labels = where(places:le(counts:unsqueeze(2)), target:to("i64"), blank) -- others stand for nothing
    local chance = check.named(who, "gather", x:size(1) > LONG and log_chance or short_chance, w, labels,
      lengths_of(who, 3, times, batch, x.device), counts, blank)
    local never = chance:lt(NONE / 2)
    local loss = where(never, opts.zero_infinity and 0 or math.huge, -chance)
    if reduction == "none" then return half_floats.back(loss, half) end
    if reduction == "sum" then return half_floats.back(loss:sum(), half) end
    if reduction ~= "mean" then
      fail(who, "option reduction must be \"mean\", \"sum\" or \"none\", got %s", check.show(reduction))
    end
    return half_floats.back((loss / counts:maximum(1)):sum() / batch, half)
  end

  row { "ctc_loss", "x, target, times, lengths, {blank = 1, reduction = \"mean\", zero_infinity = false}", ctc_loss,
    "minus the logarithm of the chance that the labels are spelled by any path", shape = "0-d, or [batch]",
    dtype = "float", formula = "Graves and others 2006", single = true }
end
