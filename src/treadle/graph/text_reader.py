"""Reads the text form of graphs that `text.print_graph` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.dtypes import DType
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.graph.layout import Blocked, Layout
from treadle.graph.shape import Dim, Shape, elements
from treadle.graph.text import content_hash, elements_array
from treadle.graph.text_tokens import Cursor, number, unquoted
from treadle.graph.value import Value

Array = np.ndarray[Any, Any]

_MAX_DEPTH = 32

_ELEMENT_TYPES: dict[str, tuple[type, ...]] = {"string": (str,), "bool": (bool,), "float": (int, float)}

_PLAIN = {"None": None, "True": True, "False": False}


def parse_graph(text: str, arrays: Mapping[str, Array] | None = None) -> Graph:
    """The graph that `text` describes.

    `arrays` holds the data of large constants, by the constant's name. Raises GraphError, naming the
    line, for text that cannot be read, an undefined or doubled value, and an array that is missing or
    does not have the constant's dtype, shape and content hash.
    """
    return _Reader(text, arrays or {}).graph()


class _Reader(Cursor):
    """Reads one graph."""

    def __init__(self, text: str, arrays: Mapping[str, Array]) -> None:
        super().__init__(text)
        self.arrays = arrays
        self.values: dict[str, Value] = {}

    def graph(self) -> Graph:
        self.want("graph")
        graph = Graph(self.name())
        self.want("{")
        while not self.skip("}"):
            if self.skip("input"):
                graph.inputs.append(self.declared(graph))
            elif self.skip("const"):
                self.constant(graph)
            elif self.skip("output"):
                graph.outputs.append(self.known())
            else:
                self.node(graph)
        if self.token.kind != "end":
            self.fail(f"wanted nothing after the graph, got {self.token.text!r}")
        return graph

    def name(self) -> str:
        """A word or a quoted name."""
        token = self.token
        if token.kind not in ("string", "word"):
            self.fail(f"wanted a name, got {token.text!r}")
        self.at += 1
        return unquoted(token.text)

    def declared(self, graph: Graph) -> Value:
        """A value's name and type."""
        name = unquoted(self.take("value", "a value's name such as %x")[1:])
        if name in self.values:
            self.refuse(f"%{name} is defined twice")
        self.want(":")
        dtype, shape = self.type()
        value = self.values[name] = Value(graph.unique_name(name), dtype, shape, layout=self.layout())
        return value

    def known(self) -> Value:
        name = unquoted(self.take("value", "a value's name such as %x")[1:])
        if name not in self.values:
            self.refuse(f"%{name} is not defined before it is used")
        return self.values[name]

    def type(self) -> tuple[DType | None, Shape | None]:
        dtype = None if self.skip("?") else self.dtype()
        return dtype, tuple(self.list_of(self.dim, "]")) if self.skip("[") else None

    def dtype(self) -> DType:
        name = self.take("word", "a dtype")
        if name not in dtypes.BY_NAME:
            self.refuse(f"no dtype is called {name!r}; there are {', '.join(dtypes.BY_NAME)}")
        return dtypes.BY_NAME[name]

    def dim(self) -> Dim:
        """A size, or the name of a symbol."""
        if self.token.kind != "number":
            return self.name()
        found = number(self.take("number", "a whole number"))
        if not isinstance(found, int):
            self.refuse(f"wanted a whole number, got {found}")
        return found

    def layout(self) -> Layout:
        if not self.skip(":"):
            return None
        word = self.take("word", "a layout such as c16")
        if not re.fullmatch(r"c[1-9]\d*", word):
            self.fail(f"wanted a layout such as c16, got {word!r}")
        return Blocked(int(word[1:]))

    def constant(self, graph: Graph) -> None:
        value = self.declared(graph)
        self.want("=")
        if value.dtype is None or value.shape is None or not all(isinstance(dim, int) for dim in value.shape):
            self.fail(f"constant %{value.name} needs a dtype and a static shape")
        if self.token.kind == "hash":
            value.data = self.given_array(value)
        else:
            value.data = self.elements(value.dtype, value.shape)

    def given_array(self, value: Value) -> Array:
        wanted = self.take("hash", "a hash").removeprefix("sha256:")
        array = self.arrays.get(value.name)
        if array is None:
            self.refuse(f"the data of constant %{value.name} is not in the text; give its array under that name")
        array = np.asarray(array)
        if dtypes.from_numpy(array.dtype) != value.dtype or array.shape != value.shape:
            self.refuse(f"the array given for {value!r} is {dtypes.from_numpy(array.dtype)}{list(array.shape)}")
        if content_hash(array) != wanted:
            self.refuse(f"the array given for %{value.name} has other contents than the graph was printed with")
        return array

    def elements(self, dtype: DType, shape: Shape) -> Array:
        dims = tuple(dim for dim in shape if isinstance(dim, int))
        if self.skip("hex"):
            return self.bytes_of(dtype, dims)
        self.want("[")
        found = self.list_of(lambda: self.attr(0), "]")
        kinds = _ELEMENT_TYPES.get(dtype.kind, (int,))
        if len(found) != elements(dims) or not all(type(item) in kinds for item in found):
            self.refuse(f"wanted {elements(dims)} elements of {dtype}, got {len(found)}: {found[:8]}")
        try:
            return elements_array(found, dtype.numpy).reshape(dims)
        except (OverflowError, ValueError) as error:
            self.refuse(f"the elements do not fit {dtype}: {error}")

    def bytes_of(self, dtype: DType, shape: tuple[int, ...]) -> Array:
        digits = self.take("string", "quoted hexadecimal digits")
        try:
            data = bytes.fromhex(digits.strip('"'))
            return np.frombuffer(data, dtype.numpy).reshape(shape).copy()
        except ValueError as error:
            self.refuse(f"the bytes do not fit {dtype}{list(shape)}: {error}")

    def node(self, graph: Graph) -> None:
        results = [self.declared(graph)]
        while self.skip(","):
            results.append(self.declared(graph))
        self.want("=")
        op = self.take("word", "an op's name")
        self.want("(")
        hidden = {value.name: self.values.pop(value.name) for value in results}
        inputs = self.list_of(lambda: None if self.skip("_") else self.known(), ")")
        self.values.update(hidden)
        attrs = dict(self.list_of(self.attribute, "}")) if self.skip("{") else {}
        name = op
        if self.token.kind == "label":
            name = unquoted(self.take("label", "a node's name")[1:])
        node = graph.add(op, inputs, attrs, name=name, outputs=results)
        if self.skip("max_workers"):
            node.max_workers = self.cap()

    def cap(self) -> int:
        cap = number(self.take("number", "a number of workers"))
        if not isinstance(cap, int) or cap < 1:
            self.refuse(f"wanted a whole number of workers from 1 on, got {cap}")
        return cap

    def attribute(self) -> tuple[str, Any]:
        name = self.name()
        self.want(":")
        return name, self.attr(0)

    def attr(self, depth: int) -> Any:
        """One attribute's value."""
        token = self.token
        if depth > _MAX_DEPTH:
            self.fail(f"brackets nest deeper than {_MAX_DEPTH}")
        if token.kind == "opaque":
            self.fail(f"{token.text} is a Python object, which the text form names but cannot hold")
        if token.kind in ("number", "string") or token.text in _PLAIN:
            return self.plain()
        readers: dict[str, Callable[[], Any]] = {
            "(": lambda: tuple(self.list_of(lambda: self.attr(depth + 1), ")")),
            "[": lambda: self.list_of(lambda: self.attr(depth + 1), "]"),
            "expr": self.expr,
            "array": self.array,
        }
        read = readers.get(token.text)
        if read is None:
            return self.dtype()
        self.at += 1
        return read()

    def plain(self) -> Any:
        """A number, a string, None, True or False."""
        token = self.token
        self.at += 1
        if token.kind == "number":
            return number(token.text)
        return json.loads(token.text) if token.kind == "string" else _PLAIN[token.text]

    def array(self) -> Array:
        dtype, shape = self.type()
        if dtype is None or shape is None:
            self.fail("an array needs a dtype and a shape")
        return self.elements(dtype, shape)

    def expr(self) -> Expr:
        self.want("(")
        operands = tuple(self.list_of(self.typed_number, ")"))
        self.want("{")
        steps: list[Step] = []
        while not self.skip("return"):
            dtype = self.typed_number()
            self.want("=")
            if self.token.kind == "number" or self.token.text in ("True", "False"):
                steps.append(Step("const", (), dtype, self.attr(0)))
            else:
                op = self.take("word", "a scalar op")
                self.want("(")
                steps.append(Step(op, tuple(self.list_of(self.value_number, ")")), dtype))
            self.want(";")
        return Expr(operands, tuple(steps), tuple(self.list_of(self.value_number, "}")))

    def typed_number(self) -> DType:
        self.value_number()
        self.want(":")
        return self.dtype()

    def value_number(self) -> int:
        word = self.take("word", "a scalar value such as v0")
        if not re.fullmatch(r"v\d+", word):
            self.refuse(f"wanted a scalar value such as v0, got {word!r}")
        return int(word[1:])
