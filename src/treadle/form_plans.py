"""The plans of templates that do not declare their inputs: those of each combination of dtypes and ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from treadle import forking
from treadle.graph.shape import StaticShape
from treadle.graph.template import Form, Template
from treadle.graph.value import Value
from treadle.open_plans import OpenModel, OpenPlans, sizes_of
from treadle.plan_store import PlanStore, Restored
from treadle.runtime.per_size import PerSize
from treadle.runtime.signature import Interface

if TYPE_CHECKING:
    from treadle.compiled_plans import Bound, Open
    from treadle.driver import Options


class FormPlans:
    """The plans of a template that does not declare its inputs.

    The first shapes are compiled for themselves. Dimensions that differ from them later are open from then on: a model
    has one plan for all of their sizes, and none that is more general than its use.
    """

    def __init__(self, load: Callable[[], Template], interface: Interface, store: PlanStore) -> None:
        """Make the plans of the template that `load` returns, and which has this `interface`; `store` keeps them."""
        self._load = load
        self._interface = interface
        self._store = store
        self._forms: dict[tuple[tuple[str, int], ...], _Form] = {}
        self._lock = forking.lock()

    def bind(
        self, options: Callable[[], Options], forms: Sequence[Form], outputs: tuple[str, ...]
    ) -> Bound | Restored | None:
        """Return a plan for `outputs` bound to inputs of these `forms`; None if they are compiled for themselves."""
        key = tuple((dtype.name, len(shape)) for dtype, shape in forms)
        with self._lock:
            form = self._forms.get(key)
            if form is None:
                self._forms[key] = _Form(self._load, self._interface, forms, self._store)
                return None
        return form.bind(options, [shape for _, shape in forms], outputs)

    def compiled(self, outputs: tuple[str, ...]) -> list[Open]:
        """Return the plans held for `outputs`, the first compiled first."""
        return [plan for form in self._forms.values() for _, plans in form.variants for plan in plans.compiled(outputs)]

    def compile_stored(self, options: Callable[[], Options], outputs: tuple[str, ...]) -> None:
        """Compile the plans held for `outputs` that are from disk, so that compiled() returns them too."""
        for form in self._forms.values():
            for opened, plans in form.variants:
                plans.compile_stored(opened.model(options), outputs)

    def why_per_size(self, outputs: tuple[str, ...]) -> PerSize | None:
        """Return why further sizes are compiled each for itself; None if a plan is compiled for them."""
        reasons = (plans.why_per_size(outputs) for form in self._forms.values() for _, plans in form.variants[-1:])
        return next((reason for reason in reasons if reason is not None), None)


class _Form:
    """The plans for inputs of the same dtypes and ranks: `variants`, each with more open dimensions than the last."""

    def __init__(
        self, load: Callable[[], Template], interface: Interface, first: Sequence[Form], store: PlanStore
    ) -> None:
        self._load = load
        self._interface = interface
        self._store = store
        self._dtypes = [dtype for dtype, _ in first]
        self._first = [shape for _, shape in first]
        self._open: dict[tuple[int, int], int] = {}
        self._lock = forking.lock()
        self.variants: list[tuple[_Opened, OpenPlans]] = []

    def bind(
        self, options: Callable[[], Options], shapes: Sequence[StaticShape], outputs: tuple[str, ...]
    ) -> Bound | Restored | None:
        """Return a plan for `outputs` bound to inputs of these `shapes`; None if they are compiled for themselves."""
        with self._lock:
            if self._opens_more(shapes):
                self.variants.append((self._opened(), OpenPlans(self._store.part(self._variant_name()))))
            if not self.variants:
                return None
            for opened, plans in self.variants[:-1]:  # the oldest first, as in OpenPlans
                sizes = sizes_of(opened.inputs, shapes)
                bound = None if sizes is None else plans.bound(opened.model(options), sizes, outputs)
                if bound is not None:
                    return bound
            opened, plans = self.variants[-1]
            return plans.bind(opened.model(options), shapes, outputs, self._hints())

    def _opens_more(self, shapes: Sequence[StaticShape]) -> bool:
        """Open the dimensions in which `shapes` differ from the first ones; True if one was not open before."""
        before = len(self._open)
        for at, (first, shape) in enumerate(zip(self._first, shapes, strict=True)):
            for axis, (size, now) in enumerate(zip(first, shape, strict=True)):
                if size != now:  # the larger one is the sample: decisions for sizes of 0 and 1 hold for no others
                    self._open[at, axis] = max(self._open.get((at, axis), size), now)
        return len(self._open) > before

    def _hints(self) -> dict[str, int]:
        return {self._name(at, axis): size for (at, axis), size in self._open.items()}

    def _name(self, at: int, axis: int) -> str:
        return f"{self._interface.inputs[at].name}_{axis}"

    def _variant_name(self) -> str:
        """The first forms, and the dimensions that are open, each with the size that its plan is compiled for."""
        first = [(dtype.name, list(shape)) for dtype, shape in zip(self._dtypes, self._first, strict=True)]
        return f"form {first} {sorted(self._open.items())}"

    def _opened(self) -> _Opened:
        """Return the template with shapes for its inputs."""
        inputs = tuple(
            Value(
                tensor.name,
                dtype,
                tuple(self._name(at, axis) if (at, axis) in self._open else size for axis, size in enumerate(shape)),
            )
            for at, (tensor, dtype, shape) in enumerate(
                zip(self._interface.inputs, self._dtypes, self._first, strict=True)
            )
        )
        return _Opened(self._load, inputs)


class _Opened(NamedTuple):
    """A template with shapes for its inputs."""

    load: Callable[[], Template]
    inputs: tuple[Value, ...]

    def model(self, options: Callable[[], Options]) -> OpenModel:
        """Return what its plans are compiled of."""
        return OpenModel(lambda: self.load().with_inputs(self.inputs), self.inputs, options)
