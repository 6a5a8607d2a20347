"""native, openmp and tbb side by side: threads created, fork-join cost, and throughput with 1 to 8 client threads.

    python -m benches.backends.compare [--intra-op N] [--seconds S] [--rounds N] [--json FILE]

Each backend has a new process in each round, and the rounds of the backends are interleaved; figures are medians over
the rounds. Both limits are the same number, as their defaults are: with inter_op=1 the native team would run one client
at a time, and the other two have no such limit.
"""

from __future__ import annotations

import os
from statistics import median
from typing import Any

from benches.harness.process import Engine, load
from benches.harness.report import parser, write_json
from benches.harness.timing import turn_orders

BACKENDS = ("native", "openmp", "tbb")
CLIENTS = ("1", "2", "4", "8")


def main() -> None:
    options = parser(__doc__, rounds=3, seconds=1.0)
    options.add_argument("--intra-op", type=int, default=os.cpu_count() or 1)
    arguments = options.parse_args()
    engines = [
        Engine(
            backend,
            "benches.backends.worker:engine",
            {"backend": backend, "intra_op": arguments.intra_op, "seconds": arguments.seconds},
            required=backend == "native",
        )
        for backend in BACKENDS
    ]
    found: dict[str, list[dict[str, Any]]] = {}
    for order in turn_orders(engines, arguments.rounds):
        for engine in order:
            figures = load(engine)
            if figures is not None:
                found.setdefault(engine.name, []).append(figures)
    limits = f"intra_op = inter_op = {arguments.intra_op}"
    print(f"{limits}; threads beside the clients / runs a second, with {', '.join(CLIENTS)} clients")
    print(f"{'backend':8} {'fork-join':>10}   {'threads':>16}   {'runs/s':>32}")
    for backend, rounds in ((backend, found[backend]) for backend in BACKENDS if backend in found):
        cost = median(each["fork_join_us"] for each in rounds)
        threads = [max(each["threads"][clients] for each in rounds) for clients in CLIENTS]
        runs = [median(each["runs"][clients] for each in rounds) for clients in CLIENTS]
        print(
            f"{backend:8} {cost:7.2f} us   {' '.join(f'{count:3}' for count in threads):>16}   "
            f"{' '.join(f'{rate:7.0f}' for rate in runs):>32}"
        )
    write_json(arguments.json, results=found)


if __name__ == "__main__":
    main()
