-- wire.lua -- a network between namespaces of this machine, with delays and losses: spec/net.lua starts it.
--   luajit spec/net/wire.lua CONTROL NAMESPACE ...
-- In: names of network namespaces; a file, read several times a second: milliseconds of delay, of jitter, per cent of
-- packets that are lost, the number of a host that is cut off (0: none). Out: each namespace has a device "wire" with the
-- address 10.77.0.N; packets between them come later, or not. Ends when the file is gone.
--
-- The devices are TUNs, whose packets are read and written here: kernels without netem have them, too.

local ffi = require "ffi"
local bit = require "bit"

ffi.cdef [[
typedef struct { int fd; short events, revents; } wire_pollfd;
typedef struct { char name[16]; short flags; char rest[22]; } wire_ifreq;
typedef struct { long seconds, nanoseconds; } wire_time;
int open(const char *path, int flags, ...);
int setns(int fd, int kind);
int ioctl(int fd, unsigned long what, ...);
long read(int fd, void *p, size_t n);
long write(int fd, const void *p, size_t n);
int poll(wire_pollfd *fds, unsigned long n, int milliseconds);
int clock_gettime(int id, wire_time *t);
]]
local C = ffi.C
local RDWR, NONBLOCK, NEWNET, SETIFF, TUN, NO_PI = 2, 0x800, 0x40000000, 0x400454ca, 1, 0x1000

local control, names = arg[1], { unpack(arg, 2) }

local function check(v, what)
  if v < 0 then error(what .. " failed: errno " .. ffi.errno(), 0) end
  return v
end

local function now()
  local t = ffi.new "wire_time"
  C.clock_gettime(1, t)
  return tonumber(t.seconds) + tonumber(t.nanoseconds) * 1e-9
end

--- A device of a namespace, whose packets come out of the file.
local function device(namespace)
  check(C.setns(check(C.open("/run/netns/" .. namespace, 0), "the namespace " .. namespace), NEWNET), "setns")
  local fd = check(C.open("/dev/net/tun", RDWR + NONBLOCK), "/dev/net/tun")
  local r = ffi.new "wire_ifreq"
  ffi.copy(r.name, "wire")
  r.flags = TUN + NO_PI
  check(C.ioctl(fd, SETIFF, r), "a TUN device")
  return fd
end

local n, files = #names, {}
local polled = ffi.new("wire_pollfd[?]", n)
for i, name in ipairs(names) do
  files[i] = device(name)
  polled[i - 1].fd, polled[i - 1].events = files[i], 1
end
io.write "ready\n"
io.flush()

local delay, jitter, lost, cut = 0, 0, 0, 0
local function read_control()
  local f = io.open(control)
  if not f then os.exit(0) end
  local a, b, c, d = f:read("*n", "*n", "*n", "*n")
  f:close()
  if d then delay, jitter, lost, cut = a / 1e3, b / 1e3, c / 100, d end
end

local queue = {} -- {when, to, packet} by time
local buffer = ffi.new "uint8_t[65536]"
math.randomseed(1)

--- Packets of a host, each with its time. Those of one host keep their order but for the jitter.
local function take(i)
  while true do
    local size = tonumber(C.read(files[i], buffer, 65536))
    if size < 20 then return end
    local to = buffer[19]
    if bit.rshift(buffer[0], 4) == 4 and files[to] and i ~= cut and to ~= cut and math.random() >= lost then
      local item = { now() + delay + jitter * math.random(), to, ffi.string(buffer, size) }
      local at = #queue + 1
      while at > 1 and queue[at - 1][1] > item[1] do at = at - 1 end
      table.insert(queue, at, item)
    end
  end
end

local next_look = 0
while true do
  local t = now()
  if t >= next_look then
    read_control()
    next_look = t + 0.1
  end
  local due = 0
  while queue[due + 1] and queue[due + 1][1] <= t do
    due = due + 1
    local item = queue[due]
    if item[2] ~= cut then C.write(files[item[2]], item[3], #item[3]) end
  end
  if due > 0 then
    local left = {}
    for i = due + 1, #queue do left[i - due] = queue[i] end
    queue = left
  end
  local wait = queue[1] and math.max(0, math.ceil((queue[1][1] - now()) * 1e3)) or 50
  if C.poll(polled, n, math.min(wait, 50)) > 0 then
    for i = 1, n do
      if polled[i - 1].revents ~= 0 then take(i) end
    end
  end
end
