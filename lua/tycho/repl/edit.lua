--- repl/edit.lua -- a line, or several, typed at a terminal: by libedit where it is, else as the terminal gives them.
-- In: what the prompt is, what completes a word, what decides whether more lines must follow. Out: the text; false
-- where Ctrl-C gave it up; nil at the end of input.
--
-- libedit (BSD's, libedit.so.2) is loaded by FFI when the first line is read. It edits in one buffer all lines of an
-- input: Enter asks whether it is complete, and adds a line where it is not; the history holds inputs, not lines.
-- 1. The functions that it calls back are Lua's: no error may leave one, and what calls libedit must not be compiled.
-- 2. While a line is edited Ctrl-C is a key.
-- 3. What is pasted comes between two marks (bracketed paste) and is taken as it is: no Enter, no indentation.

local M = {}

local UTF8_LOCALES = { "", "C.UTF-8", "en_US.UTF-8" }
local LC_CTYPE = 0

-- libedit's numbers (histedit.h)
local PROMPT_ESC, EDITOR, SIGNAL, BIND, SETTY, ADDFN, HIST, PREPARE = 21, 2, 3, 4, 8, 9, 10, 16
local NORM, ENDED, REFRESH, REDISPLAY, BEEP = 0, 2, 4, 8, 6
local SETSIZE, ENTER, SETUNIQUE = 1, 10, 20

local DECLARATIONS = [[
typedef struct tycho_editline tycho_editline;
typedef struct { int number; const char *text; } tycho_hist_event;
typedef struct { const char *buffer, *cursor, *lastchar; } tycho_line_info;
tycho_editline *el_init(const char *name, void *in, void *out, void *errors);
int el_set(tycho_editline *el, int what, ...);
int el_source(tycho_editline *el, const char *path);
const char *el_gets(tycho_editline *el, int *count);
int el_wgetc(tycho_editline *el, wchar_t *c);
const tycho_line_info *el_line(tycho_editline *el);
int el_insertstr(tycho_editline *el, const char *text);
void el_deletestr(tycho_editline *el, int count);
void el_push(tycho_editline *el, const char *keys);
void *history_init(void);
int history(void *h, tycho_hist_event *event, int what, ...);
char *setlocale(int category, const char *locale);
int raise(int sig);
]]

--- Keys of our own, which stand for functions of libedit's that ours go on to.
local KEYS = { submit = "\24\1", up = "\24\2", down = "\24\3", delete = "\24\5" }

---@class tycho.Reader
---@field prompt fun(): string with escapes in \1 pairs
---@field complete fun(text: string): string[], string, string
---@field more fun(text: string): boolean
---@field indent fun(text: string): string?
---@field dedent fun(text: string): string, string
---@field width fun(): integer a column less than the terminal's

--- Lines as the terminal gives them.
local function plain(opts)
  return {
    plain = true,
    add = function() end,
    read = function()
      local text
      while true do
        io.write(text and "  " or (opts.prompt():gsub("\1[^\1]*\1", "")))
        io.flush()
        local line = io.read "*l"
        if not line then
          io.write "\n"
          return nil
        end
        text = text and text .. "\n" .. line or line
        if not opts.more(text) then return text end
      end
    end,
  }
end

local function load_library()
  local found, ffi = pcall(require, "ffi")
  if not found then return nil end
  if not pcall(ffi.cdef, DECLARATIONS) then return nil end
  for _, name in ipairs { "libedit.so.2", "libedit.so.0", "libedit.3.dylib" } do
    local ok, lib = pcall(ffi.load, name)
    if ok then return ffi, lib end
  end
end

local function utf8(code)
  local char, floor = string.char, math.floor
  if code < 0x80 then return char(code) end
  if code < 0x800 then return char(0xc0 + floor(code / 64), 0x80 + code % 64) end
  local last, middle = 0x80 + code % 64, 0x80 + floor(code / 64) % 64
  if code < 0x10000 then return char(0xe0 + floor(code / 4096), middle, last) end
  return char(0xf0 + floor(code / 262144), 0x80 + floor(code / 4096) % 64, middle, last)
end

--- Words in columns, as `ls` has them.
local function in_columns(words, width)
  local widest = 0
  for _, w in ipairs(words) do widest = math.max(widest, #w + 2) end
  local columns = math.max(1, math.floor(width / widest))
  local rows = math.ceil(#words / columns)
  local lines = {}
  for r = 1, rows do
    local line = {}
    for c = 0, columns - 1 do
      local w = words[c * rows + r]
      if w then line[#line + 1] = w .. (" "):rep(widest - #w) end
    end
    lines[r] = table.concat(line):gsub("%s+$", "")
  end
  return table.concat(lines, "\n")
end

local function common_prefix(words)
  local prefix = words[1]
  for i = 2, #words do
    while words[i]:sub(1, #prefix) ~= prefix do prefix = prefix:sub(1, -2) end
  end
  return prefix
end

local SHOWN = 120 -- completions that are listed

local function set_locale(ffi)
  for _, name in ipairs(UTF8_LOCALES) do
    local got = ffi.C.setlocale(LC_CTYPE, name)
    if got ~= nil and ffi.string(got):lower():find "utf%-?8" then return end
  end
end

--- Lines by libedit.
local function edited(ffi, lib, opts)
  set_locale(ffi)
  local none = ffi.cast("void *", nil)
  local el = lib.el_init("tycho", io.stdin, io.stdout, io.stderr)
  if el == nil then return nil end
  local past, event = lib.history_init(), ffi.new "tycho_hist_event"
  local state = {} -- what the last line ended with: "cancelled", "eof"
  local held = {} -- what libedit keeps pointers to

  local function int(n) return ffi.cast("int", n) end
  local function set(what, ...) return lib.el_set(el, what, ...) end
  local function bind(...)
    local words = { ... }
    local c = {}
    for i, w in ipairs(words) do
      c[i] = ffi.new("char[?]", #w + 1, w)
      held[#held + 1] = c[i]
    end
    c[#words + 1] = none
    return set(BIND, unpack(c))
  end

  --- What stands in the buffer before the cursor and behind it.
  local function text_around()
    local info = lib.el_line(el)
    return ffi.string(info.buffer, info.cursor - info.buffer), ffi.string(info.cursor, info.lastchar - info.cursor)
  end

  --- A function under a name, bound to keys.
  local function define(name, fn, ...)
    local function called(_, key)
      local ok, answer = pcall(fn, key)
      if not ok then state.failed = answer end
      return ok and answer or BEEP
    end
    local callback = ffi.cast("unsigned char (*)(tycho_editline *, int)", called)
    held[#held + 1] = callback
    set(ADDFN, ffi.cast("const char *", name), ffi.cast("const char *", name), callback)
    for _, keys in ipairs { ... } do bind(keys, name) end
  end

  local function press(keys)
    lib.el_push(el, keys)
    return NORM
  end

  local prompt_text
  local prompt = ffi.cast("char *(*)(tycho_editline *)", function()
    return ffi.cast("char *", prompt_text)
  end)
  held[#held + 1] = prompt

  set(EDITOR, ffi.cast("const char *", "emacs"))
  set(SIGNAL, int(1))
  set(PROMPT_ESC, prompt, ffi.cast("int", 1))
  lib.history(past, event, SETSIZE, int(10000))
  lib.history(past, event, SETUNIQUE, int(1))
  set(HIST, ffi.cast("void *", lib.history), past)
  set(SETTY, ffi.cast("const char *", "-d"), ffi.cast("const char *", "-isig"), none)

  bind(KEYS.submit, "ed-newline")
  bind(KEYS.up, "ed-prev-line")
  bind(KEYS.down, "ed-next-line")
  bind(KEYS.delete, "ed-delete-next-char")
  for _, key in ipairs { "\27[H", "\27OH", "\27[1~" } do bind(key, "ed-move-to-beg") end
  for _, key in ipairs { "\27[F", "\27OF", "\27[4~" } do bind(key, "ed-move-to-end") end
  for _, key in ipairs { "\27[1;5D", "\27[5D", "\27b" } do bind(key, "ed-prev-word") end
  for _, key in ipairs { "\27[1;5C", "\27[5C", "\27f" } do bind(key, "em-next-word") end
  bind("\27[3~", "ed-delete-next-char")
  bind("\23", "ed-delete-prev-word")
  bind("\21", "vi-kill-line-prev")
  bind("\18", "em-inc-search-prev")

  define("tycho-enter", function()
    local before, behind = text_around()
    local is, should = opts.dedent(before)
    if is ~= should then
      lib.el_deletestr(el, #is)
      lib.el_insertstr(el, should)
      before = before:sub(1, #before - #is) .. should
    end
    if not opts.more(before .. behind) then
      press(KEYS.submit)
      return REFRESH
    end
    lib.el_insertstr(el, "\n" .. (opts.indent(before) or ""))
    return REFRESH
  end, "\n", "\r")

  define("tycho-interrupt", function()
    state.ended = "cancelled"
    return press(KEYS.submit)
  end, "\3")

  define("tycho-end", function()
    local before, behind = text_around()
    if before .. behind ~= "" then return press(KEYS.delete) end
    state.ended = "eof"
    return ENDED
  end, "\4")

  define("tycho-suspend", function()
    ffi.C.raise(20) -- SIGTSTP, which libedit answers
    return REFRESH
  end, "\26")

  define("tycho-up", function()
    local before = text_around()
    if before:find("\n", 1, true) then return press(KEYS.up) end
    return press "\16"
  end, "\27[A", "\27OA")
  define("tycho-down", function()
    local _, behind = text_around()
    if behind:find("\n", 1, true) then return press(KEYS.down) end
    return press "\14"
  end, "\27[B", "\27OB")
  bind("\16", "ed-search-prev-history")
  bind("\14", "ed-search-next-history")

  define("tycho-paste", function()
    local c, parts, last = ffi.new "wchar_t[1]", {}, ""
    while lib.el_wgetc(el, c) == 1 do
      local letter = utf8(tonumber(c[0]))
      parts[#parts + 1] = letter == "\r" and "\n" or letter
      last = (last .. letter):sub(-6)
      if last == "\27[201~" then break end
    end
    local text = table.concat(parts):gsub("\27%[201~$", ""):gsub("\t", "  "):gsub("\n+$", "")
    lib.el_insertstr(el, text)
    return REFRESH
  end, "\27[200~")

  define("tycho-complete", function()
    local before, behind = text_around()
    if not before:match "[^\n]*$":find "%S" then -- nothing to complete: an indentation
      lib.el_insertstr(el, "  ")
      return REFRESH
    end
    local words, typed, closing = opts.complete(before, behind)
    if #words == 0 then return BEEP end
    local prefix = common_prefix(words)
    if #words == 1 then prefix = prefix .. closing end
    if #prefix > #typed and prefix:sub(1, #typed) == typed then
      lib.el_insertstr(el, prefix:sub(#typed + 1))
      return REFRESH
    elseif #words == 1 and prefix ~= typed then
      lib.el_deletestr(el, #typed)
      lib.el_insertstr(el, prefix)
      return REFRESH
    end
    if #words == 1 then return NORM end
    local shown = {}
    for i = 1, math.min(#words, SHOWN) do shown[i] = words[i] end
    local more = #words > SHOWN and ("\n... %d more"):format(#words - SHOWN) or ""
    io.write("\n", in_columns(shown, opts.width()), more, "\n")
    io.flush()
    return REDISPLAY
  end, "\t")

  lib.el_source(el, nil) -- the user's ~/.editrc

  local function read()
    prompt_text = opts.prompt()
    state.ended = nil
    local count = ffi.new "int[1]"
    io.write "\27[?2004h"
    io.flush()
    set(PREPARE, int(1)) -- before the prompt is seen: what is typed then are keys
    local line = lib.el_gets(el, count)
    io.write "\27[?2004l"
    if state.failed then
      io.stderr:write("\n", tostring(state.failed), "\n")
      state.failed = nil
    end
    if state.ended == "cancelled" then
      io.write "^C\n"
      return false
    end
    if line == nil or state.ended == "eof" then
      io.write "\n"
      return nil
    end
    return (ffi.string(line, count[0]):gsub("\n$", ""))
  end
  if jit then jit.off(read, true) end

  return {
    read = read,
    add = function(text)
      lib.history(past, event, ENTER, ffi.cast("const char *", text))
    end,
  }
end

--- A reader: read() gives the next input, add(text) puts one into the history.
---@param opts tycho.Reader
---@return table
function M.open(opts)
  local term = os.getenv "TERM"
  if term and term ~= "" and term ~= "dumb" and not os.getenv "TYCHO_PLAIN" then
    local ffi, lib = load_library()
    local reader = lib and edited(ffi, lib, opts)
    if reader then return reader end
  end
  return plain(opts)
end

return M
