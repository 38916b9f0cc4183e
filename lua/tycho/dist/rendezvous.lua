--- dist/rendezvous.lua -- ranks that no mpirun has started find each other: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
-- In: these variables, the same on all ranks but for RANK. Out: MPICH starts as if its launcher had started the ranks:
-- the first rank runs what the launcher would answer, at MASTER_PORT, in a process of its own (this file again, as a
-- program), and TCP carries that alone. Raises where the variables say nothing, or nobody answers there.
--
-- MPICH asks by its process management interface, PMI 1: lines of words, cmd=put key=K value=V and others, to the
-- address in PMI_PORT. Open MPI has no such way: processes that were started alone cannot join there without a server
-- of its own.

local ffi = require "ffi"

ffi.cdef [[
typedef struct {
  int flags, family, kind, protocol;
  unsigned length;
  void *address;
  char *name;
  void *next;
} tycho_address;
int getaddrinfo(const char *node, const char *service, const tycho_address *hints, tycho_address **list);
void freeaddrinfo(tycho_address *list);
int socket(int family, int kind, int protocol);
int setsockopt(int fd, int level, int name, const void *value, unsigned n);
int bind(int fd, const void *address, unsigned n);
int listen(int fd, int backlog);
int accept(int fd, void *address, void *n);
int connect(int fd, const void *address, unsigned n);
int usleep(unsigned microseconds);
int getppid(void);
]]

local here = debug.getinfo(1, "S").source:match "^@(.*)rendezvous%.lua$"
local C, M = ffi.C, {}

local STREAM, REUSE = 1, 2

--- Calls fn(address) with what a name stands for; nil where it stands for nothing.
local function resolved(host, port, fn)
  local hints, list = ffi.new "tycho_address", ffi.new "tycho_address *[1]"
  hints.family, hints.kind = 2, STREAM
  if C.getaddrinfo(host, port, hints, list) ~= 0 then return nil end
  local y = fn(list[0])
  C.freeaddrinfo(list[0])
  return y
end

--- Whether something answers at the address, within so many seconds.
local function answers(P, host, port, seconds)
  local by = P.now() + seconds
  repeat
    local ok = resolved(host, port, function(a)
      local fd = C.socket(a.family, STREAM, 0)
      local e = C.connect(fd, a.address, a.length)
      C.close(fd)
      return e == 0
    end)
    if ok then return true end
    C.usleep(50000)
  until P.now() > by
  return false
end

--- Sets what MPICH reads when it starts. False, why: it would not find the others.
---@param rank integer
---@param size integer
---@param host string
---@param port integer
---@param seconds number
function M.prepare(rank, size, host, port, seconds)
  local P = dofile(here .. "process.lua")
  port = ("%d"):format(port)
  if rank == 0 then
    P.start({ arg and arg[-1] or "luajit", here .. "rendezvous.lua", port, ("%d"):format(size) },
      { [0] = "/dev/null" }, 0)
  end
  if not answers(P, host, port, seconds) then
    return false, ("rank 0 does not answer at MASTER_ADDR %s, MASTER_PORT %s"):format(host, port)
  end
  P.set("PMI_PORT", host .. ":" .. port)
  P.set("PMI_ID", ("%d"):format(rank))
  P.set("PMI_RANK", ("%d"):format(rank))
  P.set("PMI_SIZE", ("%d"):format(size))
  return true
end

--- As a program: answers the ranks until all have ended.
local function serve(port, size)
  local P = dofile(here .. "process.lua")
  local door = resolved("0.0.0.0", port, function(a)
    local fd, one = C.socket(a.family, STREAM, 0), ffi.new("int[1]", 1)
    C.setsockopt(fd, 1, REUSE, one, 4)
    if C.bind(fd, a.address, a.length) ~= 0 or C.listen(fd, 4096) ~= 0 then return nil end
    return fd
  end)
  if not door then
    io.stderr:write(("tycho: MASTER_PORT %s cannot be listened at: another process has it\n"):format(port))
    os.exit(1)
  end
  local rests, values, waiting, joined = {}, {}, {}, 0

  local function say(fd, ...) P.write(fd, table.concat({ ... }, " ") .. "\n") end
  local answer = {
    initack = function(fd, line)
      joined = joined + 1
      say(fd, "cmd=initack")
      say(fd, ("cmd=set size=%d"):format(size))
      say(fd, "cmd=set rank=" .. line:match "pmiid=(%d+)")
      say(fd, "cmd=set debug=0")
    end,
    init = function(fd) say(fd, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0") end,
    get_maxes = function(fd) say(fd, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024") end,
    get_appnum = function(fd) say(fd, "cmd=appnum appnum=0") end,
    get_universe_size = function(fd) say(fd, ("cmd=universe_size size=%d"):format(size)) end,
    get_my_kvsname = function(fd) say(fd, "cmd=my_kvsname kvsname=tycho") end,
    put = function(fd, line)
      values[line:match "key=(%S+)"] = line:match "value=(.*)$"
      say(fd, "cmd=put_result rc=0 msg=success")
    end,
    get = function(fd, line)
      local key = line:match "key=(%S+)"
      local v = values[key] or key == "PMI_process_mapping" and ("(vector,(0,%d,1))"):format(size)
      say(fd, "cmd=get_result", v and "rc=0 msg=success value=" .. v or "rc=-1 msg=key_not_found value=unknown")
    end,
    barrier_in = function(fd)
      waiting[#waiting + 1] = fd
      if #waiting < size then return end
      for _, other in ipairs(waiting) do say(other, "cmd=barrier_out") end
      waiting = {}
    end,
    finalize = function(fd) say(fd, "cmd=finalize_ack") end,
  }

  --- What a rank has sent. False: it has gone.
  local function hear(fd)
    local text = P.read(fd)
    if not text or text == "" then return false end
    text = rests[fd] .. text
    rests[fd] = text:match "[^\n]*$"
    for line in text:gmatch "([^\n]*)\n" do
      local reply = answer[line:match "cmd=(%S+)"]
      if reply then reply(fd, line) end
    end
    return true
  end

  local parent = C.getppid()
  while next(rests) or joined < size and C.getppid() == parent do
    local files = { door }
    for fd in pairs(rests) do files[#files + 1] = fd end
    local ready = P.wait(files, 1)
    if ready[door] then
      local fd = C.accept(door, nil, nil)
      if fd >= 0 then rests[fd] = "" end
    end
    for fd in pairs(ready) do
      if rests[fd] and not hear(fd) then
        P.close(fd)
        rests[fd] = nil
      end
    end
  end
end

local port, size = ...
if tonumber(port) and tonumber(size) then serve(port, tonumber(size)) end
return M
