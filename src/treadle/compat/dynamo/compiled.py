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
from treadle.frontends.torch.captured import Alias, Captured, Feed, Output, import_graph, to_aten, used_arguments
from treadle.frontends.torch.dtypes import array_of, core, tensor_of
from treadle.frontends.torch.symbols import TracedSizes
from treadle.graph.dim import is_expression
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.guard import evaluate
from treadle.graph.open_dims import OpenDims
from treadle.graph.shape import Shape, StaticShape
from treadle.graph.template import Form, Template
from treadle.graph.value import Value
from treadle.lru import LRU
from treadle.passes.specialize import fixed_shape, open_shape

MOST_RUNS = 32
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
        examples = [node.meta.get("example_value") for node in placeholders]
        self._sized = any(map(_is_sized, examples))
        self._traced = TracedSizes(examples)
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
                found = (self._open(group, args) if self._sized else None) or self._compile(args)
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
        held = self._held(args)
        feeds = [self._feed(number, args[number].shape, args[number]) for number in self._fed]
        captured = import_graph(self._module, _filled(held, self._fed, feeds), {})
        session = Session(captured.graph, **self._options)
        LEDGER.count_plans(session)
        return _Run(session, [(number, self._names[number]) for number in self._fed], captured.results)

    def _open(self, group: _Group, args: tuple[Any, ...]) -> _Run | None:
        """Returns the graph compiled for all sizes, for arguments of these; None if no plan can serve several."""
        traced = self._traced
        dims = traced.dims(self._fed)
        free = [number for number in self._sizes if not traced.follows(number, self._fed, dims)]
        key = tuple(args[number] for number in free)
        shapes = [args[number].shape for number in self._fed]
        sizes = traced.sizes(self._fed, shapes, dims)
        if key not in group.opened:
            try:
                group.opened[key] = self._compile_open(args, dims, free, sizes)
            except (ModelError, ShapeError):  # compiling for these sizes tells what is wrong
                group.opened[key] = None
        opened = group.opened[key]
        return None if opened is None or not opened.serves(sizes) else opened.run(sizes)

    def _compile_open(
        self, args: tuple[Any, ...], dims: OpenDims, free: Sequence[int], sizes: Mapping[str, int]
    ) -> _Opened | None:
        """Compiles the graph for all sizes that PyTorch traced as symbols; those of the arguments `free` are fixed.

        Where sample sizes do not fit the graph, symbols are fixed to which it gives one value: PyTorch may trace all
        sizes as symbols. `sizes` has their values.
        """
        fed, traced, module = tuple(self._fed), self._traced, self._module
        held = self._held(args)
        names = [self._names[number] for number in fed]
        complexes = [args[number].is_complex() for number in fed]
        dtypes = [self._feed(number, (), args[number]).form[0] for number in fed]

        def capture(shapes: Sequence[StaticShape]) -> Captured:
            found = traced.sizes(fed, shapes, dims)
            feeds = [
                Feed(name, (dtype, (*shape, 2) if is_complex else shape), is_complex)
                for name, dtype, shape, is_complex in zip(names, dtypes, shapes, complexes, strict=True)
            ]
            arguments = _filled(held, fed, feeds)
            for number in self._sizes:
                if number not in free:
                    arguments[number] = traced.value(number, found)
            return import_graph(module, arguments, found)

        def build(forms: Sequence[Form]) -> Graph:
            shapes = [shape for _, shape in forms]
            return capture([s[:-1] if cut else s for s, cut in zip(shapes, complexes, strict=True)]).graph

        def open_for(shapes: Sequence[Shape], hints: Mapping[str, int]) -> tuple[Captured, Facts]:
            facts = Facts()
            return capture([open_shape(shape, dims, facts, hints) for shape in shapes]), facts

        shapes: list[Shape] = [traced.shape(number) for number in fed]
        fixed: dict[str, int] = {}
        try:
            captured, _ = open_for(shapes, {})
        except (ModelError, ShapeError):
            _, facts = open_for(shapes, sizes)
            fixed = {str(symbol): symbol.hint for guard in facts.guards if guard.pins for symbol in guard.symbols}
            shapes = [fixed_shape(shape, dims, fixed) for shape in shapes]
            dims = dims.without(fixed)
            captured, _ = open_for(shapes, {})
        inputs = tuple(
            Value(name, dtype, (*shape, 2) if is_complex else shape)
            for name, dtype, shape, is_complex in zip(names, dtypes, shapes, complexes, strict=True)
        )
        outputs = tuple(Value(value.name, value.dtype) for value in captured.graph.outputs)
        template = Template(self._title, inputs, outputs, build, builds_open=True, dims=dims)
        session = Session(template, **self._options)
        LEDGER.count_plans(session)
        if not session.open_plans():
            return None
        return _Opened(session, list(zip(fed, names, strict=True)), captured.results, fixed)

    def _held(self, args: tuple[Any, ...]) -> list[Any]:
        """Returns the arguments that become constants, and None for the others."""
        fixed = set(self._fixed)
        return [
            argument if number in fixed or not isinstance(argument, torch.Tensor) else None
            for number, argument in enumerate(args)
        ]

    def _feed(self, number: int, shape: Sequence[int], example: torch.Tensor) -> Feed:
        """Returns argument `number` as an input like `example`, of this `shape`."""
        is_complex = example.is_complex()
        dtype = _core(example.real.dtype if is_complex else example.dtype)
        return Feed(self._names[number], (dtype, (*shape, 2) if is_complex else tuple(shape)), is_complex)


class _Opened:
    """The graph compiled for all sizes but those of the symbols in `fixed`."""

    __slots__ = ("_fed", "_fixed", "_results", "_session", "_shared")

    def __init__(
        self, session: Session, fed: list[tuple[int, str]], results: tuple[Any, ...], fixed: Mapping[str, int]
    ) -> None:
        self._fixed = fixed
        self._session = session
        self._fed = fed
        self._results = results
        same = not any(map(_has_sizes, results))
        self._shared = _Run(session, fed, results, direct=False) if same else None

    def serves(self, sizes: Mapping[str, int]) -> bool:
        """Returns whether it computes results for these sizes of PyTorch's symbols."""
        return all(sizes.get(name) == size for name, size in self._fixed.items())

    def run(self, sizes: Mapping[str, int]) -> _Run:
        """Returns the run for these sizes of PyTorch's symbols."""
        if self._shared is not None:
            return self._shared
        results = tuple(_bound(result, sizes) for result in self._results)
        return _Run(self._session, self._fed, results, direct=False)


class _Group:
    """Runs by sizes, for one set of parameters and their versions."""

    __slots__ = ("_constants", "_versions", "opened", "runs")

    def __init__(self, constants: tuple[Any, ...], versions: list[int]) -> None:
        self._constants = constants
        self._versions = versions
        self.opened: dict[tuple[Any, ...], _Opened | None] = {}
        self.runs: LRU[tuple[Any, ...], _Run] = LRU(MOST_RUNS)

    def holds(self, constants: tuple[Any, ...]) -> bool:
        """Returns True if these are the same tensors, not written since."""
        mine = self._constants
        if len(mine) != len(constants) or not all(map(is_, mine, constants)):
            return False
        return not mine or list(map(_version, mine)) == self._versions


class _Run:
    """The compiled graph for one combination of sizes, or for all whose results are of the same form.

    `fed` holds number and name of each tensor that a call passes. With `direct`, one layout of tensors is served
    without arrays.
    """

    __slots__ = ("_direct", "_names", "_pick", "_plain", "_results", "_session", "_tries")

    def __init__(
        self, session: Session, fed: list[tuple[int, str]], results: tuple[Any, ...], *, direct: bool = True
    ) -> None:
        self._session = session
        self._names = [name for _, name in fed]
        self._pick = _picker([number for number, _ in fed])
        self._results = results
        self._plain = all(
            isinstance(result, Output) and not result.complex and not result.is_number for result in results
        )
        self._direct: Direct | None = None
        self._tries = MOST_CHANGES if direct else 0

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
        if result.is_number:
            return tensor.item()
        return torch.view_as_complex(tensor) if result.complex else tensor
    if isinstance(result, Alias):
        owner = args[result.argument]
        return owner if result.strides is None else owner.as_strided(result.sizes, result.strides, result.offset)
    return result


def _filled(held: Sequence[Any], fed: Sequence[int], feeds: Sequence[Feed]) -> list[Any]:
    """Returns `held` with `feeds` as the arguments of the numbers `fed`."""
    arguments = list(held)
    for number, feed in zip(fed, feeds, strict=True):
        arguments[number] = feed
    return arguments


def _is_sized(example: Any) -> bool:
    """Returns whether an argument, or one of its sizes, may change."""
    return not isinstance(example, torch.Tensor) or not all(isinstance(size, int) for size in example.shape)


def _has_sizes(result: Any) -> bool:
    """Returns whether a result depends on sizes in another way than an Output does."""
    if isinstance(result, Alias):
        return any(map(is_expression, (*result.sizes, *(result.strides or ()), result.offset)))
    return is_expression(result)


def _bound(result: Any, sizes: Mapping[str, int]) -> Any:
    """Returns `result` with numbers in place of expressions."""
    if not isinstance(result, Alias):
        return evaluate(result, sizes)
    shape, strides = (tuple(evaluate(size, sizes) for size in part or ()) for part in (result.sizes, result.strides))
    return Alias(result.argument, shape, None if result.strides is None else strides, evaluate(result.offset, sizes))


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
