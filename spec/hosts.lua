--- hosts.lua -- programs that have a LuaJIT in them: each captures a training step and gives the same bits.
-- luajit spec/hosts.lua runs those that are there and prints a table (`make hosts` installs them before); as a module for
-- hosts_spec.lua: {list, run}. Each host runs spec/hosts/step.lua, in a folder of its own under build/hosts.

local M = {}

local function shell(command)
  local pipe = assert(io.popen("( " .. command .. " ) 2>&1", "r"))
  local out = pipe:read "*a"
  pipe:close()
  return out
end

local root = require("spec.module").root
if root == "./" then root = shell "pwd":match "[^\n]+" .. "/" end
local here = root .. "build/hosts/"

local function quote(text) return "'" .. text:gsub("'", "'\\''") .. "'" end

local function write(path, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
end

local STEP = root .. "spec/hosts/step.lua"
local ENV = ("LUA_PATH=%s LUA_CPATH=%s"):format(quote(root .. "build/?.lua;" .. root .. "build/?/init.lua;;"),
  quote(root .. "build/?.so;;"))

--- A C program with a state, which prints what the step gives.
local MAIN = [[
#include <lauxlib.h>
#include <lualib.h>
#include <stdio.h>
int main(void) {
  lua_State *L = luaL_newstate();
  luaL_openlibs(L);
  int bad = luaL_loadfile(L, STEP) || lua_pcall(L, 0, 1, 0);
  printf("%s\n", lua_tostring(L, -1));
  lua_close(L);
  return bad;
}
]]

--- A C host, linked in some way; `code` is compiled with the path of the step.
local function c_host(link)
  return function(folder)
    write(folder .. "main.c", MAIN)
    local cc = shell(("cd %s && gcc -I/usr/include/luajit-2.1 -DSTEP='\"%s\"' main.c -o main %s"):format(quote(folder), STEP, link))
    return cc:match "%S" and "cannot be linked: " .. cc or ENV .. " " .. folder .. "main"
  end
end

local STATIC = "/usr/lib/x86_64-linux-gnu/libluajit-5.1.a -lm -ldl"

--- A command for each host, or a function of its folder that prepares one; `there`: a command that succeeds where the
--- host is; `says`: a sentence in place of the bits, where a host cannot do it.
M.list = {
  { "luajit", there = "command -v luajit", run = ENV .. " luajit -e \"print(dofile(os.getenv 'STEP'))\"" },
  { "luajit -joff", there = "command -v luajit", run = ENV .. " luajit -joff -e \"print(dofile(os.getenv 'STEP'))\"" },
  { "luajit, no executable memory", there = "command -v luajit",
    run = "( ulimit -f 0; " .. ENV .. " luajit -joff -e \"print(dofile(os.getenv 'STEP'))\" ) | cat" },
  { "luajit2 of OpenResty", there = "test -x " .. here .. "openresty/usr/bin/luajit",
    run = ("LD_LIBRARY_PATH=%sopenresty/usr/lib/x86_64-linux-gnu %s %sopenresty/usr/bin/luajit -e \"print(dofile(os.getenv 'STEP'))\"")
      :format(here, ENV, here) },
  { "lupa (LuaJIT 2.1, rolling)", there = here .. "python/bin/python -c 'import lupa.luajit21'",
    run = function(folder)
      write(folder .. "main.py", "import os, sys\nsys.setdlopenflags(os.RTLD_NOW | os.RTLD_GLOBAL)\n"
        .. "from lupa.luajit21 import LuaRuntime\nprint(LuaRuntime().execute(\"return dofile(os.getenv 'STEP')\"))\n")
      return ("%s %spython/bin/python %smain.py"):format(ENV, here, folder)
    end },
  { "LÖVE", there = "command -v love", run = function(folder)
    write(folder .. "conf.lua", "function love.conf(t) t.modules.window = false t.modules.audio = false end\n")
    write(folder .. "main.lua", "print(dofile(os.getenv 'STEP')) love.event.quit()\n")
    return ENV .. " love " .. folder
  end },
  { "LÖVE, in three threads", there = "command -v love", run = function(folder)
    write(folder .. "conf.lua", "function love.conf(t) t.modules.window = false t.modules.audio = false end\n")
    write(folder .. "main.lua", [[
      local threads, texts = {}, {}
      for i = 1, 3 do
        threads[i] = love.thread.newThread("love.thread.getChannel('out'):push(dofile(os.getenv 'STEP'))\n")
        threads[i]:start()
      end
      for i = 1, 3 do
        threads[i]:wait()
        texts[i] = love.thread.getChannel("out"):pop() or threads[i]:getError()
        assert(texts[i] == texts[1], texts[i])
      end
      print(texts[1])
      love.event.quit()]])
    return ENV .. " love " .. folder
  end },
  { "Neovim", there = "command -v nvim",
    run = ENV .. " nvim --headless -u NONE -c \"lua print(dofile(os.getenv 'STEP'))\" -c q" },
  { "Neovim, new_work", there = "command -v nvim", run = function(folder)
    write(folder .. "main.lua", [[
      local text
      local work = vim.loop.new_work(function(path) return dofile(path) end, function(y) text = y end)
      work:queue(os.getenv "STEP")
      vim.wait(20000, function() return text end, 5)
      print(text)]])
    return ENV .. " nvim --headless -u NONE -c 'luafile " .. folder .. "main.lua' -c q"
  end },
  { "nginx, two workers",
    there = "test -e " .. here .. "openresty/usr/lib/nginx/modules/ngx_http_lua_module.so && command -v curl nginx",
    run = function(folder)
      local port = 20000 + tonumber(shell "echo $$") % 20000
      local places = { folder = folder, root = root, open = here .. "openresty/", port = port }
      write(folder .. "nginx.conf", (([[
        load_module /usr/lib/nginx/modules/ndk_http_module.so;
        load_module {open}usr/lib/nginx/modules/ngx_http_lua_module.so;
        worker_processes 2; pid {folder}nginx.pid; error_log {folder}error.log;
        env STEP;
        events { worker_connections 64; }
        http {
          access_log off; client_body_temp_path {folder}temp; proxy_temp_path {folder}temp;
          fastcgi_temp_path {folder}temp; uwsgi_temp_path {folder}temp; scgi_temp_path {folder}temp;
          lua_package_path "{open}usr/share/lua/5.1/?.lua;{root}build/?.lua;{root}build/?/init.lua;;";
          lua_package_cpath "{root}build/?.so;;";
          server { listen 127.0.0.1:{port} reuseport;
            location / { content_by_lua_block { ngx.say(ngx.worker.id(), " ", loadfile(os.getenv "STEP")()) } } }
        }]]):gsub("{(%w+)}", places)))
      write(folder .. "ask.sh", (([[
        export LD_LIBRARY_PATH={open}usr/lib/x86_64-linux-gnu
        mkdir -p {folder}temp && nginx -p {folder} -c {folder}nginx.conf || exit 1
        for i in $(seq 40); do curl -s --max-time 20 http://127.0.0.1:{port}/; done >{folder}seen
        nginx -p {folder} -c {folder}nginx.conf -s stop
        cut -d' ' -f2- {folder}seen | sort -u
        cut -d' ' -f1 {folder}seen | sort -u | tr -d '\n'
      ]]):gsub("{(%w+)}", places)))
      return "sh " .. folder .. "ask.sh", function(out) return out:match "01%s*$" and out:gsub("01%s*$", "") end
    end },
  { "wrk", there = "command -v wrk curl python3", run = function(folder)
    write(folder .. "main.lua", "function init() print(dofile(os.getenv 'STEP')) os.exit(0) end\n")
    local port = 20000 + tonumber(shell "echo $$") % 20000 -- it wants a server that answers
    return ("python3 -m http.server --bind 127.0.0.1 %d >server.log 2>&1 & "):format(port)
      .. ("for i in $(seq 100); do curl -s -o page http://127.0.0.1:%d/ && break; sleep 0.2; done; "):format(port)
      .. ("%s wrk -t1 -c1 -d1 -s %smain.lua http://127.0.0.1:%d/; kill $!"):format(ENV, folder, port)
  end },
  { "sysbench", there = "command -v sysbench", run = function(folder)
    write(folder .. "main.lua", "function event() end\nprint(dofile(os.getenv 'STEP'))\n")
    return ENV .. " sysbench " .. folder .. "main.lua run --events=1 --threads=1"
  end },
  { "a C program, shared LuaJIT", there = "test -e /usr/include/luajit-2.1/lua.h", run = c_host "-lluajit-5.1" },
  { "a C program, static LuaJIT", there = "test -e /usr/lib/x86_64-linux-gnu/libluajit-5.1.a",
    run = c_host("-Wl,-E -Wl,--whole-archive " .. STATIC:gsub("%.a ", ".a -Wl,--no-whole-archive ")) },
  { "the same without -Wl,-E", there = "test -e /usr/lib/x86_64-linux-gnu/libluajit-5.1.a", run = c_host(STATIC),
    says = "link it with -Wl,-E" },
  { "Lua 5.1", there = "command -v lua5.1", run = ENV .. " lua5.1 -e \"print(dofile(os.getenv 'STEP'))\"",
    says = "needs LuaJIT" },
}

function M.is_there(host) return shell(host.there .. " >/dev/null && echo yes"):match "yes" ~= nil end

--- Runs a host; gives its line, and all that it printed.
function M.run(host)
  local folder = here .. host[1]:gsub("%W+", "-") .. "/"
  shell("mkdir -p " .. quote(folder))
  local command, read = host.run, nil
  if type(command) == "function" then command, read = command(folder) end
  local out = shell(("export STEP=%s; cd %s && timeout 60 sh -c %s"):format(quote(STEP), quote(folder), quote(command)))
  if read then out = read(out) or "not by all: " .. out end
  if host.says then return out:find(host.says, 1, true) and host.says, out end
  local line
  for bits in out:gmatch "bits %d+[^\n]*" do
    if line and line ~= bits then return nil, out end
    line = bits
  end
  return line, out
end

if not (arg and arg[0] and arg[0]:match "hosts%.lua$") then return M end

local want, failed, passed = nil, 0, 0
for _, host in ipairs(M.list) do
  local width = 32 + #host[1] - select(2, host[1]:gsub("[^\128-\191]", ""))
  io.write(("%-" .. width .. "s "):format(host[1]))
  io.flush()
  if not M.is_there(host) then
    print "not there"
  else
    local line, out = M.run(host)
    local bits = line and line:match "^bits %d+"
    want = want or bits
    local ok = line and (host.says or bits == want)
    passed, failed = passed + (ok and 1 or 0), failed + (ok and 0 or 1)
    print(ok and (host.says and "says: " .. host.says or line) or "FAILED\n" .. out)
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0 and 0 or 1)
