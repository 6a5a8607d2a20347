"""Calls: one kernel, one Python function, one branch or one loop, applied to values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.graph.node import smallest_cap
from treadle.graph.value import Value
from treadle.plan.control_flow import Branch, Loop, Rest
from treadle.plan.kernel_spec import KernelArgs, KernelSpec, NoArgs
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.records import dataclass

if TYPE_CHECKING:
    from treadle.plan.plan import Plan

PythonFunction = Callable[[Sequence[int], list[np.ndarray[Any, Any]]], Sequence[np.ndarray[Any, Any]]]


@dataclass(frozen=True, slots=True)
class Variant:
    """One of several ways to compute a node, of which binding takes one.

    Attributes:
        name: What is special about it.
        taken: 1 for the sizes at which it is taken, else 0.
    """

    name: str
    taken: int


@dataclass(slots=True)
class Call:
    """One step of a plan.

    Exactly one of `spec` (a generated kernel), `function` (Python: takes the numbers of `sizes` and the arrays of
    `reads`, returns those of `writes`) and `control` (a branch, loop or stage, which may have `sizes` too) is
    set. A kernel's pointers are those of `writes`, then of `reads`, in order; `args` are its int64 arguments. The work
    is partitioned into `chunks` that may run at once and in any order. `cost` is the estimated time of the whole call
    on one core in ns, `scratch` the bytes of per-worker scratch a chunk may use, `flops` and `traffic` (bytes) what it
    computes and moves,
    `caps` are those on the workers that share it, by the nodes of the model whose work it does (0: none).
    `prefetch_channels` counts the channels, over all its blocks, at which its kernel could prefetch a part of a
    constant that a later call reads; 0 if it cannot.
    """

    node: str
    op: str
    writes: tuple[Value, ...]
    reads: tuple[Value, ...]
    spec: KernelSpec | None = None
    function: PythonFunction | None = None
    control: Branch | Loop | Rest | None = None
    sizes: tuple[int, ...] = ()
    args: KernelArgs[int] = field(default_factory=NoArgs)
    chunks: int = 1
    cost: float = 0.0
    scratch: int = 0
    flops: float = 0.0
    traffic: float = 0.0
    prefetch_channels: int = 0
    blocking: bool = False
    caps: Mapping[str, int] = field(default_factory=dict)
    note: str = ""
    """Why it runs as it does, where that is not as the settings have it."""
    variant: Variant | None = None
    """What binding may leave out, by giving it no chunks; None: it always runs."""
    offsets: dict[int, int] = field(default_factory=dict)
    """Byte offsets to add to single pointers, by pointer number."""

    @property
    def packed_args(self) -> tuple[int, ...]:
        """The arguments in the order in which the kernel finds them in memory."""
        return () if self.spec is None else self.args.packed(self.spec)

    @property
    def runs_as(self) -> str:
        """The family of its generated kernel, the provider of a matrix product, `control flow`, or `reference`."""
        if self.spec is None:
            return "reference" if self.control is None else "control flow"
        return f"{self.spec.provider} gemm" if isinstance(self.spec, LibraryGemmSpec) else self.spec.family

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans of its bodies, if it is a branch or a loop."""
        return () if self.control is None else self.control.plans

    @property
    def max_workers(self) -> int:
        """How many workers may share it; 0 if nothing caps them."""
        return smallest_cap(self.caps.values())
