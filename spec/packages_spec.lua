--- packages_spec.lua -- what packages say of the library is what it is: versions, options, licenses. `make test-packages`
-- builds and installs them.

local H = require "spec.helper"

local function output(command)
  local pipe = assert(io.popen(("cd '%s' && { %s; } 2>&1"):format(H.root, command)))
  local text = pipe:read "*a"
  pipe:close()
  return text
end

--- The rockspec's fields, read as luarocks reads them.
local function rockspec(path)
  local env = {}
  setfenv(assert(loadstring(H.read(path), path)), env)()
  return env
end

--- Its manual page without markup: words and the characters that they stand for.
local function manual()
  return (H.read("tycho.1"):gsub("\\f.", ""):gsub("\\~\\c\n%.%a+ ", " "):gsub("\\~", " "):gsub("\\%-", "-"):gsub("\\.", ""))
end

describe("packages", function()
  local version = H.ty.version

  it("are of one version: the module, the command, the rockspec, Debian's and the project's changelogs, the manual", function()
    assert.truthy(version:find "^%d+%.%d+%.%d+$")
    assert.equal(version, output("./tycho --version"):match "^tycho ([%d.]+), LuaJIT")
    local names = output("ls *.rockspec")
    assert.equal(("tycho-%s-1.rockspec\n"):format(version), names)
    assert.equal(version .. "-1", rockspec(names:sub(1, -2)).version)
    assert.equal(version, H.read("debian/changelog"):match "^tycho %(([^)]*)%)")
    assert.equal(version, H.read("CHANGELOG.md"):match "\n## ([%d.]+)\n")
    assert.equal(version, H.read("tycho.1"):match '^%.TH TYCHO 1 "[^"]*" "tycho ([%d.]+)"')
  end)

  it("have a manual page that names each option of --help, and none that is not there", function()
    local usage, page = output "./tycho --help", manual():match "SH OPTIONS(.-)SH THE PROMPT"
    local seen = {}
    for option in usage:gmatch "%f[-%w](%-%-?%a*)%f[%s,]" do
      seen[option] = true
      assert.truthy(page:find("%f[%w-]" .. option:gsub("%-", "%%-") .. "%f[^%w-]"), option)
    end
    for _, option in ipairs { "-e", "-i", "-q", "-l", "-j", "-O", "-b", "-", "--", "-h", "--help", "-v", "--version" } do
      assert.truthy(seen[option], option)
    end
    for option in page:gmatch "\n%.B?[BRI]* (%-%-?%a*)" do
      assert.truthy(seen[option], option .. " is no option")
    end
  end)

  it("have a manual page that names each variable of the environment for users, which the library reads", function()
    local page, sources = manual(), output "grep -rhE 'getenv' core lua"
    for name in page:match("SH ENVIRONMENT(.-)SH FILES"):gmatch "%f[%u](TYCHO_%u+)" do
      assert.truthy(sources:find('"' .. name .. '"', 1, true), name)
    end
    for _, name in ipairs { "TYCHO_DUMP", "TYCHO_THREADS", "TYCHO_LOG", "TYCHO_MACHINE", "TYCHO_ISA", "TYCHO_HISTORY" } do
      assert.truthy(page:find(name, 1, true), name)
    end
  end)

  it("have the MIT license's terms, in LICENSE as in Debian's copyright, and name whose the data are", function()
    local function words(text) return (text:gsub("\n %.\n", "\n"):gsub("%s+", " ")) end
    local license, copyright = words(H.read "LICENSE"), words(H.read "debian/copyright")
    local terms = license:match "Permission is hereby granted.-DEALINGS IN THE SOFTWARE%."
    assert.truthy(#terms > 900)
    assert.truthy(copyright:find(terms, 1, true))
    local here = H.read "examples/data/README.md"
    for file in output("ls examples/data/*.csv"):gmatch "[^/\n]+%.csv" do
      assert.truthy(license:find(file, 1, true) and copyright:find("examples/data/" .. file, 1, true) and here:find(file, 1, true), file)
    end
    assert.equal("MIT", rockspec(("tycho-%s-1.rockspec"):format(version)).description.license)
  end)

  it("recommend the libraries that are loaded when they are first used", function()
    local control, sources = H.read "debian/control", output "grep -rhoE '\"lib[a-z0-9]+\\.so\\.[0-9]+\"' core lua"
    local packages = { ["libopenblas.so.0"] = "libopenblas0", ["libpng16.so.16"] = "libpng16-16", ["libturbojpeg.so.0"] = "libturbojpeg0",
      ["libzip.so.4"] = "libzip4", ["libzip.so.5"] = "libzip5", ["libedit.so.2"] = "libedit2" }
    for file, package in pairs(packages) do
      assert.truthy(sources:find('"' .. file .. '"', 1, true), file)
      assert.truthy(control:match("Recommends:.*%f[%w]" .. package:gsub("%-", "%%-") .. "%f[^%w-]"), package)
    end
    -- NVIDIA's driver and NCCL, which Debian has elsewhere; what starts ranks, with the libraries that they load
    assert.truthy(control:find("Suggests: tycho,\n          libcuda1,\n          libnccl2,\n          openmpi-bin | mpich\n", 1, true))
    packages["libcuda.so.1"], packages["libnccl.so.2"] = "libcuda1", "libnccl2"
    packages["libmpi.so.40"], packages["libmpi.so.12"], packages["libmpich.so.12"] = "openmpi-bin", "mpich", "mpich"
    for file in sources:gmatch '"(lib[^"]*)"' do -- packages of CUDA's toolkit have its version in their names
      assert.truthy(packages[file] or packages[file:gsub("%d+$", "2")] or file:find "^libopenblas" or
        file:find "^libcusolver" or file:find "^libcublas" or file:find "^libcufft" or file:find "^libcudnn", file)
    end
  end)
end)
