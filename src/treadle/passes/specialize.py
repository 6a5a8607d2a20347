"""Binds a graph to concrete input shapes."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping

import numpy as np

from treadle.dtypes import DType
from treadle.errors import InputError
from treadle.graph.facts import MOST_ELEMENTS, Facts
from treadle.graph.graph import Graph
from treadle.graph.mapping import verify_files
from treadle.graph.node import Node
from treadle.graph.open_dims import OpenDims
from treadle.graph.reals import bits_of_number, real_of_bits
from treadle.graph.shape import Shape, StaticShape, is_static, text
from treadle.graph.template import Template
from treadle.graph.value import Value
from treadle.ops.sizes import add_sizes
from treadle.passes.appended_dims import appended_dims

_ONE = bits_of_number(1.0)
"""The sample of a symbol that is the bits of an f64."""


def specialize(graph: Graph, shapes: Mapping[str, StaticShape], dtypes: Mapping[str, DType] | None = None) -> Graph:
    """A copy of `graph` whose inputs have the concrete `shapes`; an input left out keeps its static shape.

    `dtypes` gives those of inputs declared without one (results of a `call`, in the rest of a cut graph).
    Constants share their arrays with the original. Values made by nodes have no shape until inferred.
    Raises InputError for a name that is no input, a shape that does not fit the declared one, a symbol
    given two sizes, or an input without a static shape; ModelError if the file that constants lie in was changed.
    """
    verify_files([value.data for value in graph.constants() if value.data is not None])
    _refuse_unknown(graph, shapes)
    symbols: dict[str, tuple[int, str]] = {}
    bound = {value.name: _bind(value, shapes.get(value.name), symbols) for value in graph.inputs}
    copy = copy_graph(graph, bound)
    for value in copy.inputs:
        if value.dtype is None and dtypes is not None:
            value.dtype = dtypes.get(value.name)
    return copy


def specialize_open(graph: Graph, facts: Facts, hints: Mapping[str, int]) -> Graph:
    """A copy of `graph` whose inputs have expressions of symbols for open dimensions.

    Args:
        graph: A graph whose inputs have dtypes and shapes.
        facts: Where the symbols are made: equal names are one symbol. Those of `appended_dims` start from 0, others
            from 1. Names among the elements of `sizes` nodes are symbols too; those that are no dimensions are numbers
            of any sign.
        hints: The sample sizes of symbols by name; those left out get one of their own. Symbols that start from 1 and
            whose sample size is 0 are always 0.

    Raises:
        InputError: An input is declared without a shape.
        ModelError: A file that constants lie in was changed.
    """
    verify_files([value.data for value in graph.constants() if value.data is not None])
    appended = appended_dims(graph)

    def size(dim: int | str) -> int:
        if not isinstance(dim, str):
            return dim
        hint = hints.get(dim, sample_size(len(facts.symbols)))
        if dim in appended:
            return facts.symbol(dim, hint, least=0)
        return facts.symbol(dim, hint) if hint > 0 else facts.symbol(dim, 0, least=0, most=0)

    opened: dict[str, Shape] = {}
    for value in graph.inputs:
        if value.shape is None:
            raise InputError(f"input {value.name!r} is declared as any shape; its rank must be known")
        opened[value.name] = tuple(map(size, value.shape))
    copy = copy_graph(graph, opened)
    bounds = {"least": 1 - MOST_ELEMENTS, "most": MOST_ELEMENTS - 1}
    reals = reals_of(graph)
    numbers = {
        name: facts.symbol(name, hints.get(name, _ONE), least=-math.inf, most=math.inf)
        if name in reals
        else facts.symbol(name, hints.get(name, 1), **bounds)
        for name in sorted(numbers_of(graph))
    }
    set_numbers(copy, {**facts.symbols, **numbers})
    return copy


def numbers_of(graph: Graph) -> frozenset[str]:
    """The symbols of `graph` that are numbers of any sign: elements of `sizes` nodes, but no dimensions of inputs."""
    named = {
        each for node in graph.nodes if node.op == "sizes" for each in node.attrs["elements"] if isinstance(each, str)
    }
    return frozenset(named.difference(dim for value in graph.inputs for dim in value.shape or ()))


def reals_of(graph: Graph) -> frozenset[str]:
    """The symbols of `graph` that are the bits of f64s: elements of `sizes` nodes of floats."""
    return frozenset(
        each
        for node in graph.nodes
        if node.op == "sizes" and node.attrs["dtype"].is_float
        for each in node.attrs["elements"]
        if isinstance(each, str)
    )


def set_numbers(graph: Graph, sizes: Mapping[str, int]) -> None:
    """Put `sizes`, numbers or expressions, in place of the names among the elements of `sizes` nodes; in those of
    floats the numbers whose bits they are."""
    nodes: list[Node] = []
    for node in graph.nodes:
        elements = node.attrs["elements"] if node.op == "sizes" else ()
        if not any(isinstance(each, str) for each in elements):
            nodes.append(node)
            continue
        array = np.empty(len(elements), object)
        of = real_of_bits if node.attrs["dtype"].is_float else operator.pos
        array[:] = [of(sizes[each]) if isinstance(each, str) else each for each in elements]
        made = add_sizes(graph, array.reshape(node.attrs["shape"]), node.attrs["dtype"], node.output.name)
        if isinstance(made, Node):
            nodes.append(made)
        graph.replace_uses(node.output, made.output if isinstance(made, Node) else made)
    graph.rebuild(nodes)


def build_open(template: Template, facts: Facts, hints: Mapping[str, int]) -> Graph:
    """The graph of `template` for inputs with expressions of symbols for open dimensions.

    Args:
        template: One that builds open sizes, whose inputs have dtypes and shapes.
        facts: Where the symbols are made, within the bounds that the template declares.
        hints: The sample sizes of symbols by name; those left out get one of their own. Symbols whose sample size is 0
            are always 0.

    Raises:
        ModelError: The template lists what does not fit.
        ShapeError: The graph does not fit together for the sample sizes.
    """
    shapes = [open_shape(value.shape or (), template.dims, facts, hints) for value in template.inputs]
    return template.build([(value.known_dtype, shape) for value, shape in zip(template.inputs, shapes, strict=True)])


def open_shape(shape: Shape, dims: OpenDims, facts: Facts, hints: Mapping[str, int]) -> StaticShape:
    """`shape` with expressions of the symbols of `facts` for open dimensions, of which `dims` is declared."""

    def size(dim: int | str) -> int:
        if not isinstance(dim, str):
            return dim
        derived = dims.derived.get(dim)
        if derived is None:
            return _symbol(dims, dim, facts, hints)
        return derived.compute(*(_symbol(dims, name, facts, hints) for name in derived.symbols))

    return tuple(map(size, shape))


def fixed_shape(shape: Shape, dims: OpenDims, sizes: Mapping[str, int]) -> Shape:
    """`shape` with numbers for those open dimensions that `sizes` of symbols determine."""

    def size(dim: int | str) -> int | str:
        derived = dims.derived.get(dim) if isinstance(dim, str) else None
        if derived is not None and all(name in sizes for name in derived.symbols):
            return derived.compute(*(sizes[name] for name in derived.symbols))
        return sizes.get(dim, dim) if isinstance(dim, str) else dim

    return tuple(map(size, shape))


def _symbol(dims: OpenDims, name: str, facts: Facts, hints: Mapping[str, int]) -> int:
    """The symbol `name` of `facts`, with the bounds that `dims` declares."""
    hint = hints.get(name)
    if hint is None:
        hint = dims.sample(name, sample_size(len(facts.symbols)))
    bounds = dims.bounds.get(name)
    if hint == 0:
        return facts.symbol(name, 0, least=0, most=0)
    if bounds is None:
        return facts.symbol(name, hint)
    return facts.symbol(name, hint, least=max(1, bounds.least), most=int(min(bounds.most, MOST_ELEMENTS)))


def sample_size(number: int) -> int:
    """The sample size of the symbol with this `number` in its model: sizes that differ, and divide by little."""
    return 61 + 18 * number


def large_sample_size(number: int) -> int:
    """The sample size for models that `sample_size` does not fit: large enough for windows, and of many divisors."""
    return 64 * (16 + number)


def copy_graph(graph: Graph, input_shapes: Mapping[str, Shape] | None = None) -> Graph:
    """A copy of `graph` with new values and nodes; arrays of constants are shared.

    With `input_shapes`, inputs get those shapes and the shapes of computed values are forgotten.
    """
    copy = Graph(graph.name)
    copies: dict[Value, Value] = {}
    for value in graph.inputs:
        shape = value.shape if input_shapes is None else input_shapes[value.name]
        copies[value] = Value(copy.unique_name(value.name), value.dtype, shape)
        copy.inputs.append(copies[value])
    for node in graph.nodes:
        copy_node(copy, node, copies, forget_shapes=input_shapes is not None)
    copy.outputs = [copied(copy, value, copies) for value in graph.outputs]
    return copy


def copy_node(graph: Graph, node: Node, copies: dict[Value, Value], *, forget_shapes: bool = False) -> Node:
    """Append a copy of `node` to `graph`, reading `copies` of its operands; its results join `copies`."""
    operands = [None if value is None else copied(graph, value, copies) for value in node.inputs]
    for value in node.outputs:
        copies[value] = graph.value(value.name, value.dtype, None if forget_shapes else value.shape)
    results = [copies[value] for value in node.outputs]
    made = graph.add(node.op, operands, node.attrs, name=node.name, outputs=results)
    made.take_over([node])
    return made


def copied(graph: Graph, value: Value, copies: dict[Value, Value]) -> Value:
    """The copy of `value` in `graph`, made now if it is a constant met for the first time."""
    found = copies.get(value)
    if found is None:
        assert value.data is not None, f"value {value.name!r} is used before it is made"
        found = copies[value] = Value(graph.unique_name(value.name), value.dtype, value.shape, data=value.data)
    return found


def _refuse_unknown(graph: Graph, shapes: Mapping[str, StaticShape]) -> None:
    names = {value.name: None for value in graph.inputs}
    for name in shapes:
        if name not in names:
            raise InputError(f"the model has no input {name!r}; its inputs are {', '.join(map(repr, names)) or 'none'}")


def _bind(value: Value, given: StaticShape | None, symbols: dict[str, tuple[int, str]]) -> StaticShape:
    """The concrete shape of the input `value`. `symbols` maps each symbol met so far to (size, input's name)."""
    declared = value.shape
    if given is None:
        if declared is None or not is_static(declared):
            raise InputError(
                f"input {value.name!r} needs a concrete shape: it is declared as "
                f"{'any shape' if declared is None else text(declared)}; give its shape"
            )
        return declared
    given = tuple(int(dim) for dim in given)
    if declared is None:
        return given
    if len(declared) != len(given):
        raise InputError(
            f"input {value.name!r}: wanted rank {len(declared)}, shape {text(declared)}; "
            f"got rank {len(given)}, shape {text(given)}"
        )
    for axis, (dim, size) in enumerate(zip(declared, given, strict=True)):
        if isinstance(dim, int):
            if dim != size:
                raise InputError(
                    f"input {value.name!r}: wanted shape {text(declared)}, got {text(given)}: "
                    f"axis {axis} must be {dim}, not {size}"
                )
            continue
        first, owner = symbols.setdefault(dim, (size, value.name))
        if first != size:
            raise InputError(
                f"inputs {owner!r} and {value.name!r} disagree on {dim!r}: "
                f"it is {first} in {owner!r} but {size} on axis {axis} of {value.name!r}, of shape {text(given)}; "
                "give both the same size"
            )
    return given
