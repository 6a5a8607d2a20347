"""torch.jit.trace: what a function does with example inputs, kept as one compiled graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from weft import forking
from weft.compat.torch.jit.script import _plainly, name_of
from weft.compat.torch.recording import Recording
from weft.compat.torch.state import current
from weft.compat.torch.tasks import run
from weft.compat.torch.tensor import Tensor
from weft.compile import Session


@dataclass(frozen=True, slots=True)
class Leaf:
    """Where a tensor of the result comes from: output `index` of the session, or a tensor that exists already."""

    index: int = -1
    tensor: Tensor | None = None
    argument: int = -1


@dataclass(frozen=True, slots=True)
class Traced:
    """One trace. `arguments` maps inputs of the session to arguments, `captured` to tensors the code reads."""

    session: Session | None
    arguments: dict[str, int]
    captured: dict[str, Tensor]
    result: Any

    def run(self, tensors: list[Tensor]) -> Any:
        """The result for other tensors of the same shapes and element types."""
        outputs: list[Any] = []
        if self.session is not None:
            feed = {name: tensors[index].numpy() for name, index in self.arguments.items()}
            feed.update((name, tensor.numpy()) for name, tensor in self.captured.items())
            outputs = list(self.session.run(feed).values())

        def restored(leaf: Any) -> Any:
            if not isinstance(leaf, Leaf):
                return leaf
            if leaf.argument >= 0:
                return tensors[leaf.argument]
            return Tensor(outputs[leaf.index]) if leaf.index >= 0 else leaf.tensor

        return mapped(self.result, restored, Leaf)


def mapped(structure: Any, function: Callable[[Any], Any], kind: type) -> Any:
    """`structure` of tuples, lists and dicts with `function` applied to what is of `kind`."""
    if isinstance(structure, kind):
        return function(structure)
    if isinstance(structure, tuple):
        parts = [mapped(each, function, kind) for each in structure]
        return type(structure)(*parts) if hasattr(structure, "_fields") else tuple(parts)
    if isinstance(structure, list):
        return [mapped(each, function, kind) for each in structure]
    if isinstance(structure, dict):
        return {key: mapped(each, function, kind) for key, each in structure.items()}
    return structure


def leaves(structure: Any) -> list[Tensor]:
    """The tensors in `structure`, in order."""
    found: list[Tensor] = []
    mapped(structure, found.append, Tensor)
    return found


def record(function: Callable[..., Any], args: tuple[Any, ...]) -> Traced | None:
    """Trace `function` with `args`; None for what no graph keeps: writes into tensors that are not the function's own,
    shapes that depend on data."""
    fresh = mapped(args, lambda tensor: Tensor(tensor.numpy()), Tensor)
    inputs = leaves(fresh)
    recording = Recording(keep=True)
    result, _ = run(_plainly(function, fresh, {}), name_of(function), recording)
    if recording.memory.written or recording.ragged:
        return None
    places = {id(tensor): index for index, tensor in enumerate(inputs)}
    outputs: list[int] = []

    def kept(tensor: Tensor) -> Leaf:
        if tensor.recording is recording:
            number = recording.number(tensor)
            if number not in outputs:
                outputs.append(number)
            return Leaf(index=outputs.index(number))
        return Leaf(argument=places[id(tensor)]) if id(tensor) in places else Leaf(tensor=tensor)

    form = mapped(result, kept, Tensor)
    arguments = {f"v{n}": places[id(t)] for n, t in recording.inputs.items() if id(t) in places}
    captured = {f"v{n}": t for n, t in recording.inputs.items() if id(t) not in places}
    return Traced(recording.session(outputs) if outputs else None, arguments, captured, form)


class TracedFunction:
    """A traced function or module. Other shapes or element types than those met are traced when they come."""

    def __init__(self, function: Callable[..., Any], example: tuple[Any, ...]) -> None:
        self.original = function
        self.__name__ = name_of(function)
        self._lock = forking.lock()
        self._traces: dict[Any, Traced | None] = {self._form(example): record(function, example)}

    @staticmethod
    def _form(args: tuple[Any, ...]) -> Any:
        return repr(mapped(args, lambda tensor: (tuple(tensor.shape), tensor.dtype), Tensor))

    def __call__(self, *args: Any) -> Any:
        if current() is not None:
            return self.original(*args)
        form = self._form(args)
        with self._lock:
            if form not in self._traces:
                self._traces[form] = record(self.original, args)
            found = self._traces[form]
        if found is None:
            return run(_plainly(self.original, args, {}), self.__name__)[0]
        return found.run(leaves(args))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)


def trace(func: Any, example_inputs: Any = None, **options: Any) -> TracedFunction:
    """Run `func`, a function or a module, with the example inputs, and keep the graph of what it did.

    Python control flow is kept as it went, for each combination of shapes met. Module parameters are read anew at each
    call. Futures that the function forks run beside the rest.
    """
    if example_inputs is None:
        raise RuntimeError("torch.jit.trace needs example_inputs")
    return TracedFunction(func, example_inputs if isinstance(example_inputs, tuple) else (example_inputs,))
