--- terminal_screen.lua -- a program in a terminal: keys are typed, and its screen is read.
-- In: a command and its environment. Out: an object with send, expect, screen. A pseudo-terminal by FFI; what the
-- program writes moves a cursor over a grid of letters, as a VT100 with the few escapes does that line editors use. Each
-- letter knows the colours that it was written in: pens[y][x], the parameters of the escapes since the last reset.

local ffi = require "ffi"
local bit = require "bit"

ffi.cdef [[
int posix_openpt(int flags);
int grantpt(int fd);
int unlockpt(int fd);
char *ptsname(int fd);
int setsid(void);
int dup2(int from, int to);
int open(const char *path, int flags, ...);
int close(int fd);
int fork(void);
int execvp(const char *file, char *const words[]);
void _exit(int status);
int kill(int pid, int sig);
int waitpid(int pid, int *status, int options);
int ioctl(int fd, unsigned long request, ...);
long read(int fd, void *to, size_t bytes);
long write(int fd, const void *from, size_t bytes);
typedef struct { int fd; short events, revents; } screen_pollfd;
int poll(screen_pollfd *fds, unsigned long n, int milliseconds);
typedef struct { unsigned short rows, columns, x, y; } screen_winsize;
typedef struct { long seconds, nanoseconds; } screen_clock;
int clock_gettime(int id, screen_clock *now);
int setenv(const char *name, const char *value, int overwrite);
int unsetenv(const char *name);
]]

local C = ffi.C
local RDWR, NOCTTY, SET_SIZE, SET_TERMINAL, POLLIN, MONOTONIC = 2, 256, 0x5414, 0x540e, 1, 1

local M = {}
M.__index = M

local function seconds()
  local now = ffi.new "screen_clock"
  C.clock_gettime(MONOTONIC, now)
  return tonumber(now.seconds) + tonumber(now.nanoseconds) * 1e-9
end
M.seconds = seconds

--- Starts a command in a terminal.
---@param words string[]
---@param environment table<string, string|false>
---@param columns? integer
---@param rows? integer
function M.start(words, environment, columns, rows)
  local self = setmetatable({ columns = columns or 90, rows = rows or 40, x = 0, y = 0, lines = {}, pens = {},
    pen = "", bytes = "", raw = "" }, M)
  local main = C.posix_openpt(bit.bor(RDWR, NOCTTY))
  assert(main >= 0 and C.grantpt(main) == 0 and C.unlockpt(main) == 0, "no pseudo-terminal")
  local name = ffi.string(C.ptsname(main))
  C.ioctl(main, ffi.cast("unsigned long", SET_SIZE), ffi.new("screen_winsize", { self.rows, self.columns }))
  local list = ffi.new("char *[?]", #words + 1)
  local kept = {}
  for i, word in ipairs(words) do
    kept[i] = ffi.new("char[?]", #word + 1, word)
    list[i - 1] = kept[i]
  end
  io.flush()
  local pid = C.fork()
  if pid == 0 then
    C.setsid()
    local fd = C.open(name, RDWR)
    C.ioctl(fd, ffi.cast("unsigned long", SET_TERMINAL), ffi.cast("int", 0))
    for i = 0, 2 do C.dup2(fd, i) end
    for i = 3, 64 do C.close(i) end
    for k, v in pairs(environment) do
      if v then C.setenv(k, v, 1) else C.unsetenv(k) end
    end
    C.execvp(list[0], list)
    C._exit(127)
  end
  self.pid, self.fd = pid, main
  return self
end

-- The screen ---------------------------------------------------------------------------------------------------------

local function line_at(self, y)
  self.lines[y] = self.lines[y] or {}
  return self.lines[y]
end

local function put(self, letter)
  if self.x >= self.columns then self.x, self.y = 0, self.y + 1 end
  line_at(self, self.y)[self.x] = letter
  self.pens[self.y] = self.pens[self.y] or {}
  self.pens[self.y][self.x] = self.pen
  self.x = self.x + 1
end

--- What the escapes of a VT100 do: CSI parameters, letter.
local function escape(self, parameters, letter)
  local n = tonumber(parameters:match "^%d+") or 1
  local line = line_at(self, self.y)
  if letter == "A" then self.y = math.max(self.y - n, 0)
  elseif letter == "B" then self.y = self.y + n
  elseif letter == "C" then self.x = math.min(self.x + n, self.columns - 1)
  elseif letter == "D" then self.x = math.max(self.x - n, 0)
  elseif letter == "G" then self.x = n - 1
  elseif letter == "m" then
    self.pen = (parameters == "" or parameters == "0") and "" or parameters:gsub("^0;", "") .. ";" .. self.pen
  elseif letter == "K" then
    local from, to = self.x, self.columns
    if parameters == "1" then from, to = 0, self.x end
    for x = from, to do line[x] = nil end
  elseif letter == "J" then
    for x = self.x, self.columns do line[x] = nil end
    for y in pairs(self.lines) do
      if y > self.y then self.lines[y] = nil end
    end
  elseif letter == "P" then
    for x = self.x, self.columns do line[x] = line[x + n] end
  elseif letter == "@" then
    for x = self.columns, self.x + n, -1 do line[x] = line[x - n] end
    for x = self.x, self.x + n - 1 do line[x] = " " end
  end
end

--- Takes what whole letters and escapes there are.
local function feed(self, text)
  self.raw = self.raw .. text
  text = self.bytes .. text
  local at = 1
  while at <= #text do
    local c = text:sub(at, at)
    if c == "\27" then
      local parameters, letter, stop = text:match("^\27%[([%d;?]*)([@-~])()", at)
      if not letter then stop = text:match("^\27[=>()78MDE][B0]?()", at) end
      if not stop then break end
      if letter then escape(self, parameters, letter) end
      at = stop
    elseif c == "\r" then self.x, at = 0, at + 1
    elseif c == "\n" then self.y, at = self.y + 1, at + 1
    elseif c == "\b" then self.x, at = math.max(self.x - 1, 0), at + 1
    elseif c == "\t" then self.x, at = math.min(self.x - self.x % 8 + 8, self.columns - 1), at + 1
    elseif c < " " then at = at + 1
    else
      local lead = c:byte()
      local length = lead >= 240 and 4 or lead >= 224 and 3 or lead >= 194 and 2 or 1
      if at + length - 1 > #text then break end -- the rest of the letter is still to come
      local letter = text:match("^[%z\1-\127\194-\244][\128-\191]*", at) or c
      put(self, letter)
      at = at + #letter
    end
  end
  self.bytes = text:sub(at)
end

--- Reads what comes within so many seconds; false: nothing did, or the program has ended.
local function receive(self, wait)
  local fds = ffi.new("screen_pollfd[1]", { { self.fd, POLLIN, 0 } })
  if C.poll(fds, 1, math.ceil(wait * 1000)) <= 0 then return false end
  local buffer = ffi.new "char[4096]"
  local n = tonumber(C.read(self.fd, buffer, 4096))
  if n <= 0 then
    self.ended = true
    return false
  end
  feed(self, ffi.string(buffer, n))
  return true
end

local function columns_of(text) return select(2, text:gsub("[%z\1-\127\194-\244]", "")) end

--- The screen as text, without blanks at the ends of lines but those before the cursor.
function M:screen()
  local list, last = {}, 0
  for y in pairs(self.lines) do last = math.max(last, y) end
  last = math.max(last, self.y)
  for y = 0, last do
    local letters, line = {}, self.lines[y] or {}
    local width = 0
    for x in pairs(line) do width = math.max(width, x) end
    for x = 0, width do letters[#letters + 1] = line[x] or " " end
    local text = table.concat(letters):gsub("%s+$", "")
    list[#list + 1] = y == self.y and text .. (" "):rep(self.x - columns_of(text)) or text
  end
  return table.concat(list, "\n")
end

--- Types keys.
function M:send(keys)
  C.write(self.fd, keys, #keys)
end

--- Waits until the screen, below what `mark` noted, shows a pattern; gives the captures and how long it took. Raises the screen.
---@param pattern string
---@param limit? number seconds
function M:expect(pattern, limit)
  local begin = seconds()
  while true do
    local text = self:screen()
    local from = 1
    for _ = 1, self.marked or 0 do from = (text:find("\n", from, true) or #text) + 1 end
    local first, _, capture = text:find(pattern, from)
    if first then return capture or text:sub(first), seconds() - begin end
    local left = (limit or 10) - (seconds() - begin)
    if left <= 0 or self.ended then error(("%q is not on the screen:\n%s"):format(pattern, text:sub(from)), 2) end
    receive(self, math.min(left, 0.2))
  end
end

--- From here on expect looks at what is below this line.
function M:mark() self.marked = self.y end

--- Seconds that the program's main thread and this one have waited for a core that others had; 0 where Linux does not tell.
function M:waited()
  local sum = 0
  for _, of in ipairs { self.pid, "self" } do
    local file = io.open(("/proc/%s/schedstat"):format(of))
    sum = sum + (file and tonumber(file:read("*a"):match "%d+ (%d+)") or 0) * 1e-9
    if file then file:close() end
  end
  return sum
end

--- Whether the program has ended by itself, within so many seconds; its status.
function M:wait(limit)
  local status, begin = ffi.new "int[1]", seconds()
  while seconds() - begin < (limit or 5) do
    receive(self, 0.02)
    if C.waitpid(self.pid, status, 1) == self.pid then
      self.pid = nil
      return status[0]
    end
  end
end

function M:kill(sig) C.kill(self.pid, sig or 9) end

function M:close()
  if self.pid then
    C.kill(self.pid, 9)
    C.waitpid(self.pid, nil, 0)
  end
  C.close(self.fd)
end

return M
