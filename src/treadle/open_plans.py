"""The plans of a model with open dimensions: each serves all sizes that its guards allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from treadle import forking
from treadle.errors import TreadleError
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.knobs import is_enabled
from treadle.runtime.executable import Executable
from treadle.runtime.program_template import ProgramTemplate
from treadle.runtime.signature import Tensor

if TYPE_CHECKING:
    from treadle.driver import Bound, Open, Options, PerSize

MOST_PLANS = 4
"""Plans that are compiled for one model and choice of outputs. Sizes that none of them serves are compiled each for
itself."""


class OpenPlans:
    """Compiles a model once for all sizes, and again where an assumption of the plans so far does not hold.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._plans: dict[tuple[str, ...], list[Open]] = {}
        self._closed: set[tuple[str, ...]] = set()
        self._reasons: dict[tuple[str, ...], PerSize] = {}
        self._lock = forking.lock()

    def compile(
        self, graph: Graph, options: Callable[[], Options], outputs: tuple[str, ...], hints: Mapping[str, int] | None
    ) -> Open | None:
        """Compile a plan for `outputs` of `graph`; None if one plan cannot serve several sizes.

        Args:
            graph: A graph with open dimensions.
            options: Returns how to compile.
            outputs: The names of the outputs to compute.
            hints: The sizes to compile for where a decision depends on them; None: sample sizes.
        """
        from treadle.driver import PerSize, compile_open

        if outputs in self._closed:
            return None
        if len(self._plans.get(outputs, ())) >= MOST_PLANS:
            self._close(outputs, PerSize(f"{MOST_PLANS} plans are held, the most for one model"))
            return None
        if not is_enabled("open_sizes"):
            self._reasons[outputs] = PerSize("TREADLE_DISABLE names open_sizes")
            return None
        try:
            plan = compile_open(graph, options(), outputs, hints)
        except TreadleError as error:  # the compile for the sizes alone tells what is wrong, and where
            if hints is None:
                self._reasons[outputs] = PerSize(f"the sample sizes do not fit: {error}")
            return None
        if isinstance(plan, PerSize):
            self._close(outputs, plan)
            return None
        self._reasons.pop(outputs, None)
        self._plans.setdefault(outputs, []).append(plan)
        return plan

    def held(self, outputs: tuple[str, ...]) -> list[Open]:
        """Return the plans held for `outputs`, the first compiled first."""
        return list(self._plans.get(outputs, ()))

    def why_per_size(self, outputs: tuple[str, ...]) -> PerSize | None:
        """Return why sizes that no plan serves are compiled each for itself; None if a plan is compiled for them."""
        return self._reasons.get(outputs)

    def _close(self, outputs: tuple[str, ...], reason: PerSize) -> None:
        self._closed.add(outputs)
        self._reasons[outputs] = reason

    def bind(
        self, graph: Graph, options: Callable[[], Options], shapes: Sequence[StaticShape], outputs: tuple[str, ...]
    ) -> Bound | None:
        """Return a plan for `outputs` bound to inputs of these `shapes`; None if none can serve them."""
        sizes = sizes_of(graph.inputs, shapes)
        if sizes is None:
            return None
        with self._lock:
            for plan in self._plans.get(outputs, ()):  # the oldest first: later ones do not change what served a size
                bound = plan.bind(sizes)
                if bound is not None:
                    return bound
            latest = self.compile(graph, options, outputs, sizes) if 0 not in sizes.values() else None
        return None if latest is None else latest.bind(sizes)


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan for all sizes from disk: what it computes, its template, and the names of its open dimensions."""

    outputs: tuple[str, ...]
    template: ProgramTemplate
    symbols: tuple[str, ...]

    def bind(self, inputs: Sequence[Value | Tensor], shapes: Sequence[StaticShape]) -> Executable | None:
        """Return the executable for `inputs` of these `shapes`; None if the plan does not serve them."""
        sizes = sizes_of(inputs, shapes)
        return None if sizes is None else self.template.try_bind([sizes[name] for name in self.symbols])


def sizes_of(inputs: Sequence[Value | Tensor], shapes: Sequence[StaticShape]) -> dict[str, int] | None:
    """Return the sizes of the open dimensions of `inputs` of these `shapes`, by name.

    None if they have none, an input has no rank, or the shapes contradict each other or what is declared.
    """
    sizes: dict[str, int] = {}
    for value, shape in zip(inputs, shapes, strict=True):
        if value.shape is None or len(value.shape) != len(shape):
            return None
        for dim, size in zip(value.shape, shape, strict=True):
            if (sizes.setdefault(dim, size) if isinstance(dim, str) else dim) != size:
                return None
    return sizes or None
