# Runs each model of a folder in ONNX Runtime, and compares what it gives with the values beside it:
# name.onnx, name.in1.npy ..., name.out1.npy ... Prints a line for each that differs; exits with 3 where there is no
# ONNX Runtime.
import glob
import sys

try:
    import numpy as np
    import onnxruntime
except ImportError:
    sys.exit(3)

onnxruntime.set_default_logger_severity(3)
count = 0
for path in sorted(glob.glob(sys.argv[1] + "/*.onnx")):
    base, count = path[:-5], count + 1
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        feed = {x.name: np.load(f"{base}.in{i + 1}.npy") for i, x in enumerate(session.get_inputs())}
        results = session.run(None, feed)
    except Exception as e:
        print(f"{base}: {e}")
        continue
    for i, y in enumerate(results):
        want = np.load(f"{base}.out{i + 1}.npy")
        tolerance = 1e-3 if y.dtype == np.float16 else 2e-5
        if y.shape != want.shape or y.dtype != want.dtype:
            print(f"{base}: output {i + 1} is {y.dtype}{y.shape}, not {want.dtype}{want.shape}")
        elif not np.allclose(y.astype("f8"), want.astype("f8"), rtol=tolerance, atol=2e-6, equal_nan=True):
            print(f"{base}: output {i + 1} differs by {np.abs(y.astype('f8') - want.astype('f8')).max()}")
print(f"{count} models")
