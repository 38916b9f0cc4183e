--- blocks.lua -- code in the pages of the site: found, run, compared with what the page shows.
-- In: a page in Markdown. The Lua blocks of a page are one program, in order: what one makes, the next ones use; one that
-- begins with a file's name, `-- agent.lua`, is that file, in the folder before the program runs. A block
-- of text right behind one is what it prints; "..." in it stands for anything. A block of C or C++ is a program of its
-- own, compiled and run after the Lua blocks, with the C files that these wrote to the folder for the headers that it
-- includes, and with the libraries that it uses; one of sh is shown and not run.
-- Out: what ran, in the folder it ran in: pictures that the code saved lie there.

local M = {}

--- The blocks of a page: {language, code, shown (nil: nothing is claimed), line}.
function M.of(page)
  local list = {}
  for language, code, behind in ("\n" .. page):gmatch "\n```(%w*)\n(.-)\n```()" do
    local shown = language ~= "text" and (page .. "\n"):sub(behind - 1):match "^%s*\n*```text\n(.-\n)```"
    local _, line = ("\n" .. page):sub(1, behind):gsub("\n", "")
    list[#list + 1] = { language = language, code = code, shown = shown or nil, line = line }
  end
  return list
end

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

--- Runs a command in a folder: its output and errors together, and its status.
local function shell(folder, command)
  local pipe = io.popen(("cd '%s' && (%s) 2>&1; echo \"status $?\""):format(folder, command))
  local out = pipe:read "*a"
  pipe:close()
  local text, status = out:match "^(.*)status (%d+)\n$"
  return text, tonumber(status)
end
M.shell = shell

local HEADERS = "-Ibuild/include -I/usr/include/luajit-2.1 -I/usr/local/include/luajit-2.1"
local LIBRARIES = "-Wl,--as-needed -Lbuild -Wl,-rpath,\"$PWD/build\" -ltycho -lluajit-5.1"
local COMPILERS = { c = "cc -std=c11", cpp = "g++ -std=c++11" }
local MARK = "\1\n" -- between what two blocks print

--- The C files of the folder whose headers a program includes, as arguments of a compiler.
local function beside(folder, code)
  local list = ""
  for name in code:gmatch '#include "([%w_]+)%.h"' do
    local file = io.open(("%s/%s.c"):format(folder, name))
    if file then
      file:close()
      list = ("%s '%s.c'"):format(list, name)
    end
  end
  return list
end

--- Whether a compiler is there: that of C++ need not be.
local function available(compiler)
  local _, status = shell(".", "command -v " .. compiler:match "%S+")
  return status == 0
end

--- Runs the blocks of a page in a folder: each gets `out`, what it printed, and `failed` where the program ended in it.
function M.run(blocks, folder, name)
  local parts, lua = {}, {}
  for _, b in ipairs(blocks) do
    local file = b.language == "lua" and b.code:match "^%-%- ([%w_]+%.lua)\n"
    if file then
      write(folder .. "/" .. file, b.code .. "\n")
      b.out = ""
    elseif b.language == "lua" then
      lua[#lua + 1] = b
      parts[#parts + 1] = b.code
    end
  end
  if #lua > 0 then
    local path = ("%s/%s.lua"):format(folder, name)
    write(path, "io.stdout:setvbuf 'no' " .. table.concat(parts, "\nio.write '\\1\\n'\n") .. "\n")
    local out, status = shell(folder, ("TYCHO_LOG=0 luajit '%s.lua'"):format(name))
    os.remove(path)
    local at = 1
    for i, b in ipairs(lua) do
      local from, to = out:find(MARK, at, true)
      b.out = out:sub(at, from and from - 1 or #out)
      b.failed = not from and (status ~= 0 or i < #lua) or nil
      if not from then break end
      at = to + 1
    end
  end
  for i, b in ipairs(blocks) do
    local compiler = COMPILERS[b.language]
    if compiler then
      local program = ("%s-%d"):format(name, i)
      local source = ("%s.%s"):format(program, b.language)
      write(folder .. "/" .. source, b.code .. "\n")
      local command = "%s -O1 -Wall -Werror %s '%s'%s -o '%s' %s && './%s'"
      local out, status = shell(folder, command:format(compiler, HEADERS, source, beside(folder, b.code), program, LIBRARIES,
        program))
      os.remove(folder .. "/" .. source)
      os.remove(folder .. "/" .. program)
      b.out, b.failed = out, status ~= 0 or nil
      if not available(compiler) then b.out, b.failed = b.shown or "", nil end
    end
  end
  return blocks
end

--- What is wrong with a block that ran: nil where it printed what the page shows.
function M.wrong(b)
  if b.language ~= "lua" and not COMPILERS[b.language] then return nil end
  if b.failed or not b.out then return ("line %d: the code fails\n%s"):format(b.line, b.out or "it was not reached") end
  if not b.shown then return b.out ~= "" and ("line %d: nothing is shown, but it prints\n%s"):format(b.line, b.out) or nil end
  local pattern = b.shown:gsub("%p", "%%%0"):gsub("%%%.%%%.%%%.", ".-")
  if b.out:match("^" .. pattern .. "$") then return nil end
  return ("line %d: it prints\n%s\ninstead of\n%s"):format(b.line, b.out, b.shown)
end

--- A folder for the code of a page, with the examples and what was built in it.
function M.folder(root, path)
  local command = "cd '%s' && r=$(pwd) && rm -rf '%s' && mkdir -p '%s' && ln -s \"$r/examples\" \"$r/build\" '%s'"
  os.execute(command:format(root, path, path, path))
  return path
end

return M
