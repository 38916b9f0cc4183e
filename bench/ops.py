"""NumPy and PyTorch for bench/ops.lua: one thread, one line in, one line out.

In:  what \t size \t inputs \t numpy's expression \t torch's, as words, separated by tabs; an expression may be empty.
     `what` is "value", "time", or "gradient value", "gradient time" (torch's alone), with "fresh" where the inputs
     are written to. Inputs are names of files NAME_SIZE.npy in build/bench/ops; `n`, the size, is always there.
Out: two numbers, numpy's and torch's: seconds a call, or the mean magnitude of the first result (of the gradients);
     "-" where there is none, "!" and a message where an expression fails.
The first line names the versions; without any peer nothing is printed.
"""
import os
import sys

from timing import seconds_of

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

try:
    import numpy as np
except ImportError:
    sys.exit(1)
try:
    import torch
    torch.set_num_threads(1)
except ImportError:
    torch = None

BATCH = 0.01  # seconds that a measurement lasts, about: as in ops.lua
FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "bench", "ops")

arrays, tensors = {}, {}


def array(name, size):
    key = name, size
    if key not in arrays:
        value = np.load(os.path.join(FOLDER, "%s_%s.npy" % key))
        arrays[key] = value.tolist() if name == "list" else value
    return arrays[key]


def tensor(name, size):
    key = name, size
    if key not in tensors:
        value = array(name, size)
        tensors[key] = value if name == "list" else torch.from_numpy(value).clone()
    return tensors[key]


def copy(value):
    return value.copy() if isinstance(value, np.ndarray) else value.clone()


def first(y):
    return y[0] if isinstance(y, (tuple, list)) else y


def magnitude(y):
    y = first(y)
    y = y.detach().numpy() if torch and isinstance(y, torch.Tensor) else np.asarray(y)
    return float(np.abs(y).astype(np.float64).mean())


def function(expression, inputs):
    scope = {"np": np, "f32": np.float32, "i64": np.int64, "torch": torch}
    if torch:
        scope["F"] = torch.nn.functional
    scope.update(inputs)
    return eval("lambda: " + expression, scope)


def forward(expression, inputs, timed):
    f = function(expression, inputs)
    return seconds_of(f, BATCH) if timed else magnitude(f())


def gradient(expression, inputs, timed):
    leaves = {k: v.clone().requires_grad_() for k, v in inputs.items()
              if isinstance(v, torch.Tensor) and (v.is_floating_point() or v.is_complex())}
    f = function(expression, {**inputs, **leaves})

    def step():
        for v in leaves.values():
            v.grad = None
        y = first(f())
        (y.abs() if y.is_complex() else y).sum().backward()

    if timed:
        return seconds_of(step, BATCH)
    step()
    return sum(magnitude(v.grad) for v in leaves.values() if v.grad is not None)


def answer(line):
    what, size, names, for_numpy, for_torch = line.rstrip("\n").split("\t")
    what = what.split()
    out = []
    for module, expression, load in (("numpy", for_numpy, array), ("torch", for_torch, tensor)):
        how = gradient if "gradient" in what else forward
        if not expression or (module == "torch" and not torch) or (module == "numpy" and how == gradient):
            out.append("-")
            continue
        inputs = {k: load(k, size) for k in names.split() if k != "n"}
        if "fresh" in what:
            inputs = {k: copy(v) for k, v in inputs.items()}
        inputs["n"] = int(size)
        try:
            if module == "torch" and how == forward:
                with torch.no_grad():
                    value = how(expression, inputs, "time" in what)
            else:
                value = how(expression, inputs, "time" in what)
            out.append("%.9g" % value)
        except Exception as e:
            if "derivative" in str(e):  # it has none
                out.append("-")
                continue
            return "! %s: %s" % (expression, " ".join(str(e).split())[:200])
    return " ".join(out)


print(", ".join(["NumPy " + np.__version__] + (["PyTorch " + torch.__version__] if torch else [])), flush=True)
for question in sys.stdin:
    print(answer(question), flush=True)
