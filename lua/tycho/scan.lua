--- scan.lua -- ty.scan: a function for each place of a dim in turn, with values carried from one to the next.
-- In: a function of carried values and a row, tensors in nested tables. Out: the last carried values, the rows of
-- results. Raises where a turn gives other types than it was given, where the function reads data or writes to tensors
-- from outside.
--
-- The function runs once, on parameters, while operations are recorded (loop.h): its graph is one step of a plan, which
-- runs it for each row. So the plan's size does not depend on how many rows there are.
-- 1. The gradient is a scan, too, from the last row to the first: each turn runs the function again on what it was
--    given, which was kept, and goes back through it. Gradients of what the function closes over are carried along.
--    So eager and compiled code, and gradients of gradients, share one order of sums.
-- 2. Random numbers are those that the loop would draw, and a turn draws the same ones when it runs again for its
--    gradient: they go by which turn it was.
-- 3. Under vmap the examples are one more dim of all that is carried.

local type, pairs, ipairs, unpack, pcall, error = type, pairs, ipairs, unpack, pcall, error
local ceil, floor, max, tostring = math.ceil, math.floor, math.max, tostring

local tree = require "tycho.tree"

---@param ty table the core module
---@param define fun(name: string, where: string, args: string, text: string, fn: function)
---@param own table of grad.lua
---@return function[] inline what captures evaluate
---@return function scan_back the rule of a scan
return function(ty, define, own)
  local check = require("tycho.arguments")(ty)
  local fail, show, text = check.fail, check.show, check.text
  local internals = ty.internals
  local L, G, V, modes = internals.loop, internals.grad, internals.vmap, internals.modes
  local is_live, is_tensor, random_state = ty.internals.is_live, ty.is_tensor, ty.internals.check.random
  local map, restore = tree.map, own.restore
  local MOST_DIMS = 8 -- of a tensor
  local BACKWARDS = 3 -- order: 1: rows come from the last to the first; 2: so did those of the loop that draws
  local floats = { f16 = true, bf16 = true, f32 = true, f64 = true }

  local function is_float(x) return floats[x.dtype] or false end

  -------------------------------------------------------------------------------------------------------- structures

  --- The device of a tensor in v; nil: there is none. inside: tables that were looked at.
  local function device_of(v, inside)
    if is_live(v) then return v.device end
    if type(v) ~= "table" or inside[v] then return nil end
    inside[v] = true
    for _, field in pairs(v) do
      local d = device_of(field, inside)
      if d then return d end
    end
  end

  --- The tensors in v, appended to the list; v with their numbers in their places. inside: tables that v lies in.
  --- device: where numbers become tensors.
  local function flatten(v, list, what, device, inside)
    if is_live(v) then
      list[#list + 1] = v
      return #list
    end
    if type(v) == "number" and what == "init" then
      list[#list + 1] = ty.full({}, v, { device = device })
      return #list
    end
    if type(v) ~= "table" then
      fail("scan", "%s must hold tensors, in nested tables or alone, got %s", what, show(v))
    end
    inside = inside or {}
    if tree.recall(inside, v) then fail("scan", "%s holds a table that holds itself", what) end
    tree.remember(inside, v, true)
    local y = tree.empty_like(v)
    for k, field in pairs(v) do y[k] = flatten(field, list, what, device, inside) end
    tree.remember(inside, v, false)
    return y
  end

  --- What was flattened, with other tensors.
  local function build(shape, list)
    if type(shape) == "number" then return list[shape] end
    if type(shape) ~= "table" then return shape end
    local y = tree.empty_like(shape)
    for k, field in pairs(shape) do y[k] = build(field, list) end
    return y
  end

  local function step(path, k) return path == "" and tostring(k) or path .. "." .. tostring(k) end

  --- The tensors of v, which is nested as the carried values are.
  local function match(shape, v, list, path)
    if type(shape) == "number" then
      if not is_live(v) then
        fail("scan", "carried value %s must stay a tensor, a turn gives %s", path == "" and 1 or path, show(v))
      end
      list[shape] = v
      return
    end
    if type(shape) ~= "table" then return end
    if type(v) ~= "table" then
      fail("scan", "carried value %s must stay a table, a turn gives %s", path == "" and 1 or path, show(v))
    end
    for k in pairs(v) do
      if shape[k] == nil then fail("scan", "a turn gives a carried value %s, which it was not given", step(path, k)) end
    end
    for k, s in pairs(shape) do match(s, v[k], list, step(path, k)) end
  end

  ---------------------------------------------------------------------------------------------------------- the loop

  --- fn(...), where operations are recorded that are computed when it has ended.
  local function recorded(fn, ...)
    if L.recording() then return fn(...) end
    return L.run(fn, ...)
  end

  --- Lists may be longer than what a call can be given.
  local function append(list, more)
    for i = 1, #more do list[#list + 1] = more[i] end
    return list
  end

  local function slice(list, from, to)
    local y = {}
    for i = from, to do y[#y + 1] = list[i] end
    return y
  end

  --- Which of a list need a gradient.
  local function tracked(list)
    local y = {}
    for i = 1, #list do y[i] = is_float(list[i]) and V.tracked(list[i]) end
    return y
  end

  local function any(list)
    for i = 1, #list do
      if list[i] then return true end
    end
    return false
  end

  local function chosen(list, which)
    local y = {}
    for i = 1, #list do
      if which[i] then y[#y + 1] = list[i] end
    end
    return y
  end

  --- A list in which those that are chosen start a tape.
  local function watched(list, which)
    local y = {}
    for i = 1, #list do y[i] = which[i] and G.watch(list[i]) or list[i] end
    return y
  end

  --- What is kept of carried values for the gradient, in one dim: rows of it have one more.
  local function flattened(list)
    local y = {}
    for i = 1, #list do y[i] = list[i]:flatten() end
    return y
  end

  --- What a turn gives, taped from what of it needs a gradient, behind that what it was given; notes what needs one
  --- then: carried values that a turn gives with a gradient need one in the next turn. again: so others may need one
  --- that this turn gave without.
  local function noting(turn, needs)
    return function(carried, rows)
      local was, kept = slice(needs.carried, 1, #carried), {}
      for i = 1, #carried do kept[i] = carried[i]:clone() end -- a turn may write to what it is given
      local following, made = turn(watched(carried, was), watched(rows, needs.rows))
      local grown, open, given = false, false, tracked(following)
      for i = 1, #following do
        grown = grown or given[i] and not was[i]
        open = open or is_float(following[i]) and not given[i]
        needs.carried[i] = was[i] or given[i]
      end
      needs.made = tracked(made)
      for i = 1, #made do open = open or is_float(made[i]) and not needs.made[i] end
      needs.last, needs.watched, needs.again = given, was, grown and open
      return following, append(slice(made, 1, #made), flattened(kept))
    end
  end

  --- What goes out of a turn, and may be from outside as it is.
  local function note(scope, list)
    for i = 1, #list do L.note(scope, list[i]) end
  end

  --- turn(carried, rows) -> next, made, lists all of them, for each row of the sequences. Gives the last carried values
  --- and the rows of results; what a turn was given, for each row, where one of these needs a gradient (noted in
  --- needs, nil where none will be asked for), and what else that goes to, in one dim each.
  local loop
  function loop(turn, init, sequences, turns, order, needs, hash)
    local scope, carried, rows = L.begin(), {}, {}
    for i = 1, #init do carried[i] = L.param(scope, init[i], false) end
    for i = 1, #sequences do rows[i] = L.param(scope, sequences[i], true) end
    local ok, following, made = pcall(turn, carried, rows, scope)
    if not ok then
      L.leave(scope)
      error(following, 0)
    end
    if needs and needs.again then
      L.again(scope)
      return loop(turn, init, sequences, turns, order, needs, hash)
    end
    note(scope, following)
    note(scope, made)
    local taped, given = L.taped(scope), nil
    if hash then
      local same, why = pcall(L.check, scope, hash, append(slice(following, 1, #following), made))
      L.leave(scope)
      if not same then error(why, 0) end
      return
    end
    local count = needs and #needs.made or #made
    if needs and turns == 0 then needs.last = needs.carried end
    if needs and (any(needs.last) or any(needs.made)) then
      given = { hash = L.hash(scope, append(slice(following, 1, #following), slice(made, 1, count))) }
    else
      made = slice(made, 1, count)
    end
    local results = L.record(scope, turns, order, init, following, sequences, made)
    local last, out = {}, {}
    for i = 1, #init do last[i] = results[i] end
    for i = 1, count do out[i] = results[#init + i] end
    if given then
      for i = 1, #init do given[i] = results[#init + count + i] end
    end
    return last, out, given, taped
  end

  local function level_of(list, id)
    for i = 1, #list do id = max(id, V.level(list[i])) end
    return id
  end

  local function wrapped(list, dim, id)
    local y = {}
    for i = 1, #list do y[i] = (V.wrap(list[i], dim, id)) end
    return y
  end

  --- x of all examples of a vmap.
  local function whole(x, id, count)
    return V.unwrap(x, id) or x:unsqueeze(1):expand({ count, unpack(x.shape) }):clone()
  end

  --- Lists of carried values and of sequences, of all examples: their dim is the first one of values and rows.
  local function lifted(init, sequences, id, count)
    local all, rows = {}, {}
    for i = 1, #init do all[i] = whole(init[i], id, count) end
    for i = 1, #sequences do rows[i] = whole(sequences[i], id, count):movedim(1, 2) end
    return all, rows
  end

  --- A turn is told as {maker, what that makes it of ...}: a rule that is compiled makes it there, around the user's
  --- function.
  local function made_of(turn) return turn[1](unpack(turn, 2, 7)) end

  --- The turn of all examples. The vmap may have ended: then its level is entered once more. scope: of the loop, nil
  --- where the turn runs again.
  local function turn_of_all(turn, id, count, randomness)
    local function all(carried, rows, scope)
      local following, made = turn(wrapped(carried, 1, id), wrapped(rows, 1, id), scope)
      if scope then -- as examples they may have a past that they have not as a whole
        note(scope, following)
        note(scope, made)
      end
      local f, m = {}, {}
      for i = 1, #following do f[i] = whole(following[i], id, count) end
      for i = 1, #made do m[i] = whole(made[i], id, count) end
      return f, m
    end
    return function(carried, rows, scope)
      if V.count(id) >= 0 then return all(carried, rows, scope) end
      local open = V.open(count, randomness, id)
      return restore(open, pcall(all, carried, rows, scope))
    end
  end

  local function told_of_all(turn, id, count, randomness)
    return turn_of_all(made_of(turn), id, count, randomness)
  end

  --- The same in a vmap. level: that of the innermost one that runs; of those outside of it, what differs between
  --- their examples.
  local loop_of_all
  function loop_of_all(turn, init, sequences, turns, order, needs, level, hash)
    local id = level_of(init, level_of(sequences, level))
    if id == 0 then return loop(turn, init, sequences, turns, order, needs, hash) end
    local count, randomness = V.count(id)
    local all, rows = lifted(init, sequences, id, count)
    local of_all = turn_of_all(turn, id, count, randomness)
    local last, out, given, taped = loop_of_all(of_all, all, rows, turns, order, needs, 0, hash)
    if hash then return end
    local kept = given and wrapped(given, 2, id)
    if given then kept.hash = given.hash end
    return wrapped(last, 1, id), wrapped(out, 2, id), kept, taped
  end

  ------------------------------------------------------------------------------------------------------ its gradient

  local function zeros(kind) return ty.zeros(kind[1], kind[2]) end

  local function like(x) return ty.zeros(x.shape, { dtype = x.dtype, device = x.device }) end

  --- The gradients of a turn: of what it was given and needs one, and of the tensors from outside. gradients: of what
  --- it gives and needs one.
  local function back_through(turn, carried, rows, taped, needs, gradients)
    local create, seq = G.mode(), G.seq()
    local c, r = watched(carried, needs.carried), watched(rows, needs.rows)
    local list = append(append(chosen(c, needs.carried), chosen(r, needs.rows)), taped)
    local back = G.start(create, create, list, seq)
    local following, made = restore(modes.grad(true), pcall(turn, c, r))
    local given = append(chosen(following, needs.carried), chosen(made, needs.made))
    for i = 1, #given do
      if given[i].requires_grad then G.seed(back, given[i], gradients[i]) end
    end
    own.run(back, create)
    local found = {}
    for k = 1, #list do
      found[k] = G.got(back, k, list[k]) or like(list[k])
    end
    return found
  end

  local function with(what, changes)
    local y = {}
    for k, v in pairs(what) do y[k] = v end
    for k, v in pairs(changes) do y[k] = v end
    return y
  end

  local differentiable

  --- A turn that also gives what it was given.
  local function giving(turn)
    local run = made_of(turn)
    return function(carried, rows)
      local following, made = run(carried, rows)
      return following, append(slice(made, 1, #made), flattened(carried))
    end
  end

  --- The turn of a gradient: through that turn from the carried gradients and a row, which holds the row that the turn
  --- was given, of nseq sequences, then what was carried, then gradients. nlast: of so many carried values.
  local function back_turn(turn, init, taped, needs, nseq, nlast)
    local run, ninit = made_of(turn), #init
    return function(c, r)
      local rows, carried = slice(r, 1, nseq), slice(r, nseq + 1, nseq + ninit)
      for i = 1, ninit do carried[i] = carried[i]:reshape(init[i].shape) end
      local g = append(slice(c, 1, nlast), slice(r, nseq + ninit + 1, #r))
      local found = back_through(run, carried, rows, taped, needs, g)
      local following, count = slice(found, 1, nlast), #found - #taped
      for i = 1, #taped do following[nlast + i] = c[nlast + i] + found[count + i] end
      return following, slice(found, nlast + 1, count)
    end
  end

  --- fn() in vmap id, 0: in none, where one may run that there was not: gradients of several examples at once.
  local function within(id, fn)
    if V.level() <= id then return fn() end
    if id == 0 then return restore(V.outside(), pcall(fn)) end
    local count, randomness = V.count(id)
    if count < 0 then return fn() end
    local scope = V.open(count, randomness, id)
    return restore(scope, pcall(fn))
  end

  --- Raises where the turn makes something else than when the loop was recorded, while gradients were on.
  local function compare(what)
    local hash = what.hash
    if type(hash) == "table" then -- it was captured
      if internals.load("tycho.capture.tape").unchanged(ty, hash) then return end
      hash = true -- there is none: either the turn raises an error of its own, or that is told
    end
    local function once_more()
      return restore(modes.grad(true), pcall(recorded, loop_of_all, what.forward, what.init, what.sequences, what.turns,
        what.order, nil, what.level, hash))
    end
    restore(modes.random(what.random), pcall(within, what.level, once_more))
  end

  --- The gradients of all that the loop was given: init, sequences, taped, nil for what is no float. What was kept
  --- leads back to the loop where gradients are differentiated.
  local function go_back(what, gradients, back)
    local turn, init, sequences, taped = what.turn, what.init, what.sequences, what.taped
    local ncarried, given, again, needs = #what.last, {}, false, what.needs
    local before = ncarried + #what.out
    for i, x in ipairs(what.given) do
      given[i] = G.mode() and back and needs.carried[i] and G.result(back, before + i, x) or x
      again = again or gradients[before + i] ~= nil
    end
    local carried, rows, nlast = {}, {}, 0
    for i = 1, ncarried do
      if needs.carried[i] then
        nlast = nlast + 1
        carried[nlast] = gradients[i] or zeros(what.last[i])
      end
    end
    for i = 1, #taped do carried[nlast + i] = like(taped[i]) end
    append(append(rows, sequences), given)
    for i = 1, #what.out do
      if needs.made[i] then rows[#rows + 1] = gradients[ncarried + i] or zeros(what.out[i]) end
    end
    for i = 1, again and #given or 0 do
      if needs.carried[i] then rows[#rows + 1] = gradients[before + i] or like(given[i]) end
    end
    if again then
      needs = with(needs, { made = append(slice(needs.made, 1, #needs.made), needs.carried) })
      turn = { giving, turn }
    end
    compare(what)
    local nseq, ninit, calls = #sequences, #init, G.mode() and own.call or own.again(what)
    local first, of_rows = restore(modes.random(what.random), pcall(calls, differentiable,
      { back_turn, turn, init, taped, needs, nseq, nlast }, carried, rows, #rows == 0 and what.turns or nil,
      what.order + (what.order % 2 == 0 and 1 or -1)))
    local y, c, r = {}, 0, 0
    for i = 1, ninit do
      if needs.carried[i] then
        c = c + 1
        y[i] = first[c]
      end
    end
    for i = 1, nseq do
      if needs.rows[i] then
        r = r + 1
        y[ninit + i] = of_rows[r]
      end
    end
    for i = 1, #taped do y[ninit + nseq + i] = first[c + i] end
    return y
  end

  --- The rule of a loop. what: as go_back has it, but tensors that it was given and kept stand in the list, one kind
  --- behind the other.
  local function scan_back(back, gradients, list, what)
    local at = 0
    local function take(n)
      at = at + n
      return slice(list, at - n + 1, at)
    end
    what = with(what, { init = take(what.ninit), sequences = take(what.nsequences), given = take(what.ninit) })
    local found = go_back(what, gradients, back)
    for i = 1, what.ninit + what.nsequences + #what.taped do
      if found[i] ~= nil then G.give(back, i, found[i]) end
    end
  end

  local function kinds(list)
    local y = {}
    for i = 1, #list do y[i] = { list[i].shape, { dtype = list[i].dtype, device = list[i].device } } end
    return y
  end

  --- The results of a loop that lead back to what they were made from, by what the tape knows in vmap id.
  local function led_back(what)
    local args, results = {}, {}
    append(append(append(args, what.init), what.sequences), what.taped)
    args.n = #args
    append(append(append(results, what.last), what.out), what.given)
    local rule = with(what, { back = scan_back, last = kinds(what.last), out = kinds(what.out), ninit = #what.init,
      nsequences = #what.sequences })
    local joined
    if G.shares() then
      rule.init, rule.sequences, rule.given = nil, nil, nil
      joined = own.join(args, results, rule, append(slice(args, 1, #what.init + #what.sequences), what.given))
    else
      joined = own.ruled(args, results, function(gradients, back) return go_back(rule, gradients, back) end)
    end
    local last, out, given = {}, {}, {}
    for i = 1, #what.last do last[i] = joined[i] end
    for i = 1, #what.out do out[i] = joined[#last + i] end
    for i = 1, #what.given do given[i] = joined[#last + #out + i] end
    return last, out, given
  end

  --- The same of an example of a vmap: for all examples, which a gradient outside of it follows; then for each one.
  local join
  function join(what, level)
    local id = level_of(what.init, level_of(what.sequences, level))
    what.level = id
    if id == 0 then return led_back(what) end
    local taped, count, randomness = {}, V.count(id)
    for i = 1, #what.taped do
      if V.level(what.taped[i]) < id then taped[#taped + 1] = what.taped[i] end
    end
    local init, sequences = lifted(what.init, what.sequences, id, count)
    local last, out = lifted(what.last, what.out, id, count)
    local _, given = lifted({}, what.given, id, count)
    local of_all = { told_of_all, what.turn, id, count, randomness }
    local forward = turn_of_all(what.forward, id, count, randomness)
    last, out, given = join(with(what, { turn = of_all, forward = forward, init = init, sequences = sequences,
      last = last, out = out, given = given, taped = taped }), 0)
    return led_back(with(what, { last = wrapped(last, 1, id), out = wrapped(out, 2, id),
      given = wrapped(given, 2, id) }))
  end

  --- As loop; results lead back to what they were made from. turn: as told; turns: nil: as many as there are rows.
  function differentiable(told, init, sequences, turns, order)
    local turn = made_of(told)
    init, sequences = slice(init, 1, #init), slice(sequences, 1, #sequences) -- a capture plays it with other tensors
    turns = turns or sequences[1]:size(1)
    local random, level = random_state(), V.level()
    local needs = G.mode() and { carried = tracked(init), rows = tracked(sequences) } or nil
    local forward = needs and noting(turn, needs) or turn
    local last, out, given, taped = recorded(loop_of_all, forward, init, sequences, turns, order, needs, level)
    if not given then return last, out end
    local function once_more(carried, rows)
      return turn(watched(carried, needs.watched), watched(rows, needs.rows))
    end
    local l, o = join({ turn = told, forward = once_more, needs = needs, init = init, sequences = own.keep(sequences),
      given = given, taped = taped, turns = turns, order = order, random = random, last = last, out = out,
      hash = given.hash }, level)
    for i = 1, #l do l[i] = needs.last[i] and l[i] or last[i] end
    for i = 1, #o do o[i] = needs.made[i] and o[i] or out[i] end
    return l, o
  end

  ---------------------------------------------------------------------------------------------------------- for users

  --- f's turn on lists. none: f need not give carried values, there are none; said.made: how the results of a turn are
  --- nested.
  local function turn_of(f, carried_shape, row_shape, none, said)
    return function(carried, rows)
      local following, made = f(build(carried_shape, carried), build(row_shape, rows))
      local next_list, made_list = {}, {}
      if following == nil and none then following = {} end
      match(carried_shape, following, next_list, "")
      local nested = made ~= nil and flatten(made, made_list, "the results of a turn") or nil
      if said then said.made = nested end
      return next_list, made_list
    end
  end

  local function turns_of(sequences, length)
    local turns = length
    for i = 1, #sequences do
      local x = sequences[i]
      if x.ndim < 1 then fail("scan", "argument 3 (xs) must have a first dim, got %s", text(x)) end
      if turns and x:size(1) ~= turns then
        fail("scan", "sizes differ: %d rows, and %d in %s", turns, x:size(1), text(x))
      end
      turns = x:size(1)
    end
    if not turns then fail("scan", "option length is missing, as there are no sequences") end
    return turns
  end

  local scan

  --- In pieces of k turns, each of which keeps nothing but what it was given: the rest comes behind them. They are one
  --- more dim of what each turn gets and gives.
  local function in_pieces(f, init, xs, turns, k, backwards)
    map(xs, function(x)
      if is_tensor(x) and x.ndim == MOST_DIMS then
        fail("scan", "option checkpoint: argument 3 (xs) may have %d dims at most, got %s", MOST_DIMS - 1, text(x))
      end
      return nil
    end, {})
    local n = floor(turns / k)
    local main = n * k
    local function part(from, count)
      return map(xs, function(x) return is_tensor(x) and x:narrow(1, from, count) or nil end, {})
    end
    local function piece(c, x) return scan(f, c, x, { reverse = backwards, length = k }) end
    local function pieces(c)
      local blocks = map(part(1, main), function(x)
        return is_tensor(x) and x:unflatten(1, { n, k }) or nil
      end, {})
      local last, made = scan(piece, c, blocks, { reverse = backwards, length = n })
      return last, map(made, function(y) return is_tensor(y) and y:flatten(1, 2) or nil end, {})
    end
    if main == turns then return pieces(init) end
    local function rest(c)
      return scan(f, c, part(main + 1, turns - main), { reverse = backwards, length = turns - main })
    end
    local first, second = pieces, rest
    if backwards then first, second = rest, pieces end
    local between, a = first(init)
    local last, b = second(between)
    if a == nil then return last end
    if backwards then a, b = b, a end
    local behind, heads = {}, {}
    local shape = flatten(a, heads, "the results of a turn")
    flatten(b, behind, "the results of a turn")
    for i = 1, #heads do heads[i] = ty.cat({ heads[i], behind[i] }, 1) end
    return last, build(shape, heads)
  end

  --- carry, y = f(carry, x) for each x = xs[1], xs[2], ... in turn, beginning with init. Gives the last carry, and
  --- the y of all turns, stacked. What is carried, xs and y are tensors, or nested tables of them; what is carried
  --- keeps its types and shapes. f runs once, or a few times where gradients are asked for: it must not read elements
  --- of tensors, nor write to tensors from outside; what it is given is its own. It draws the random numbers that the
  --- loop would. A result needs a gradient where it may need one in some turn. y has 7 dims at most.
  --- reverse: from the last row to the first; length: how many turns, where xs is nil; checkpoint: for gradients only
  --- what about sqrt(turns) turns were given is kept (a number: every so many), and the others run again.
  --- Raises where what is carried changes its type or sizes, sequences differ in length, or f reads elements.
  ---@param f fun(carry: any, x: any): any, any
  ---@param init any
  ---@param xs any
  ---@param opts? {reverse: boolean?, length: integer?, checkpoint: boolean|integer|nil}
  ---@return any carry, any ys
  function scan(f, init, xs, opts)
    own.callable("scan", 1, f)
    opts = check.options("scan", opts, { reverse = "boolean", length = "number", checkpoint = "any" })
    local length = opts.length
    if length ~= nil and not (length >= 0 and length % 1 == 0 and length < 2 ^ 53) then
      fail("scan", "option length must be a whole number from 0 on, got %.14g", length)
    end
    local carried, sequences, said = {}, {}, {}
    local carried_shape = flatten(init == nil and {} or init, carried, "init", device_of(xs, {}) or device_of(init, {}))
    local row_shape = xs ~= nil and flatten(xs, sequences, "xs") or nil
    local turns, backwards = turns_of(sequences, length), opts.reverse or false
    local k = opts.checkpoint
    if k == true then k = max(1, ceil(turns ^ 0.5)) end
    if k and (type(k) ~= "number" or k < 1 or k % 1 ~= 0) then
      fail("scan", "option checkpoint must be a boolean or a whole number from 1 on, got %s", show(k))
    end
    if k and k > 1 and k < turns and G.mode() then return in_pieces(f, init, xs, turns, k, backwards) end
    local turn = { turn_of, f, carried_shape, row_shape, init == nil, said }
    local last, made = differentiable(turn, carried, sequences, turns, backwards and BACKWARDS or 0)
    turn[6] = nil -- its gradient does not say that once more
    return build(carried_shape, last), said.made ~= nil and build(said.made, made) or nil
  end

  define("scan", "m", "f, init, xs, {reverse = false, length, checkpoint = false}",
    "carry, y = f(carry, x) for each row x of xs in turn: the last carry, and all y", scan)

  return { within, is_float, flatten, build, step, match, recorded, append, slice, tracked, any, chosen, watched,
    flattened, noting, loop, level_of, wrapped, whole, lifted, turn_of_all, loop_of_all, like, back_through, with,
    made_of, told_of_all, back_turn, giving, compare, zeros, kinds, go_back, scan_back, led_back, join, differentiable,
    turn_of, turns_of, in_pieces, scan }, scan_back
end
