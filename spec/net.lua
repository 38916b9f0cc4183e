-- net.lua -- several processes on three "hosts": namespaces of this machine with a network of their own, whose packets are
-- delayed and lost, and a host that is cut off (net/wire.lua). `make test-net`, or as root
--   luajit spec/net.lua [MPI [N]]    with "MPICH" or "Open MPI" alone; N: what goes wrong alone, so many times
-- In: an MPI or both, iproute2, /dev/net/tun. Out: a row for each claim and the counts; where a namespace cannot be made, all
-- are skipped, and why is said.

local module = require "spec.module"
local run, MPIS = module.run, module.mpis()
local HOSTS = 3
local CLAIMS = "messages groups training units stages"

local function write(path, text)
  local f = assert(io.open(path, "w"))
  f:write(text)
  f:close()
end

local here = run("pwd"):match "[^\n]*"
local folder = os.tmpname()
os.remove(folder)
local tag = "tycho" .. folder:match "[%w]*$"
local function host(i) return ("%s-%d"):format(tag, i) end

------------------------------------------------------------------------------------------------------------ the network

local AGENT = [[
#!/bin/sh
# agent -- what mpirun takes for ssh: agent [options] address command
while [ "${1#-}" != "$1" ]; do shift; done
i=${1##*.}; shift
exec ip netns exec TAG-$i unshare --uts sh -c "hostname host$i; exec $*"
]]

-- What `tycho --ranks` takes for mpirun: the hosts are others.
local MPIRUN = [[
#!/bin/bash
[ "$1" = --version ] && exec REAL --version
words=()
while [ $# -gt 0 ]; do
  case "$1" in
    --host|-launcher) shift;;
    *) words+=("$1");;
  esac
  shift
done
export UCX_TLS=tcp,self UCX_NET_DEVICES=wire FI_PROVIDER=tcp FI_TCP_IFACE=wire
exec ip netns exec TAG-1 unshare --uts sh -c 'hostname host1; exec "$0" "$@"' REAL MORE "${words[@]}"
]]

local addresses = {}
for i = 1, HOSTS do addresses[i] = "10.77.0." .. i end
local MORE = {
  ["Open MPI"] = ("--host %s --mca plm_rsh_agent %s/agent --mca plm_rsh_no_tree_spawn 1 --mca pml ob1 --mca btl tcp,self " ..
    "--mca btl_tcp_if_include wire --mca oob_tcp_if_include wire"):format(table.concat(addresses, ","), folder),
  ["MPICH"] = ("-launcher ssh -launcher-exec %s/agent -hosts %s -iface wire"):format(folder, table.concat(addresses, ",")),
}

local function tear_down()
  for i = 1, HOSTS do run("ip netns del " .. host(i)) end
  run(("rm -rf '%s'"):format(folder))
end

--- Why there is no network; nil: there is.
local function set_up()
  if run("id -u"):match "%d+" ~= "0" then return "namespaces are made by root alone" end
  if select(2, run "command -v ip") ~= 0 then return "ip is missing (on Debian: iproute2)" end
  if select(2, run "test -c /dev/net/tun") ~= 0 then return "there is no /dev/net/tun" end
  run(("mkdir -p '%s'"):format(folder))
  for i = 1, HOSTS do
    local out, status = run(("ip netns add %s && ip -n %s link set lo up"):format(host(i), host(i)))
    if status ~= 0 then return out end
  end
  write(folder .. "/control", "0 0 0 0")
  local names = {}
  for i = 1, HOSTS do names[i] = host(i) end
  run(("luajit spec/net/wire.lua %s/control %s >%s/wire.log 2>&1 &"):format(folder,
    table.concat(names, " "), folder))
  run(("for i in $(seq 50); do grep -q ready %s/wire.log && break; sleep 0.1; done"):format(folder))
  for i = 1, HOSTS do
    local out, status = run(("ip -n %s addr add 10.77.0.%d/24 dev wire && ip -n %s link set wire up"):format(host(i), i,
      host(i)))
    if status ~= 0 then return out .. run(("cat %s/wire.log"):format(folder)) end
  end
  write(folder .. "/agent", (AGENT:gsub("TAG", tag)))
  for _, m in ipairs(MPIS) do
    m.wrapped = ("%s/%s"):format(folder, m.mpirun)
    write(m.wrapped, (MPIRUN:gsub("TAG", tag):gsub("REAL", m.mpirun):gsub("MORE", function() return MORE[m.name] end)))
  end
  run(("chmod +x %s/agent %s/mpi*"):format(folder, folder))
end

--- Milliseconds of delay and jitter, per cent of losses, a host that is cut off.
local function wire(delay, jitter, lost, cut)
  write(folder .. "/control", ("%g %g %g %d\n"):format(delay, jitter, lost, cut or 0))
  run "sleep 0.3"
end

local function ranks(mpirun, rest)
  return run(("cd '%s' && env -u LUA_PATH -u LUA_CPATH TYCHO_THREADS=1 TYCHO_LOG=0 TYCHO_DIST_GRACE=1 MPIR_CVAR_NOLOCAL=1 " ..
    "TYCHO_MPIRUN=%s timeout 240 ./tycho --ranks %d %s"):format(here, mpirun, HOSTS, rest))
end

------------------------------------------------------------------------------------------------------------- the claims

local passed, failed = 0, 0

local function claim(what, holds, out)
  if holds then passed = passed + 1 else failed = failed + 1 end
  print(("  %-6s %s"):format(holds and "ok" or "FAILED", what))
  if not holds then print(out) end
end

local FAULTS = [[
local ty = require "tycho"
local ffi = require "ffi"
ffi.cdef "int raise(int); unsigned sleep(unsigned); int gethostname(char *, size_t);"
local rank = ty.dist.init { timeout = 3 }
local name = ffi.new "char[64]"
ffi.C.gethostname(name, 64)
io.write("on ", ffi.string(name), ", ", ty.dist.size(), " ranks\n")
io.flush()
ty.dist.barrier()
if arg[1] == "kill" and rank == 2 then ffi.C.raise(9) end
if arg[1] == "cut" and rank == 0 then
  local f = io.open(arg[2], "w")
  f:write "0 0 0 3\n"
  f:close()
end
if arg[1] == "cut" then ffi.C.sleep(1) end
local ok, message = pcall(ty.dist.all_reduce, ty.ones(100))
io.write("first: ", ok and "no error" or message, "\n")
io.flush() -- it may be ended while it sleeps
if arg[1] == "cut" then
  ffi.C.sleep(1)
  local f = io.open(arg[2], "w")
  f:write "0 0 0 0\n"
  f:close()
end
os.exit(ok and 0 or 1)
]]

local function digests(out)
  local list = {}
  for name in CLAIMS:gmatch "%S+" do
    list[#list + 1] = out:match(("%s\t(%%d+ letters %%d+ %%d+)"):format(name)) or name .. " is missing"
  end
  return table.concat(list, "\n")
end

local function test(mpi)
  wire(0, 0, 0)
  local program = ("-q spec/dist_program.lua '%s' %s"):format(folder, CLAIMS)
  run(("rm -f %s/*.safetensors"):format(folder))
  local alone, status = ranks(mpi.mpirun, program)
  claim("the claims hold on one host", status == 0, alone)
  for _, case in ipairs { { 0, 0, 0, "three hosts" }, { 4, 2, 0, "three hosts, 4 to 6 ms away" },
    { 1, 1, 1, "three hosts that lose 1 % of the packets" } } do
    wire(unpack(case, 1, 3))
    run(("rm -f %s/*.safetensors"):format(folder))
    local began = os.time()
    local out, code = ranks(mpi.wrapped, program)
    claim(("%s: the bits of one host, %d s"):format(case[4], os.time() - began),
      code == 0 and digests(out) == digests(alone), out)
  end
end

local ENDS = 40 -- seconds in which a run ends whose rank is killed, or whose host cannot be reached

local function test_faults(mpi)
  local script = folder .. "/faults.lua"
  write(script, FAULTS)
  wire(4, 2, 0.5)
  local began = os.time()
  local out = ranks(mpi.wrapped, ("'%s' kill"):format(script))
  local _, told = out:gsub("%[[01]%] first: [^\n]*all_reduce: rank 2 was ended by signal 9, Killed\n", "")
  local took = os.time() - began
  claim(("a rank that is killed is named on the other hosts, %d s"):format(took), told == 2 and took < ENDS, out)
  local hosts = 0
  for r, h in out:gmatch "%[(%d)%] on host(%d), 3 ranks" do hosts = hosts + (r + 1 == tonumber(h) and 1 or 0) end
  claim("each rank has been on a host of its own", hosts == 3, out)
  wire(0, 0, 0)
  began = os.time()
  out = ranks(mpi.wrapped, ("'%s' cut '%s/control'"):format(script, folder))
  _, told = out:gsub("%[[01]%] first: [^\n]*all_reduce: ranks? [012][ ,%d]*did not answer within 3 s\n", "")
  took = os.time() - began
  claim(("a host that is cut off is told of within the time that is allowed, %d s"):format(took),
    told == 2 and took < ENDS, out)
end

local why = set_up()
if why then
  print(("skipped: %s\n0 passed, 0 failed, 1 skipped"):format((why:gsub("%s+$", ""))))
  tear_down()
  os.exit(0)
end
local function try(part, mpi)
  local ok, message = pcall(part, mpi)
  if not ok then claim(tostring(message), false, "") end
end

local some = false
for _, mpi in ipairs(MPIS) do
  if mpi.there and (not arg[1] or mpi.name == arg[1]) then
    some = true
    print(mpi.name)
    if not arg[2] then try(test, mpi) end
    for _ = 1, tonumber(arg[2]) or 1 do try(test_faults, mpi) end
  end
end
tear_down()
print(("%d passed, %d failed, %d skipped"):format(passed, failed, some and 0 or 1))
os.exit(failed == 0 and 0 or 1)
