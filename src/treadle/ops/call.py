"""call: a Python function as a node, for ops that have no core op and for control flow."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from treadle.errors import InternalError, ShapeError
from treadle.graph.template import Template
from treadle.ops.op import Array, Attrs, Info
from treadle.runtime.python_ops.executor import run_function

Body = Callable[[Sequence[Array]], list[Array]]
"""Runs the body of a branch or loop: arrays in the order of its inputs to those of its outputs."""


class Nested(ABC):
    """The function of a `call` that decides, while it runs, which of its `templates` run and how often."""

    detachable = True

    def __init__(self, *templates: Template) -> None:
        self.templates = templates
        self._bodies: tuple[Body, ...] = ()

    def bind(self, bodies: Sequence[Body]) -> None:
        """Take what runs each of `templates`. Called before the first call, perhaps more than once."""
        self._bodies = tuple(bodies)

    @property
    def bodies(self) -> tuple[Body, ...]:
        """What runs each of `templates`. Raises InternalError if nothing was bound."""
        if not self._bodies:
            raise InternalError("a branch or loop was run before its bodies were compiled")
        return self._bodies

    @abstractmethod
    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The results on `arrays`."""


def infer_call(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: function, infer, blocking, label, movable (whether the function may run in another process).

    Asks the node's own `infer`. Without one nothing is known: the list is empty, and dtypes and shapes
    stay as the front end stated them.
    """
    if attrs.get("infer") is None:
        return []
    found: list[Info] = attrs["infer"](list(inputs))
    if len(found) != n_outputs:
        raise ShapeError(f"{attrs['label']} describes {len(found)} results, but the node has {n_outputs}")
    return list(found)


def call_function(attrs: Attrs, arrays: Sequence[Array | None]) -> list[Array]:
    """The results of the node's function, in a worker process if it may run there and python_ops() says so."""
    if attrs.get("movable"):
        return list(run_function(attrs["function"], [array for array in arrays if array is not None]))
    return list(attrs["function"](list(arrays)))


class CalledFunction:
    """The function of a `call` as a step of a plan calls it: with no sizes, and arrays for the operands it has."""

    def __init__(self, attrs: Attrs) -> None:
        self._attrs = {"function": attrs["function"], "movable": attrs.get("movable", False)}

    @property
    def storable(self) -> bool:
        """Whether it can be pickled, and depends on nothing but the model."""
        return bool(getattr(self._attrs["function"], "storable", False))

    @property
    def detachable(self) -> bool:
        """Whether the function is treadle's own, so that any thread may call it."""
        return bool(getattr(self._attrs["function"], "detachable", False))

    def __call__(self, _: Sequence[int], arrays: Sequence[Array]) -> list[Array]:
        """The results of the function."""
        return call_function(self._attrs, arrays)
