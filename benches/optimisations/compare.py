"""Shows what every optimisation brings: models with it and without it, on AVX-512 and on AVX2, by turns.

    python -m benches.optimisations.compare [--only NAME,NAME] [--all] [--isa avx512,avx2] [--threads 1] [--rounds 5]
        [--seconds 0.25] [--json FILE]

Without --only, every optimisation of more than 300 lines of code is measured; with --all, the smaller ones too. Each
variant of a model runs in a process of its own; those of one model and instruction set take turns, and the processes
that are not being timed are stopped. `without / with` is the ratio of the medians over rounds of the round's median
latency: above 1, the optimisation makes the model faster. An optimisation pays if on some model this ratio is at least
1.02 on every instruction set that has it; instruction sets that this CPU lacks are not measured, and the verdict says
so.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benches.harness.inputs import random_inputs, write_inputs
from benches.harness.process import ROOT, Engine, running
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import ratio, time_by_turns
from benches.models import build
from benches.optimisations.table import BOTH, BY_NAME, LARGE, OPTIMISATIONS, Optimisation
from treadle.codegen.target import available_isas

LEAST_RATIO = 1.02
BASE = "usual"
"""The variant in which nothing is disabled."""

Ratios = dict[tuple[str, str, str], float]
"""The latency without an optimisation over that with it, by its name, the model and the instruction set."""


def variants(chosen: Sequence[Optimisation], model: str, isa: str, precision: str) -> list[Optimisation]:
    """The chosen optimisations that are measured on a model at a precision and instruction set."""
    return [one for one in chosen if model in one.models and isa in one.isas and one.precision == precision]


def measure(
    model: str, isa: str, precision: str, tried: Sequence[Optimisation], cache: Path, arguments: Any
) -> Iterator[tuple[str, float, float]]:
    """Times one model in all its variants; yields (optimisation, us with it, latency without over with)."""
    path = build.model(model)
    with tempfile.TemporaryDirectory() as folder:
        inputs = Path(folder) / "inputs.npz"
        write_inputs(inputs, random_inputs(path))
        session = {"package": "treadle", "source": str(ROOT), "model": path, "inputs": str(inputs)}

        def engine(name: str, environment: dict[str, str]) -> Engine:
            return Engine(
                name,
                "benches.versions.worker:session",
                {**session, "threads": arguments.threads[0], "precision": precision},
                required=name == BASE,
                environment={"TREADLE_ISA": isa, "TREADLE_CACHE": str(cache), **environment},
            )

        engines = [engine(BASE, {})]
        engines += [engine(one.name, one.without()) for one in tried]
        with running(engines) as processes:
            timings = time_by_turns(processes, arguments.rounds, arguments.seconds)
    for one in tried:
        if one.name in timings:
            yield one.name, timings[BASE].median_ns / 1e3, ratio(timings, one.name, BASE)


def verdict(one: Optimisation, ratios: Ratios, isas: Sequence[str]) -> tuple[str, str]:
    """The model on which the optimisation brings most, and whether it pays."""
    measured = [isa for isa in one.isas if isa in isas]
    least = {
        model: min(ratios[one.name, model, isa] for isa in measured)
        for model in one.models
        if measured and all((one.name, model, isa) in ratios for isa in measured)
    }
    if not least:
        return "-", "not measured"
    best = max(least, key=least.__getitem__)
    missing = [isa for isa in one.isas if isa not in measured]
    text = "pays" if least[best] >= LEAST_RATIO else "does not pay"
    return best, f"{text} ({', '.join(missing)} not measured)" if missing else text


def main() -> int:
    options = parser(__doc__, rounds=5, seconds=0.25, threads="1")
    options.add_argument("--only", help=f"names by comma: {', '.join(BY_NAME)}")
    options.add_argument("--all", action="store_true", help=f"also those of {LARGE} lines or fewer")
    options.add_argument("--isa", default=",".join(BOTH), help="instruction sets by comma")
    options.add_argument("--models", help="only these, by comma")
    arguments = options.parse_args()
    if len(arguments.threads) > 1:
        options.error("--threads: wanted one number")
    unknown = set((arguments.only or "").split(",")) - {*BY_NAME, ""}
    if unknown:
        options.error(f"--only: wanted any of {', '.join(BY_NAME)}, got {', '.join(sorted(unknown))}")
    if arguments.only:
        chosen = [BY_NAME[name] for name in arguments.only.split(",")]
    else:
        chosen = [one for one in OPTIMISATIONS if arguments.all or one.lines > LARGE]
    available = available_isas()
    isas = [isa for isa in arguments.isa.split(",") if isa in available]
    wanted = arguments.models.split(",") if arguments.models else None
    models = [
        model for model in dict.fromkeys(m for one in chosen for m in one.models) if wanted is None or model in wanted
    ]
    ratios: Ratios = {}
    print(f"{machine()}, {arguments.threads[0]} threads; above 1: the model is faster with the optimisation")
    print_header("optimisation", "model", "ISA", "us with", "without / with")
    with tempfile.TemporaryDirectory() as folder:
        for model in models:
            for isa in isas:
                for precision in ("f32", "bf16"):
                    tried = variants(chosen, model, isa, precision)
                    if not tried:
                        continue
                    for name, us, found in measure(model, isa, precision, tried, Path(folder), arguments):
                        ratios[name, model, isa] = found
                        print_row((name, model, isa, f"{us:.1f}", f"{found:.3f}"))
    print()
    print_header("optimisation", "lines", "best model", *isas, "verdict")
    verdicts = {}
    for one in chosen:
        best, text = verdict(one, ratios, isas)
        verdicts[one.name] = text
        cells = (f"{ratios[one.name, best, isa]:.3f}" if (one.name, best, isa) in ratios else "-" for isa in isas)
        print_row((one.name, one.lines, best, *cells, text))
    write_json(
        arguments.json,
        ratios=[{"name": name, "model": model, "isa": isa, "ratio": r} for (name, model, isa), r in ratios.items()],
        lines={one.name: one.lines for one in chosen},
        verdicts=verdicts,
    )
    return 0 if all(text.startswith("pays") or BY_NAME[name].lines <= LARGE for name, text in verdicts.items()) else 1


if __name__ == "__main__":
    sys.exit(main())
