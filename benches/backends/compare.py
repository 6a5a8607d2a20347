"""native, openmp and tbb side by side: threads created, fork-join cost, and throughput with 1 to 8 client threads.

    python -m benches.backends.compare [--intra-op N] [--seconds S] [--rounds N]

Each backend has processes of its own, and the rounds of the backends alternate, so that what else the machine does
hits all of them alike; figures are medians over the rounds. Both limits are the same number, as their defaults
are: with inter_op=1 the native team would take one client at a time, where the other two know no such limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

BACKENDS = ("native", "openmp", "tbb")
WORKER = Path(__file__).with_name("worker.py")


def measure(backend: str, intra_op: int, seconds: float) -> dict[str, Any]:
    """What one process of `backend` measures; {"missing": why} if it cannot be had."""
    command = [sys.executable, str(WORKER), backend, str(intra_op), str(seconds)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        return {"missing": result.stderr.strip().splitlines()[-1]}
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def main() -> None:
    """Measure all, print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--intra-op", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {backend: [] for backend in BACKENDS}
    for _ in range(asked.rounds):
        for backend in BACKENDS:
            found[backend].append(measure(backend, asked.intra_op, asked.seconds))
    print(
        f"intra_op = inter_op = {asked.intra_op}; threads beside the clients / runs a second, with 1, 2, 4, 8 clients"
    )
    print(f"{'backend':8} {'fork-join':>10}   {'threads':>16}   {'runs/s':>32}")
    for backend, rounds in found.items():
        if "missing" in rounds[0]:
            print(f"{backend:8} missing: {rounds[0]['missing']}")
            continue
        cost = median(each["fork_join_us"] for each in rounds)
        threads = [max(each["threads"][clients] for each in rounds) for clients in ("1", "2", "4", "8")]
        runs = [median(each["runs"][clients] for each in rounds) for clients in ("1", "2", "4", "8")]
        print(
            f"{backend:8} {cost:7.2f} us   {' '.join(f'{count:3}' for count in threads):>16}   "
            f"{' '.join(f'{rate:7.0f}' for rate in runs):>32}"
        )


if __name__ == "__main__":
    main()
