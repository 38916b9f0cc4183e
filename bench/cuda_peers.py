"""cuda_peers.py -- what bench/cuda.lua is compared with: PyTorch and JAX on the first CUDA device.

In: side, rows, small, as sizes are called there. Out: lines "peer case microseconds"; nothing of a peer that is not installed.
Products are in full f32 (TF32 off); what is compiled is compiled (torch.compile reduce-overhead, jax.jit).
"""
import statistics
import sys
import time

side, rows, small = map(int, sys.argv[1:4])


def timed(call, wait):
    for _ in range(8):
        call()
    wait()
    times = []
    for _ in range(15):
        start, n = time.perf_counter(), 0
        while n == 0 or time.perf_counter() - start < 0.02:
            for _ in range(10):
                call()
            n += 10
            wait()
        times.append((time.perf_counter() - start) / n * 1e6)
    return statistics.median(times)


def tell(peer, cases, wait):
    for name, call in cases.items():
        try:
            print(peer, name, "%.3f" % timed(call, wait), flush=True)
        except Exception as error:  # a case that a peer cannot run has no row
            print(peer, name, error, file=sys.stderr)


def torch_cases():
    import torch
    from torch import nn

    if not torch.cuda.is_available():
        return
    torch.set_default_device("cuda")
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(1)
    x, y = torch.randn(rows, side), torch.randn(rows, side)
    a, b = torch.randn(side, side), torch.randn(side, side)
    short = torch.randn(small)
    heads = torch.randn(2, 16, 2048, 64).to(torch.bfloat16)

    def chain_of(v):
        for i in range(1, 11):
            v = torch.cumsum(torch.flip(v, [0]), 0) * (1 / i)
        return v

    chain = torch.compile(chain_of, mode="reduce-overhead")
    mapped = torch.compile(lambda u, v: torch.tanh(u * 2 + v))
    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, labels = torch.rand(small, 784), torch.randint(0, 10, (small,))
    loss_of = torch.compile(lambda: nn.functional.cross_entropy(model(inputs), labels), mode="reduce-overhead")

    def train():
        torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()

    tell("torch", {
        "map": lambda: mapped(x, y),
        "row_sum": lambda: x.sum(1),
        "column_sum": lambda: x.sum(0),
        "softmax": lambda: x.softmax(1),
        "cumsum": lambda: x.cumsum(1),
        "matmul": lambda: a @ b,
        "attention": lambda: nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True),
        "chain_of_10": lambda: chain(short),
        "train_mlp": train,
    }, torch.cuda.synchronize)


def jax_cases():
    import jax
    import jax.numpy as jnp

    if not any(d.platform == "gpu" for d in jax.devices()):
        return
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

    cases = {name: called(*f) for name, f in functions.items()}
    cases["train_mlp"] = train
    tell("jax", cases, lambda: jax.block_until_ready(last[0]))


for peer in (torch_cases, jax_cases):
    try:
        peer()
    except ImportError:
        pass
