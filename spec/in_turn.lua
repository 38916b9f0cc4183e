--- in_turn.lua -- commands one after another, each with a line when it begins and one when it has ended, and a table of all at the end.
-- In: the folder where what they print is kept, what stands before each command (variables for env).
-- Out: {step, skip, finish}. A command that fails keeps no later one from running.
return function(folder, environment)
  local M, rows, counts = {}, {}, { passed = 0, FAILED = 0, skipped = 0 }
  os.execute(("mkdir -p '%s'"):format(folder))

  local function say(text)
    print(text)
    io.stdout:flush()
  end

  local function row(what, result, seconds, said)
    counts[result] = counts[result] + 1
    rows[#rows + 1] = ("%-42s %-8s %6.0f s  %s"):format(what, result, seconds, said)
    say(rows[#rows])
  end

  --- Runs a command. Its last line is told, where it fails the last ones; "skipped, " in the last one says that nothing was done.
  --- Out: whether it passed.
  function M.step(what, command)
    local log = ("%s/%s.txt"):format(folder, (what:gsub("%W+", "_")))
    local from = os.time()
    say(("%s %s"):format(os.date "%H:%M:%S", what))
    local status = os.execute(("{ env %s %s; } >'%s' 2>&1"):format(environment, command, log))
    local ok, lines = status == 0 or status == true, {}
    for text in io.lines(log) do
      if text:find "%S" then lines[#lines + 1] = text end
    end
    local last = lines[#lines] or ""
    row(what, not ok and "FAILED" or last:find(": skipped, ", 1, true) and "skipped" or "passed", os.time() - from, ok and last or log)
    for i = math.max(1, #lines - 15), ok and 0 or #lines do say("    " .. lines[i]) end
    return ok
  end

  function M.skip(what, why) row(what, "skipped", 0, why) end

  --- The table, the counts; ends the process, with status 1 where a step has failed.
  function M.finish()
    say("\n" .. table.concat(rows, "\n"))
    say(("%d passed, %d failed, %d skipped"):format(counts.passed, counts.FAILED, counts.skipped))
    os.exit(counts.FAILED == 0 and 0 or 1)
  end
  return M
end
