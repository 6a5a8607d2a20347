"""Mutants: the models of the onnx package's node cases, with absurd numbers or damaged bytes. A number gives one."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper
from onnx.backend.test.case.node import collect_testcases

Array = np.ndarray[Any, Any]

INTEGERS = (
    0, -1, 1, 2, 3, 7, 100, 2**15, 2**20 + 1, 2**23, 2**30, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -2, -(2**31),
    -(2**63),
)  # fmt: skip
"""Integers that replace others: small ones, and those at the limits of memory, 32 bits and 64 bits."""

REALS = (0.0, -1.0, 1e-40, 1e9, 1e30, -1e30, float("inf"), float("nan"))
"""Reals that replace others."""

FEW = 16
"""Inputs of no more elements may hold sizes, axes or counts."""


RANDOM = frozenset((
    "Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
))  # fmt: skip
"""Operators whose results differ from run to run."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """The bytes of a model, arrays for its inputs, and what was done to which case; whether a run may give other
    results than the one before."""

    label: str
    content: bytes
    feeds: Mapping[str, Array]
    is_random: bool


@dataclass(frozen=True, slots=True)
class _Seed:
    name: str
    model: onnx.ModelProto
    feeds: Mapping[str, Array]


@cache
def seeds() -> Sequence[_Seed]:
    """Returns the node cases whose inputs are arrays."""
    found = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    for case in cases:
        assert case.model is not None
        assert case.data_sets is not None
        arrays = case.data_sets[0][0]
        names = [port.name for port in case.model.graph.input]
        if len(names) == len(arrays) and all(isinstance(array, np.ndarray) for array in arrays):
            found.append(_Seed(case.name, case.model, dict(zip(names, arrays, strict=True))))
    return found


def mutant(kind: str, number: int) -> Mutant:
    """Returns mutant `number` of a kind of KINDS; equal numbers give equal mutants."""
    rng = random.Random(f"{kind} {number}")
    seed = rng.choice(seeds())
    model = onnx.ModelProto()
    model.CopyFrom(seed.model)
    return KINDS[kind](rng, seed.name, model, dict(seed.feeds))


def _absurd(rng: random.Random, name: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Mutant:
    """Other numbers in attributes and small inputs; inputs become constants, and sizes open."""
    done = [name]
    attributes = [each for node in model.graph.node for each in node.attribute]
    for _ in range(rng.choice((1, 1, 1, 2))):
        place = rng.randrange(len(attributes) + len(feeds)) if attributes or feeds else -1
        if 0 <= place < len(attributes):
            done.append(_change_attribute(rng, attributes[place]))
        elif place >= 0:
            done.append(_change_input(rng, feeds, list(feeds)[place - len(attributes)]))
    if rng.random() < 0.5:
        done += _make_constant(rng, model, feeds)
    if rng.random() < 0.4:
        _open_sizes(model)
        done.append("open")
    return Mutant(", ".join(filter(None, done)), model.SerializeToString(), feeds, is_random(model))


def is_random(model: onnx.ModelProto) -> bool:
    """Returns whether a node of the model, or of its functions, draws random numbers."""
    functions = [node for function in model.functions for node in function.node]
    return any(node.op_type in RANDOM for node in (*model.graph.node, *functions))


def _change_attribute(rng: random.Random, attribute: AttributeProto) -> str:
    if attribute.type == AttributeProto.INT:
        attribute.i = rng.choice(INTEGERS)
        return f"{attribute.name}={attribute.i}"
    if attribute.type == AttributeProto.FLOAT:
        attribute.f = rng.choice(REALS)
        return f"{attribute.name}={attribute.f}"
    if attribute.type == AttributeProto.INTS and attribute.ints:
        number = rng.choice(INTEGERS)
        every = rng.random() < 0.3
        for place in range(len(attribute.ints)) if every else [rng.randrange(len(attribute.ints))]:
            attribute.ints[place] = number
        return f"{attribute.name}={list(attribute.ints)}"
    if attribute.type == AttributeProto.FLOATS and attribute.floats:
        attribute.floats[rng.randrange(len(attribute.floats))] = rng.choice(REALS)
        return f"{attribute.name}={list(attribute.floats)}"
    return ""


def _change_input(rng: random.Random, feeds: dict[str, Array], name: str) -> str:
    array = feeds[name]
    if not 0 < array.size <= FEW or array.dtype.kind not in "if":
        return ""
    array = feeds[name] = array.copy()
    place = rng.randrange(array.size)
    if array.dtype.kind == "i":
        info = np.iinfo(array.dtype)
        array.reshape(-1)[place] = min(max(rng.choice(INTEGERS), info.min), info.max)
    else:
        with np.errstate(over="ignore"):
            array.reshape(-1)[place] = rng.choice(REALS)
    return f"{name}[{place}]={array.reshape(-1)[place]}"


def _make_constant(rng: random.Random, model: onnx.ModelProto, feeds: dict[str, Array]) -> list[str]:
    names = [name for name, array in feeds.items() if array.dtype.kind == "i" and rng.random() < 0.7]
    for name in names:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
        kept = [port for port in model.graph.input if port.name != name]
        del model.graph.input[:]
        model.graph.input.extend(kept)
    return [f"constant {name}" for name in names]


def _open_sizes(model: onnx.ModelProto) -> None:
    for port in model.graph.input:
        if port.type.HasField("tensor_type"):
            for axis, dim in enumerate(port.type.tensor_type.shape.dim):
                dim.dim_param = f"{port.name}_{axis}"
    for port in model.graph.output:
        if port.type.HasField("tensor_type"):
            port.type.tensor_type.ClearField("shape")


def damage(rng: random.Random, content: bytes) -> bytes:
    """Returns bytes of which a few are changed, removed, or repeated."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        at = rng.randrange(len(data)) if data else 0
        what = rng.randrange(4)
        if what == 0 and data:
            data[at] ^= 1 << rng.randrange(8)
        elif what == 1 and data:
            data[at] = rng.choice((0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF))
        elif what == 2:
            del data[at : at + rng.randrange(1, 16)]
        else:
            data[at:at] = data[rng.randrange(len(data) or 1) :][: rng.randrange(1, 24)]
    return bytes(data)


def _damaged(rng: random.Random, name: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Mutant:
    return Mutant(f"{name}, damaged", damage(rng, model.SerializeToString()), feeds, is_random(model))


def _structure(rng: random.Random, name: str, model: onnx.ModelProto, feeds: dict[str, Array]) -> Mutant:
    """Nodes that are missing, repeated, of another operator, or read other values; other types and versions."""
    count = rng.choice((1, 1, 2, 3))
    done = [name, *(rng.choice(_CHANGES)(rng, model.graph, model) for _ in range(count))]
    return Mutant(", ".join(filter(None, done)), model.SerializeToString(), feeds, is_random(model))


def _names(graph: onnx.GraphProto) -> list[str]:
    made = [name for node in graph.node for name in node.output]
    return [*(port.name for port in graph.input), *(each.name for each in graph.initializer), *made, ""]


def _without_node(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    if not graph.node:
        return ""
    del graph.node[rng.randrange(len(graph.node))]
    return "a node less"


def _with_node_again(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    if not graph.node:
        return ""
    node = graph.node.add()
    node.CopyFrom(rng.choice(graph.node[:-1] or graph.node))
    if rng.random() < 0.7:
        node.output[:] = [f"{output}_again" for output in node.output]
    return "a node again"


def _reading_another(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    readers = [node for node in graph.node if node.input]
    if not readers:
        return ""
    node = rng.choice(readers)
    node.input[rng.randrange(len(node.input))] = rng.choice(_names(graph))
    if rng.random() < 0.3:
        node.input.append(rng.choice(_names(graph)))
    return f"{node.op_type} reads another value"


def _of_another_operator(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    if not graph.node:
        return ""
    node = rng.choice(graph.node)
    other = rng.choice(rng.choice(seeds()).model.graph.node)
    was, node.op_type = node.op_type, other.op_type
    if rng.random() < 0.3:
        node.attribute.extend(other.attribute)
    return f"{was} is {node.op_type}"


def _of_another_type(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    ports = [*graph.input, *graph.output]
    if not ports:
        return ""
    port = rng.choice(ports)
    port.type.tensor_type.elem_type = rng.choice((0, 1, 2, 6, 7, 8, 9, 10, 11, 14, 16, 17, 22, 99))
    return f"{port.name} has another type"


def _of_another_shape(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    ports = [port for port in (*graph.input, *graph.output) if port.type.tensor_type.shape.dim]
    if not ports:
        return ""
    dims = rng.choice(ports).type.tensor_type.shape.dim
    if rng.random() < 0.3:
        dims.add(dim_value=rng.choice(INTEGERS))
    else:
        rng.choice(dims).dim_value = rng.choice(INTEGERS)
    return "another shape"


def _with_body(rng: random.Random, graph: onnx.GraphProto, _: onnx.ModelProto) -> str:
    """An attribute that is the graph of another case."""
    if not graph.node:
        return ""
    node = rng.choice(graph.node)
    node.attribute.add(name=rng.choice(("body", "then_branch", "else_branch")), type=AttributeProto.GRAPH).g.CopyFrom(
        rng.choice(seeds()).model.graph
    )
    return f"{node.op_type} has a body"


def _of_another_version(rng: random.Random, _: onnx.GraphProto, model: onnx.ModelProto) -> str:
    rng.choice(model.opset_import).version = rng.choice((1, 6, 7, 9, 11, 13, 16, 18, 21, 23, 99, -1))
    return "another version"


_CHANGES = (
    _without_node, _with_node_again, _reading_another, _of_another_operator, _of_another_type, _of_another_shape,
    _with_body, _of_another_version,
)  # fmt: skip

KINDS: Mapping[str, Callable[[random.Random, str, onnx.ModelProto, dict[str, Array]], Mutant]] = {
    "absurd": _absurd,
    "damaged": _damaged,
    "structure": _structure,
}
"""Kind of mutants -> what makes one of a case."""
