"""The interface of passes: a named rewrite of a graph, with the target and limits as its context."""

from __future__ import annotations

from dataclasses import field
from typing import Literal, Protocol

from treadle.graph.graph import Graph
from treadle.plan.target import Target
from treadle.records import dataclass

Math = Literal["fast", "exact"]
Precision = Literal["f32", "bf16"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a compilation may spend, so that no model can make it exhaust the machine.

    A folded constant may have `fold_bytes` bytes and `fold_growth` times the bytes of all the graph's
    constants, whichever is less, but `fold_small` bytes are always granted. Folding stops when it has read, written
    and multiplied `fold_work` numbers in a run of the pass. The limit is no time: a busy machine would fold less in it,
    and the same model would have other plans there. A fused scalar program has at most `expr_steps` steps,
    `expr_operands` operands and `expr_results` results.
    """

    fold_bytes: int = 256 << 20
    fold_growth: int = 8
    fold_small: int = 1 << 20
    fold_work: int = 1 << 30
    expr_steps: int = 24
    expr_operands: int = 8
    expr_results: int = 4


@dataclass(frozen=True, slots=True)
class PassContext:
    """What a pass may look at besides the graph. `math` is `exact` where results may not be reassociated, `precision`
    is `bf16` where f32 factors may be rounded to it. `weight_bytes`: those of the model's weights; None: those of the
    graph's constants. `batch_invariant`: no number may depend on how many others are computed with it."""

    target: Target
    math: Math = "fast"
    limits: Limits = field(default_factory=Limits)
    precision: Precision = "f32"
    weight_bytes: int | None = None
    batch_invariant: bool = False


class Pass(Protocol):
    """A rewriting of a whole graph.

    It needs a valid graph whose static shapes are inferred where they can be, leaves one behind, and
    keeps the number and order of the graph's inputs and outputs. Its docstring shows before -> after.

    Sizes may be expressions. An optional rewrite applies where it is known to be right (`equals`, `divides`,
    `equal_shapes`, `certain_broadcast`), so that it adds no guard; what only decides which way is faster is decided by
    the sample sizes (`hint_of`, `sample_elements`).
    """

    @property
    def name(self) -> str:
        """The name that logs and errors give it."""
        ...

    def run(self, graph: Graph, context: PassContext) -> bool:
        """Rewrite `graph` in place; True if anything changed."""
        ...
