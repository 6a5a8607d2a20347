"""Plans that compute only the tokens of padded texts, for sessions with `skip_padding`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle import _native, forking
from treadle.codegen.artifact_record import Artifact
from treadle.errors import InputError, InternalError, ModelError, ShapeError
from treadle.graph.shape import StaticShape
from treadle.open_plans import OpenModel, sizes_of
from treadle.passes.skip_padding.in_the_way import InTheWay
from treadle.plan_store import PlanStore, Restored, StoredPlan, tokens_name
from treadle.records import dataclass
from treadle.runtime.control import DEFAULT, Request
from treadle.runtime.padded_texts import PaddedTexts, is_mask
from treadle.runtime.plans import Runnable

if TYPE_CHECKING:
    from treadle.compiled_plans import Bound
    from treadle.driver import WithoutPadding

Array = np.ndarray[Any, Any]

WHERE = "Session(skip_padding=)"
"""The argument, for messages."""


class TokenInputs(NamedTuple):
    """How a plan takes tokens.

    Attributes:
        mask: The number of the input that is the attention mask.
        kinds: What the further inputs hold, as `runtime/padded_texts.py` computes it.
        first: Whether the plan is right only if the first position of every text is a token.
        tokens: The symbol of the number of tokens.
    """

    mask: int
    kinds: tuple[str, ...]
    first: bool
    tokens: str


class TokenPlan(NamedTuple):
    """A plan that computes tokens only: what it takes, and a function from sizes to an executable for them."""

    inputs: TokenInputs
    bind: Callable[[Mapping[str, int]], Bound | Restored | None]


class PaddedPlans:
    """Compiles a model without padding, once for each choice of outputs. Threads may share it.

    Plans are first looked for on disk.
    """

    def __init__(self, model: Callable[[], OpenModel], store: PlanStore, artifact: Artifact | None) -> None:
        """Make the plans of `model` that `store` keeps; `artifact` is the one that computes all outputs."""
        self._model = model
        self._store = store
        self._artifact = artifact
        self._plans: dict[tuple[str, ...], TokenPlan | InTheWay] = {}
        self._lock = forking.lock()

    def get(self, outputs: tuple[str, ...]) -> TokenPlan | InTheWay:
        """Return the plan that computes `outputs`, or what stands in its way."""
        with self._lock:
            if outputs not in self._plans:
                artifact, self._artifact = self._artifact, None
                if artifact is None:
                    artifact = self._store.load(tokens_name(outputs))
                found = self._compile(outputs) if artifact is None else self._restored(artifact, outputs)
                self._plans[outputs] = found
            return self._plans[outputs]

    def _restored(self, artifact: Artifact, outputs: tuple[str, ...]) -> TokenPlan | InTheWay:
        """Return the plan for `outputs` that `artifact` holds, or what stands in its way."""
        plan = StoredPlan.of(artifact)
        if plan is None:
            return InTheWay(*artifact.notes["in_the_way"])
        mask, kinds, first, tokens = artifact.notes["tokens"]
        stored = StoredTokens(plan, lambda: self._compiled(outputs))
        return TokenPlan(TokenInputs(mask, tuple(kinds), first, tokens), stored.bind)

    def _compiled(self, outputs: tuple[str, ...]) -> WithoutPadding:
        """Return a plan that is on disk, compiled in this process."""
        from treadle.driver import WithoutPadding, compile_without_padding

        model = self._model()
        found = compile_without_padding(model.load(), model.options(), outputs)
        if not isinstance(found, WithoutPadding):
            raise InternalError(f"a plan from disk cannot be compiled again: {found}")
        return found

    def _compile(self, outputs: tuple[str, ...]) -> TokenPlan | InTheWay:
        """Compile the plan for `outputs` and store it, or what stands in its way."""
        from treadle.driver import WithoutPadding, compile_without_padding

        model = self._model()
        found: WithoutPadding | InTheWay
        with self._store.writer(tokens_name(outputs)) as writer:
            try:
                options = replace(model.options(), artifact_writer=writer)
                found = compile_without_padding(model.load(), options, outputs)
            except (ModelError, ShapeError) as error:  # a run with padding tells what is wrong with the model
                found = InTheWay(f"the sample sizes do not fit: {error}")
            if not isinstance(found, WithoutPadding):
                notes = {"in_the_way": (found.reason, found.node, found.op)}
                self._store.save(writer, None, model.nodes, notes=notes)
                return found
            skipped, plan = found.skipped, found.plan
            inputs = TokenInputs(skipped.mask, skipped.kinds, skipped.first, skipped.tokens)
            self._store.save(writer, plan.template, plan.nodes, tuple(plan.facts.symbols), notes={"tokens": inputs})
            return TokenPlan(inputs, plan.bind)

    def must_serve(self, outputs: tuple[str, ...]) -> None:
        """Compile for all `outputs`, or if that is not possible for single ones. Raises InputError if none is
        possible."""
        found = self.get(outputs)
        if isinstance(found, TokenPlan):
            return
        if any(isinstance(self.get((name,)), TokenPlan) for name in outputs if len(outputs) > 1):
            return
        raise InputError(f"padding must be computed: {found}", WHERE, found.node)

    def bind(
        self, shapes: Sequence[StaticShape], outputs: tuple[str, ...], padded: Callable[[], Runnable]
    ) -> TokenRun | None:
        """Return what computes `outputs` for inputs of these `shapes`; None if padding must be computed.

        `padded` returns a plan that computes padding.
        """
        found, model = self.get(outputs), self._model()
        sizes = sizes_of(model.inputs, shapes, model.dims)
        return TokenRun(found, sizes, padded) if isinstance(found, TokenPlan) and sizes is not None else None


@dataclass(slots=True)
class StoredTokens:
    """A plan from disk that computes tokens only. `compile_` compiles it in this process, to show it."""

    plan: StoredPlan
    compile_: Callable[[], WithoutPadding]

    def bind(self, sizes: Mapping[str, int]) -> Restored | None:
        """Return the executable for these `sizes` of symbols; None if the plan does not serve them."""
        executable = self.plan.bind(sizes)
        return None if executable is None else Restored(executable, partial(self._show, sizes))

    def _show(self, sizes: Mapping[str, int]) -> Runnable:
        if self.plan.compiled is None:
            self.plan.compiled = self.compile_().plan
        bound = self.plan.compiled.bind(sizes)
        if bound is None:
            raise InternalError(f"a plan from disk serves {dict(sizes)}, but not when it is compiled again")
        return bound


@dataclass(slots=True)
class TokenRun:
    """A plan without padding for one combination of sizes.

    Runs whose mask has other numbers than 0 and 1, or hides a whole text, or the position that the model takes for its
    text, compute padding.
    """

    without: TokenPlan
    sizes: Mapping[str, int]
    padded: Callable[[], Runnable]
    _latest: Runnable | None = None
    _padded: Runnable | None = None
    _lock: Any = field(default_factory=forking.lock)

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = DEFAULT) -> list[Array]:
        """Return the outputs for `inputs`."""
        taken = self.without.inputs
        mask = inputs[taken.mask]
        texts = PaddedTexts(mask) if mask.size and is_mask(mask) else None
        if texts is not None and not texts.has_empty and (texts.starts_with_tokens or not taken.first):
            bound = self.without.bind({**self.sizes, taken.tokens: texts.tokens})
            if bound is not None:
                self._latest = bound
                return bound.run([*inputs, *map(texts.array, taken.kinds)], team, request)
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
