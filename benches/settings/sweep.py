"""Compares automatic thread settings with every combination that a user could have set.

    python -m benches.settings.sweep [MODEL.onnx ...] [--group GROUP] [--rounds 9] [--seconds 0.2] [--json FILE]

All settings run in one session and take turns within each round, as arguments of `run`. Their order differs from round
to round, and the first run of a turn does not count, because another CPU may have to wake up. `automatic / best` is the
latency at automatic settings over that at the best of the sweep; `inter on / off` that of (all, all) over (all, 1).
Fails if outputs are far from ONNX Runtime's, where that is installed, or not the same at every setting, bit for bit.
"""

from __future__ import annotations

import os
import sys
from itertools import product
from pathlib import Path

import treadle
from benches.harness.inputs import random_inputs
from benches.harness.outputs import is_right, relative_error
from benches.harness.report import cpu_name, parser, print_header, print_row, write_json
from benches.models import build
from benches.models.check import reference
from treadle.tune.choose import AUTOMATIC
from treadle.tune.measure import Schedule, interleaved
from treadle.tune.space import Limits


def check(model: str, session: treadle.Session, settings: list[Limits]) -> bool:
    """True if outputs are right, and the same at each of `settings`."""
    inputs = random_inputs(model)
    results = [list(session.run(inputs, intra_op=intra, inter_op=inter).values()) for intra, inter in settings]
    same = len({tuple(output.tobytes() for output in outputs) for outputs in results}) == 1
    wanted = reference(model, inputs)
    return is_right(model, None if wanted is None else relative_error(results[0], wanted), same=same)


def sweep(model: str, session: treadle.Session, settings: list[Limits], schedule: Schedule) -> dict[Limits, float]:
    """The median over rounds of the median latency in ns, by limits."""
    inputs = random_inputs(model)
    timings = interleaved(lambda limits: session.run(inputs, **limits._asdict()), settings, schedule)
    return {limits: timings.median(limits) for limits in settings}


def main() -> int:
    options = parser(__doc__, rounds=9, seconds=0.2)
    options.add_argument("models", nargs="*")
    options.add_argument("--group", default="models", choices=build.GROUPS)
    arguments = options.parse_args()
    cpus = len(os.sched_getaffinity(0))
    counts = sorted({1, 2, cpus})
    settings = [AUTOMATIC, *(Limits(*pair) for pair in product(counts, counts))]
    schedule = Schedule(arguments.rounds, arguments.seconds, least=4)
    results, right = {}, True
    print(f"{cpu_name()}, {cpus} CPUs")
    print_header("model", "automatic / best", "best (intra, inter)", "inter on / off")
    for model in arguments.models or build.all_models(arguments.group):
        session = treadle.Session(model)
        right = check(model, session, settings) and right
        figures = sweep(model, session, settings, schedule)
        best = min((setting for setting in figures if setting != AUTOMATIC), key=figures.__getitem__)
        on_off = figures[Limits(cpus, cpus)] / figures[Limits(cpus, 1)]
        name = Path(model).stem
        print_row((name, f"{figures[AUTOMATIC] / figures[best]:.3f}", tuple(best), f"{on_off:.3f}"))
        results[name] = {f"{intra},{inter}": value for (intra, inter), value in figures.items()}
    write_json(arguments.json, results=results)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
