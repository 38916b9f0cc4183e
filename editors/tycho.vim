" tycho.vim -- Lua files that use Tycho, in Vim 8 and Neovim. Put it into after/ftplugin/lua/ of ~/.vim or ~/.config/nvim.
"   K                  help of the name under the cursor: ty.softmax, nn.Linear, x:sum
"   CTRL-X CTRL-O      completes functions behind ty. jit. nn. optim. ..., methods behind x:
"   :TychoRun [args]   writes the file and runs it in a terminal; :make runs it, and errors are in the quickfix list
"   :TychoHelp name    help of a name
" g:tycho_command is the command, `tycho` by default. Files that do not mention tycho are left alone.

if exists('b:tycho') || !search('\<tycho\>\|\<jit\.compile\>', 'cnw')
  finish
endif
let b:tycho = 1

let s:command = get(g:, 'tycho_command', 'tycho')

" Runs Lua code with `ty` in another process; gives the lines that it prints.
function! s:lua(code) abort
  return systemlist(shellescape(s:command) . ' -e ' . shellescape(a:code))
endfunction

" The first of several names that has a help, as lines.
function! s:help_of(names) abort
  let list = join(map(copy(a:names), 'string(v:val)'), ', ')
  return s:lua('local y for _, name in ipairs { ' . list . ' } do local ok, text = pcall(ty.help, name) '
    \ . 'if ok then y = text break end y = y or text end print(y)')
endfunction

" The name under the cursor with what stands before it, then shorter forms of it.
function! s:names_here() abort
  let at = col('.') - 1
  let name = matchstr(getline('.')[: at], '[[:alnum:]_.:]*$') . matchstr(getline('.')[at + 1 :], '^[[:alnum:]_]*')
  let names = [name]
  while name =~# '[.:]'
    let name = substitute(name, '^[^.:]*[.:]', '', '')
    call add(names, name)
  endwhile
  return names
endfunction

function! s:show(lines) abort
  silent! pclose
  botright pedit tycho-help
  wincmd P
  setlocal buftype=nofile bufhidden=wipe noswapfile modifiable
  silent %delete _
  call setline(1, a:lines)
  setlocal nomodifiable nomodified
  execute 'resize ' . min([line('$') + 1, 15])
  nnoremap <buffer> <silent> q :pclose<CR>
  wincmd p
endfunction

" Functions by what stands before them: 'ty', 'jit', groups, ':' for methods. Read once.
function! s:known() abort
  if exists('s:names')
    return s:names
  endif
  let s:names = {}
  let code = 'local i = ty.internals local texts = i.load "tycho.texts" for name, text in pairs(i.help) do '
    \ . 'local head = text:match "^[^\n]*" if type(rawget(ty, name)) == "function" then print("ty", name, head) end '
    \ . 'if i.methods[name] then print(":", name, head) end end '
    \ . 'for _, name in ipairs(texts.jit_names()) do print("jit", name, "jit." .. name .. texts.of("jit." .. name).call) end '
    \ . 'for group in pairs(texts.groups) do print("ty", group, group .. ".") for name in pairs((texts.members(group))) do '
    \ . 'local entry, of, last = texts.of(name), name:match "^(.*)%.([^.]*)$" '
    \ . 'if entry then print(of, last, name .. entry.call) end end end'
  for line in s:lua(code)
    let [of, name, head] = split(line, "\t")
    let s:names[of] = get(s:names, of, {})
    let s:names[of][name] = head
  endfor
  return s:names
endfunction

function! TychoComplete(findstart, base) abort
  if a:findstart
    return match(getline('.')[: col('.') - 2], '[[:alnum:]_]*$')
  endif
  let before = matchstr(col('.') > 1 ? getline('.')[: col('.') - 2] : '', '[[:alnum:]_.]*[.:]\ze[[:alnum:]_]*$')
  let of = before =~# ':$' ? ':' : substitute(substitute(before, '\.$', '', ''), '^ty\.', '', '')
  let names = get(s:known(), of, {})
  let list = filter(sort(keys(names)), 'v:val[: len(a:base) - 1] ==# a:base || a:base ==# ""')
  return map(list, '{"word": v:val, "menu": names[v:val]}')
endfunction

function! s:run(arguments) abort
  silent update
  let command = shellescape(s:command) . ' ' . shellescape(expand('%:p')) . ' ' . a:arguments
  if has('nvim')
    botright new
    call termopen(command)
  elseif has('terminal')
    execute 'botright terminal ++shell ' . command
  else
    execute '!' . command
  endif
endfunction

command! -buffer -nargs=* -complete=file TychoRun call s:run(<q-args>)
command! -buffer -nargs=1 TychoHelp call s:show(s:help_of([<q-args>]))
nnoremap <buffer> <silent> K :call <SID>show(<SID>help_of(<SID>names_here()))<CR>

setlocal omnifunc=TychoComplete
let &l:makeprg = escape(shellescape(s:command), ' \') . ' %:S'
setlocal errorformat=%.%#:\ %f:%l:\ %m,%f:%l:\ %m

syntax match tychoName /\<\%(ty\|jit\|nn\|optim\|linalg\)\.\zs[[:alnum:]_.]\+/
highlight default link tychoName Function

let b:undo_ftplugin = get(b:, 'undo_ftplugin', 'setlocal omnifunc<') . ' | setlocal omnifunc< makeprg< errorformat<'
  \ . ' | silent! delcommand TychoRun | silent! delcommand TychoHelp | silent! nunmap <buffer> K | unlet! b:tycho'
