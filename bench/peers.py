"""Times of NumPy, PyTorch and JAX, for bench/run.lua.

Reads the name of a row a line and answers "numpy torch compiled jax": seconds a call (bytes for resident), or
"-" where a peer is absent or the row means nothing to it. The first line it prints names the versions;
nothing is printed and the exit code is 1 when neither is here. One thread. torch.compile takes half a minute
and a C++ compiler, so it takes part where TYCHO_PEERS_COMPILE is set.
"""
import os
import subprocess
import sys
import time

from timing import seconds_of

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

BATCH = 0.015

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
except ImportError:
    torch = None
try:
    os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None


# m, n, k of products of m x k by k x n
PRODUCTS = [(n, n, n) for n in (16, 32, 64, 128)] + [(8, 64, 64), (32, 128, 784)]


def source(n):
    return ((np.arange(n) * 37 % 1000) / 250 - 2).astype(np.float32)


def numpy_rows():
    def chain(x):
        a = x * np.float32(1.01) + np.float32(0.5)
        a = a * x - x
        a = np.abs(a) * np.float32(0.25) + x
        a = np.maximum(a, np.float32(0.1))
        a = a * a
        return np.minimum(a, np.float32(6))

    def softmax(x):
        e = np.exp(x - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    def layer_norm(x):
        d = x - x.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + np.float32(1e-5))

    def rounds(x, count):
        a = x
        for _ in range(count):
            a = np.minimum(np.abs(np.maximum(a * np.float32(0.9), np.float32(0.5)) + x), np.float32(3))
        return a

    def gelu(x):  # NumPy has no erf: by tanh
        inner = x + np.float32(0.044715) * (x * x * x)
        return np.float32(0.5) * x * (np.float32(1) + np.tanh(np.float32(0.7978846) * inner))

    a, b = np.float32([1, 2, 3, 4]), np.float32([5, 6, 7, 8])
    x = source(10000000)
    square = x[:512 * 512].reshape(512, 512)
    rows = {"add4": lambda: a + b, "softmax": lambda: softmax(square),
            "layer_norm": lambda: layer_norm(square), "gelu": lambda: gelu(square),
            "exp_tanh": lambda v=x[:1000000]: np.exp(v * np.float32(0.5)) * np.tanh(v) + v}
    for count in (6, 20):
        rows["rounds%d" % count] = lambda c=count, v=x[:4096]: rounds(v, c)
    for n in (256, 1024):
        part = x[:n * n].reshape(n, n)
        rows["sum_rows%d" % n] = lambda p=part: p.sum(1)
        rows["sum_columns%d" % n] = lambda p=part: p.sum(0)
        rows["sum_all%d" % n] = lambda p=part: p.sum()
    for m, n, k in PRODUCTS:
        p, q = x[:m * k].reshape(m, k), x[:k * n].reshape(k, n)
        rows["product%dx%dx%d" % (m, n, k)] = lambda p=p, q=q: p @ q
        rows["dense%dx%dx%d" % (m, n, k)] = lambda p=p, q=q, b=x[:n]: np.maximum(p @ q + b, np.float32(0))
    for n in (100, 10000, 1000000, 10000000):
        rows["chain%d" % n] = lambda part=x[:n]: chain(part)
    for n in (512, 1024, 2048):
        rows["matmul%d" % n] = lambda m=x[:n * n].reshape(n, n): m @ m
    rows.update(file_rows())
    return rows


def file_rows():
    """Files that bench/files.lua and bench/data.lua have written."""
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "bench")
    rows = {"npy": lambda: np.load(os.path.join(folder, "read.npy")),
            "loadtxt": lambda: np.loadtxt(os.path.join(folder, "read10000.csv"), np.float32, delimiter=",", skiprows=1)}
    try:
        import pandas
        rows["csv"] = lambda: pandas.read_csv(os.path.join(folder, "read100000.csv")).to_numpy()
    except ImportError:
        pass
    try:
        from safetensors import safe_open
    except ImportError:
        return rows

    def first():
        with safe_open(os.path.join(folder, "read.safetensors"), "np") as f:
            return f.get_tensor(next(iter(f.keys())))[0]

    rows["safetensors"] = first
    return rows


def torch_chain(x):
    a = x * 1.01 + 0.5
    a = a * x - x
    a = a.abs() * 0.25 + x
    a = a.clamp_min(0.1)
    a = a * a
    return a.clamp_max(6)


def torch_rows():
    a, b = torch.tensor([1., 2, 3, 4]), torch.tensor([5., 6, 7, 8])
    x = (torch.arange(10000000) * 37 % 1000).float() / 250 - 2
    square = x[:512 * 512].reshape(512, 512)
    rows = {"add4": lambda: a + b, "softmax": lambda: square.softmax(1),
            "layer_norm": lambda: torch.nn.functional.layer_norm(square, (512,)),
            "gelu": lambda: torch.nn.functional.gelu(square),
            "exp_tanh": lambda v=x[:1000000]: (v * 0.5).exp() * v.tanh() + v}

    def rounds(x, count):
        a = x
        for _ in range(count):
            a = ((a * 0.9).clamp_min(0.5) + x).abs().clamp_max(3)
        return a

    for count in (6, 20):
        rows["rounds%d" % count] = lambda c=count, v=x[:4096]: rounds(v, c)
    for n in (256, 1024):
        part = x[:n * n].reshape(n, n)
        rows["sum_rows%d" % n] = lambda p=part: p.sum(1)
        rows["sum_columns%d" % n] = lambda p=part: p.sum(0)
        rows["sum_all%d" % n] = lambda p=part: p.sum()
    for m, n, k in PRODUCTS:
        p, q = x[:m * k].reshape(m, k), x[:k * n].reshape(k, n)
        rows["product%dx%dx%d" % (m, n, k)] = lambda p=p, q=q: p @ q
        rows["dense%dx%dx%d" % (m, n, k)] = lambda p=p, q=q, b=x[:n]: torch.addmm(b, p, q).relu_()
    rows.update(torch_nets(lambda f: f))
    half = x[:1024 * 1024].reshape(1024, 1024).bfloat16()
    rows["bf16"] = lambda: half @ half
    for n in (100, 10000, 1000000, 10000000):
        rows["chain%d" % n] = lambda part=x[:n]: torch_chain(part)
    for n in (512, 1024, 2048):
        rows["matmul%d" % n] = lambda m=x[:n * n].reshape(n, n): m @ m
    return rows


# Networks of the rows of captured calls (models.lua).

def weights(*sizes):
    return ((np.arange(int(np.prod(sizes))) * 37 % 1000) / 2500 - 0.2).astype(np.float32).reshape(sizes)


def dense(n, m):
    return {"w": weights(n, m), "b": weights(m)}


def torch_tree(p):
    if isinstance(p, dict):
        return {k: torch_tree(v) for k, v in p.items()}
    if isinstance(p, list):
        return [torch_tree(v) for v in p]
    return torch.from_numpy(p)


def torch_mlp(net, x):
    for p in net:
        x = torch.relu(torch.addmm(p["b"], x, p["w"]))
    return x


def chain_of_parameters(net, x):
    for p in net:
        x = x * p["w"] + p["b"]
    return x


def torch_mlp_layers(sizes):
    layers = []
    for n, m in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(n, m), torch.nn.ReLU()]
    return layers[:-1]


def torch_cnn_layers(size):
    nn = torch.nn
    return [nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * (size // 4) ** 2, 10)]


def torch_step(layers, shape, classes, wrap):
    """A step of training by SGD; the model is wrapped at the first step."""
    made = []

    def step():
        if not made:
            model = torch.nn.Sequential(*layers())
            made.extend([wrap(model), torch.optim.SGD(model.parameters(), lr=0.01), torch.randn(*shape),
                         torch.randint(0, classes, (shape[0],))])
        model, opt, x, y = made
        with torch.enable_grad():
            opt.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            opt.step()
    return step


def torch_recurrent(kind):
    made = []

    def step():
        if not made:
            net = getattr(torch.nn, kind)(32, 64, 2, batch_first=True, bidirectional=True)
            made.extend([net, torch.optim.SGD(net.parameters(), lr=0.01), torch.randn(16, 30, 32)])
        net, opt, x = made
        with torch.enable_grad():
            opt.zero_grad()
            net(x)[0].square().mean().backward()
            opt.step()
    return step


def torch_attention_grad():
    made = []

    def step():
        if not made:
            made.extend(torch.randn(1, 8, 512, 64, requires_grad=True) for _ in range(3))
            made.append(torch.randn(1, 8, 512, 64))
        q, k, v, g = made
        q.grad = k.grad = v.grad = None
        with torch.enable_grad():
            torch.nn.functional.scaled_dot_product_attention(q, k, v).backward(g)
    return step


def torch_block_class():
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        """As Tycho's nn.TransformerBlock: norms first."""
        def __init__(self, d, heads, norm, bias, causal):
            super().__init__()
            self.heads, self.causal = heads, causal
            self.norm1, self.norm2 = norm(d, eps=1e-5), norm(d, eps=1e-5)
            self.qkv, self.out = nn.Linear(d, 3 * d, bias=bias), nn.Linear(d, d, bias=bias)
            self.up, self.down = nn.Linear(d, 4 * d, bias=bias), nn.Linear(4 * d, d, bias=bias)

        def forward(self, x, turn=lambda t: t):
            b, n, d = x.shape
            q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm1(x)).split(d, 2))
            y = F.scaled_dot_product_attention(turn(q), turn(k), v, is_causal=self.causal)
            x = x + self.out(y.transpose(1, 2).reshape(b, n, d))
            return x + self.down(F.gelu(self.up(self.norm2(x))))
    return Block


def torch_block(d, n, dtype, wrap):
    made = []

    def call():
        if not made:
            block = torch_block_class()(d, 4, torch.nn.LayerNorm, True, False).to(dtype).eval()
            made.extend([wrap(block), torch.randn(1, n, d, dtype=dtype)])
        with torch.no_grad():
            return made[0](made[1])
    return call


def torch_gpt(wrap):
    """A step of training of the small GPT of models.lua."""
    nn, F, made = torch.nn, torch.nn.functional, []
    width, heads, size, batch, time = 64, 4, 96, 16, 64

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            Block = torch_block_class()
            self.embed = nn.Embedding(size, width)
            self.blocks = nn.ModuleList([Block(width, heads, nn.RMSNorm, False, True) for _ in range(3)])
            self.norm, self.head = nn.RMSNorm(width, eps=1e-5), nn.Linear(width, size, bias=False)
            half = width // heads // 2
            angles = torch.arange(time)[:, None] * 10000.0 ** (-torch.arange(half) / half)
            self.register_buffer("cos", angles.cos())
            self.register_buffer("sin", angles.sin())

        def forward(self, x):
            def turn(t):
                a, b = t.chunk(2, -1)
                return torch.cat((a * self.cos - b * self.sin, b * self.cos + a * self.sin), -1)
            h = self.embed(x)
            for block in self.blocks:
                h = block(h, turn)
            return self.head(self.norm(h))

    def step():
        if not made:
            model = GPT()
            opt = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
            made.extend([wrap(model), model, opt, *(torch.randint(0, size, (batch, time)) for _ in range(2))])
        wrapped, model, opt, x, y = made
        with torch.enable_grad():
            opt.zero_grad()
            F.cross_entropy(wrapped(x).view(-1, size), y.view(-1)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1)
            opt.step()
    return step


def torch_nets(wrap):
    """Rows of captured calls by torch functions, `wrap`ped at their first question."""
    x = torch.ones(4)
    parameters = torch_tree([{"w": weights(4), "b": weights(4)} for _ in range(50)])
    options = {"active": True, "mode": "add", "scale": 2}

    def with_options(v):
        if options["active"] and options["mode"] == "add":
            return v + options["scale"]
        return v

    made = {}

    def lazily(name, fn, *args):
        def call():
            if name not in made:
                made[name] = wrap(fn)
            return made[name](*args)
        return call

    rows = {"call1": lazily("call1", lambda v: v + 1, x), "call8": lazily("call8", with_options, x),
            "parameters": lazily("parameters", lambda v: chain_of_parameters(parameters, v), x)}
    for n in (64, 256):
        net = torch_tree([dense(n, n) for _ in range(3)])
        rows["mlp%d" % n] = lazily("mlp%d" % n, lambda v, net=net: torch_mlp(net, v), torch.ones(1, n))
    for sizes, batch in (((784, 128, 10), 64), ((8, 32, 2), 16)):
        rows["step%d" % sizes[0]] = torch_step(lambda s=sizes: torch_mlp_layers(s), (batch, sizes[0]), sizes[-1], wrap)
    rows["cnn"] = torch_step(lambda: torch_cnn_layers(28), (32, 1, 28, 28), 10, wrap)
    images, kernel = torch.randn(16, 32, 28, 28), torch.randn(32, 32, 3, 3)
    rows["conv"] = lazily("conv", lambda u, v: torch.nn.functional.conv2d(u, v, padding=1), images, kernel)
    q, k, v = (torch.randn(1, 8, 512, 64) for _ in range(3))
    rows["attention"] = lazily("attention", lambda a, b, c: torch.softmax(a @ b.transpose(-1, -2) * 0.125, -1) @ c,
                               q, k, v)
    rows["attention_fused"] = lazily("attention_fused", torch.nn.functional.scaled_dot_product_attention, q, k, v)
    rows["attention_grad"] = torch_attention_grad()
    for d, n, dtype in ((64, 32, None), (256, 64, None), (768, 128, None), (768, 128, torch.bfloat16)):
        name = "block%d%s" % (d, "bf16" if dtype else "")
        rows[name] = torch_block(d, n, dtype or torch.float32, wrap)
    rows["gpt"] = torch_gpt(wrap)
    for kind in ("LSTM", "GRU"):
        rows["train_" + kind] = torch_recurrent(kind)
    x, y = torch.randn(16, 16), torch.randn(16, 16)
    rows["small_softmax"] = lambda: torch.softmax(x, 1)
    rows["small_layer_norm"] = lambda: torch.nn.functional.layer_norm(x, (16,))
    rows["small_cross_entropy"] = lambda: torch.nn.functional.cross_entropy(x, y)
    rows["small_norm"] = lambda: torch.linalg.norm(x)
    rows["small_clamp"] = lambda: torch.clamp(x, -1, 1)
    nets = [torch_tree([dense(16, 16) for _ in range(3)]) for _ in range(1000)]
    small = torch.ones(1, 16)

    def frame():
        if "small" not in made:
            made["small"] = wrap(torch_mlp)
        for net in nets:
            made["small"](net, small)
    rows["mlps1000"] = frame
    return rows


def jax_mlp(net, x):
    for p in net:
        x = jnp.maximum(x @ p["w"] + p["b"], 0)
    return x


def jax_transformer(net, x):
    n, d = x.shape

    def norm(p, v):
        v = v - v.mean(1, keepdims=True)
        return v * jax.lax.rsqrt((v * v).mean(1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]

    def linear(p, v):
        return v @ p["w"] + p["b"]

    for p in net:
        q, k, v = (t.reshape(n, 4, d // 4).transpose(1, 0, 2) for t in
                   jnp.split(linear(p["qkv"], norm(p["before"], x)), 3, 1))
        a = jax.nn.softmax(q @ k.transpose(0, 2, 1) / (d // 4) ** 0.5)
        x = x + linear(p["out"], (a @ v).transpose(1, 0, 2).reshape(n, d))
        x = x + linear(p["down"], jax.nn.gelu(linear(p["up"], norm(p["between"], x)), approximate=False))
    return x


def jax_rows():
    """jit's calls, each until its result is there. Parameters are arguments, which is what JAX wants."""
    parameters = [{"w": jnp.asarray(weights(4)), "b": jnp.asarray(weights(4))} for _ in range(50)]
    x = jnp.ones(4)
    add, two, chain, mlp = (jax.jit(f) for f in (lambda v: v + 1, lambda v: v + 2, chain_of_parameters, jax_mlp))
    rows = {"call1": lambda: add(x).block_until_ready(), "call8": lambda: two(x).block_until_ready(),
            "parameters": lambda: chain(parameters, x).block_until_ready()}

    def tree(p):
        return jax.tree_util.tree_map(jnp.asarray, p)

    for n in (64, 256):
        net, one = tree([dense(n, n) for _ in range(3)]), jnp.ones((1, n))
        rows["mlp%d" % n] = lambda net=net, one=one: mlp(net, one).block_until_ready()
    nets, small = [tree([dense(16, 16) for _ in range(3)]) for _ in range(1000)], jnp.ones((1, 16))
    rows["mlps1000"] = lambda: jax.block_until_ready([mlp(net, small) for net in nets])

    def first(fn, net, one):
        def seconds():
            # another function for each question: nothing is found in JAX's own cache
            started = time.perf_counter()
            jax.jit(lambda p, v: fn(p, v))(net, one).block_until_ready()
            return time.perf_counter() - started
        seconds.raw = True
        return seconds

    d = 64

    def norms():
        return {"scale": weights(d), "shift": weights(d)}
    blocks = [{"before": norms(), "qkv": dense(d, 3 * d), "out": dense(d, d), "between": norms(),
               "up": dense(d, 4 * d), "down": dense(4 * d, d)} for _ in range(12)]
    rows["first_mlp"] = first(jax_mlp, tree([dense(64, 64) for _ in range(4)]), jnp.ones((1, 64)))
    rows["first_transformer"] = first(jax_transformer, tree(blocks), jnp.ones((16, d)))
    return rows


def compiled_rows():
    """The rows of PyTorch that have something to fuse, through torch.compile; compiled at the first question."""
    import torch._logging
    torch._logging.set_logs(all=50)
    compiled = torch.compile(torch_chain, dynamic=True)
    x = (torch.arange(10000000) * 37 % 1000).float() / 250 - 2
    square = x[:512 * 512].reshape(512, 512)
    softmax = torch.compile(lambda t: t.softmax(1))
    norm = torch.compile(lambda t: torch.nn.functional.layer_norm(t, (512,)))
    rows = {"softmax": lambda: softmax(square), "layer_norm": lambda: norm(square)}
    for n in (100, 10000, 1000000, 10000000):
        rows["chain%d" % n] = lambda part=x[:n].clone(): compiled(part)
    rows.update(torch_nets(torch.compile))

    def first():
        net, v = torch_tree([dense(64, 64) for _ in range(4)]), torch.ones(1, 64)
        torch._dynamo.reset()
        started = time.perf_counter()
        torch.compile(lambda t: torch_mlp(net, t))(v)
        return time.perf_counter() - started
    first.raw = True
    rows["first_mlp"] = first
    return rows


RESIDENT = "print([int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmRSS')][0])"


def process(name, module):
    first = {"numpy": "(np.ones(4) + 1).sum()", "torch": "(np.ones(4) + 1).sum().item()"}[module]
    code = "import %s as np; " % module
    if name == "resident":
        out = subprocess.run([sys.executable, "-c", code + RESIDENT], capture_output=True)
        return float(out.stdout) * 1024
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", code + first], check=True)
    return time.perf_counter() - started


def main():
    tables = {}
    versions = []
    if np:
        tables["numpy"] = numpy_rows()
        versions.append("NumPy " + np.__version__)
    if torch:
        tables["torch"] = torch_rows()
        versions.append("PyTorch " + torch.__version__)
        if os.environ.get("TYCHO_PEERS_COMPILE"):
            tables["compiled"] = compiled_rows()
    if jax:
        tables["jax"] = jax_rows()
        versions.append("JAX " + jax.__version__)
    if not versions:
        sys.exit(1)
    print(", ".join(versions), flush=True)
    slow = {}  # a process's start and size: measured once
    for line in sys.stdin:
        name = line.strip()
        answer = []
        for module in ("numpy", "torch", "compiled", "jax"):
            rows = tables.get(module)
            if rows is None or (name not in rows and module in ("compiled", "jax")):
                answer.append("-")
            elif name in ("start", "resident"):
                if (name, module) not in slow:
                    slow[name, module] = process(name, module)
                answer.append("%.9g" % slow[name, module])
            else:
                fn = rows.get(name)
                raw = getattr(fn, "raw", False)
                answer.append("%.9g" % (fn() if raw else seconds_of(fn, BATCH)) if fn else "-")
        print(" ".join(answer), flush=True)


main()
