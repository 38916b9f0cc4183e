--- editors_spec.lua -- editors/tycho.vim in Vim and Neovim, where they are installed: help, completion, errors, runs.

local H = require "spec.helper"

local SCRIPT = [[
set nocompatible
filetype plugin on
syntax on
let g:tycho_command = '%stycho'
edit %s/model.lua
set filetype=lua
source %seditors/tycho.vim
let out = []

function! Help(line, column)
  call cursor(a:line, a:column)
  normal K
  call add(g:out, join(getbufline('tycho-help', 1, '$'), '|'))
  pclose
endfunction

function! Completed(text)
  call setline(6, a:text)
  call cursor(6, 1)
  execute "normal A\<C-x>\<C-o>\<Esc>"
  call add(g:out, getline(6))
endfunction

call Help(3, 17)
call Help(4, 17)
call Help(5, 9)
call Completed('ty.softm')
call Completed('x:log_so')
call Completed('nn.Lin')
call Completed('jit.comp')
call add(out, synIDattr(synID(3, 15, 1), 'name'))
call setline(6, 'error("stop")')
silent write
silent! make!
call add(out, join(map(filter(getqflist(), 'v:val.valid'), 'v:val.lnum . " " . v:val.text')[:0]))
call setline(6, '')
TychoRun one two
for i in range(100)
  sleep 100m
  if match(getline(1, '$'), 'ran') >= 0
    break
  endif
endfor
call add(out, matchstr(join(getline(1, '$')), 'ran.*two'))
call writefile(out, '%s/out')
qall!
]]

local MODEL = [[
local ty = require "tycho"
local nn = ty.nn
local x = ty.softmax(ty.ones(3), 1)
local m = nn.Linear(2, 3)
print(x:sum():item(), m ~= nil, "ran", ...)

]]

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

describe("tycho.vim", function()
  for editor, command in pairs { vim = "vim -u NONE -es -N", nvim = "nvim -u NONE --headless" } do
    it("explains, completes, finds errors and runs in " .. editor, function()
      if os.execute(("command -v %s >/dev/null"):format(editor)) ~= 0 then return pending(editor .. " is not installed") end
      local folder = os.tmpname()
      os.remove(folder)
      H.shell(("mkdir '%s'"):format(folder))
      write(folder .. "/model.lua", MODEL)
      write(folder .. "/script.vim", SCRIPT:format(H.root, folder, H.root, folder))
      os.execute(("TERM=xterm timeout 60 %s -S '%s/script.vim' </dev/null >/dev/null 2>&1"):format(command, folder))
      local out = {}
      for line in io.lines(folder .. "/out") do out[#out + 1] = line end
      H.shell(("rm -r '%s'"):format(folder))
      local function help(name) return (H.ty.help(name):gsub("\n", "|")) end
      assert.same({ help "softmax", help "nn.Linear", help "sum", "ty.softmax", "x:log_softmax", "nn.Linear", "jit.compile",
        "tychoName", "6 stop" }, { unpack(out, 1, 9) })
      assert.truthy(out[10]:find "^ran%s+one%s+two$", out[10])
    end)
  end
end)
