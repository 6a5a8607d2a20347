"""The timed programs, written once for treadle's `tf` and for TensorFlow's: functions that return their results."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

PROGRAM = Path(__file__).parents[2] / "tests" / "programs" / "python_loops.py"
LOOPS = 6_000_000
SIZE, PRODUCTS = 768, 6

Work = Callable[[], list[Any]]


def loops(tf: Any, intra: int, inter: int) -> Work:
    """The two functions of tests/programs/python_loops.py, called as it calls them: through tf.function."""
    tf.config.threading.set_intra_op_parallelism_threads(intra)
    tf.config.threading.set_inter_op_parallelism_threads(inter)
    both = program(tf)["both"]
    return lambda: [both(tf.constant(LOOPS)).numpy()]


def loops_session(tf: Any, intra: int, inter: int) -> Work:
    """The same functions in a graph and a session, where they are independent."""
    cpu_bound, v1 = program(tf)["cpu_bound"], tf.compat.v1
    with tf.Graph().as_default() as graph:
        n = v1.placeholder(tf.int32, [])
        total = tf.add(*(tf.py_function(cpu_bound, [n], tf.float64) for _ in range(2)))
    session = v1.Session(graph=graph, config=config(v1, intra, inter))
    return lambda: [session.run(total, {n: LOOPS})]


def graph(tf: Any, intra: int, inter: int) -> Work:
    """Independent products and sums of columns of 768 x 768 matrices."""
    v1 = tf.compat.v1
    x = np.random.default_rng(5).standard_normal((SIZE, SIZE)).astype(np.float32)
    with tf.Graph().as_default() as made:
        place = v1.placeholder(tf.float32, [SIZE, SIZE])
        weights = [tf.constant(x + number) for number in range(PRODUCTS)]
        fetches = [tf.matmul(place, w) for w in weights] + [tf.reduce_sum(w * place, axis=0) for w in weights]
    session = v1.Session(graph=made, config=config(v1, intra, inter))
    return lambda: session.run(fetches, {place: x})


def config(v1: Any, intra: int, inter: int) -> Any:
    """Returns a session's configuration with these numbers of threads."""
    return v1.ConfigProto(intra_op_parallelism_threads=intra, inter_op_parallelism_threads=inter)


def program(tf: Any) -> dict[str, Any]:
    """Returns the functions that the program defines, with `tf` in place of its own import."""
    tree = ast.parse(PROGRAM.read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    names: dict[str, Any] = {"tf": tf}
    exec(compile(tree, str(PROGRAM), "exec"), names)
    return names


WORK: dict[str, Callable[[Any, int, int], Work]] = {"loops": loops, "loops-session": loops_session, "graph": graph}
