--- bench_spec.lua -- the table of `make bench-ops` has a row for every public function of tensors, and each computes.

local H = require "spec.helper"

describe("bench/ops.lua", function()
  it("forgets no public function, and each of its rows computes", function()
    local pipe = io.popen(("cd '%s' && luajit bench/ops.lua --check 2>&1"):format(H.root))
    local out = pipe:read "*a"
    pipe:close()
    assert.truthy(out:find("every public function among them\n", 1, true), out)
  end)
end)
