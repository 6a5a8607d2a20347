"""Shapes of the results of operators that run by ONNX's reference implementation.

The result shapes of an operator without a line here are unknown until it has run. ONNX's own shape
inference is not used: it crashes or does not end on some hostile attributes.
"""

from collections.abc import Callable, Sequence

from treadle.dtypes import DType
from treadle.errors import ShapeError
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.dim import is_expression
from treadle.graph.shape import StaticShape, broadcast, elements, normalize_axis
from treadle.ops.op import Info

Shapes = Sequence[StaticShape | None]
Operands = Sequence[Info | None]
"""What is known of the operands of a node; None for absent ones."""

ShapeRule = Callable[[OnnxNode, Operands], Shapes]
"""(node, operands, of which all shapes are known) -> shapes of its results, None for unknown ones."""


def _need(operands: Operands, index: int, rank: int) -> StaticShape:
    info = operands[index] if index < len(operands) else None
    shape = None if info is None else info.shape
    if shape is None or len(shape) < rank:
        raise ShapeError(f"its input number {index} must have rank {rank} or more, got {shape}")
    return shape


def _numbers(operands: Operands, index: int) -> list[int] | None:
    """The integers that operand `index` holds, which may be expressions of sizes; None if it is absent or not known."""
    info = operands[index] if index < len(operands) else None
    if info is None or info.value is None:
        return None
    return [number if is_expression(number) else int(number) for number in info.value.reshape(-1).tolist()]


def _like_first(node: OnnxNode, operands: Operands) -> Shapes:
    """Every result has the shape of operand 0."""
    return [_need(operands, 0, 0)] * len(node.outputs)


def _first_like_first(node: OnnxNode, operands: Operands) -> Shapes:
    """The first result has the shape of operand 0; the shapes of the others are unknown."""
    return [_need(operands, 0, 0), *[None] * (len(node.outputs) - 1)]


def _broadcast(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    return [broadcast(*(_need(operands, index, 0) for index in range(len(operands))))]


def _dynamic_quantize(node: OnnxNode, operands: Operands) -> Shapes:
    """Quantized x, its scale and its zero point."""
    return [_need(operands, 0, 0), (), ()][: len(node.outputs)]


def _global_pool(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    x = _need(operands, 0, 2)
    return [(*x[:2], *(1 for _ in x[2:]))]


def _recurrent(node: OnnxNode, operands: Operands) -> Shapes:
    """RNN, GRU, LSTM: all states, the last state, and LSTM's last cell."""
    x, r = _need(operands, 0, 3), _need(operands, 2, 3)
    directions, hidden = r[0], r[2]
    if node.flag("layout", default=False):
        states: StaticShape = (x[0], x[1], directions, hidden)
        last: StaticShape = (x[0], directions, hidden)
    else:
        states, last = (x[0], directions, x[1], hidden), (directions, x[1], hidden)
    return [states, last, last][: len(node.outputs)]


def _attention(node: OnnxNode, operands: Operands) -> Shapes:
    """[batch, heads, length, size] or [batch, length, heads * size]; the shapes of other results are unknown."""
    q, v = _need(operands, 0, 3), _need(operands, 2, 3)
    rest: list[StaticShape | None] = [None] * (len(node.outputs) - 1)
    if len(q) == 4 and len(v) == 4:
        return [(*q[:3], v[3]), *rest]
    heads, shared = node.integer("q_num_heads", 0), node.integer("kv_num_heads", 0)
    if len(q) != 3 or len(v) != 3 or not 0 < heads < 1 << 31 or shared < 1:
        return [None, *rest]
    return [(*q[:2], v[2] // shared * heads), *rest]


def _grid_sample(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    x, grid = _need(operands, 0, 3), _need(operands, 1, 3)
    return [(*x[:2], *grid[1:-1])]


def _product(right: int) -> ShapeRule:
    """A rule for matrix products of operands 0 and `right`, both of rank 2 or more."""

    def rule(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
        a, b = _need(operands, 0, 2), _need(operands, right, 2)
        if a[-1] != b[-2]:
            raise ShapeError(f"inner sizes differ: {list(a)} and {list(b)}")
        return [(*broadcast(a[:-2], b[:-2]), a[-2], b[-1])]

    return rule


def _counts_of_terms(node: OnnxNode, operands: Operands) -> Shapes:
    """A number for each of the terms, in place of the last axis."""
    places = node.integers("ngram_indexes")
    if not places:
        raise ShapeError("its attribute `ngram_indexes` must name a place")
    return [(*_need(operands, 0, 1)[:-1], max(places) + 1)]


def _affine_grid(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    """A place for each element of an image or volume of the size that operand 1 holds."""
    size = _numbers(operands, 1)
    return [None if size is None else (size[0], *size[2:], len(size) - 2)]


def _center_crop_pad(node: OnnxNode, operands: Operands) -> Shapes:
    x, wanted = list(_need(operands, 0, 1)), _numbers(operands, 1)
    axes = node.integers("axes") or range(len(x))
    if wanted is None:
        return [None]
    if len(wanted) != len(axes):
        raise ShapeError(f"its shape must have {len(axes)} numbers, one for each axis, got {len(wanted)}")
    for axis, size in zip(axes, wanted, strict=True):
        x[normalize_axis(axis, len(x))] = size
    return [tuple(x)]


def _col2im(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    x, image, block = _need(operands, 0, 3), _numbers(operands, 1), _numbers(operands, 2)
    return [None if image is None or block is None else (x[0], x[1] // elements(block), *image)]


def _deform_conv(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    """Each element has an offset."""
    x, w, offsets = _need(operands, 0, 3), _need(operands, 1, 3), _need(operands, 2, 3)
    return [(x[0], w[0], *offsets[2:])]


def _det(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    return [_need(operands, 0, 2)[:-2]]


def _mel_weights(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    bins, length = _numbers(operands, 0), _numbers(operands, 1)
    return [None if bins is None or length is None else (length[0] // 2 + 1, bins[0])]


def _stated(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    return [tuple(node.integers("shape") or ())]


def _window(node: OnnxNode, operands: Operands) -> Shapes:  # noqa: ARG001 - a rule
    size = _numbers(operands, 0)
    return [None if size is None else (size[0],)]


def _one_hot(node: OnnxNode, operands: Operands) -> Shapes:
    categories = node.integers("cats_int64s") or node.texts("cats_strings") or ()
    return [(*_need(operands, 0, 0), len(categories))]


RULES: dict[str, ShapeRule] = {
    "AffineGrid": _affine_grid,
    "Attention": _attention,
    "Bernoulli": _like_first,
    "Binarizer": _like_first,
    "BitCast": _like_first,
    "BlackmanWindow": _window,
    "Cast": _like_first,
    "CastLike": _like_first,
    "CenterCropPad": _center_crop_pad,
    "Col2Im": _col2im,
    "CumProd": _like_first,
    "CumSum": _like_first,
    "DeformConv": _deform_conv,
    "DequantizeLinear": _like_first,
    "Det": _det,
    "Dropout": _like_first,
    "DynamicQuantizeLinear": _dynamic_quantize,
    "Equal": _broadcast,
    "EyeLike": _like_first,
    "GRU": _recurrent,
    "GlobalLpPool": _global_pool,
    "GridSample": _grid_sample,
    "HammingWindow": _window,
    "HannWindow": _window,
    "Hardmax": _like_first,
    "Imputer": _like_first,
    "LSTM": _recurrent,
    "LabelEncoder": _like_first,
    "LayerNormalization": _first_like_first,
    "LpNormalization": _like_first,
    "MatMulInteger": _product(1),
    "MeanVarianceNormalization": _like_first,
    "MelWeightMatrix": _mel_weights,
    "Normalizer": _like_first,
    "OneHotEncoder": _one_hot,
    "QLinearMatMul": _product(3),
    "QuantizeLinear": _like_first,
    "RMSNormalization": _first_like_first,
    "RNN": _recurrent,
    "RandomNormal": _stated,
    "RandomNormalLike": _like_first,
    "RandomUniform": _stated,
    "RandomUniformLike": _like_first,
    "RegexFullMatch": _like_first,
    "ReverseSequence": _like_first,
    "RotaryEmbedding": _like_first,
    "Scaler": _like_first,
    "StringConcat": _broadcast,
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
            shapes = RULES[self._node.op](self._node, [None if at is None else inputs[at] for at in self._order])
        return [Info(dtype, shapes[at]) for at, dtype in zip(self._results, self._dtypes, strict=True)]
