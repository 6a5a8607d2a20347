"""Shapes of the results of operators that run by ONNX's reference implementation.

The result shapes of an operator without a line here are unknown until it has run. ONNX's own shape
inference is not used: it crashes or does not end on some hostile attributes.
"""

from collections.abc import Callable, Sequence

from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.shape import StaticShape, broadcast
from treadle.ops.op import Info

Shapes = Sequence[StaticShape | None]
ShapeRule = Callable[[OnnxNode, Sequence[StaticShape | None]], Shapes]
"""(node, shapes of its operands, None for absent ones) -> shapes of its results, None for unknown ones."""


def _need(shapes: Sequence[StaticShape | None], index: int, rank: int) -> StaticShape:
    shape = shapes[index] if index < len(shapes) else None
    if shape is None or len(shape) < rank:
        raise ShapeError(f"its input number {index} must have rank {rank} or more, got {shape}")
    return shape


def _like_first(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:
    """Every result has the shape of operand 0."""
    return [shapes[0]] * len(node.outputs)


def _first_like_first(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:
    """The first result has the shape of operand 0; the shapes of the others are unknown."""
    return [shapes[0], *[None] * (len(node.outputs) - 1)]


def _broadcast(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:  # noqa: ARG001 - a rule
    return [broadcast(*(shape for shape in shapes if shape is not None))]


def _dynamic_quantize(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:
    """Quantized x, its scale and its zero point."""
    return [shapes[0], (), ()][: len(node.outputs)]


def _global_pool(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:  # noqa: ARG001 - a rule
    x = _need(shapes, 0, 2)
    return [(*x[:2], *(1 for _ in x[2:]))]


def _recurrent(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:
    """RNN, GRU, LSTM: all states, the last state, and LSTM's last cell."""
    x, r = _need(shapes, 0, 3), _need(shapes, 2, 3)
    directions, hidden = r[0], r[2]
    if node.flag("layout", default=False):
        states: StaticShape = (x[0], x[1], directions, hidden)
        last: StaticShape = (x[0], directions, hidden)
    else:
        states, last = (x[0], directions, x[1], hidden), (directions, x[1], hidden)
    return [states, last, last][: len(node.outputs)]


def _attention(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:
    """[batch, heads, length, size] or [batch, length, heads * size]; the shapes of other results are unknown."""
    q, v = _need(shapes, 0, 3), _need(shapes, 2, 3)
    rest: list[StaticShape | None] = [None] * (len(node.outputs) - 1)
    if len(q) == 4 and len(v) == 4:
        return [(*q[:3], v[3]), *rest]
    heads, shared = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if len(q) != 3 or len(v) != 3 or not 0 < heads < 1 << 31 or shared < 1:
        return [None, *rest]
    return [(*q[:2], v[2] // shared * heads), *rest]


def _grid_sample(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:  # noqa: ARG001 - a rule
    x, grid = _need(shapes, 0, 3), _need(shapes, 1, 3)
    return [(*x[:2], *grid[1:-1])]


def _product(right: int) -> ShapeRule:
    """A rule for matrix products of operands 0 and `right`, both of rank 2 or more."""

    def rule(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:  # noqa: ARG001 - a rule
        a, b = _need(shapes, 0, 2), _need(shapes, right, 2)
        if a[-1] != b[-2]:
            raise ShapeError(f"inner sizes differ: {list(a)} and {list(b)}")
        return [(*broadcast(a[:-2], b[:-2]), a[-2], b[-1])]

    return rule


def _counts_of_terms(node: OnnxNode, shapes: Sequence[StaticShape | None]) -> Shapes:
    """A number for each of the terms, in place of the last axis."""
    places = node.integers("ngram_indexes")
    if not places:
        raise ShapeError("its attribute `ngram_indexes` must name a place")
    return [(*_need(shapes, 0, 1)[:-1], max(places) + 1)]


RULES: dict[str, ShapeRule] = {
    "Attention": _attention,
    "Bernoulli": _like_first,
    "Binarizer": _like_first,
    "Cast": _like_first,
    "CastLike": _like_first,
    "CumProd": _like_first,
    "CumSum": _like_first,
    "DequantizeLinear": _like_first,
    "Dropout": _like_first,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "Equal": _broadcast,
    "EyeLike": _like_first,
    "GRU": _recurrent,
    "GlobalLpPool": _global_pool,
    "GridSample": _grid_sample,
    "Hardmax": _like_first,
    "Imputer": _like_first,
    "LSTM": _recurrent,
    "LayerNormalization": _first_like_first,
    "LpNormalization": _like_first,
    "MatMulInteger": _product(1),
    "MeanVarianceNormalization": _like_first,
    "Normalizer": _like_first,
    "QLinearMatMul": _product(3),
    "QuantizeLinear": _like_first,
    "RMSNormalization": _first_like_first,
    "RNN": _recurrent,
    "RandomNormalLike": _like_first,
    "RandomUniformLike": _like_first,
    "ReverseSequence": _like_first,
    "RotaryEmbedding": _like_first,
    "Scaler": _like_first,
    "TensorScatter": _like_first,
    "TfIdfVectorizer": _counts_of_terms,
}


class ForeignInfer:
    """The shape rule of a `call` node that stands for one ONNX node.

    `order` tells for each operand of the ONNX node which operand of the call it is (None: absent), and
    `results` which of its results the call gives.
    """

    def __init__(
        self, node: OnnxNode, order: Sequence[int | None], results: Sequence[int], dtypes: Sequence[DType]
    ) -> None:
        self._node = node
        self._order = tuple(order)
        self._results = tuple(results)
        self._dtypes = tuple(dtypes)

    def __call__(self, inputs: Sequence[Info | None]) -> list[Info]:
        """What is known of each result. Raises ShapeError if the operands do not fit."""
        unknown = any(info is not None and info.shape is None for info in inputs)
        shapes: Shapes = [None] * len(self._node.outputs)
        if not unknown:
            operands = [None if at is None else inputs[at] for at in self._order]
            shapes = RULES[self._node.op](self._node, [None if info is None else info.shape for info in operands])
        return [Info(dtype, shapes[at]) for at, dtype in zip(self._results, self._dtypes, strict=True)]
