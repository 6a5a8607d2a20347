"""Plans that compute only the tokens of padded texts, for sessions with `skip_padding`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import _native, forking
from treadle.errors import InputError, ModelError, ShapeError
from treadle.graph.graph import Graph
from treadle.graph.open_dims import NOTHING
from treadle.graph.shape import StaticShape
from treadle.graph.template import Template
from treadle.open_plans import sizes_of
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.padded_texts import PaddedTexts, is_mask
from treadle.runtime.plans import Runnable

if TYPE_CHECKING:
    from treadle.driver import Options, WithoutPadding
    from treadle.passes.skip_padding.rewrite import InTheWay

Array = np.ndarray[Any, Any]

WHERE = "Session(skip_padding=)"
"""The argument, for messages."""


class PaddedPlans:
    """Compiles a model without padding, once for each choice of outputs. Threads may share it."""

    def __init__(self, options: Callable[[], Options]) -> None:
        self._options = options
        self._plans: dict[tuple[str, ...], WithoutPadding | InTheWay] = {}
        self._lock = forking.lock()

    def get(self, model: Graph | Template, outputs: tuple[str, ...]) -> WithoutPadding | InTheWay:
        """Return the plan that computes `outputs` of `model`, or what stands in its way."""
        from treadle.driver import compile_without_padding
        from treadle.passes.skip_padding.rewrite import InTheWay

        with self._lock:
            if outputs not in self._plans:
                try:
                    self._plans[outputs] = compile_without_padding(model, self._options(), outputs)
                except (ModelError, ShapeError) as error:  # a run with padding tells what is wrong with the model
                    self._plans[outputs] = InTheWay(f"the sample sizes do not fit: {error}")
            return self._plans[outputs]

    def must_serve(self, model: Graph | Template, outputs: tuple[str, ...]) -> None:
        """Compile for all `outputs`, or if that is not possible for single ones. Raises InputError if none is
        possible."""
        from treadle.driver import WithoutPadding

        found = self.get(model, outputs)
        if isinstance(found, WithoutPadding):
            return
        if any(isinstance(self.get(model, (name,)), WithoutPadding) for name in outputs if len(outputs) > 1):
            return
        raise InputError(f"padding must be computed: {found}", WHERE, found.node)

    def bind(
        self,
        model: Graph | Template,
        shapes: Sequence[StaticShape],
        outputs: tuple[str, ...],
        padded: Callable[[], Runnable],
    ) -> TokenRun | None:
        """Return what computes `outputs` for inputs of these `shapes`; None if padding must be computed.

        `padded` returns a plan that computes padding.
        """
        from treadle.driver import WithoutPadding

        found = self.get(model, outputs)
        sizes = sizes_of(model.inputs, shapes, model.dims if isinstance(model, Template) else NOTHING)
        return TokenRun(found, sizes, padded) if isinstance(found, WithoutPadding) and sizes is not None else None


@dataclass(slots=True)
class TokenRun:
    """A plan without padding for one combination of sizes.

    Runs whose mask has other numbers than 0 and 1, or hides a whole text, or the position that the model takes for its
    text, compute padding.
    """

    without: WithoutPadding
    sizes: Mapping[str, int]
    padded: Callable[[], Runnable]
    _latest: Runnable | None = None
    _padded: Runnable | None = None
    _lock: Any = field(default_factory=forking.lock)

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Return the outputs for `inputs`."""
        skipped = self.without.skipped
        mask = inputs[skipped.mask]
        texts = PaddedTexts(mask) if mask.size and is_mask(mask) else None
        if texts is not None and not texts.has_empty and (texts.starts_with_tokens or not skipped.first):
            bound = self.without.plan.bind({**self.sizes, skipped.tokens: texts.tokens})
            if bound is not None:
                self._latest = bound
                return bound.run([*inputs, *map(texts.array, skipped.kinds)], team, request)
        return self._with_padding().run(inputs, team, request)

    def _with_padding(self) -> Runnable:
        with self._lock:
            if self._padded is None:
                self._padded = self.padded()
        self._latest = self._padded
        return self._padded

    def compiled(self) -> Runnable:
        """Return the plan of the latest run."""
        return self._latest or self._with_padding()

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        for plan in (self._latest, self._padded):
            if plan is not None:
                plan.trim()
