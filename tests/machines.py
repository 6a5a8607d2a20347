"""Runs tests as each of three kinds of machine: what is chosen for it is the same on whichever machine the tests run.

    python -m tests.machines [--others] [KIND ...] [-- arguments for pytest]

Without a kind: all three, one after another; a kind that this CPU cannot run is named and left out. With `--others`, so
is the kind that this machine is, as which the suite runs anyway.
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
    """An instruction set, the sizes of the data caches as the knob TREADLE_CACHES takes them, and a machine
    model."""

    isa: str
    caches: str
    vector_bytes: int
    registers: int
    model: str
    features: str = ""

    def environment(self) -> dict[str, str]:
        """The variables with which treadle compiles for this kind of machine."""
        return {"TREADLE_ISA": self.isa, "TREADLE_CACHES": self.caches, "TREADLE_MACHINE": self.model}

    def description(self) -> Target:
        """The machine as lowering sees it, for tests that choose kernels and run none: this CPU may lack the
        instructions."""
        sizes = [int(size[:-1]) << {"K": 10, "M": 20}[size[-1]] for size in self.caches.split(",")]
        triple = "x86_64-unknown-linux-gnu"
        cpu = "x86-64"
        return Target(self.isa, triple, cpu, self.features, self.vector_bytes, self.registers, *sizes, self.model)

    def is_this(self) -> bool:
        """True if `environment` changes nothing: this machine has the same instruction set, data caches and model."""
        here, described = targets.detect(), self.description()
        return all(getattr(here, name) == getattr(described, name) for name in ("isa", "l1", "l2", "l3", "model"))


MACHINES = {
    "avx512": Machine("avx512", "48K,1M,32M", 64, 32, "zen5", "+avx512bf16,+avx512vbmi,+avx512vnni"),
    "avx2": Machine("avx2", "32K,512K,32M", 32, 16, "generic-avx2"),
    "generic": Machine("generic", "32K,256K,8M", 16, 16, "generic"),
}
"""AMD Zen 5, AMD Zen 3, and an x86-64 CPU without either instruction set."""


def main(arguments: list[str]) -> int:
    """Run pytest as each machine that `arguments` name; 0 if every run passed."""
    split = arguments.index("--") if "--" in arguments else len(arguments)
    others = "--others" in arguments[:split]
    kinds = [kind for kind in arguments[:split] if kind != "--others"] or list(MACHINES)
    options = arguments[split + 1 :]
    unknown = [kind for kind in kinds if kind not in MACHINES]
    if unknown:
        print(f"machines: wanted {', '.join(MACHINES)}, got {', '.join(unknown)}", file=sys.stderr)
        return 2
    failed = False
    for kind in kinds:
        if kind not in targets.available_isas():
            print(f"== {kind}: this CPU lacks it", flush=True)
            continue
        if others and MACHINES[kind].is_this():
            print(f"== {kind}: this machine is one", flush=True)
            continue
        print(f"== {kind}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", *options]
        done = subprocess.run(command, env=os.environ | MACHINES[kind].environment(), check=False)
        failed |= done.returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
