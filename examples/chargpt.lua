-- A small GPT over the characters of a text: trains, writes as it learns, saves, takes up again.
--   ./tycho examples/chargpt.lua [file ...] [--steps=1500] [--save=path] [--resume=path] [--sample=400]
--     [--temperature=0.8] [--top=20] [--prompt=text] [--seed=1] [--width=64] [--heads=4] [--layers=3] [--context=64]
--     [--batch=16] [--rate=0.002] [--device=cuda]
-- Without a file it reads the licences that Debian installs. It saves whenever it writes, and at the end. --steps=0
-- with --resume only writes. Text is generated with a cache of keys and values: each new character costs one position.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local here = arg[0]:match("^(.*)/[^/]*$") or "."
local support = dofile(here .. "/support.lua")
support.device(arg)

local options = {
  steps = 1500, sample = 400, temperature = 0.8, top = 20, seed = 1, width = 64, heads = 4, layers = 3, context = 64,
  batch = 16, rate = 2e-3, prompt = "",
}
--- Of the numbers, the least; those that are not listed here may have a fraction.
local least = { steps = 0, sample = 0, top = 1, seed = 0, width = 1, heads = 1, layers = 1, context = 2, batch = 1 }

--- Ends with a message for the user.
local function stop(...)
  io.stderr:write("chargpt: ", string.format(...), "\n")
  os.exit(1, true)
end

local files = {}
for _, word in ipairs(arg) do
  local name, value = word:match("^%-%-([%w_]+)=(.*)$")
  if name then
    local known = options[name] ~= nil or name == "save" or name == "resume"
    if not known then stop("unknown option --%s", name) end
    if type(options[name]) == "number" then
      value = tonumber(value) or stop("--%s must be a number", name)
      local from = least[name]
      if from and (value % 1 ~= 0 or value < from) then stop("--%s must be whole and at least %d", name, from) end
    end
    options[name] = value
  elseif word:sub(1, 1) == "-" then
    stop("unknown option %s (options are --name=value, see the head of %s)", word, arg[0])
  else
    files[#files + 1] = word
  end
end
if options.width % (2 * options.heads) ~= 0 then
  stop("--width must divide by twice --heads, got %d and %d", options.width, options.heads)
end

---------------------------------------------------------------------------------------------------------- text

local function read_all(path)
  local f = io.open(path, "rb")
  local text = f and f:read "*a"
  if f then f:close() end
  return text or stop("cannot read %s", path)
end

if #files == 0 then
  for _, name in ipairs { "GPL-3", "GPL-2", "LGPL-2.1", "Apache-2.0", "MPL-2.0", "Artistic", "BSD" } do
    local path = "/usr/share/common-licenses/" .. name
    local f = io.open(path)
    if f then
      f:close()
      files[#files + 1] = path
    end
  end
  if #files == 0 then stop("no licences are installed here: name a text file") end
end

local parts = {}
for i, path in ipairs(files) do parts[i] = read_all(path) end
local text = table.concat(parts, "\n")

--- The characters of the text, in order: their numbers are the classes.
local function alphabet_of(s)
  local seen, list = {}, {}
  for i = 1, #s do
    local c = s:sub(i, i)
    if not seen[c] then
      seen[c] = true
      list[#list + 1] = c
    end
  end
  table.sort(list)
  return table.concat(list)
end

---------------------------------------------------------------------------------------------------------- model

local GPT = nn.class "GPT"

function GPT:init(alphabet, o)
  self.alphabet, self.context = alphabet, o.context
  self.embed = nn.Embedding(#alphabet, o.width)
  self.blocks = nn.ModuleList()
  for i = 1, o.layers do
    self.blocks[i] = nn.TransformerBlock(o.width, o.heads, { causal = true, rotary = true, norm = "rms", bias = false })
  end
  self.norm = nn.RMSNorm(o.width)
  self.head = nn.Linear(o.width, #alphabet, { bias = false })
  nn.init.normal_(self.embed.weight, 0, 0.02)
end

--- Characters [batch, time] to scores of the next ones [batch, time, alphabet]. caches: one a block.
function GPT:forward(x, caches)
  local h = self.embed(x)
  for i = 1, #self.blocks do h = self.blocks[i](h, { cache = caches and caches[i] }) end
  return self.head(self.norm(h))
end

---------------------------------------------------------------------------------------------------------- files

--- The model of a checkpoint, and all that is in it. Sizes go to o.
local function load_model(path, o)
  local saved, why = ty.load_checkpoint(path)
  if not saved then stop("%s", why) end
  if not saved.chargpt then stop("%s was not written by this example", path) end
  for name, size in pairs(saved.chargpt) do o[name] = size end
  local model = GPT(saved.alphabet, o)
  model:load_state_dict(saved.model)
  return model, saved
end

---------------------------------------------------------------------------------------------------------- writing

--- Draws one of the `top` likeliest classes. scores [alphabet].
local function draw(scores, temperature, top)
  if temperature <= 0 then return scores:argmax():item() end
  local best, which = (scores / temperature):topk(math.min(top, #scores))
  return which:get(best:softmax():multinomial(1):get(1))
end

--- Text that follows the prompt, character by character.
local function generate(model, prompt, count, temperature, top)
  local alphabet = model.alphabet
  local out, ids = { prompt }, {}
  for i = 1, #prompt do ids[#ids + 1] = alphabet:find(prompt:sub(i, i), 1, true) end
  if #ids == 0 then ids[1] = alphabet:find("\n", 1, true) or 1 end
  model:eval()
  ty.no_grad(function()
    local caches, used, fresh = nil, 0, ids
    for _ = 1, count do
      if not caches or used + #fresh > model.context then -- the window is full: half of it is read anew
        local keep = math.min(#ids, math.floor(model.context / 2))
        fresh, caches, used = { unpack(ids, #ids - keep + 1) }, {}, 0
        for i, block in ipairs(model.blocks) do caches[i] = block:cache(1, model.context) end
      end
      local scores = model(ty.tensor({ fresh }, { dtype = "i64" }), caches)
      used = used + #fresh
      local id = draw(scores[{ 1, -1 }], temperature, top)
      ids[#ids + 1], fresh = id, { id }
      out[#out + 1] = alphabet:sub(id, id)
    end
  end)
  model:train()
  return table.concat(out)
end

---------------------------------------------------------------------------------------------------------- training

ty.manual_seed(options.seed)
local model, saved
local done = 0
if options.resume then
  model, saved = load_model(options.resume, options)
  done = saved.step
  print(("%s: %d steps so far"):format(options.resume, done))
else
  if #text == 0 then stop("the text is empty") end
  model = GPT(alphabet_of(text), options)
end

model = ty.dist.replicate(model)
local CONTEXT, BATCH, STEPS = options.context, options.batch, options.steps
print(("%d characters, %d different ones; %d parameters"):format(#text, #model.alphabet, model:num_parameters()))

local function encode(s)
  local number, list, unknown = {}, {}, 0
  for i = 1, #model.alphabet do number[model.alphabet:byte(i)] = i end
  for i = 1, #s do
    local id = number[s:byte(i)]
    if id then list[#list + 1] = id else unknown = unknown + 1 end
  end
  if unknown > 0 then print(("%d characters are not in the model's alphabet and are left out"):format(unknown)) end
  return ty.tensor(list, { dtype = "i64" })
end

if STEPS > 0 then
  local data = encode(text)
  if #data < CONTEXT + 1 then stop("the text is too short: %d characters, --context=%d", #data, CONTEXT) end
  local opt = optim.AdamW(model:parameters(), { lr = options.rate, betas = { 0.9, 0.95 }, weight_decay = 0.1 })
  if saved then
    opt:load_state_dict(saved.optimizer)
    opt.groups[1].lr, opt.groups[1].base_lr = options.rate, nil -- each run has a schedule of its own
  end
  local schedule = optim.WarmupCosineLR(opt, { warmup = math.min(50, STEPS), steps = STEPS, least = options.rate / 10 })

  local step = jit.compile(function(x, y)
    opt:zero_grad()
    local loss = ty.cross_entropy(model(x), y)
    loss:backward()
    ty.clip_grad_norm_(opt.groups[1].params, 1)
    opt:step()
    return loss:detach()
  end)

  local function save(n)
    if not options.save then return end
    local o = options
    local ok, why = ty.dist.save_checkpoint(o.save, {
      chargpt = { width = o.width, heads = o.heads, layers = o.layers, context = o.context }, alphabet = model.alphabet,
      model = model, optimizer = opt, step = done + n,
    })
    if not ok then stop("%s", why) end
  end
  save(0) -- a path that cannot be written shows now, not after the training

  local windows = data:unfold(1, CONTEXT + 1) -- a view: each place begins a window
  local bar = ty.progress(STEPS, { label = "train", unit = "characters", per_step = BATCH * CONTEXT, curve = "loss" })
  local average
  for n = 1, STEPS do
    local rows = ty.dist.part(windows[ty.randint(1, #windows, { BATCH })]) -- all of it, but with `tycho --ranks`
    local loss = step(rows:narrow(2, 1, CONTEXT), rows:narrow(2, 2, CONTEXT)):item()
    schedule:step()
    average = average and average * 0.95 + loss * 0.05 or loss
    bar:step { loss = average }
    if n % math.max(1, math.floor(STEPS / 4)) == 0 and n < STEPS then
      bar:print(("\nafter %d steps, loss %.3f:\n%s\n"):format(n + done, average,
        generate(model, options.prompt, math.min(options.sample, 160), options.temperature, options.top)))
      save(n)
    end
  end
  save(STEPS)
  support.tell("the training step", step)
  if options.save then print("saved " .. options.save) end
end

if options.sample > 0 then
  local started = os.clock()
  local written = generate(model, options.prompt, options.sample, options.temperature, options.top)
  print(("\n%s\n\n%.0f characters/s"):format(written, options.sample / math.max(os.clock() - started, 1e-3)))
end
