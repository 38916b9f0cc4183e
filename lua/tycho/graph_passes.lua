--- graph_passes.lua -- passes and backends of users over captured graphs.
-- In: the options of jit.compile, and a captured graph with examples of its inputs. Out: the graph as the passes left
-- it, or the function that a backend made of it. Raises at the user's line where an option is none, where a pass breaks
-- a rule of graphs or what callers rely on, and where a backend's results are not what they must be.
--
-- Callers rely on these: a graph keeps the number, dtypes and sizes of its outputs, and has the inputs and slots that
-- it came with, read or not, since tensors are given for them by position. The bits are the pass's affair: who names
-- a pass has asked for it.

---@param graph table graph.lua
---@param ops table what graph_ops.lua gives
---@param internals table
---@param show fun(v): string what a value is, for error texts
return function(graph, ops, internals, show)
  local P = {}

  local fail, nearest = internals.error, internals.nearest

  local function errorf(fmt, ...) return fail(fmt:format(...)) end

  local passes = {} -- by name

  --- Registers a pass under a name: {passes = {name}} of jit.compile runs it. fn(graph, example_inputs) changes the
  --- graph or returns another one. A name may be given anew: functions that are compiled later get the new pass.
  --- Raises where the name is no string, or fn no function.
  ---@param name string
  ---@param fn fun(graph: tycho.GraphObject, inputs: tycho.Tensor[]): tycho.GraphObject?
  function P.pass(name, fn)
    if type(name) ~= "string" or name == "" then errorf("pass: argument 1 must be a name, got %s", show(name)) end
    if type(fn) ~= "function" then errorf("pass: argument 2 must be a function, got %s", show(fn)) end
    passes[name] = fn
  end

  local ids, last_id = setmetatable({}, { __mode = "k" }), 0

  local function id_of(fn)
    if not ids[fn] then
      last_id = last_id + 1
      ids[fn] = last_id
    end
    return ids[fn]
  end

  local function is_callable(v)
    if type(v) == "function" then return true end
    local meta = type(v) == "table" and getmetatable(v)
    return type(meta) == "table" and type(meta.__call) == "function"
  end

  --- Checks {passes =, backend =} of jit.compile, and finds named passes. Returns nil when there is neither, else what
  --- customize takes, with `key`: a text that is equal where the same functions run in the same order.
  --- Raises where a pass or the backend is none.
  ---@param options table
  ---@return {passes: table[], backend?: function, key: string}?
  function P.options(options)
    local list, key = {}, {}
    if options.passes ~= nil and type(options.passes) ~= "table" then
      errorf("compile: option passes must be a list of names and functions, got %s", show(options.passes))
    end
    for i, pass in ipairs(options.passes or {}) do
      local fn = type(pass) == "string" and passes[pass] or pass
      if type(fn) == "string" then
        local near = nearest(pass, passes)
        errorf("compile: there is no pass %q%s (jit.pass registers one)", pass,
          near and (", did you mean %q?"):format(near) or "")
      end
      if type(fn) ~= "function" then errorf("compile: pass %d must be a name or a function, got %s", i, show(pass)) end
      list[i] = { name = type(pass) == "string" and pass or "number " .. i, fn = fn }
      key[i] = id_of(fn)
    end
    if options.backend ~= nil and not is_callable(options.backend) then
      errorf("compile: option backend must be a function, got %s", show(options.backend))
    end
    if #list == 0 and options.backend == nil then return nil end
    key[#key + 1] = options.backend and "b" .. id_of(options.backend)
    return { passes = list, backend = options.backend, key = table.concat(key, " ") }
  end

  -- What a graph must keep: its outputs' types, and no inputs or slots but those that it came with.
  local function promise_of(g)
    local outputs, inputs = {}, {}
    for i, n in ipairs(g._outputs) do outputs[i] = ops.type_text(n.dtype, n.shape, n.device) end
    for _, n in ipairs(g:inputs()) do
      inputs[n.number] = ("buffer %s, strides [%s], %s"):format(n.buffer, ops.list_text(n.strides),
        ops.type_text(n.dtype, n.shape, n.device))
    end
    return { outputs = outputs, inputs = inputs, slots = #g._slots }
  end

  local function broken(g, promise)
    local wrong = g:lint()
    if wrong then return wrong end
    local now = promise_of(g)
    if #now.outputs ~= #promise.outputs then
      return ("%d outputs became %d"):format(#promise.outputs, #now.outputs)
    end
    for i, text in ipairs(promise.outputs) do
      if now.outputs[i] ~= text then return ("output %d was %s and became %s"):format(i, text, now.outputs[i]) end
    end
    for number, text in pairs(now.inputs) do
      if promise.inputs[number] == nil then return ("input %d was added: there is no tensor for it"):format(number) end
      if promise.inputs[number] ~= text then return ("input %d was changed"):format(number) end
    end
    for number in pairs(promise.inputs) do
      if now.inputs[number] == nil then return ("input %d was erased: inputs stay, read or not"):format(number) end
    end
    if now.slots ~= promise.slots then return "scalar slots were added: use constants" end
  end

  local function run_passes(g, list, inputs)
    local promise = promise_of(g)
    for _, pass in ipairs(list) do
      local y = pass.fn(g, inputs)
      if y ~= nil then
        if not graph.is_graph(y) then
          errorf("compile: pass %s must return a graph or nil, got %s", pass.name, show(y))
        end
        g = y
      end
      local wrong = broken(g, promise)
      if wrong then errorf("compile: pass %s: %s", pass.name, wrong) end
    end
    return g
  end

  -- The backend's function, which must keep what backends promise.
  local function guarded(run, outputs)
    local function checked(...)
      for i, n in ipairs(outputs) do
        local y, want = (select(i, ...)), ops.type_text(n.dtype, n.shape, n.device)
        if not internals.is_live(y) then errorf("backend: result %d must be a tensor %s, got %s", i, want, show(y)) end
        local is = ops.type_text(y.dtype, y.shape, y.device)
        if is ~= want then errorf("backend: result %d must be a tensor %s, got %s", i, want, is) end
      end
      if select("#", ...) ~= #outputs then errorf("backend: %d results instead of %d", select("#", ...), #outputs) end
      return ...
    end
    return function(...) return checked(run(...)) end
  end

  --- What a compiled function with passes or a backend does with a captured graph.
  --- options: what P.options gave. t: an exchange table or a graph. inputs: an example tensor for each of its inputs.
  --- Returns the exchange table of the graph that the passes left, or with a backend the function that it gave.
  --- Raises where a pass leaves no sound graph, or the backend gives no function.
  ---@param options {passes: table[], backend?: function}
  ---@param t table
  ---@param inputs tycho.Tensor[]
  ---@return {text: string, outputs: integer[]}|function
  function P.customize(options, t, inputs)
    local g = run_passes(graph.from(t), options.passes, inputs)
    if not options.backend then return g:export() end
    local types = {}
    for i, n in ipairs(g._outputs) do types[i] = { dtype = n.dtype, shape = ops.copy(n.shape), device = n.device } end
    local run = options.backend(g, inputs)
    if not is_callable(run) then errorf("compile: the backend must return a function, got %s", show(run)) end
    return guarded(run, types)
  end

  return P
end
