--- How specs report: a line for every file with its time, what failed in full, and the counts.

return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local pretty = require "pl.pretty"
  local ok, system = pcall(require, "system")
  local clock = ok and system.monotime or os.time -- specs start processes: time on the wall counts
  local started, counts

  local function message(t)
    local m = t.message or (t.element and t.element.message) or ""
    return type(m) == "string" and m or pretty.write(m)
  end

  function handler.fileStart()
    started = clock()
    counts = { success = 0, failure = 0, error = 0, pending = 0 }
    return nil, true
  end

  function handler.testEnd(_, _, status)
    if counts then counts[status] = (counts[status] or 0) + 1 end
    return nil, true
  end

  function handler.fileEnd(file)
    local bad = counts.failure + counts.error
    io.write(("%-28s %4d passed%s%s  %6.1f s\n"):format(file.name:match("[^/]*$"), counts.success,
      bad > 0 and (", %d FAILED"):format(bad) or "",
      counts.pending > 0 and (", %d skipped"):format(counts.pending) or "", clock() - started))
    io.flush()
    return nil, true
  end

  local function print_bad(kind, list)
    for _, t in ipairs(list) do
      io.write(("\n%s: %s (%s)\n%s\n"):format(kind, t.name or "?", t.trace and t.trace.short_src
        and ("%s:%s"):format(t.trace.short_src, t.trace.currentline or "?") or "?", message(t)))
      if options.verbose and t.trace and t.trace.traceback then io.write(t.trace.traceback, "\n") end
    end
  end

  function handler.suiteEnd()
    print_bad("FAILED", handler.failures)
    print_bad("ERROR", handler.errors)
    for _, t in ipairs(handler.pendings) do io.write(("skipped: %s\n"):format(t.name or "?")) end
    io.write(("%d passed, %d failed, %d skipped\n"):format(handler.successesCount,
      handler.failuresCount + handler.errorsCount, handler.pendingsCount))
    io.flush()
    return nil, true
  end

  busted.subscribe({ "file", "start" }, handler.fileStart)
  busted.subscribe({ "file", "end" }, handler.fileEnd)
  busted.subscribe({ "test", "end" }, handler.testEnd, { predicate = handler.cancelOnPending })
  busted.subscribe({ "suite", "end" }, handler.suiteEnd)
  return handler
end
