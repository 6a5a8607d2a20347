"""Measures the machine model of this machine, and writes its file.

    python -m benches.calibrate [--out FILE] [--budget SECONDS] [--rounds N] [--what TEXT]

It takes less than two minutes. Every figure is the least of several short attempts, so that a busy machine disturbs few
of them; bandwidths that cores share, and times between cores, need idle CPUs all the same. A file is used by
TREADLE_MACHINE=FILE, or, in `src/treadle/machines`, by a line in `src/treadle/codegen/cpu.py`.
"""

from __future__ import annotations

import argparse
import datetime as dt
import sys
from pathlib import Path

from benches.calibrate.measure import DOUBTFUL, measure, text_of
from treadle.codegen.cpu import cpu_id
from treadle.codegen.target import detect
from treadle.plan.machine import parse


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="the file; without it, the text is printed")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for each figure of a kernel")
    parser.add_argument("--rounds", type=int, default=100, help="how often sessions are timed")
    parser.add_argument("--what", default="this machine", help="the kind of CPU, for the first line")
    asked = parser.parse_args()
    target, cpu = detect(), cpu_id()
    figures = measure(target, asked.budget, asked.rounds)
    missing = [figure for figure, number in figures.items() if number <= 0]
    if missing:
        sys.exit(f"calibrate: other programs kept {', '.join(missing)} from being measured; end them and run it again")
    doubtful = [figure for figure, most in DOUBTFUL.items() if figures[figure] > most]
    if doubtful:
        print(f"calibrate: other programs disturbed {', '.join(doubtful)}: do not trust them", file=sys.stderr)
    name = "an unknown CPU" if cpu is None else f"{cpu.vendor} family {cpu.family} model {cpu.model}"
    source = f"python -m benches.calibrate on {name}, {dt.datetime.now(dt.UTC).date()}"
    text = text_of(figures, target.isa, asked.what, source)
    parse(text.encode(), str(asked.out or "this machine"))
    if asked.out is None:
        print(text, end="")
    else:
        asked.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
