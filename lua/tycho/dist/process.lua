--- dist/process.lua -- processes, pipes and signals of Linux by FFI, for the launcher and what supervises a rank.
-- In: words of a command, file numbers. Out: numbers of processes, bytes, signals. Raises where the system has no
-- more of them. Only processes of the launcher's own load this file.

local ffi = require "ffi"

ffi.cdef [[
typedef struct { int fd; short events, revents; } tycho_pollfd;
typedef struct { unsigned long word[16]; } tycho_sigset;
typedef struct { unsigned signal; char rest[124]; } tycho_siginfo;
int fork(void);
int execvp(const char *file, char *const argv[]);
void _exit(int status);
int pipe(int fd[2]);
int dup2(int from, int to);
int close(int fd);
long read(int fd, void *p, size_t n);
long write(int fd, const void *p, size_t n);
int open(const char *path, int flags, ...);
int mkfifo(const char *path, unsigned mode);
char *mkdtemp(char *path);
int rmdir(const char *path);
int flock(int fd, int what);
int poll(tycho_pollfd *fds, unsigned long n, int milliseconds);
int kill(int pid, int signal);
int waitpid(int pid, int *status, int options);
int setpgid(int pid, int group);
int prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int setenv(const char *name, const char *value, int overwrite);
int sigemptyset(tycho_sigset *s);
int sigaddset(tycho_sigset *s, int signal);
int sigprocmask(int how, const tycho_sigset *s, tycho_sigset *before);
int signalfd(int fd, const tycho_sigset *s, int flags);
long sysconf(int name);
char *strsignal(int signal);
typedef struct { long seconds, nanoseconds; } tycho_time;
int clock_gettime(int id, tycho_time *t);
]]

local C = ffi.C
local M = { HUP = 1, INT = 2, KILL = 9, TERM = 15, CHLD = 17 }

local RDONLY, WRONLY, RDWR, CREAT, NONBLOCK, CLOEXEC = 0, 1, 2, 0x40, 0x800, 0x80000
local NOHANG, PDEATHSIG, PROCESSORS = 1, 1, 84
local UNBLOCK, BLOCK = 1, 0

function M.now()
  local t = ffi.new "tycho_time"
  C.clock_gettime(1, t)
  return tonumber(t.seconds) + tonumber(t.nanoseconds) * 1e-9
end

--- Processors that are there.
function M.processors() return math.max(1, tonumber(C.sysconf(PROCESSORS))) end

function M.set(name, value) C.setenv(name, value, 1) end

------------------------------------------------------------------------------------------------------------- files

--- A new directory of this process's.
function M.directory()
  local base = os.getenv "TMPDIR" or "/tmp"
  local path = base .. "/tycho-ranks-XXXXXX"
  local text = ffi.new("char[?]", #path + 1, path)
  if C.mkdtemp(text) == nil then error(("no directory can be made in %s"):format(base), 0) end
  return ffi.string(text)
end

function M.remove(dir, names)
  for _, name in ipairs(names) do os.remove(dir .. "/" .. name) end
  C.rmdir(dir)
end

local function open(path, flags) return C.open(path, flags, ffi.cast("int", 384)) end -- 0600

--- A named pipe, open at both ends, so that it never ends.
function M.fifo(path)
  C.mkfifo(path, 384)
  return open(path, RDWR + NONBLOCK + CLOEXEC)
end

function M.open_fifo(path) return open(path, WRONLY + CLOEXEC) end
function M.open_lock(path) return open(path, RDWR + CREAT + CLOEXEC) end

function M.read_file(path)
  local f = io.open(path)
  local text = f and f:read "*a"
  if f then f:close() end
  return text
end

--- Writes a file that is there whole or not at all. once: where another was first, it stays.
function M.write_file(path, text, once)
  if once and M.read_file(path) then return end
  local f = io.open(path .. ".new", "w")
  if not f then return end
  f:write(text)
  f:close()
  os.rename(path .. ".new", path)
end

local buffer = ffi.new("char[?]", 65536)

--- What can be read now; "" at the end, nil where nothing is there.
function M.read(fd)
  local n = tonumber(C.read(fd, buffer, 65536))
  if n < 0 then return nil end
  return ffi.string(buffer, n)
end

--- Writes all of it; where others write to the same, one at a time.
function M.write(fd, text, lock)
  if lock then C.flock(lock, 2) end
  local at = 0
  while at < #text do
    local n = tonumber(C.write(fd, ffi.cast("const char *", text) + at, #text - at))
    if n <= 0 then break end
    at = at + n
  end
  if lock then C.flock(lock, 8) end
end

function M.close(fd) C.close(fd) end

----------------------------------------------------------------------------------------------------------- signals

local handled

--- These signals wait, and come out of a file.
function M.signals(list)
  handled = ffi.new "tycho_sigset"
  C.sigemptyset(handled)
  for _, s in ipairs(list) do C.sigaddset(handled, s) end
  C.sigprocmask(BLOCK, handled, nil)
  return C.signalfd(-1, handled, NONBLOCK + CLOEXEC)
end

--- The next signal of that file, or nil.
function M.next_signal(fd)
  local info = ffi.new "tycho_siginfo"
  if tonumber(C.read(fd, info, 128)) ~= 128 then return nil end
  return info.signal
end

--- What a signal is called.
function M.signal_name(n) return ffi.string(C.strsignal(n)) end

--- Waits until one of the files has something, or so many seconds. Gives the set of those that have.
function M.wait(files, seconds)
  local p, ready = ffi.new("tycho_pollfd[?]", #files), {}
  for i, fd in ipairs(files) do p[i - 1].fd, p[i - 1].events = fd, 1 end
  C.poll(p, #files, math.ceil(seconds * 1000))
  for i, fd in ipairs(files) do ready[fd] = p[i - 1].revents ~= 0 or nil end
  return ready
end

--------------------------------------------------------------------------------------------------------- processes

--- Signal for this process when its parent ends.
function M.die_with_parent(signal) C.prctl(PDEATHSIG, signal, 0, 0, 0) end

function M.pipe()
  local fd = ffi.new "int[2]"
  if C.pipe(fd) ~= 0 then error("no pipe can be made", 0) end
  return fd[0], fd[1]
end

--- Starts a command. files: what its file numbers 0, 1, 2 are; a path stands for a file of that name. signal: when this
--- process ends. group: of its own, which a terminal's Ctrl-C does not reach.
function M.start(words, files, signal, group)
  local argv = ffi.new("const char *[?]", #words + 1)
  for i, word in ipairs(words) do argv[i - 1] = word end
  io.flush()
  local pid = C.fork()
  if pid < 0 then error("no process can be started", 0) end
  if pid > 0 then return pid end
  if group then C.setpgid(0, 0) end
  M.die_with_parent(signal)
  if handled then C.sigprocmask(UNBLOCK, handled, nil) end
  for n = 0, 2 do
    local f = files[n]
    if type(f) == "string" then f = open(f, n == 0 and RDONLY or WRONLY + CREAT) end
    if f then C.dup2(f, n) end
  end
  C.execvp(words[1], ffi.cast("char *const *", argv))
  C._exit(127)
end

function M.kill(pid, signal) C.kill(pid, signal) end

--- The status of a process that has ended: its exit code, or the signal that ended it; nil: it runs.
function M.ended(pid)
  local status = ffi.new "int[1]"
  if C.waitpid(pid, status, NOHANG) ~= pid then return nil end
  local s = status[0]
  if s % 128 ~= 0 then return nil, s % 128 end
  return math.floor(s / 256) % 256
end

return M
