"""Kernel specs: everything a generator needs to emit a kernel, and nothing else."""

import hashlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel to generate: its family (a name in `codegen.kernels.table`) and parameters.

    Two calls with equal specs share one compiled kernel, so a parameter belongs here only if it
    shapes the code; loop bounds that do not go to `Call.args`. Parameter values are ints, bools,
    strings, DTypes, Exprs, Layouts, or tuples of these: their `repr` identifies the kernel on disk.
    """

    family: str
    params: tuple[tuple[str, Hashable], ...]

    @staticmethod
    def of(family: str, **params: Hashable) -> "KernelSpec":
        return KernelSpec(family, tuple(sorted(params.items())))

    def __getitem__(self, name: str) -> Any:
        for key, value in self.params:
            if key == name:
                return value
        raise KeyError(f"kernel family {self.family} has no parameter {name!r}")

    def __str__(self) -> str:
        return f"{self.family}({', '.join(f'{key}={value!r}' for key, value in self.params)})"

    @property
    def symbol(self) -> str:
        """The name of the kernel's function: its family and a hash of its parameters."""
        return f"treadle_{self.family}_{hashlib.sha256(str(self).encode()).hexdigest()[:16]}"
