"""The text form of graphs, for people and tests; `text_reader.parse_graph` reads it back exactly.

    graph classifier {
      input %x: f32[N, 3, 224, 224]
      const %w: f32[64, 3, 7, 7] = sha256:5f0c...
      const %axes: i64[2] = [2, 3]
      %y: f32[N, 64, 112, 112] = conv(%x, %w, _) {strides: (2, 2), groups: 1} @first/Conv
      output %y
    }

A value's type is its dtype (`?` if unknown) and its shape (left out if unknown), then `:c16` if it has
a blocked layout. `_` is an absent operand; `@` gives a node's name where that is not its op, and
`max_workers 2` caps the workers that share it. Large constants are named by a hash of their bytes.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.graph.dim import DimExpr
from treadle.graph.expr import Expr
from treadle.graph.graph import Graph
from treadle.graph.node import Node
from treadle.graph.shape import Shape
from treadle.graph.value import Value

Array = np.ndarray[Any, Any]

_INLINE = 16
"""The largest number of elements of a constant that is written out."""

BARE = re.compile(r"[A-Za-z0-9_./$-]+")
"""Names that need no quotes."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def print_graph(graph: Graph) -> str:
    """The text form of `graph`."""
    lines = [f"graph {_word(graph.name)} {{"]
    lines += [f"  input {value_text(value)}" for value in graph.inputs]
    lines += [f"  const {value_text(value)} = {_constant_text(value)}" for value in graph.constants()]
    lines += [f"  {node_text(node)}" for node in graph.nodes]
    lines += [f"  output %{_name(value.name)}" for value in graph.outputs]
    return "\n".join([*lines, "}", ""])


def _name(name: str) -> str:
    return name if BARE.fullmatch(name) else json.dumps(name)


def _word(name: str) -> str:
    """A name without a leading % or @: quoted unless it reads as a word."""
    return name if IDENTIFIER.fullmatch(name) and name not in ("inf", "nan") else json.dumps(name)


def value_text(value: Value) -> str:
    """`%y: f32[2, 16]:c16`."""
    return f"%{_name(value.name)}: {type_text(value.dtype, value.shape)}{f':{value.layout}' if value.layout else ''}"


def type_text(dtype: DType | None, shape: Shape | None) -> str:
    """`f32[N, 3]`; `?` for an unknown dtype, no brackets for an unknown shape."""
    dims = "" if shape is None else f"[{', '.join(_word(dim) if isinstance(dim, str) else str(dim) for dim in shape)}]"
    return ("?" if dtype is None else dtype.name) + dims


def node_text(node: Node) -> str:
    """`%y: f32[2] = relu(%x) @name max_workers 2`."""
    results = ", ".join(value_text(value) for value in node.outputs)
    operands = ", ".join("_" if value is None else f"%{_name(value.name)}" for value in node.inputs)
    attrs = ", ".join(f"{_word(key)}: {attr_text(value)}" for key, value in node.attrs.items())
    return (
        f"{results} = {node.op}({operands})"
        + (f" {{{attrs}}}" if attrs else "")
        + (f" @{_name(node.name)}" if node.name != node.op else "")
        + (f" max_workers {node.max_workers}" if node.max_workers else "")
    )


def attr_text(value: Any) -> str:
    """The text of one attribute: a number, string, dtype, Expr, array, or a tuple or list of such.

    Anything else, such as the function of a `call`, is shown in angle brackets, which cannot be read back.
    """
    for kind, write in _ATTR_TEXTS:
        if isinstance(value, kind):
            return write(value)
    name = getattr(value, "__qualname__", type(value).__name__)
    return f"<{name.replace('<', '').replace('>', '')}>"


_ATTR_TEXTS: tuple[tuple[type | tuple[type, ...], Callable[[Any], str]], ...] = (
    (
        np.ndarray,
        lambda array: f"array {type_text(dtypes.from_numpy(array.dtype), array.shape)} {_elements_text(array)}",
    ),
    (np.generic, lambda scalar: attr_text(scalar.item())),
    ((bool, int, float, type(None)), repr),
    (str, json.dumps),
    (DimExpr, lambda size: json.dumps(str(size))),
    (DType, lambda dtype: dtype.name),
    (Expr, lambda expr: f"expr {expr}"),
    (tuple, lambda items: f"({', '.join(map(attr_text, items))}{',' if len(items) == 1 else ''})"),
    (list, lambda items: f"[{', '.join(map(attr_text, items))}]"),
)


def _constant_text(value: Value) -> str:
    data = value.data
    assert data is not None
    if data.dtype.kind == "O" or data.size <= _INLINE:
        return _elements_text(data)
    return f"sha256:{content_hash(data)}"


def _survives(data: Array) -> bool:
    """Whether the elements written as decimals give back the same bits (NaNs with a payload do not)."""
    again = elements_array([_number(item) for item in data.ravel()], data.dtype)
    return again.tobytes() == data.tobytes()


def elements_array(numbers: list[Any], dtype: np.dtype[Any]) -> Array:
    """The flat array of `dtype` that holds `numbers`."""
    if dtype.kind != "V":
        return np.array(numbers, dtype=dtype)
    return np.array(numbers, dtype=np.float64).astype(dtype)


def _number(item: Any) -> Any:
    """An element of an array as a plain Python number or string; every NaN is the same one, as in text."""
    if isinstance(item, str):
        return item
    if item.dtype.kind not in "fV":
        return item.item()
    number = float(item)
    return math.nan if math.isnan(number) else number


def _elements_text(data: Array) -> str:
    """`[1, 2]`, or `hex "00..."` with the bytes where decimals would lose bits."""
    if data.dtype.kind != "O" and not _survives(data):
        return f'hex "{data.tobytes().hex()}"'
    return f"[{', '.join(attr_text(_number(item)) for item in data.ravel())}]"


def content_hash(data: Array) -> str:
    """The name of an array's contents: 32 hexadecimal digits of the SHA-256 of dtype, shape and bytes."""
    described = f"{dtypes.from_numpy(data.dtype).name}{list(data.shape)}"
    return hashlib.sha256(described.encode() + np.ascontiguousarray(data).tobytes()).hexdigest()[:32]
