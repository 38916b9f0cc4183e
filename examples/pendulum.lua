-- A pendulum learns to stand on its head while a game runs: reinforcement learning inside the frames of its loop.
--   ./tycho examples/pendulum.lua [episodes = 40] [image = pendulum.svg] [seed = 1]
-- Each frame of 1/20 s moves sixteen pendulums, of which the player knows nothing but what it sees, and takes two steps
-- of training from what was seen so far: twin delayed deep deterministic policy gradients (Fujimoto and others, 2018).
-- The motor is too weak to lift a pendulum at once: it has to swing. All that is compiled is captured while the game
-- "loads"; in the loop a capture may take a few milliseconds at most (jit.budget), so no frame waits for the compiler.

local ty = require "tycho"
local nn, optim = ty.nn, ty.optim

local EPISODES, DRAWING, SEED = tonumber(arg[1]) or 40, arg[2] or "pendulum.svg", tonumber(arg[3]) or 1
local COUNT, FRAMES, DT = 16, 200, 0.05 -- pendulums, frames of an episode, seconds of a frame
local FRAME_MS, CAPTURE_MS = 1000 / 60, 4 -- what a frame may take, and a capture in it
local MEMORY, BATCH, UPDATES = 40000, 128, 2 -- what is remembered, seen in a step of training; such steps a frame
local DISCOUNT, FOLLOW, RATE, NOISE = 0.98, 0.01, 1e-3, 0.15
local TORQUE, SPEED, GRAVITY = 2, 8, 10

ty.threads(1) -- the networks are small
ty.manual_seed(SEED)
jit.budget(CAPTURE_MS)

-- The game. An angle of 0 is upright.

local physics = jit.compile(function(angle, speed, action)
  local torque = action * TORQUE
  local off = (angle + math.pi) % (2 * math.pi) - math.pi
  local reward = -(off * off + 0.1 * speed * speed + 0.001 * torque * torque)
  local faster = speed + (1.5 * GRAVITY * angle:sin() + 3 * torque) * DT
  faster = faster:clamp(-SPEED, SPEED)
  return angle + faster * DT, faster, reward
end)

--- What a pendulum knows of itself, [n, 3].
local observe = jit.compile(function(angle, speed)
  return ty.cat({ angle:cos(), angle:sin(), speed / SPEED }, 2)
end)

-- The player: a policy, two judges of what its actions are worth, and slower copies of all three.

local function network(inputs, last)
  return nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1), last)
end

local function copy_of(model, ...)
  local y = network(...)
  y:load_state_dict(model:state_dict())
  return y:requires_grad_(false)
end

local policy, judge1, judge2 = network(3, nn.Tanh()), network(4), network(4)
local slow_policy, slow1, slow2 = copy_of(policy, 3, nn.Tanh()), copy_of(judge1, 4), copy_of(judge2, 4)
local policy_opt = optim.Adam(policy:parameters(), { lr = RATE })
local judges_opt = optim.Adam(nn.ModuleList({ judge1, judge2 }):parameters(), { lr = RATE })

local function follow(slow, model)
  local to, from = slow:buffers(), model:parameters()
  for i = 1, #to do to[i]:add_((from[i] - to[i]) * FOLLOW) end
end

local act = jit.compile(function(seen, noise)
  return ty.no_grad(function() return (policy(seen) + noise):clamp(-1, 1) end)
end)

--- The judges learn from rewards, and from what the slow ones think of the next action.
local learn_value = jit.compile(function(seen, action, reward, after, noise)
  local target = ty.no_grad(function()
    local guess = ty.cat({ after, (slow_policy(after) + noise):clamp(-1, 1) }, 2)
    return reward + slow1(guess):minimum(slow2(guess)) * DISCOUNT
  end)
  judges_opt:zero_grad()
  local taken = ty.cat({ seen, action }, 2)
  local loss = ((judge1(taken) - target) ^ 2):mean() + ((judge2(taken) - target) ^ 2):mean()
  loss:backward()
  judges_opt:step()
  return loss:detach()
end)

--- The policy learns what the first judge likes; then the slow copies follow.
local learn_policy = jit.compile(function(seen)
  policy_opt:zero_grad()
  local worth = judge1(ty.cat({ seen, policy(seen) }, 2)):mean()
  ;(-worth):backward()
  policy_opt:step()
  ty.no_grad(function()
    follow(slow_policy, policy)
    follow(slow1, judge1)
    follow(slow2, judge2)
  end)
  return worth:detach()
end)

-- What was seen: a ring of transitions.

local memory = { ty.zeros(MEMORY, 3), ty.zeros(MEMORY, 1), ty.zeros(MEMORY, 1), ty.zeros(MEMORY, 3) }
local stored = 0

local function remember(...)
  local at = stored % MEMORY + 1
  for i = 1, 4 do memory[i]:narrow(1, at, COUNT):copy_((select(i, ...))) end
  stored = stored + COUNT
end

local function recall()
  local rows = ty.randint(1, math.min(stored, MEMORY), { BATCH })
  return memory[1][rows], memory[2][rows], memory[3][rows], memory[4][rows]
end

-- The loading screen.

local angle, speed = ty.zeros(COUNT, 1), ty.zeros(COUNT, 1)

local function start_episode()
  angle, speed = ty.uniform(-math.pi, math.pi, { COUNT, 1 }), ty.uniform(-1, 1, { COUNT, 1 })
end

local function load()
  start_episode()
  local seen = jit.warmup(observe, angle, speed)
  local action = jit.warmup(act, seen, ty.zeros(COUNT, 1))
  local a, s, reward = jit.warmup(physics, angle, speed, action)
  remember(seen, action, reward, observe(a, s))
  for _ = 1, 2 do -- the second time what an optimiser makes in its first step is there
    local o, u, r, after = recall()
    jit.warmup(learn_value, o, u, r, after, ty.zeros(BATCH, 1))
    jit.warmup(learn_policy, o)
  end
end

-- The loop.

local frame = 0

--- One frame: every pendulum moves, the player learns. Gives the mean reward.
local function tick(noise)
  local seen = observe(angle, speed)
  local action = act(seen, ty.randn(COUNT, 1) * noise)
  local reward
  angle, speed, reward = physics(angle, speed, action)
  remember(seen, action, reward, observe(angle, speed))
  for _ = 1, noise > 0 and stored >= 1600 and UPDATES or 0 do
    local o, u, r, after = recall()
    learn_value(o, u, r, after, (ty.randn(BATCH, 1) * NOISE):clamp(-0.3, 0.3))
  end
  frame = frame + 1
  if noise > 0 and frame % 2 == 0 and stored >= 1600 then learn_policy((recall())) end
  return reward:mean():item()
end

load()
local returns, times, late = {}, {}, 0
local bar = ty.progress(EPISODES * FRAMES, { label = "play", unit = "frame", curve = "return" })
for episode = 1, EPISODES do
  start_episode()
  local sum = 0
  for _ = 1, FRAMES do
    local began = os.clock()
    sum = sum + tick(NOISE)
    local ms = (os.clock() - began) * 1e3
    times[#times + 1] = ms
    if ms > FRAME_MS then late = late + 1 end
    bar:step()
  end
  returns[episode] = sum
  bar:set { ["return"] = sum }
end

table.sort(times)
print(("a frame took %.2f ms of %.1f, one in a hundred more than %.2f; %d of %d were late"):format(
  times[math.ceil(#times / 2)], FRAME_MS, times[math.ceil(#times * 0.99)], late, #times))
local function mean_of(first, last)
  local sum = 0
  for i = first, last do sum = sum + returns[i] end
  return sum / (last - first + 1)
end
local part = math.max(1, math.floor(EPISODES / 5))
print(("return of an episode: %.0f at first, %.0f at last"):format(mean_of(1, part),
  mean_of(EPISODES - part + 1, EPISODES)))

-- What it has learnt: all hang down, and swing up without noise.

angle, speed = ty.full({ COUNT, 1 }, math.pi) + ty.randn(COUNT, 1) * 0.1, ty.zeros(COUNT, 1)
local time, paths = {}, {}
for i = 1, FRAMES do
  time[i] = (i - 1) * DT
  for k, v in ipairs(angle:reshape(-1):totable()) do
    paths[k] = paths[k] or {}
    paths[k][i] = v * 180 / math.pi
  end
  tick(0)
end
local up = angle:cos():gt(0.9):to("f32"):mean():item()
print(("%d of %d pendulums that hung down stand after %g s"):format(up * COUNT + 0.5, COUNT, FRAMES * DT))

local curve = ty.plot { title = "While it learns", xlabel = "episode", ylabel = "return" }
curve:line(returns, { marker = "disc" })
local swings = ty.plot { title = "From hanging to standing", xlabel = "time (s)", ylabel = "angle (degrees)" }
for k = 1, math.min(5, COUNT) do swings:line(time, paths[k], { width = 1.6 }) end
for turn = 0, 1 do swings:hline(turn * 360, turn == 0 and { label = "upright" } or nil) end
assert(ty.plot { { curve, swings }, width = 960, height = 380 }:save(DRAWING))
print("drawn to " .. DRAWING)
