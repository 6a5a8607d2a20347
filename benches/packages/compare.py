"""Programs of packages on treadle beside onnxruntime: latency, load, memory and threads.

    scripts/test_packages --bench [--threads 1,2] [--rounds 15] [--only PROGRAM,...] [--json FILE]

Each program runs in two processes that take turns; the one that waits is stopped. A number of threads is a number of
CPUs that both processes may use. Times are medians. `ratio` is onnxruntime's time by treadle's; the last line of a
number of threads has the geometric mean of the ratios. The load contains the first answer, which compiles what is not
in the cache folder; run twice for later loads.
"""

from __future__ import annotations

import math
import signal
import statistics
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from tests.packages.known import PACKAGES, is_installed

from benches.harness.process import ROOT, StoppedProcess
from benches.harness.report import machine, parser, print_header, print_row, write_json
from benches.harness.timing import turn_orders

DRIVER = str(ROOT / "tests" / "packages" / "programs" / "driver.py")
WAYS = {"onnxruntime": [], "treadle": ["-m", "treadle.ort"]}


@dataclass(slots=True)
class Program(StoppedProcess):
    """A running program; `ready` holds the figures of its load and first answer."""

    ready: dict[str, Any]

    def answer(self) -> float:
        """Lets the program answer once and returns the seconds."""
        return float(self.exchange(None)["seconds"])

    def end(self) -> dict[str, Any]:
        """Ends the program and returns its last figures."""
        self.close()
        return self.line()


def start(way: str, name: str, threads: int) -> Program:
    """Starts a program and stops it once it has answered."""
    command = [sys.executable, *WAYS[way], DRIVER, name, str(threads)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    program = Program(f"{name} on {way}", process, {})
    program.ready = program.line()
    process.send_signal(signal.SIGSTOP)
    return program


def compare(name: str, threads: int, rounds: int) -> dict[str, dict[str, Any]]:
    """Runs a program both ways by turns; returns its figures by the name of the way."""
    programs = {way: start(way, name, threads) for way in WAYS}
    seconds: dict[str, list[float]] = {way: [] for way in WAYS}
    for order in turn_orders(list(programs), rounds + 1):
        for way in order:
            seconds[way].append(programs[way].answer())
    figures = {}
    for way, program in programs.items():
        load = program.ready["load_s"] + program.ready["first_s"]
        figures[way] = {"median_s": statistics.median(seconds[way][1:]), "load_s": load, **program.end()}
    return figures


def main() -> None:
    """Prints a table for each number of threads."""
    options = parser(__doc__, rounds=15, threads="1,2")
    options.add_argument("--only", help="programs by comma")
    given = options.parse_args()
    wanted = given.only.split(",") if given.only else list(PACKAGES)
    names = [name for name in wanted if is_installed(PACKAGES[name].module)]
    print(machine())
    found: dict[str, Any] = {}
    for threads in given.threads:
        print(f"\n{threads} threads\n")
        print_header(
            "program", "onnxruntime ms", "treadle ms", "ratio", "loads ms", "peaks MiB", "threads of the processes"
        )
        ratios = []
        for name in names:
            figures = compare(name, threads, given.rounds)
            found[f"{name} {threads}"] = figures
            rival, own = figures["onnxruntime"], figures["treadle"]
            ratios.append(rival["median_s"] / own["median_s"])
            pairs = [f"{rival[key] * by:.0f} / {own[key] * by:.0f}" for key, by in (("load_s", 1e3), ("peak_mb", 1))]
            print_row(
                [
                    name, f"{rival['median_s'] * 1e3:.2f}", f"{own['median_s'] * 1e3:.2f}", f"{ratios[-1]:.2f}",
                    *pairs, f"{rival['threads']} / {own['threads']}",
                ]
            )  # fmt: skip
        print_row(["geometric mean", "", "", f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}", "", "", ""])
    write_json(given.json, figures=found)


if __name__ == "__main__":
    main()
