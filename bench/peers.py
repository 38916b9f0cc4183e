"""Times of NumPy and PyTorch, for bench/run.lua.

Reads the name of a row a line and answers "numpy torch compiled": seconds a call (bytes for resident), or
"-" where a peer is absent or the row means nothing to it. The first line it prints names the versions;
nothing is printed and the exit code is 1 when neither is here. One thread. torch.compile takes half a minute
and a C++ compiler, so it takes part where TYCHO_PEERS_COMPILE is set.
"""
import os
import subprocess
import sys
import time

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


def seconds_of(fn):
    """As in run.lua: time computed, a batch of calls, the best of three."""
    clock = time.process_time
    count = 1
    while True:
        started = clock()
        for _ in range(count):
            fn()
        taken = clock() - started
        if taken > BATCH / 4:
            break
        count *= 2 if taken > BATCH / 100 else 8
    count = max(1, int(count * BATCH / 3 / taken))
    best = 1e9
    for _ in range(3):
        started = clock()
        for _ in range(count):
            fn()
        best = min(best, clock() - started)
    return best / count


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
    half = x[:1024 * 1024].reshape(1024, 1024).bfloat16()
    rows["bf16"] = lambda: half @ half
    for n in (100, 10000, 1000000, 10000000):
        rows["chain%d" % n] = lambda part=x[:n]: torch_chain(part)
    for n in (512, 1024, 2048):
        rows["matmul%d" % n] = lambda m=x[:n * n].reshape(n, n): m @ m
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
    if not versions:
        sys.exit(1)
    print(", ".join(versions), flush=True)
    slow = {}  # a process's start and size: measured once
    for line in sys.stdin:
        name = line.strip()
        answer = []
        for module in ("numpy", "torch", "compiled"):
            rows = tables.get(module)
            if rows is None or (name not in rows and module == "compiled"):
                answer.append("-")
            elif name in ("start", "resident"):
                if (name, module) not in slow:
                    slow[name, module] = process(name, module)
                answer.append("%.9g" % slow[name, module])
            else:
                answer.append("%.9g" % seconds_of(rows[name]) if name in rows else "-")
        print(" ".join(answer), flush=True)


main()
