"""Graphs captured by torch.compile: to ATen ops, and from those to a Graph for known arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.traceback import preserve_node_meta

from treadle.errors import UnsupportedModelError
from treadle.frontends.faults import Faults, Unsupported
from treadle.frontends.torch import fx as walk
from treadle.frontends.torch.build import Complex, Number
from treadle.frontends.torch.calls import Importer, is_missing
from treadle.frontends.torch.exporter_warnings import without_exporter_warnings
from treadle.frontends.torch.graphs import add_outputs, start_graph
from treadle.frontends.torch.rules.complex import view_as_complex, view_as_real
from treadle.frontends.torch.symbols import value_of
from treadle.frontends.torch.tensor import Box
from treadle.graph.dim import DimExpr, RealExpr
from treadle.graph.graph import Graph
from treadle.graph.template import Form
from treadle.graph.value import Value

TITLE = "the captured graph"


@dataclass(frozen=True, slots=True)
class Feed:
    """A tensor that each call passes; a complex one as torch.view_as_real gives it."""

    name: str
    form: Form
    complex: bool = False


@dataclass(frozen=True, slots=True)
class Output:
    """A tensor that the graph computes, by the name of its output; a complex one as torch.view_as_real gives it.

    If it `is_number`, the program returns its only element: a size or element that depends on data.
    """

    name: str
    complex: bool = False
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Alias:
    """A result that is argument number `argument`, or a view of it if `strides` is given. Sizes may be expressions."""

    argument: int
    sizes: tuple[int, ...] = ()
    strides: tuple[int, ...] | None = None
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Captured:
    """A graph, and the results of the captured program: an Output, an Alias, a Python value or an expression each."""

    graph: Graph
    results: tuple[Any, ...]


def to_aten(captured: fx.GraphModule) -> fx.GraphModule:
    """Returns `captured`, a graph of PyTorch functions, as ATen ops; ops that have rules are not decomposed.

    Raises UnsupportedModelError if PyTorch cannot trace it.
    """
    examples = [node.meta.get("example_value") for node in captured.graph.nodes if node.op == "placeholder"]
    try:
        with torch.no_grad(), without_exporter_warnings(), _fake_tensors(examples), preserve_node_meta():
            trace = make_fx(_Replay(captured).run, tracing_mode="real", pre_dispatch=True, _allow_non_fake_inputs=True)
            module: fx.GraphModule = trace(*examples)
    except Exception as error:
        faults = Faults()
        faults.add(TITLE, Unsupported(f"PyTorch cannot trace it to ATen ops: {type(error).__name__}: {error}"))
        faults.raise_all(TITLE)
        raise UnsupportedModelError(str(error)) from error
    module.graph.eliminate_dead_code()
    return module


class _Replay(fx.Interpreter):  # type: ignore[misc]
    """Runs a captured graph; numbers that are passed as tensors stay numbers, which PyTorch guards."""

    def run_node(self, node: fx.Node) -> Any:
        if node.op == "call_method" and node.target == "item":
            known = node.meta.get("example_value")
            if free_unbacked_symbols(known):  # it is an element that the run finds
                return super().run_node(node)
            if isinstance(known, torch.SymFloat | float):
                return float(known)
            if isinstance(known, torch.SymInt | int):
                return known
        return super().run_node(node)


@contextmanager
def _fake_tensors(examples: Sequence[Any]) -> Iterator[None]:
    """Traces with tensors without memory, like `examples`; tensors that the program holds may be real."""
    mode = detect_fake_mode(examples) or FakeTensorMode()
    before = mode.allow_non_fake_inputs
    mode.allow_non_fake_inputs = True
    try:
        with mode:
            yield
    finally:
        mode.allow_non_fake_inputs = before


def used_arguments(module: fx.GraphModule) -> list[bool]:
    """Returns, for each argument, whether a node reads it."""
    return [bool(node.users) for node in module.graph.nodes if node.op == "placeholder"]


def import_graph(module: fx.GraphModule, arguments: Sequence[Any], sizes: Mapping[str, int]) -> Captured:
    """Returns the graph of `module` for `arguments`: tensors become constants, Feeds inputs.

    Other arguments are Python values, or expressions of sizes. `sizes` has those of PyTorch's symbols, as far as they
    are known. Raises UnsupportedModelError or ModelError, which list every unsupported op.
    """
    feeds = [argument for argument in arguments if isinstance(argument, Feed)]
    output = next(node for node in module.graph.nodes if node.op == "output")
    returned = _returned(output)
    names = tuple(Value(f"output_{number}") for number in range(len(returned)))
    graph, given = start_graph("torch", [Value(feed.name) for feed in feeds], names, [feed.form for feed in feeds])
    faults = Faults()
    importer = Importer(graph, faults, walk.run, defers=True)
    boxes = iter(
        [
            Box(view_as_complex(importer.b, value) if feed.complex else value, owner=f"its input {value.name!r}")
            for value, feed in zip(given, feeds, strict=True)
        ]
    )
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    args = []
    for node, argument in zip(placeholders, arguments, strict=True):
        if isinstance(argument, Feed):
            args.append(next(boxes))
        elif isinstance(argument, torch.Tensor):
            location = f"argument {node.name!r}"
            args.append(importer.attempt(location, partial(importer.constant, argument, str(node.name))))
        else:
            args.append(argument)
    results = walk.run(importer, module, args)
    faults.raise_all(TITLE)
    results = results if isinstance(results, list) else [results]
    made = [
        importer.attempt(f"output {number}", partial(_result, node, result, number, args, sizes))
        for number, (node, result) in enumerate(zip(returned, results, strict=True))
    ]
    faults.raise_all(TITLE)
    computed = [(m.name, _computed(importer, r)) for m, r in zip(made, results, strict=True) if isinstance(m, Output)]
    add_outputs(importer, [name for name, _ in computed], [result for _, result in computed])
    faults.raise_all(TITLE)
    return Captured(graph, tuple(made))


def _computed(importer: Importer, result: Box | Number) -> Box:
    """Returns a result as an output of the graph."""
    if isinstance(result, Number):
        return Box(result.value)
    held = result.held()
    return Box(view_as_real(importer.b, held)) if isinstance(held, Complex) else result


def _returned(output: fx.Node) -> list[Any]:
    found = output.args[0]
    return list(found) if isinstance(found, list | tuple) else [found]


def _result(node: Any, result: Any, number: int, boxes: Sequence[Any], sizes: Mapping[str, int]) -> Any:
    if isinstance(result, Number):
        return Output(f"output_{number}", is_number=True)
    if not isinstance(result, Box):
        if is_missing(result) or not isinstance(result, bool | int | float | str | DimExpr | RealExpr | None):
            raise Unsupported(f"it is a {type(result).__name__}")
        return result
    origin = result.origin()
    owner = next((index for index, box in enumerate(boxes) if box is origin), None)
    if owner is None:
        return Output(f"output_{number}", isinstance(result.held(), Complex))
    if result is origin:
        return Alias(owner)
    example = node.meta["val"]
    known = partial(_known_size, sizes=sizes)
    shape, strides = tuple(map(known, example.shape)), tuple(map(known, example.stride()))
    return Alias(owner, shape, strides, known(example.storage_offset()))


def _known_size(size: int | torch.SymInt, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    if any(str(symbol) not in sizes for symbol in size.node.expr.free_symbols):
        raise Unsupported("it is a view of an argument, of a size that changes; return a .clone()")
    found: int = value_of(size.node.expr, sizes)
    return found
