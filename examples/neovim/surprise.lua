--- Which lines of a buffer are unlike the rest? `:luafile examples/neovim/surprise.lua`, then `:Surprise`.
-- A small network learns to guess each character from the eight before it, on the buffer itself, while one goes on
-- editing: every 10 ms a timer lets it train for 3 ms (jit.start), so no key waits. Then each line shows how many bits
-- a character of it took to guess, and the most surprising ones stand out: typos, leftovers, the one odd case.

local source = debug.getinfo(1, "S").source:match "^@(.*)/[^/]*$" or "."
package.path = ("%s;%s/../../build/?.lua;%s/../../build/?/init.lua"):format(package.path, source, source)
package.cpath = ("%s;%s/../../build/?.so"):format(package.cpath, source)

local ty = require "tycho"
local nn = ty.nn

local BEFORE, BATCH, STEPS, SLICE = 8, 256, 120, 3000
local space = vim.api.nvim_create_namespace "surprise"

--- The buffer as numbers from 1 to 97: printable characters, the line's end, everything else.
local function codes_of(lines)
  local codes, line_of = {}, {}
  for i = 1, BEFORE do codes[i], line_of[i] = 96, 0 end
  for n, line in ipairs(lines) do
    for i = 1, #line + 1 do
      local byte = line:byte(i) or 10
      codes[#codes + 1] = byte == 10 and 96 or byte >= 32 and byte < 127 and byte - 31 or 97
      line_of[#line_of + 1] = n
    end
  end
  return ty.tensor(codes, { dtype = "i64" }), line_of
end

local function network()
  local embed, hidden, out = nn.Embedding(97, 24), nn.Linear(24 * BEFORE, 96), nn.Linear(96, 97)
  local model = nn.Sequential(embed, nn.Flatten(), hidden, nn.GELU(), out)
  local opt = ty.optim.AdamW(model:parameters(), { lr = 0.004 })
  local step = ty.compile(function(windows, wanted)
    opt:zero_grad()
    local loss = ty.cross_entropy(model(windows), wanted)
    loss:backward()
    opt:step()
    return loss:detach()
  end)
  return model, step
end

local function show(buffer, lines, line_of, bits)
  local sum, count = {}, {}
  for i, b in ipairs(bits) do
    local n = line_of[i + BEFORE]
    sum[n], count[n] = (sum[n] or 0) + b, (count[n] or 0) + 1
  end
  local ranked = {}
  for n in pairs(sum) do
    sum[n] = sum[n] / (count[n] + BEFORE) -- short lines have little to say
    if #lines[n] > 0 then ranked[#ranked + 1] = n end
  end
  table.sort(ranked, function(a, b) return sum[a] > sum[b] end)
  vim.api.nvim_buf_clear_namespace(buffer, space, 0, -1)
  for place, n in ipairs(ranked) do
    local group = place <= math.max(1, #ranked / 20) and "ErrorMsg" or "Comment"
    local text = ("%4.1f bits"):format(sum[n])
    vim.api.nvim_buf_set_extmark(buffer, space, n - 1, 0,
      { virt_text = { { text, group } }, virt_text_pos = "right_align" })
  end
  return ranked
end

local function surprise(done)
  local buffer = vim.api.nvim_get_current_buf()
  local lines = vim.api.nvim_buf_get_lines(buffer, 0, -1, false)
  local codes, line_of = codes_of(lines)
  local n = codes:numel() - BEFORE
  local windows, wanted = codes:unfold(1, BEFORE):narrow(1, 1, n), codes:narrow(1, BEFORE + 1, n)
  local model, step = network()
  local timer, run, steps = vim.loop.new_timer(), nil, 0
  timer:start(0, 10, vim.schedule_wrap(function()
    if steps >= STEPS then return end
    if not run then
      local at = ty.randint(1, n, { BATCH })
      run = ty.start(step, windows:index_select(1, at), wanted:index_select(1, at))
    end
    if not run:step(SLICE) then return end
    run, steps = nil, steps + 1
    if steps % 20 == 0 then vim.api.nvim_echo({ { ("surprise: %d of %d steps"):format(steps, STEPS) } }, false, {}) end
    if steps < STEPS then return end
    timer:stop()
    timer:close()
    local bits = ty.no_grad(function()
      return -model(windows):log_softmax():gather(2, wanted:unsqueeze(2)) / math.log(2)
    end)
    local ranked = show(buffer, lines, line_of, bits:squeeze(2):totable())
    if done then done(ranked) end
  end))
end

vim.api.nvim_create_user_command("Surprise", function() surprise() end, {})
return surprise
