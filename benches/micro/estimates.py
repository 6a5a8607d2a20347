"""How long each kernel of a model takes, and how long the cost model says.

    python -m benches.micro.estimates [MODEL ...] [--seconds 10] [--rows 0] [--json FILE]

Estimates choose kernels, chunks and priorities. MODEL is the name of one of benches.models, or a file with fixed
shapes; without any, those of the group `models` are measured. Each runs on one thread while a trace is recorded. The
time of a step is the shortest of all runs: other programs disturb it little. Steps shorter than a microsecond are left
out, because the trace itself takes part of their time.

The table has a line for each kind of kernel and for each model: the number of steps, their share of the time, the sum
of estimates over the sum of times, and the median of the errors |estimate / time - 1|. Then come the `--rows` steps
whose estimates are furthest off, in ns.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

import treadle
from benches.harness.inputs import random_inputs
from benches.models import build
from treadle.codegen.target import detect
from treadle.plan.call import Call
from treadle.tracing.record import record

LEAST_NS = 1000.0


@dataclass(frozen=True)
class Step:
    """A step of a model: its kind of kernel, the estimate and the measured time in ns."""

    model: str
    node: str
    family: str
    estimate: float
    measured: float

    @property
    def error(self) -> float:
        """How far the estimate is off, relative to the time."""
        return abs(self.estimate / self.measured - 1)


def steps_of(path: str, seconds: float) -> list[Step]:
    """Returns the steps of a model with fixed shapes, timed for about so many seconds."""
    name, feed = Path(path).stem, random_inputs(path)
    session = treadle.Session(path)
    (plan,) = session.plans_for(feed)
    calls: dict[tuple[str, str, int], Call] = {}
    counts: defaultdict[tuple[str, str], int] = defaultdict(int)
    for call in plan.calls:
        calls[call.node, call.op, counts[call.node, call.op]] = call
        counts[call.node, call.op] += 1
    session.run(feed, intra_op=1, inter_op=1)
    least: dict[tuple[str, str, int], float] = {}
    end = time.perf_counter() + seconds
    while True:
        with record() as recording:
            session.run(feed, intra_op=1, inter_op=1)
        seen: defaultdict[tuple[str, str], int] = defaultdict(int)
        for event in recording.events:
            key = (event.node, event.op, seen[event.node, event.op])
            seen[event.node, event.op] += 1
            least[key] = min(least.get(key, float("inf")), event.end - event.start)
        if time.perf_counter() > end:
            break
    return [
        Step(name, call.node, family_of(call), call.cost, least[key])
        for key, call in calls.items()
        if least.get(key, 0.0) >= LEAST_NS
    ]


def family_of(call: Call) -> str:
    """Returns the family of the call's kernel; a convolution's with its size and a word for its input."""
    if call.spec is None:
        return "python"
    kernel = getattr(call.spec, "kernel", None)
    return call.spec.family if kernel is None else f"{call.spec.family} {'x'.join(map(str, kernel))}"


def line(name: str, steps: list[Step], total: float) -> str:
    """Returns a row of the table; `total` is the time of all steps."""
    measured = sum(step.measured for step in steps)
    ratio = sum(step.estimate for step in steps) / measured
    error = median(step.error for step in steps)
    return f"{name:30s} {len(steps):6d} {100 * measured / total:7.1f} % {ratio:8.2f} {100 * error:7.0f} %"


def grouped(steps: Iterable[Step], by: str) -> dict[str, list[Step]]:
    """Returns the steps of each value of the field `by`, those with most time first."""
    found: defaultdict[str, list[Step]] = defaultdict(list)
    for step in steps:
        found[getattr(step, by)].append(step)
    return dict(sorted(found.items(), key=lambda item: -sum(step.measured for step in item[1])))


def main() -> None:
    """Measures the models that the command line names and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*")
    parser.add_argument("--seconds", type=float, default=10.0, help="for each model")
    parser.add_argument("--rows", type=int, default=0, help="steps to list")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    steps: list[Step] = []
    for model in asked.models or build.MODELS:
        steps += steps_of(model if model.endswith(".onnx") else build.model(model), asked.seconds)
    total = sum(step.measured for step in steps)
    print(f"machine model {detect().machine.name}, one thread\n")
    print(f"{'':30s} {'steps':>6s} {'time':>9s} {'ratio':>8s} {'error':>9s}")
    for by in ("family", "model"):
        for name, some in grouped(steps, by).items():
            print(line(name, some, total))
        print()
    print(line("all", steps, total))
    for step in sorted(steps, key=lambda step: -abs(step.estimate - step.measured))[: asked.rows]:
        print(f"{step.estimate / 1e3:10.1f} {step.measured / 1e3:10.1f} us  {step.family:22s} {step.model} {step.node}")
    if asked.json is not None:
        asked.json.write_text(json.dumps([asdict(step) for step in steps], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
