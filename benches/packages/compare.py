"""Programs of packages on treadle beside onnxruntime: latency, load, memory and threads.

    scripts/test_packages --bench [--threads 1,2] [--rounds 15] [--only PROGRAM,...] [--json FILE]

Each program runs in two processes that take turns; the one that waits is stopped. A number of threads is a number of
CPUs that both processes, with all their threads, may use: see keep_to() of the driver. Times are medians. `ratio` is
onnxruntime's time by treadle's; the last line of a number of threads has the geometric mean of the ratios.

A load is from the start of the process, so with all imports, to the end of the first answer; its CPU time is also that
of a process that compiles. Before the processes that take turns, `--loads` others load and end, by turns, too; the
table has the least of their figures. The `first loads` are those of treadle with an empty cache folder. All processes
have one seed of hashes, on which the bytes of models depend that programs make.
"""

from __future__ import annotations

import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
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


def start(way: str, name: str, threads: int, cache: str) -> Program:
    """Starts a program and stops it once it has answered."""
    # The CPUs are set before Python starts: libraries count them when they are imported.
    cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))[:threads]))
    command = ["taskset", "--cpu-list", cpus, sys.executable, *WAYS[way], DRIVER, name, str(threads)]
    begin = time.perf_counter()
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT,
        env={**os.environ, "TREADLE_CACHE": cache, "PYTHONHASHSEED": "0"},
    )  # fmt: skip
    program = Program(f"{name} on {way}", process, {})
    program.ready = {**program.line(), "load_s": time.perf_counter() - begin}
    process.send_signal(signal.SIGSTOP)
    return program


def loads(name: str, threads: int, rounds: int, cache: str) -> dict[str, dict[str, float]]:
    """Loads a program by turns; returns the least figures of its loads, and those of treadle's first load."""
    first = start("treadle", name, threads, cache)
    found = {"first": {**first.ready, **first.end()}}
    for order in turn_orders(list(WAYS), rounds):
        for way in order:
            program = start(way, name, threads, cache)
            figures = {**program.ready, **program.end()}
            least = found.setdefault(way, figures)
            found[way] = {key: min(least[key], figures[key]) for key in ("load_s", "load_cpu_s", "peak_mb")}
    return {way: {key: figures[key] for key in ("load_s", "load_cpu_s", "peak_mb")} for way, figures in found.items()}


def compare(name: str, threads: int, rounds: int, load_rounds: int) -> dict[str, dict[str, Any]]:
    """Runs a program both ways by turns; returns its figures by the name of the way, and those of the first load."""
    with tempfile.TemporaryDirectory() as cache:
        found = loads(name, threads, load_rounds, cache)
        programs = {way: start(way, name, threads, cache) for way in WAYS}
        seconds: dict[str, list[float]] = {way: [] for way in WAYS}
        for order in turn_orders(list(programs), rounds + 1):
            for way in order:
                seconds[way].append(programs[way].answer())
        figures: dict[str, dict[str, Any]] = {"first": found["first"]}
        for way, program in programs.items():
            figures[way] = {**program.end(), **found[way], "median_s": statistics.median(seconds[way][1:])}
    return figures


def row(name: str, figures: dict[str, dict[str, Any]]) -> list[str]:
    """A row of the table."""
    rival, own, first = (figures[way] for way in ("onnxruntime", "treadle", "first"))
    pairs = [
        f"{rival[key] * by:.0f} / {own[key] * by:.0f}"
        for key, by in (("load_s", 1e3), ("load_cpu_s", 1e3), ("peak_mb", 1))
    ]
    return [
        name, f"{rival['median_s'] * 1e3:.2f}", f"{own['median_s'] * 1e3:.2f}", f"{ratio(figures):.2f}", *pairs,
        f"{first['load_s'] * 1e3:.0f}", f"{first['load_cpu_s'] * 1e3:.0f}", f"{first['peak_mb']:.0f}",
        f"{rival['threads']} / {own['threads']}",
    ]  # fmt: skip


def ratio(figures: dict[str, dict[str, Any]]) -> float:
    """onnxruntime's time of an answer by treadle's."""
    return float(figures["onnxruntime"]["median_s"] / figures["treadle"]["median_s"])


def main() -> None:
    """Prints a table for each number of threads."""
    options = parser(__doc__, rounds=15, threads="1,2")
    options.add_argument("--only", help="programs by comma")
    options.add_argument("--loads", type=int, default=3, help="loads of each program both ways")
    given = options.parse_args()
    wanted = given.only.split(",") if given.only else list(PACKAGES)
    names = [name for name in wanted if is_installed(PACKAGES[name].module)]
    print(machine())
    found: dict[str, Any] = {}
    for threads in given.threads:
        print(f"\n{threads} threads\n")
        print_header(
            *("program", "onnxruntime ms", "treadle ms", "ratio", "load ms", "CPU ms", "peak MiB"),
            *("first load ms", "CPU ms", "peak MiB", "threads of the processes"),
        )
        ratios = []
        for name in names:
            figures = compare(name, threads, given.rounds, given.loads)
            found[f"{name} {threads}"] = figures
            ratios.append(ratio(figures))
            print_row(row(name, figures))
        print_row(["geometric mean", "", "", f"{math.exp(statistics.fmean(map(math.log, ratios))):.2f}", *[""] * 7])
    write_json(given.json, figures=found)


if __name__ == "__main__":
    main()
