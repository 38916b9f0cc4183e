"""How the peers of Tycho are timed: in bench/peers.py and bench/ops.py, as Tycho is in bench/measure.lua."""
import time


def seconds_of(fn, batch):
    """Time computed: the best of three batches of calls, which last about that many seconds together."""
    clock = time.process_time
    count = 1
    while True:
        started = clock()
        for _ in range(count):
            fn()
        taken = clock() - started
        if taken > batch / 4:
            break
        count *= 2 if taken > batch / 100 else 8
    count = max(1, int(count * batch / 3 / taken))
    best = 1e9
    for _ in range(3):
        started = clock()
        for _ in range(count):
            fn()
        best = min(best, clock() - started)
    return best / count
