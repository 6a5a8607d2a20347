"""Runs tests as each of three kinds of machine: what is chosen for it is the same on whichever machine the tests run.

    python -m tests.machines [KIND ...] [-- arguments for pytest]

Without a kind: all three, one after another; a kind that this CPU cannot run is named and left out.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass

from treadle.codegen import target as targets
from treadle.plan.target import Target


@dataclass(frozen=True)
class Machine:
    """An instruction set, and the sizes of the data caches as the knob TREADLE_CACHES takes them."""

    isa: str
    caches: str
    vector_bytes: int
    registers: int
    features: str = ""

    def environment(self) -> dict[str, str]:
        """The variables with which treadle compiles for this kind of machine."""
        return {"TREADLE_ISA": self.isa, "TREADLE_CACHES": self.caches}

    def description(self) -> Target:
        """The machine as lowering sees it, for tests that choose kernels and run none: this CPU may lack the
        instructions."""
        sizes = [int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in self.caches.split(",")]
        triple = "x86_64-unknown-linux-gnu"
        return Target(self.isa, triple, "x86-64", self.features, self.vector_bytes, self.registers, *sizes)


MACHINES = {
    "avx512": Machine("avx512", "48K,1M,32M", 64, 32, "+avx512bf16,+avx512vbmi,+avx512vnni"),
    "avx2": Machine("avx2", "32K,512K,32M", 32, 16),
    "generic": Machine("generic", "32K,256K,8M", 16, 16),
}
"""AMD Zen 5, AMD Zen 3, and an x86-64 CPU without either instruction set."""


def main(arguments: list[str]) -> int:
    """Run pytest as each machine that `arguments` name; 0 if every run passed."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    kinds, options = arguments[:split] or list(MACHINES), arguments[split + 1 :]
    unknown = [kind for kind in kinds if kind not in MACHINES]
    if unknown:
        print(f"machines: wanted {', '.join(MACHINES)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = False
    for kind in kinds:
        if kind not in targets.available_isas():
            print(f"== {kind}: this CPU lacks it", flush=True)
            continue
        print(f"== {kind}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *options]
        done = subprocess.run(command, env=os.environ | MACHINES[kind].environment(), check=False)
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
