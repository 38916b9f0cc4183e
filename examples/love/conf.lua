function love.conf(t)
  t.window.title = "agents that learn while you watch"
  t.window.width, t.window.height = 960, 600
  t.modules.audio, t.modules.physics, t.modules.joystick = false, false, false
end
