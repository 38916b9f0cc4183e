"""cuda_peers.py -- what bench/cuda.lua is compared with: PyTorch and JAX on the first CUDA device.

In: side, rows, small, heads, length, width, texts, images, channels, as sizes are called there; a device, "cuda" unless said ("cpu": to
prove this file). Out: lines "peer case microseconds"; of a peer that is not installed or has no such device a line that says so, of a
case that it cannot run one with the error. Products are in full f32 (TF32 off) but in rows that name another precision; what is
compiled is compiled (torch.compile reduce-overhead, jax.jit).
"""
import os
import statistics
import sys
import time

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # PyTorch's memory is beside it
side, rows, small, heads, length, width, texts, images, channels = map(int, sys.argv[1:10])
device = sys.argv[10] if len(sys.argv) > 10 else "cuda"


def timed(call, wait, cpu):
    """Median of rounds, microseconds of a call: of the thread alone, while the device is not waited for, where cpu is true."""
    for _ in range(8):
        call()
    wait()
    clock = time.thread_time if cpu else time.perf_counter
    times = []
    for _ in range(15):
        began, spent, n = time.perf_counter(), 0, 0
        while n == 0 or time.perf_counter() - began < 0.02:
            start = clock()
            for _ in range(10):
                call()
            n += 10
            if cpu:
                spent += clock() - start
            wait()
            if not cpu:
                spent += clock() - start
        times.append(spent / n * 1e6)
    return statistics.median(times)


def tell(peer, cases, wait):
    """cases: name to a function that makes what is called again and again."""
    for name, make in cases.items():
        try:
            print(peer, name, "%.3f" % timed(make(), wait, name.endswith("_cpu")), flush=True)
        except Exception as error:  # a case that a peer cannot run has no time
            print(peer, name, "raises", str(error).split("\n")[0], flush=True)


def torch_gpt():
    """The step of bench/models.lua's GPT over characters: 3 blocks of width 64, windows of 64."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    d, lanes, classes, time_ = 64, 4, 96, 64
    half = d // lanes // 2
    angles = torch.arange(time_)[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cos, sin = angles.cos(), angles.sin()

    def turned(t):
        a, b = t.chunk(2, -1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.between = nn.RMSNorm(d, eps=1e-5), nn.RMSNorm(d, eps=1e-5)
            self.qkv, self.out = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
            self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)

        def forward(self, x):
            q, k, v = (t.view(*t.shape[:2], lanes, -1).transpose(1, 2) for t in self.qkv(self.before(x)).chunk(3, -1))
            y = F.scaled_dot_product_attention(turned(q), turned(k), v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).flatten(2))
            return x + self.down(F.gelu(self.up(self.between(x))))

    model = nn.Sequential(nn.Embedding(classes, d), *(Block() for _ in range(3)), nn.RMSNorm(d, eps=1e-5),
                          nn.Linear(d, classes, bias=False))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.1)
    x, y = (torch.randint(0, classes, (texts, time_)) for _ in range(2))
    loss_of = torch.compile(lambda: F.cross_entropy(model(x).flatten(0, 1), y.flatten()), mode="reduce-overhead")
    return stepped(loss_of, optimizer, lambda: nn.utils.clip_grad_norm_(model.parameters(), 1))


def stepped(loss_of, optimizer, clip=lambda: None):
    import torch

    def step():
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss_of().backward()
        clip()
        optimizer.step()
    return step


def torch_classifier(model, x):
    import torch

    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    labels = torch.randint(0, 10, (x.shape[0],))
    return stepped(torch.compile(lambda: torch.nn.functional.cross_entropy(model(x), labels), mode="reduce-overhead"), optimizer)


def torch_resnet():
    """ResNet-18 for images of 32 x 32."""
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, before, after, stride):
            super().__init__()
            self.conv1, self.norm1 = nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after)
            self.conv2, self.norm2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
            self.short = nn.Sequential()
            if stride > 1 or before != after:
                self.short = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, x):
            y = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
            return (y + self.short(x)).relu()

    layers, before = [nn.Conv2d(3, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU()], channels
    for stage in range(4):
        for i in range(2):
            after = channels * 2 ** stage
            layers.append(Block(before, after, 2 if stage and not i else 1))
            before = after
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 10))
    return torch_classifier(model, torch.rand(images, 3, 32, 32))


def torch_attention(causal):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (torch.randn(1, heads, length, width).half() for _ in range(3))
    if device == "cpu":
        return lambda: scaled_dot_product_attention(q, k, v, is_causal=causal)

    def call():
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return scaled_dot_product_attention(q, k, v, is_causal=causal)
    return call


def torch_cases():
    import torch
    from torch import nn

    if device == "cuda" and not torch.cuda.is_available():
        print("torch", torch.__version__, "has no CUDA device")
        return
    print("torch", torch.__version__, flush=True)
    torch.set_default_device(device)
    torch.manual_seed(1)

    def tf32(on):
        torch.backends.cuda.matmul.allow_tf32 = on
        torch.backends.cudnn.allow_tf32 = on

    def of_matrices(call, count=1, compiled=False):
        def make():
            given = [torch.randn(rows, side) for _ in range(count)]
            f = torch.compile(call) if compiled else call
            return lambda: f(*given)
        return make

    def product(dtype):
        def make():
            a, b = (torch.randn(side, side).to(dtype) for _ in range(2))
            return lambda: a @ b
        return make

    def chain():
        def chain_of(v):
            for i in range(1, 11):
                v = torch.cumsum(torch.flip(v, [0]), 0) * (1 / i)
            return v
        short, f = torch.randn(small), torch.compile(chain_of, mode="reduce-overhead")
        return lambda: f(short)

    def mlp():
        return torch_classifier(nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10)), torch.rand(small, 784))

    steps = {"train_mlp": mlp, "train_gpt": torch_gpt, "train_resnet18": torch_resnet}
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    tf32(False)
    tell("torch", {
        "map": of_matrices(lambda u, v: torch.tanh(u * 2 + v), 2, True),
        "column_sum": of_matrices(lambda x: x.sum(0)),
        "row_sum": of_matrices(lambda x: x.sum(1)),
        "softmax": of_matrices(lambda x: x.softmax(1)),
        "cumsum": of_matrices(lambda x: x.cumsum(1)),
        "matmul": product(torch.float32),
        "matmul_f16": product(torch.float16),
        "matmul_bf16": product(torch.bfloat16),
        "attention": lambda: torch_attention(False),
        "attention_causal": lambda: torch_attention(True),
        "chain_of_10": chain,
        "chain_of_10_cpu": chain,
        **steps,
    }, wait)
    tf32(True)
    torch.compiler.reset()
    tell("torch", {"matmul_tf32": product(torch.float32), **{name + "_tf32": make for name, make in steps.items()}}, wait)


def jax_cases():
    import jax
    import jax.numpy as jnp

    if device == "cuda" and not any(d.platform == "gpu" for d in jax.devices()):
        print("jax", jax.__version__, "has no CUDA device")
        return
    print("jax", jax.__version__, flush=True)
    keys = jax.random.split(jax.random.PRNGKey(1), 9)
    x, y = jax.random.normal(keys[0], (rows, side)), jax.random.normal(keys[1], (rows, side))
    a, b = jax.random.normal(keys[2], (side, side)), jax.random.normal(keys[3], (side, side))
    short = jax.random.normal(keys[4], (small,))
    inputs, labels = jax.random.uniform(keys[5], (small, 784)), jax.random.randint(keys[6], (small,), 0, 10)
    state = [jax.random.normal(keys[7], (784, 128)) / 28, jnp.zeros(128), jax.random.normal(keys[8], (128, 10)) / 11, jnp.zeros(10)]
    last = [x]

    def loss(p):
        h = jnp.maximum(jnp.dot(inputs, p[0], precision="highest") + p[1], 0)
        scores = jax.nn.log_softmax(jnp.dot(h, p[2], precision="highest") + p[3])
        return -scores[jnp.arange(small), labels].mean()

    def chain_of(v):
        for i in range(1, 11):
            v = jnp.cumsum(jnp.flip(v)) * (1 / i)
        return v

    step = jax.jit(lambda p: [v - 0.01 * g for v, g in zip(p, jax.grad(loss)(p))])
    functions = {
        "map": (jax.jit(lambda u, v: jnp.tanh(u * 2 + v)), x, y),
        "row_sum": (jax.jit(lambda u: u.sum(1)), x),
        "column_sum": (jax.jit(lambda u: u.sum(0)), x),
        "softmax": (jax.jit(lambda u: jax.nn.softmax(u, 1)), x),
        "cumsum": (jax.jit(lambda u: jnp.cumsum(u, 1)), x),
        "matmul": (jax.jit(lambda u, v: jnp.dot(u, v, precision="highest")), a, b),
        "chain_of_10": (jax.jit(chain_of), short),
    }

    def called(f, *given):
        def call():
            last[0] = f(*given)
        return call

    def train():
        state[:] = step(state)
        last[0] = state

    cases = {name: lambda f=f: called(*f) for name, f in functions.items()}
    cases["chain_of_10_cpu"] = cases["chain_of_10"]
    cases["train_mlp"] = lambda: train
    tell("jax", cases, lambda: jax.block_until_ready(last[0]))


for name, peer in {"torch": torch_cases, "jax": jax_cases}.items():
    try:
        peer()
    except ImportError:
        print(name, "is not installed")
