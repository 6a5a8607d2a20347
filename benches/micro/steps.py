"""What a step of a decoder costs beside its kernels: each step has a size that no earlier one had.

    python -m benches.micro.steps [--generations 10] [--steps 100] [--past 12]

A decoder of 6 layers of 64 and 128 words takes one token at a time, on one thread: treadle with arrays that are passed
on by hand, with a state, and with arrays of one size again and again; ONNX Runtime with arrays passed on by hand.
Generations take turns. Figures are in us: the median over the steps of the least time that each step took.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benches.models.open_sizes import decoder, past_names
from benches.shapes.engines import onnxruntime_session

Array = np.ndarray[Any, Any]
LAYERS, HEADS, WIDTH, WORDS = 6, 8, 64, 128
TOKEN = np.array([[5]])
Step = Callable[[], object]


def passed_on(run: Callable[[dict[str, Array]], list[Array]], past: int) -> Step:
    """Returns a step whose results are inputs of the next; `run` returns the logits first."""
    names = past_names(LAYERS)
    kept = dict.fromkeys(names, np.zeros((1, HEADS, past, WIDTH // HEADS), np.float32))

    def step() -> None:
        kept.update(zip(names, run({"input_ids": TOKEN, **kept})[1:], strict=True))

    return step


def main() -> None:
    import treadle

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--generations", type=int, default=10)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--past", type=int, default=12, help="tokens before the first step")
    options = parser.parse_args()
    treadle.threads.set(intra_op=1, inter_op=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "steps.onnx"
        decoder("steps", path, width=WIDTH, layers=LAYERS, heads=HEADS, vocabulary=WORDS)
        session, rival = treadle.Session(path), onnxruntime_session(str(path), 1)
        shape = (1, HEADS, options.past, WIDTH // HEADS)

        def state() -> Step:
            kept = session.state()
            kept.run({"input_ids": np.zeros((1, options.past), np.int64)})
            return lambda: kept.run({"input_ids": TOKEN})

        def again() -> Step:
            feed = {"input_ids": TOKEN, **dict.fromkeys(past_names(LAYERS), np.zeros(shape, np.float32))}
            return lambda: session.run(feed)

        ways: dict[str, Callable[[], Step]] = {
            "treadle": lambda: passed_on(lambda feed: list(session.run(feed).values()), options.past),
            "treadle state": state,
            "treadle, one size": again,
            "onnxruntime": lambda: passed_on(lambda feed: rival.run(None, feed), options.past),
        }
        least = {name: np.full(options.steps, np.inf) for name in ways}
        for _ in range(options.generations):
            for name, begin in ways.items():
                step = begin()
                for number in range(options.steps):
                    start = time.perf_counter()
                    step()
                    least[name][number] = min(least[name][number], time.perf_counter() - start)
    for name, seconds in least.items():
        print(f"{name:20s} {np.median(seconds) * 1e6:8.1f}")


if __name__ == "__main__":
    main()
