"""Two CPU-bound Python functions, added together, timed under different numbers of threads."""

import sys
import time

import treadle.compat.tensorflow as tf

LOOPS = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000


def cpu_bound(n):
    total = 0.0
    for i in range(int(n)):
        total += i % 7
    return total


@tf.function
def both(n):
    c = tf.py_function(cpu_bound, [n], tf.float64)
    d = tf.py_function(cpu_bound, [n], tf.float64)
    return c + d


def timed(name, intra=0, inter=0):
    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    start = time.perf_counter()
    result = both(tf.constant(LOOPS)).numpy()
    print(f"{name:16} {time.perf_counter() - start:.3f} s  {result:.0f}", flush=True)
    return result


both(tf.constant(1))
results = [timed("default")]
results += [timed(f"intra {number}", intra=number) for number in (1, 2, 4)]
results += [timed(f"inter {number}", inter=number) for number in (1, 2, 4)]
results += [timed(f"both {number}", intra=number, inter=number) for number in (1, 2, 4)]
