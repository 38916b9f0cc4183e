--- Agents learn to fly in formation behind a light, inside of a game at 60 frames a second: `love examples/love`.
-- A small network steers all of them, each to its own place around the light (the mouse, while its button is down);
-- every second some are thrown back. Each frame the network runs once for what is drawn, and its training goes on for
-- at most BUDGET microseconds: a step of training unrolls the motion of 256 other agents for 24 turns and goes back
-- through it. That takes longer than a frame has, so it is run in slices (jit.start): the weights change at its end.
-- TYCHO_FRAMES=300 ends it after so many frames, with a picture in LÖVE's save directory and a line about its frames.

local source = love.filesystem.getSource() -- where the library is when it is not installed
package.path = ("%s;%s/../../build/?.lua;%s/../../build/?/init.lua"):format(package.path, source, source)
package.cpath = ("%s;%s/../../build/?.so"):format(package.cpath, source)

local ty = require "tycho"
local nn = ty.nn
local jit = { compile = ty.compile, start = ty.start, warmup = ty.warmup }

local AGENTS, BATCH, TURNS, BUDGET = 500, 256, 24, 2000
local last = tonumber(os.getenv "TYCHO_FRAMES")

ty.manual_seed(7)
local policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 2), nn.Tanh())
local opt = ty.optim.Adam(policy:parameters(), { lr = 0.004 })

--- One turn of the motion: where the agents are, how fast they go, and where they want to be, [n, 2] each.
local function move(position, velocity, goal)
  local push = policy(ty.cat({ goal - position, velocity * 8 }, 2))
  velocity = velocity * 0.92 + push * 0.006
  return position + velocity, velocity
end

local turn = jit.compile(function(position, velocity, light)
  return ty.no_grad(function() return move(position, velocity, light) end)
end)

--- Throws some back to where nobody waits for them.
local scatter = jit.compile(function(position)
  local chosen = ty.rand(AGENTS, 1):lt(0.15)
  return chosen:where(ty.rand(AGENTS, 2) * 3 - 1.5, position)
end)

local learn = jit.compile(function()
  local position, velocity = ty.rand(BATCH, 2) * 2 - 1, ty.randn(BATCH, 2) * 0.02
  local light = ty.rand(BATCH, 2) * 2 - 1
  local loss = 0
  opt:zero_grad()
  for i = 1, TURNS do
    position, velocity = move(position, velocity, light)
    if i > TURNS / 2 then loss = loss + (position - light):square():sum(2):mean() end
  end
  loss = loss / (TURNS / 2)
  loss:backward()
  opt:step()
  return loss:detach()
end)

--- Places of the formation: a sunflower's seeds.
local seed = ty.range(AGENTS)
local angle, radius = seed * 2.39996, seed:sqrt() * (0.45 / math.sqrt(AGENTS))
local around = ty.stack({ angle:cos() * radius, angle:sin() * radius }, 2)

local position, velocity = ty.rand(AGENTS, 2) * 2 - 1, ty.zeros(AGENTS, 2)
local frames, steps, run, time, spent = 0, 0, nil, 0, {}
local losses, light, goal = {}, nil, around:totable()

function love.load()
  jit.warmup(learn) -- captured before it counts
  position, velocity = turn(position, velocity, around)
  position = scatter(position)
end

local function light_at(t)
  if love.mouse.isDown(1) then
    local w, h = love.graphics.getDimensions()
    return (love.mouse.getX() - w / 2) / (h / 2), (love.mouse.getY() - h / 2) / (h / 2)
  end
  return 1.1 * math.sin(t * 0.9), 0.7 * math.sin(t * 1.3 + 1)
end

function love.update(dt)
  local begin = love.timer.getTime()
  time = time + math.min(dt, 1 / 30)
  local x, y = light_at(time)
  light = { x, y }
  if math.floor(time) > math.floor(time - dt) then position = scatter(position) end
  position, velocity = turn(position, velocity, around + ty.tensor { { x, y } })
  run = run or jit.start(learn)
  if run:step(BUDGET) then
    steps = steps + 1
    losses[#losses + 1] = run:results():item()
    run = nil
  end
  spent[#spent + 1] = (love.timer.getTime() - begin) * 1e3
end

local function plot(list, x, y, w, h, most)
  local points, n = {}, #list
  for i = math.max(1, n - w), n do
    points[#points + 1] = x + #points / 2
    points[#points + 1] = y + h - math.min(list[i] / most, 1) * h
  end
  love.graphics.rectangle("line", x, y, w, h)
  if #points >= 4 then love.graphics.line(points) end
end

function love.draw()
  local w, h = love.graphics.getDimensions()
  local g = love.graphics
  g.clear(0.06, 0.07, 0.1)
  local at, speed = position:totable(), velocity:totable()
  for i = 1, #at do
    local px, py = w / 2 + at[i][1] * h / 2, h / 2 + at[i][2] * h / 2
    local vx, vy = speed[i][1], speed[i][2]
    local dx, dy = at[i][1] - goal[i][1] - light[1], at[i][2] - goal[i][2] - light[2]
    local far = math.min(1, math.sqrt(dx * dx + dy * dy) * 2)
    g.setColor(0.3 + 0.7 * far, 0.9 - 0.5 * far, 1 - 0.6 * far)
    g.line(px, py, px - vx * 220, py - vy * 220)
    g.circle("fill", px, py, 2.5)
  end
  g.setColor(1, 0.95, 0.6)
  g.circle("fill", w / 2 + light[1] * h / 2, h / 2 + light[2] * h / 2, 9)
  g.setColor(0.9, 0.9, 0.9)
  g.print(("%d training steps, loss %.4f"):format(steps, losses[#losses] or 0), 12, 10)
  plot(losses, 12, 30, 200, 60, 1)
  g.print(("update: %.1f ms"):format(spent[#spent] or 0), 12, 100)
  plot(spent, 12, 120, 200, 40, 8)
  frames = frames + 1
  if frames == last then
    g.captureScreenshot(function(image)
      image:encode("png", "agents.png")
      table.sort(spent)
      print(("%d frames, %d training steps; loss %.3f -> %.3f; update: median %.1f ms, 99 %% under %.1f ms"):format(
        frames, steps, losses[1], losses[#losses], spent[math.ceil(#spent / 2)], spent[math.ceil(#spent * 0.99)]))
      love.event.quit()
    end)
  end
end
