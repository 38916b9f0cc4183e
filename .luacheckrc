std = "luajit"
max_line_length = 120
files["spec"] = { std = "luajit+busted", max_line_length = 140 }
files["editors"] = { max_line_length = 140 }
files["docs"] = { max_line_length = 140 }
-- the module adds compile, explain, graph ... to LuaJIT's own table
globals = { "jit" }
files["examples/love"] = { globals = { "love" } }
files["examples/neovim"] = { globals = { "vim" } }
-- instructions and errors of PTX, a line each
files["spec/gpu_snippets.lua"] = { std = "luajit+busted", max_line_length = false }
files["spec/fixtures/ptx_answers.lua"] = { max_line_length = false }
