"""Captured graphs compiled by treadle: arguments and results are PyTorch's tensors, whose memory is shared."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter, is_, itemgetter
from typing import Any
from weakref import WeakSet

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensor

from treadle import forking
from treadle.compat.dynamo.direct import Direct, direct
from treadle.compat.dynamo.fallbacks import LEDGER
from treadle.compile import Session
from treadle.dtypes import DType
from treadle.errors import ModelError, ShapeError, UnsupportedModelError
from treadle.frontends.faults import Fault
from treadle.frontends.torch.captured import Alias, Feed, Output, import_graph, to_aten, used_arguments
from treadle.frontends.torch.dtypes import array_of, core, tensor_of
from treadle.lru import LRU

MOST_SESSIONS = 32
"""The number of combinations of sizes that are kept for one graph and one set of parameters."""

MOST_GROUPS = 64
"""The number of sets of parameters that are kept for one graph: layers of one class share the captured code."""

MOST_CHANGES = 4
"""After this many changes of parameters between calls, parameters are passed like other tensors."""

_ALIVE: WeakSet[Compiled] = WeakSet()
"""Graphs to release at exit: PyTorch holds compiled functions longer than treadle's modules live."""


def _release() -> None:
    for compiled in list(_ALIVE):
        compiled.release()


_version = attrgetter("_version")


class Compiled:
    """A captured graph. `call` takes the arguments that torch.compile passes: parameters, sizes, inputs.

    Parameters and buffers are constants. Each call checks them: if one was written, or another module that shares the
    code passes its own, the graph is compiled for these.
    """

    def __init__(
        self, module: fx.GraphModule, example_inputs: Sequence[Any], title: str, options: Mapping[str, Any]
    ) -> None:
        """Raises ModelError, which lists the unsupported ops."""
        self._eager: Callable[..., Any] = module.forward
        self._title = title
        self._options = dict(options)
        self._module = to_aten(module)
        self._lock = forking.lock()
        placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
        kinds = [
            _kind(node) if read else "unread"
            for node, read in zip(placeholders, used_arguments(self._module), strict=True)
        ]
        self._names = [str(node.name) for node in placeholders]
        self._fixed = [number for number, kind in enumerate(kinds) if kind == "parameter"]
        self._fed = [number for number, kind in enumerate(kinds) if kind == "tensor"]
        self._sized = any(not isinstance(node.meta.get("example_value"), torch.Tensor) for node in placeholders)
        self._sizes = [number for number, kind in enumerate(kinds) if kind == "size"]
        self._pick = _picker(self._fixed)
        self._groups: LRU[tuple[int, ...], _Group] = LRU(MOST_GROUPS)
        self._group = _Group((), [])
        self._changes = 0
        self._eager_only = False
        if not self._sized and not any(isinstance(example, FakeTensor) for example in example_inputs):
            self._run_for(tuple(example_inputs))
        LEDGER.add_compiled()
        if not _ALIVE:
            atexit.register(_release)
        _ALIVE.add(self)

    def release(self) -> None:
        """Drops the compiled code; a later call compiles again."""
        with self._lock:
            self._groups.clear()
            self._group = _Group((), [])

    def call(self, *args: Any) -> Any:
        """Returns the results, as the captured graph returns them."""
        if self._eager_only:
            return self._eager(*args)
        try:
            run = self._run_for(args)
        except (ModelError, ShapeError) as error:
            self._eager_only = True
            LEDGER.add_fallback(self._title, getattr(error, "faults", ()) or [str(error)])
            return self._eager(*args)
        return run(args)

    def _run_for(self, args: tuple[Any, ...]) -> _Run:
        group = self._group
        constants = self._pick(args)
        if not group.holds(constants):
            with self._lock:
                group = self._group = self._group_for(constants)
        key = self._key(args) if self._sized else ()
        found = group.runs.get(key)
        if found is not None:
            return found
        with self._lock:
            found = group.runs.get(key)
            if found is None:
                found = self._compile(args)
                group.runs.put(key, found)
            return found

    def _key(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (*(args[number] for number in self._sizes), *(args[number].shape for number in self._fed))

    def _group_for(self, constants: tuple[Any, ...]) -> _Group:
        """Returns the group of runs for `constants` as they are now."""
        ids = tuple(map(id, constants))
        found = self._groups.get(ids)
        if found is not None and found.holds(constants):
            return found
        self._changes += found is not None
        if self._changes > MOST_CHANGES or any(constant.is_inference() for constant in constants):
            self._fed, self._fixed = sorted({*self._fed, *self._fixed}), []
            self._pick, ids, constants = _picker([]), (), ()
            self._groups.clear()
        made = _Group(constants, list(map(_version, constants)))
        self._groups.put(ids, made)
        return made

    def _compile(self, args: tuple[Any, ...]) -> _Run:
        """Compiles the graph for arguments of these sizes."""
        fed, fixed = set(self._fed), set(self._fixed)
        arguments: list[Any] = []
        for number, (name, argument) in enumerate(zip(self._names, args, strict=True)):
            if number in fed:
                plain = torch.view_as_real(argument.resolve_conj()) if argument.is_complex() else argument
                arguments.append(Feed(name, (_core(plain.dtype), tuple(plain.shape)), argument.is_complex()))
            else:
                unread = isinstance(argument, torch.Tensor) and number not in fixed
                arguments.append(None if unread else argument)
        captured = import_graph(self._module, arguments)
        session = Session(captured.graph, **self._options)
        return _Run(session, [(number, self._names[number]) for number in self._fed], captured.results)


class _Group:
    """Runs by sizes, for one set of parameters and their versions."""

    __slots__ = ("_constants", "_versions", "runs")

    def __init__(self, constants: tuple[Any, ...], versions: list[int]) -> None:
        self._constants = constants
        self._versions = versions
        self.runs: LRU[tuple[Any, ...], _Run] = LRU(MOST_SESSIONS)

    def holds(self, constants: tuple[Any, ...]) -> bool:
        """Returns True if these are the same tensors, not written since."""
        mine = self._constants
        if len(mine) != len(constants) or not all(map(is_, mine, constants)):
            return False
        return not mine or list(map(_version, mine)) == self._versions


class _Run:
    """The compiled graph for one combination of sizes.

    `fed` holds number and name of each tensor that a call passes.
    """

    __slots__ = ("_direct", "_names", "_pick", "_plain", "_results", "_session", "_tries")

    def __init__(self, session: Session, fed: list[tuple[int, str]], results: tuple[Any, ...]) -> None:
        self._session = session
        self._names = [name for _, name in fed]
        self._pick = _picker([number for number, _ in fed])
        self._results = results
        self._plain = all(isinstance(result, Output) and not result.complex for result in results)
        self._direct: Direct | None = None
        self._tries = MOST_CHANGES

    def __call__(self, args: tuple[Any, ...]) -> list[Any]:
        tensors = self._pick(args)
        made = None if self._direct is None else self._direct(tensors)
        if made is None:
            made = self._by_arrays(tensors)
        if self._plain:
            return made
        each = iter(made)
        return [_result(result, each, args) for result in self._results]

    def _by_arrays(self, tensors: tuple[Any, ...]) -> list[Any]:
        arrays = dict(zip(self._names, map(_array, tensors), strict=True))
        made = [tensor_of(array) for array in self._session.run(arrays).values()]
        if self._tries > 0:
            self._tries -= 1
            self._direct = direct(self._session, arrays, tensors, made)
        return made


def _core(dtype: torch.dtype) -> DType:
    """Returns treadle's element type. Raises UnsupportedModelError if there is none."""
    try:
        return core(dtype)
    except Fault as fault:
        raise UnsupportedModelError(str(fault), [str(fault)]) from None


def _array(tensor: torch.Tensor) -> Any:
    if tensor.is_complex():
        return array_of(torch.view_as_real(tensor.resolve_conj()))
    if tensor.requires_grad or tensor.dtype is torch.bfloat16 or tensor.is_conj() or tensor.is_neg():
        return array_of(tensor)
    return tensor.numpy()


def _result(result: Any, made: Iterator[Any], args: tuple[Any, ...]) -> Any:
    if isinstance(result, Output):
        tensor = next(made)
        return torch.view_as_complex(tensor) if result.complex else tensor
    if isinstance(result, Alias):
        owner = args[result.argument]
        return owner if result.strides is None else owner.as_strided(result.sizes, result.strides, result.offset)
    return result


def _kind(node: Any) -> str:
    """Returns whether an argument is a parameter (or buffer), another tensor, or a size."""
    example = node.meta.get("example_value")
    if not isinstance(example, torch.Tensor):
        return "size"
    marked = (node.meta.get("tensor_dict") or {}).get("_dynamo_static_input_type")
    return "parameter" if marked or isinstance(example, torch.nn.Parameter) else "tensor"


def _picker(numbers: list[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """Returns a function that takes these arguments out of a tuple."""
    if len(numbers) > 1:
        return itemgetter(*numbers)
    return lambda args: tuple(args[number] for number in numbers)
