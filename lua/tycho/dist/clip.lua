--- dist/clip.lua -- what looks at gradients of parts (cut.lua) as a whole: `ty.dist.clip_grad_norm_`, scalers of
--- losses.

local ty = require "tycho"
local W, C = require "tycho.dist.world", require "tycho.dist.cut"

local slices = ty.internals.grad.slices

---@param M table ty.dist, which is filled
---@param own table of pipeline.lua: pipeline_of
return function(M, own)
  --- ty.clip_grad_norm_ where each rank has a part of the parameters (dist.fully_shard, dist.tensor_parallel): scales
  --- the gradients so that the p-norm of all of them, on all ranks, is at most `limit`. Each gradient is gathered,
  --- one at a time, so the norm has the bits of one process. Other parameters count as the same on all ranks. All
  --- ranks call it alike.
  --- Raises where the parameters are no tensors, a number is negative, or the ranks do not agree.
  ---@param params tycho.Tensor|tycho.Tensor[] those without a gradient are passed over
  ---@param limit number
  ---@param p? number 2
  ---@return tycho.Tensor # the norm before, no dims
  function M.clip_grad_norm_(params, limit, p)
    local who = "clip_grad_norm_"
    return slices.clip(params, limit, p, function(x, g, power)
      local e = C.of[x]
      if not e then return g:norm(power) end
      W.agree(who, e.group, ("%s of %s"):format(who, e.name))
      local whole = e:whole(who, g)
      local norm = whole:norm(power)
      whole:release()
      return norm
    end)
  end

  --- Whether the gradients of an optimiser are finite on all ranks that have parts of them. finite: nil where there are
  --- none.
  function slices.all_finite(opt, finite)
    local pipe = own.pipeline_of(opt)
    local group = C.group_of(opt) or pipe and pipe._pipe.group
    if not group then return finite end
    if finite == nil then finite = ty.full({}, 1, { dtype = "u8", device = "cpu" }):gt(0) end
    return M.all_reduce(finite, { op = "min", group = group })
  end
end
