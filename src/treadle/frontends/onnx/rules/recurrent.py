"""LSTM, GRU and RNN: one matmul for the inputs of all times, then the steps.

Coupled gates are refused: the reference ignores them.
"""

from collections.abc import Sequence

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.frontends.onnx.rules.cell_functions import functions_of
from treadle.graph.value import Value

_REVERSE = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def lstm(node: OnnxNode, b: Builder, scales: Value | None = None) -> Sequence[Value] | None:
    """LSTM; with `scales` [directions, 4 * hidden], the recurrent weight holds whole numbers of i8."""
    if node.flag("input_forget", default=False):
        raise Unsupported("attribute 'input_forget' must be 0")
    functions = _functions(node, "Sigmoid", "Tanh", "Tanh")
    if functions is None:
        return None
    layer = _Layer(node, b, gates=4)
    operands = layer.sums(), layer.state(5), layer.state(6), node.optional(4), node.optional(7), scales
    return layer.results("lstm", *operands, **functions)


def gru(node: OnnxNode, b: Builder) -> Sequence[Value] | None:
    functions = _functions(node, "Sigmoid", "Tanh")
    if functions is None:
        return None
    layer = _Layer(node, b, gates=3)
    after = node.flag("linear_before_reset", default=False)
    bias = layer.last_recurrent_bias() if after else None
    operands = layer.sums(apart=after), layer.state(5), bias, node.optional(4)
    return layer.results("gru", *operands, reset_after=after, **functions)


def rnn(node: OnnxNode, b: Builder) -> Sequence[Value] | None:
    names = {name.lower() for name in node.texts("activations") or ("Tanh",)}
    simple = len(names) == 1 and names <= {"tanh", "relu", "sigmoid"}
    activation = names.pop() if simple else "tanh"
    functions = _functions(node, activation.capitalize())
    if functions is None:
        return None
    layer = _Layer(node, b, gates=1)
    return layer.results("rnn", layer.sums(), layer.state(5), node.optional(4), activation=activation, **functions)


def _functions(node: OnnxNode, *defaults: str) -> dict[str, object] | None:
    """The attribute `functions` of the core op; no attribute for the activations `defaults` without clipping.

    None if the shape of the recurrent weight is not known, so that the reference computes the node. Raises Unsupported
    if the reference cannot, which ignores lengths, activations and clipping.
    """
    directions = len(_REVERSE[node.choice("direction", "forward", *_REVERSE)])
    found = functions_of(node, defaults, directions)
    dims = node.dims(2)
    if dims is not None and len(dims) == 3 and None not in dims:
        return {} if found is None else {"functions": found}
    if found is not None or node.optional(4) is not None:
        raise Unsupported(
            "sequence_lens, clip and other activations cannot be combined with a recurrent weight of unknown shape"
        )
    return None


class _Layer:
    """One node: its weights [directions, gates * hidden, ...] and what is computed before the steps."""

    def __init__(self, node: OnnxNode, b: Builder, gates: int) -> None:
        self.node, self.b, self.gates = node, b, gates
        self.reverse = _REVERSE[node.text("direction", "forward")]
        dims = node.dims(2)
        assert dims is not None
        assert dims[2] is not None
        self.hidden: int = dims[2]
        stated = node.integer("hidden_size", self.hidden)
        if stated != self.hidden:
            raise Fault(f"attribute 'hidden_size' is {stated}, but its recurrent weight is for {self.hidden}")
        self.batch_first = node.flag("layout", default=False)

    def sums(self, *, apart: bool = False) -> Value:
        """x @ w.T + biases as [time, batch, directions, gates * hidden].

        `apart`: without the recurrent bias of the last gate, which is not simply added.
        """
        b, node, wide = self.b, self.node, len(self.reverse) * self.gates * self.hidden
        x = node.input(0)
        if self.batch_first:
            x = b.add("transpose", x, perm=(1, 0, 2))
        weights = b.add("reshape", node.input(1), b.integers([wide, -1]), allowzero=False)
        product = b.add("matmul", x, weights, transpose_a=False, transpose_b=True)
        if node.optional(3) is not None:
            every = self._bias(0, self.gates * self.hidden)
            recurrent = self._bias(self.gates * self.hidden, 2 * self.gates * self.hidden)
            if apart:
                added = b.add("slice", recurrent, *self._range(0, (self.gates - 1) * self.hidden))
                recurrent = b.add("pad", added, b.integers([0, 0, 0, self.hidden]), None, None, mode="constant")
            bias = b.add("add", every, recurrent)
            product = b.add("add", product, b.add("reshape", bias, b.integers([wide]), allowzero=False))
        shape = b.integers([0, 0, len(self.reverse), self.gates * self.hidden])
        return b.add("reshape", product, shape, allowzero=False)

    def state(self, index: int) -> Value | None:
        """A first state or cell as [directions, batch, hidden]."""
        value = self.node.optional(index)
        return self.b.add("transpose", value, perm=(1, 0, 2)) if value is not None and self.batch_first else value

    def last_recurrent_bias(self) -> Value | None:
        """The recurrent bias of the last gate, [directions, hidden]."""
        if self.node.optional(3) is None:
            return None
        return self._bias((2 * self.gates - 1) * self.hidden, 2 * self.gates * self.hidden)

    def results(self, op: str, *operands: Value | None, **attrs: object) -> Sequence[Value]:
        """The steps, and their results as the node has them."""
        count = 3 if op == "lstm" else 2
        sums, *rest = operands
        inputs = (sums, self.node.input(2), *rest)
        found = self.b.add_many(op, inputs, count, reverse=self.reverse, **attrs)
        if self.batch_first:
            states = self.b.add("transpose", found[0], perm=(2, 0, 1, 3))
            found = [states, *(self.b.add("transpose", last, perm=(1, 0, 2)) for last in found[1:])]
        return found[: len(self.node.outputs)]

    def _bias(self, start: int, end: int) -> Value:
        return self.b.add("slice", self.node.input(3), *self._range(start, end))

    def _range(self, start: int, end: int) -> tuple[Value, Value, Value, None]:
        return self.b.integers([start]), self.b.integers([end]), self.b.integers([1]), None
