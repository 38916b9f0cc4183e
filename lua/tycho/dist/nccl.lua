--- dist/nccl.lua -- exchanges of tensors that lie on CUDA devices, by NCCL.
-- In: groups of ranks, tensors of one device a rank. Out: tensors of that device. Raises on all ranks of a group where
-- one of them has no NCCL, and as all exchanges do.
--
-- A group's first exchange makes its communicators, which are bound to the device of that exchange; two ranks that send
-- and receive have one of their own. What is agreed on before goes by MPI.
--
-- All ranks of a communicator queue its exchanges in the same order. Plans put those off that give back sums of others'
-- elements (core/compile/plan_calls.c), and ranks need not all run plans: so these go by a second communicator.

local ty = require "tycho"
local check = require("tycho.arguments")(ty)

local ipairs, format = ipairs, string.format

---@param W table world.lua
return function(W)
  local M = {}
  local C = W.open().C
  local pairs_of = {} -- by the other rank

  --- The two ranks of a message, as a group; lists of what the other is sent, or sends, for both of them.
  local function pair_of(other)
    if not pairs_of[other] then
      local own = W.open().rank
      local first = own < other
      pairs_of[other] = { ranks = first and { own, other } or { other, own }, index = first and 1 or 2, number = 0,
        pair = true }
    end
    return pairs_of[other]
  end

  local function of_both(party, list)
    if not list then return nil end
    local at, n = list[1], list[2]
    return party.index == 1 and { 0, 0, at, n } or { at, n, 0, 0 }
  end

  local counts = { sent = {}, received = {} }

  --- The number of the next message to or from that rank.
  function M.count_message(way, rank)
    local n = (counts[way][rank] or 0) + 1
    counts[way][rank] = n
    return n
  end

  --- Whether all ranks have NCCL; else all raise the same.
  local function require_library(who, party)
    local version, why = C.nccl_open()
    local texts = W.compare(who, party, version and "NCCL" or "no NCCL: " .. why)
    if texts == true and version then return end
    for i, text in ipairs(texts == true and { "no NCCL: " .. why } or texts) do
      local missing = text:match "^no NCCL: (.*)"
      if missing then
        check.fail(who, "tensors of CUDA devices are exchanged by NCCL, and rank %d has none: %s (TYCHO_NCCL names " ..
          "it; or use :to(\"cpu\"))", party.ranks[i], missing)
      end
    end
    W.disagree(who, party, texts)
  end

  --- A communicator of the group's, for tensors like x: the second one for what comes back.
  local function communicator(who, party, kind, x)
    if not party.communicators then
      require_library(who, party)
      local numbers = {}
      for i = 1, party.pair and 1 or 2 do
        numbers[i] = C.nccl_join(who, W.tag(party, "group"), party.ranks, party.index, x)
      end
      party.communicators, party.device = numbers, x.device
    elseif party.device ~= x.device then
      check.fail(who, "the group's tensors are on %s, got one on %s: a rank has one device for a group",
        party.device, x.device)
    end
    return party.communicators[kind == "back" and 2 or 1]
  end

  --- As world.exchange; `to` is a dtype, for a new tensor of these dims on `device`, or a tensor to receive into.
  function M.exchange(who, group, kind, x, sends, to, dims, receives, device)
    local y = to
    if type(to) == "string" then y = ty.empty(dims, { dtype = to, device = device }) end
    local party = group
    if group.index == 0 then
      party = pair_of(group.ranks[1])
      sends, receives = of_both(party, sends), of_both(party, receives)
    end
    local number = communicator(who, party, kind, x or y)
    return C.nccl_exchange(who, number, x, y, sends, receives)
  end

  --- y, in equal parts x of all ranks.
  function M.gather(who, group, x, y)
    if ty.is_complex(x) then return ty.view_as_complex(M.gather(who, group, ty.view_as_real(x), ty.view_as_real(y))) end
    return C.nccl_gather(who, communicator(who, group, "data", x), x, y, 0, x:numel())
  end

  --- y, whose n elements behind `from` are a part of each rank, in equal parts; before, its own is there.
  function M.spread(who, group, y, from, n)
    if ty.is_complex(y) then return ty.view_as_complex(M.spread(who, group, ty.view_as_real(y), 2 * from, 2 * n)) end
    return C.nccl_gather(who, communicator(who, group, "back", y), y, y, from, n / #group.ranks)
  end

  --- x of rank `root`, by its place in the group.
  function M.broadcast(who, group, x, root)
    if ty.is_complex(x) then return ty.view_as_complex(M.broadcast(who, group, ty.view_as_real(x), root)) end
    local y = ty.empty(x.shape, { dtype = x.dtype, device = x.device })
    return C.nccl_broadcast(who, communicator(who, group, "data", x), x, y, root)
  end

  function M.takes(dtype) return C.nccl_takes(dtype) end

  --- NCCL's own reduction.
  function M.reduce(who, group, x, op)
    local y = ty.empty(x.shape, { dtype = x.dtype, device = x.device })
    return C.nccl_reduce(who, communicator(who, group, "data", x), x, y, op)
  end

  --- The kind of device, which ranks have alike.
  function M.kind(x) return x.device == "cpu" and "" or format(" on %s", x.device:match "^%a+") end

  return M
end
