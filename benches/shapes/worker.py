"""The processes of the benchmark: one answers requests of random sizes, one generates tokens."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benches.harness.worker import Answer
from benches.memory.worker import megabytes
from benches.shapes.engines import DECODERS, ENGINES, Run
from benches.shapes.requests import KINDS, Array

CHECKED = 10
"""Of so many requests, the outputs of one are compared."""

PROMPT = 12
"""Tokens before the first generated one."""


def timed(run: Run, feed: dict[str, Array]) -> tuple[int, list[Array]]:
    """Runs once; returns the latency in ns and the outputs."""
    start = time.perf_counter_ns()
    outputs = run(feed)
    return time.perf_counter_ns() - start, outputs


def requests(name: str, model: str, threads: int, kind: str, folder: str) -> tuple[dict[str, Any], Answer]:
    """Answers a list of (number, sizes) with the first and a later latency and the resident memory after each.

    Each run gets arrays of its own, which are made just before it, so that caches and idle workers are the same for
    both. Some outputs go to `folder`. One run before the requests, of sizes that are mostly new too, does not count: it
    fetches what a process that nothing has interrupted would have in caches.
    """
    run, version, compiles = ENGINES[name](model, threads, False)
    before = compiles()
    made = KINDS[kind]
    turns = itertools.count()

    def answer(turn: Sequence[tuple[int, list[int]]]) -> dict[str, Any]:
        run(made.feed(0, made.warm_up(next(turns))))
        found = []
        for number, sizes in turn:
            first, _ = timed(run, made.feed(number, sizes))
            later, outputs = timed(run, made.feed(number, sizes))
            found.append({"first_ns": first, "later_ns": later, "megabytes": megabytes("VmRSS")})
            if number % CHECKED == 0:
                np.savez(Path(folder) / f"{name}-{number}.npz", *outputs)
        return {"requests": found, "peak": megabytes("VmHWM"), "compiles": compiles() - before}

    return {"version": version}, answer


def tokens(name: str, model: str, threads: int, past: list[str], shape: list[int]) -> tuple[dict[str, Any], Answer]:
    """Answers a number with as many tokens, each the likeliest one, and the latency of each; the prompt is the first.

    `past` are the model's inputs of earlier tokens, of this `shape` at first, in the order of its outputs.
    """
    start_generation, step, version, compiles = DECODERS[name](model, threads, past, shape)
    before = compiles()
    prompt = np.random.default_rng(0).integers(0, 50257, (1, PROMPT))

    def answer(count: int) -> dict[str, Any]:
        start_generation()
        tokens = prompt
        found: list[int] = []
        latencies = []
        for _ in range(count):
            start = time.perf_counter_ns()
            found.append(int(step(tokens)[0, -1].argmax()))
            tokens = np.array([[found[-1]]])
            latencies.append(time.perf_counter_ns() - start)
        return {"tokens": found, "latencies_ns": latencies, "peak": megabytes("VmHWM"), "compiles": compiles() - before}

    return {"version": version}, answer
