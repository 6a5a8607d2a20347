"""Compares automatic thread settings with every combination that a user could have set.

    python -m benches.settings.sweep [MODEL.onnx ...] [--group GROUP] [--rounds 9] [--seconds 0.2] [--json FILE]

One session; the settings take turns within each round, given to single runs. Their order differs from round to round, and the
first run of a turn does not count, as another CPU may have to wake up. `automatic / best` is the latency at automatic settings
over that at the best of the sweep; `inter on / off` that of (all, all) over (all, 1). Fails if outputs are far from ONNX
Runtime's, where that is installed, or not the same at every setting, bit for bit.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import time
from itertools import product
from pathlib import Path

import weft
from benches.models import build
from benches.models.check import reference
from benches.rivals.compare import cpu_name, random_inputs
from benches.rivals.outputs import is_right, relative_error

Setting = tuple[int, int]
AUTOMATIC: Setting = (0, 0)


def check(model: str, session: weft.Session, settings: list[Setting]) -> bool:
    """Whether outputs are right, and the same at each of `settings`."""
    inputs = random_inputs(model)
    results = [list(session.run(inputs, intra_op=intra, inter_op=inter).values()) for intra, inter in settings]
    same = len({tuple(output.tobytes() for output in outputs) for outputs in results}) == 1
    wanted = reference(model, inputs)
    return is_right(model, None if wanted is None else relative_error(results[0], wanted), same=same)


def sweep(
    model: str, session: weft.Session, settings: list[Setting], rounds: int, seconds: float
) -> dict[Setting, float]:
    """The median over rounds of the median latency in ns, by (intra_op, inter_op)."""
    inputs = random_inputs(model)
    medians: dict[Setting, list[float]] = {setting: [] for setting in settings}
    order = random.Random(0)
    for round_ in range(rounds + 1):
        for intra, inter in order.sample(settings, len(settings)):
            session.run(inputs, intra_op=intra, inter_op=inter)
            latencies: list[int] = []
            end = time.perf_counter_ns() + int(seconds * 1e9)
            while len(latencies) < 3 or time.perf_counter_ns() < end:
                before = time.perf_counter_ns()
                session.run(inputs, intra_op=intra, inter_op=inter)
                latencies.append(time.perf_counter_ns() - before)
            if round_:
                medians[intra, inter].append(statistics.median(latencies))
    return {setting: statistics.median(values) for setting, values in medians.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--group", default="models", choices=build.GROUPS)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cpus = len(os.sched_getaffinity(0))
    counts = sorted({1, 2, cpus})
    settings = [AUTOMATIC, *product(counts, counts)]
    results, right = {}, True
    print(f"{cpu_name()}, {cpus} CPUs")
    print("| model | automatic / best | best (intra, inter) | inter on / off |")
    print("| --- | --- | --- | --- |")
    for model in arguments.models or build.all_models(arguments.group):
        session = weft.Session(model)
        right = check(model, session, settings) and right
        figures = sweep(model, session, settings, arguments.rounds, arguments.seconds)
        best = min((setting for setting in figures if setting != AUTOMATIC), key=figures.__getitem__)
        on_off = figures[cpus, cpus] / figures[cpus, 1]
        name = Path(model).stem
        print(f"| {name} | {figures[AUTOMATIC] / figures[best]:.3f} | {best} | {on_off:.3f} |", flush=True)
        results[name] = {f"{intra},{inter}": value for (intra, inter), value in figures.items()}
    if arguments.json:
        arguments.json.write_text(json.dumps({"cpu": cpu_name(), "results": results}, indent=1))
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
