"""Methods of TorchScript modules as programs of the arguments of one call and of the tensors of the module."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from treadle.dtypes import DType
from treadle.errors import ModelError
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch import fx
from treadle.frontends.torch.calls import Importer, Location
from treadle.frontends.torch.frames import Part
from treadle.frontends.torch.interpreter import Interpreter, Raised
from treadle.frontends.torch.results import Result, Results
from treadle.frontends.torch.source import check_ops, inline, readable
from treadle.frontends.torch.tensor import Box
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape
from treadle.records import dataclass


class Form(NamedTuple):
    """The dtype and shape of a tensor; tensors of the module that are the same object have one `number`."""

    dtype: DType
    shape: StaticShape
    number: int


@dataclass(frozen=True, slots=True)
class Given:
    """A tensor among the arguments of a call, of this dtype and shape."""

    dtype: DType
    shape: StaticShape


@dataclass(frozen=True, slots=True)
class Program:
    """What a method does with arguments of certain forms.

    Attributes:
        graph: Its inputs are the tensors among the arguments, in order, and then those of `state`. Its outputs are what
            the result and the writes need.
        state: The paths of the tensors of the module that it reads or writes.
        attributes: The attributes of the module that decided what it does: their paths and values.
        result: What it returns, with places of outputs and inputs for tensors.
        written: The inputs that it writes, each with the output that has the new elements.
    """

    graph: Graph
    state: tuple[str, ...]
    attributes: Mapping[str, Any]
    result: Result
    written: tuple[tuple[int, int], ...]


class ScriptRaisedError(ModelError):
    """A script raises an exception for the arguments of a call."""


class Owner(Protocol):
    """Has the tensors and other attributes of a loaded module, which may not be those of its file any more."""

    def form_of(self, path: str) -> Form:
        """Return the form of the tensor with this path."""
        ...

    def attribute(self, path: str, stored: Any) -> Any:
        """Return the attribute with this path; `stored` is that of the file."""
        ...


class Method:
    """A method of a loaded module.

    Attributes:
        title: Names it in messages.
        schema: Its arguments and results, as PyTorch describes them.
    """

    def __init__(self, module: torch.jit.ScriptModule, name: str) -> None:
        method = module._c._get_method(name)
        self.title = f"{module.original_name}.{name}"
        self.schema = method.schema
        self._module = module
        with readable():
            self._graph = inline(method.graph)
            faults = Faults()
            check_ops(self._graph, faults)
            _hoist(self._graph)
        faults.raise_all(self.title)

    def program(self, arguments: Sequence[Any], owner: Owner) -> Program:
        """Returns what a call does.

        Args:
            arguments: Those behind `self`, in the order of the schema, with a Given for each tensor.
            owner: Has the tensors of the module, and its attributes that are no tensors.

        Raises:
            ScriptRaisedError: The script raises an exception for these arguments.
            UnsupportedModelError, ModelError: An error lists all that is not supported or does not fit.
        """
        graph, faults = Graph(self.title), Faults()
        importer = _StateImporter(graph, faults, owner)
        boxes: list[Box] = []
        held = [_boxed(argument, graph, boxes) for argument in arguments]
        with readable():
            (found,) = Interpreter(importer).graph(self._graph, [Part(self._module, ""), *held])
        if importer.raised is not None:
            raise ScriptRaisedError(f"{self.title}: {importer.raised}")
        faults.raise_all(self.title)
        results = Results(importer, [*boxes, *importer.boxes])
        result = importer.attempt("its result", lambda: results.of(found, self.schema.returns[0].type))
        written = importer.attempt("what it writes", results.written)
        faults.raise_all(self.title)
        return Program(graph, tuple(importer.state), importer.attributes, result, written)


class _BodyImporter(Importer):
    """Imports a body of a branch or loop, which has no inputs for tensors of the module."""

    def own(self, tensor: torch.Tensor, path: str) -> Box:  # noqa: ARG002 - as every importer
        """Raises Unsupported: the code around it reads them, unless a fork inside the body does."""
        raise Unsupported(f"a call forked in a branch or loop on data reads {path!r}; read it in front of the loop")


class _StateImporter(Importer):
    """Makes the tensors of the module inputs of the graph.

    Attributes:
        state: Their paths.
        boxes: What holds them in the program.
        attributes: The attributes that are no tensors and are read: their paths and values.
        raised: What the script raises, if anything.
    """

    def __init__(self, graph: Graph, faults: Faults, owner: Owner) -> None:
        super().__init__(graph, faults, fx.run, defers=True)
        self._graph = graph
        self._owner = owner
        self.attributes: dict[str, Any] = {}
        self.raised: Raised | None = None
        self._known: dict[int, Box] = {}
        self.state: list[str] = []
        self.boxes: list[Box] = []

    def inner(self, graph: Graph, faults: Faults, *, follows_data: bool) -> Importer:
        """Returns an importer for the graph of a body."""
        return _BodyImporter(graph, faults, fx.run, defers=True, follows_data=follows_data, made=self.made)

    def own(self, tensor: torch.Tensor, path: str) -> Box:  # noqa: ARG002 - the program reads the facade's tensor
        """Returns the tensor of the module that has this path."""
        form = self._owner.form_of(path)
        found = self._known.get(form.number)
        if found is None:
            if self.b.graph is not self._graph:
                raise Unsupported(f"a call forked behind a size that depends on data reads {path!r}")
            value = self._graph.input(path, form.dtype, form.shape)
            found = Box(value, owner=f"the model's own tensor {path!r}", returns_writes=True)
            self._known[form.number] = found
            self.state.append(path)
            self.boxes.append(found)
        return found

    def attempt(self, location: Location, make: Callable[[], Any]) -> Any:
        """Returns what `make` returns, as every importer; keeps the first exception that the script raises."""

        def noted() -> Any:
            try:
                return make()
            except Raised as fault:
                self.raised = self.raised or fault
                raise

        return super().attempt(location, noted)

    def attribute(self, value: Any, path: str) -> Any:
        """Returns an attribute that is no tensor."""
        found = self.attributes[path] = self._owner.attribute(path, value)
        return found


def _boxed(argument: Any, graph: Graph, boxes: list[Box]) -> Any:
    """Returns an argument with a Box for each tensor, which becomes an input of the graph."""
    if isinstance(argument, Given):
        value = graph.input(f"argument {len(boxes)}", argument.dtype, argument.shape)
        boxes.append(Box(value, owner="its argument", returns_writes=True))
        return boxes[-1]
    if isinstance(argument, list | tuple):
        return [_boxed(each, graph, boxes) for each in argument]
    if isinstance(argument, dict):
        return {key: _boxed(each, graph, boxes) for key, each in argument.items()}
    return argument


def _hoist(graph: Any) -> None:
    """Moves the reads of attributes of the module to the front.

    Bodies have no inputs for them, nor has what is made once sizes are known.
    """
    known = {value.debugName() for value in graph.inputs()}
    reads = []
    for outer in graph.nodes():
        for node in _reads(outer):
            if next(node.inputs()).debugName() in known:
                known.add(node.output().debugName())
                reads.append(node)
    first = next((node for node in graph.nodes() if node not in reads), None)
    if first is not None:
        for node in reads:
            node.moveBefore(first)


def _reads(node: Any) -> Iterator[Any]:
    """Yields the reads of attributes in a node and its bodies, in order."""
    if node.kind() == "prim::GetAttr":
        yield node
    for block in node.blocks():
        for inner in block.nodes():
            yield from _reads(inner)
