"""Single nodes of TensorFlow's files with random operands and attributes, some of which TensorFlow rejects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.unit.frontends.tensorflow.random_operands import (
    Draw,
    Rng,
    array,
    axis,
    broadcast,
    index,
    shape,
    special,
    whole,
)

FLOATS = (np.float32, np.float32, np.float64)
NUMBERS = (np.float32, np.float64, np.int32, np.int64)


def unary(op: str, kinds: tuple[Any, ...] = FLOATS) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        x = array(rng, shape(rng), rng.choice(kinds))
        return Draw(op, [x if op == "Erf" else special(rng, x)])  # TensorFlow's erf of an infinite float64 is NaN

    return draw


def binary(op: str, kinds: tuple[Any, ...] = NUMBERS) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        kind, dims = rng.choice(kinds), shape(rng)
        both = [special(rng, array(rng, dims, kind)), special(rng, array(rng, broadcast(rng, dims), kind))]
        if np.dtype(kind).kind in "iu":
            if "Div" in op or "Mod" in op:
                both = [np.where(each == 0, 3, each).astype(kind) for each in both]
            if op == "Pow":
                both = [np.abs(each).astype(kind) for each in both]
        return Draw(op, both if rng.random() < 0.5 else both[::-1], ulps=64 if op == "Pow" else 16)

    return draw


def comparison(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        drawn = binary(op)(rng)
        return Draw(op, drawn.operands, {"incompatible_shape_error": bool(rng.random() < 0.7)})

    return draw


def reduction(op: str, kinds: tuple[Any, ...] = NUMBERS) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        x = special(rng, array(rng, shape(rng), rng.choice(kinds)))
        count = whole(rng, 0, x.ndim)
        axes: Any = [axis(rng, x.ndim) for _ in range(count)] if rng.random() < 0.8 else axis(rng, x.ndim)
        return Draw(op, [x, index(axes)], {"keep_dims": bool(rng.random() < 0.5)}, (1,), 32, scaled=True)

    return draw


def arg(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        x = array(rng, shape(rng), rng.choice(NUMBERS), -3, 3)
        return Draw(op, [x, index(axis(rng, x.ndim))], {"output_type": rng.choice([np.int32, np.int64])}, (1,))

    return draw


def cumsum(rng: Rng) -> Draw:
    x = array(rng, shape(rng), rng.choice(NUMBERS))
    how = {"exclusive": bool(rng.random() < 0.5), "reverse": bool(rng.random() < 0.5)}
    return Draw("Cumsum", [x, index(axis(rng, x.ndim))], how, (1,), 32, scaled=True)


def top_k(rng: Rng) -> Draw:
    x = array(rng, shape(rng), rng.choice(NUMBERS))
    return Draw(
        "TopKV2", [x, index(whole(rng, -1, 5))], {"index_type": rng.choice([np.int16, np.int32, np.int64])}, (1,)
    )


def matmul(op: str, least: int, most: int) -> Callable[[Rng], Draw]:
    first, second = ("transpose_a", "transpose_b") if op == "MatMul" else ("adj_x", "adj_y")

    def draw(rng: Rng) -> Draw:
        m, k, n = (whole(rng, 0 if rng.random() < 0.1 else 1, 5) for _ in range(3))
        batch = shape(rng, least, most, 3)
        how = {first: bool(rng.random() < 0.5), second: bool(rng.random() < 0.5)}
        other = k + (rng.random() < 0.08)
        a, b = (k, m) if how[first] else (m, k), (n, other) if how[second] else (other, n)
        kind = rng.choice([np.float32, np.float64, np.int32])
        ends = batch if rng.random() < 0.6 else broadcast(rng, batch)
        both = [array(rng, (*batch, *a), kind), array(rng, (*ends, *b), kind)]
        return Draw(
            op, both if rng.random() < 0.95 else [both[0][0], both[1]] if both[0].shape[0] else both, how, scaled=True
        )

    return draw


def select(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        dims = shape(rng)
        x, y = array(rng, dims), array(rng, broadcast(rng, dims) if rng.random() < 0.4 else dims)
        ways = [dims, (), dims[:1], broadcast(rng, dims)]
        return Draw(op, [array(rng, ways[whole(rng, 0, 3)], bool), x, y])

    return draw


def add_n(rng: Rng) -> Draw:
    dims = shape(rng)
    return Draw(
        "AddN", [array(rng, broadcast(rng, dims) if rng.random() < 0.2 else dims) for _ in range(whole(rng, 1, 4))]
    )


def clip(rng: Rng) -> Draw:
    dims = shape(rng)
    bounds = [array(rng, () if rng.random() < 0.6 else broadcast(rng, dims)) for _ in range(2)]
    return Draw("ClipByValue", [special(rng, array(rng, dims)), *bounds])


CASTS = (np.float32, np.float64, np.int8, np.uint8, np.int32, np.int64, np.bool_, np.float16)


def cast(rng: Rng) -> Draw:
    x = array(rng, shape(rng), rng.choice(CASTS))
    if rng.random() < 0.5 and x.dtype.kind == "f":
        x = np.abs(x)
    to = rng.choice(CASTS)
    return Draw("Cast", [np.abs(x) if np.dtype(to).kind == "u" and x.dtype.kind != "b" else x], {"DstT": to})


def bias_add(rng: Rng) -> Draw:
    dims = shape(rng, 1, 5)
    form = str(rng.choice(["NHWC", "NCHW", "NC"], p=[0.5, 0.45, 0.05]))
    size = (dims[min(1, len(dims) - 1)] if form == "NCHW" else dims[-1]) if rng.random() < 0.85 else whole(rng, 1, 2)
    bias = array(rng, (size,) if rng.random() < 0.95 else ())
    return Draw("BiasAdd", [array(rng, dims), bias], {"data_format": form})


def activation(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        presets = {
            "LeakyRelu": {"alpha": float(rng.choice([0.0, 0.2, 1.5, -0.5, 1.0]))},
            "CheckNumerics": {"message": "!"},
        }
        how = presets.get(op, {})
        plain = "oftmax" in op or op == "CheckNumerics"  # beside an infinity TensorFlow's softmax has 0 or NaN
        x = array(rng, shape(rng))
        return Draw(op, [x if plain else special(rng, x)], how, ulps=32, scaled=plain or op in ("Elu", "Selu"))

    return draw


def batch_norm(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        form = str(rng.choice(["NHWC", "NCHW"]))
        dims = shape(rng, 4, 4) if rng.random() < 0.9 else shape(rng, 2, 3)
        dims = tuple(max(1, size) for size in dims)  # TensorFlow's mean of nothing is NaN though it is given
        size = dims[1 if form == "NCHW" else -1]
        ends = [array(rng, (size if rng.random() < 0.97 else size + 1,)) for _ in range(4)]
        ends[3] = np.abs(ends[3])
        how: dict[str, Any] = {"data_format": form, "is_training": False}
        if rng.random() < 0.5:
            how["epsilon"] = 0.01
        return Draw(op, [array(rng, dims), *ends], how, ulps=64, scaled=True)

    return draw


def lrn(rng: Rng) -> Draw:
    how = {"depth_radius": whole(rng, 0, 3), "bias": 1.5, "alpha": 0.3, "beta": float(rng.choice([0.5, 0.75]))}
    return Draw("LRN", [array(rng, shape(rng, 4, 4) if rng.random() < 0.9 else shape(rng, 2, 3))], how, ulps=64)


def resize(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        x = array(
            rng, shape(rng, 4, 4) if rng.random() < 0.92 else shape(rng, 3, 5), rng.choice([np.float32, np.uint8])
        )
        size = [whole(rng, 1, 9) for _ in range(2 if rng.random() < 0.95 else 3)]
        if rng.random() < 0.05:
            size[0] = whole(rng, -1, 0)
        how = {"align_corners": bool(rng.random() < 0.4), "half_pixel_centers": bool(rng.random() < 0.4)}
        loose = 1 << 16 if "Bicubic" in op else 64  # TensorFlow takes cubic weights from a table of 1024 places
        return Draw(op, [x, index(size)], how, (1,), loose, scaled=True)

    return draw


def band_part(rng: Rng) -> Draw:
    bounds = [index(whole(rng, -2, 5), np.int64) for _ in range(2)]
    return Draw("MatrixBandPart", [array(rng, shape(rng, 1, 4)), *bounds], fixed=(1, 2))


def window(op: str, spatial: int) -> Callable[[Rng], Draw]:
    """A convolution or a pool.

    Images hold the window: for others TensorFlow gives what was in memory, or ends the process.
    """

    def draw(rng: Rng) -> Draw:
        form = {2: "NHWC", 3: "NDHWC"}[spatial]
        padding = str(rng.choice(["SAME", "VALID"]))
        least = 5 if padding == "VALID" else 1
        dims = [whole(rng, 1, 2), *(whole(rng, least, 7) for _ in range(spatial)), whole(rng, 1, 4)]
        steps = [1, *[whole(rng, 1, 3)] * spatial, 1]
        how: dict[str, Any] = {"strides": steps, "padding": padding, "data_format": form}
        kernel = [whole(rng, 1, 3) for _ in range(spatial)]
        if "Pool" in op:
            how["ksize"] = [1, *kernel, 1]
            if op == "MaxPool" and rng.random() < 0.15:
                size = whole(rng, 1, 2)
                how["ksize"], how["strides"] = [1] * (spatial + 1) + [size], [1] * (spatial + 1) + [size]
            return Draw(op, [array(rng, tuple(dims))], how, ulps=32, scaled=True)
        inner = dims[-1] + (rng.random() < 0.05)
        how["dilations"] = [1, *[whole(rng, 1, 2) if max(steps) == 1 else 1] * spatial, 1]
        if padding == "VALID" and spatial == 2 and rng.random() < 0.4:
            how["padding"] = "EXPLICIT"
            how["explicit_paddings"] = [0, 0, *(whole(rng, 0, 2) for _ in range(4)), 0, 0]
        weights = array(rng, (*kernel, inner, whole(rng, 1, 3)))
        return Draw(op, [array(rng, tuple(dims)), weights], how, ulps=64, scaled=True)

    return draw


def blocks(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        block = whole(rng, 1, 3)
        n, h, w, c = (whole(rng, 1, 3) for _ in range(4))
        dims = (n, h, w, c * block * block) if op == "DepthToSpace" else (n, h * block, w * block, c)
        return Draw(op, [array(rng, dims)], {"block_size": block + (rng.random() < 0.1), "data_format": "NHWC"})

    return draw


def concat(rng: Rng) -> Draw:
    dims = shape(rng, 0, 4)
    at = axis(rng, len(dims))
    parts = []
    for _ in range(whole(rng, 2, 3)):
        part = list(dims)
        if part and -len(part) <= at < len(part):
            part[at] = whole(rng, 0, 3)
        if part and rng.random() < 0.04:
            part[whole(rng, 0, len(part) - 1)] += 1
        parts.append(array(rng, tuple(part)))
    return Draw("ConcatV2", [*parts, index(at)], fixed=(len(parts),))


def gather(rng: Rng) -> Draw:
    x = array(rng, shape(rng, 1, 4))
    at = axis(rng, x.ndim)
    size = x.shape[at] if -x.ndim <= at < x.ndim else 1
    where = array(rng, shape(rng, 0, 2), np.int32, 0 if rng.random() < 0.95 else -1, max(size - 1, 0))
    return Draw("GatherV2", [x, where, index(at)], {"batch_dims": 0}, (2,))


def gather_nd(rng: Rng) -> Draw:
    x = array(rng, shape(rng, 1, 4))
    depth = whole(rng, 0, x.ndim + (rng.random() < 0.05))
    count = shape(rng, 0, 2)
    sizes = [*x.shape, 1][:depth]
    where = np.stack([rng.integers(0, max(size, 1), count) for size in sizes], -1) if depth else np.zeros((*count, 0))
    return Draw("GatherNd", [x, where.astype(np.int32)])


def moved(op: str) -> Callable[[Rng], Draw]:
    """One tensor and a vector that says where its elements go."""

    def draw(rng: Rng) -> Draw:
        x = array(rng, shape(rng), rng.choice((*NUMBERS, np.bool_)))
        rank = x.ndim
        ways: dict[str, Callable[[], Any]] = {
            "BroadcastTo": lambda: (*(whole(rng, 1, 3) for _ in range(whole(rng, 0, 2))), *x.shape),
            "ExpandDims": lambda: axis(rng, rank + 1),
            "Reshape": lambda: [[-1], [x.size], [1, -1], [2, -1], [-1, -1], [x.size, 1, 1], [-2]][whole(rng, 0, 6)],
            "ReverseV2": lambda: [axis(rng, rank) for _ in range(whole(rng, 0, min(rank, 2)))],
            "Tile": lambda: [
                whole(rng, 0, 3) if rng.random() < 0.97 else -1 for _ in range(rank + (rng.random() < 0.05))
            ],
            "Transpose": lambda: rng.permutation(rank).tolist() if rng.random() < 0.9 else [0] * rank,
        }
        return Draw(op, [x, index(ways[op]())], fixed=(1,))

    return draw


def padded(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        x = array(rng, shape(rng, 1, 4))
        pairs = [[whole(rng, 0, 2) if rng.random() < 0.98 else -1 for _ in range(2)] for _ in range(x.ndim)]
        if rng.random() < 0.04:
            pairs.append([0, 0])
        if op == "MirrorPad":
            return Draw(op, [x, index(pairs)], {"mode": str(rng.choice(["REFLECT", "SYMMETRIC"]))}, (1,))
        return Draw(
            op, [x, index(pairs), *([array(rng, ())] if op == "PadV2" else [])], fixed=(1, 2) if op == "PadV2" else (1,)
        )

    return draw


def sliced(rng: Rng) -> Draw:
    x = array(rng, shape(rng, 1, 4))
    begin = [whole(rng, 0, size) for size in x.shape]
    size = [
        whole(rng, -1, max(length - start, 0) + (rng.random() < 0.04))
        for start, length in zip(begin, x.shape, strict=True)
    ]
    return Draw("Slice", [x, index(begin), index(size)], fixed=(1, 2))


def strided(rng: Rng) -> Draw:
    x = array(rng, shape(rng, 1, 4))
    count = whole(rng, 1, x.ndim + (rng.random() < 0.05))
    vectors = [[whole(rng, -6, 6) for _ in range(count)] for _ in range(2)]
    steps = [int(rng.choice([1, 1, 2, -1, -2])) if rng.random() < 0.98 else 0 for _ in range(count)]
    masks = {f"{name}_mask": whole(rng, 0, 15) for name in ("begin", "end")}
    masks["ellipsis_mask"] = int(rng.choice([0, 0, 0, 1, 2]))
    masks["new_axis_mask"] = int(rng.choice([0, 0, 0, 1, 4]))
    masks["shrink_axis_mask"] = int(rng.choice([0, 0, 0, 1, 2]))
    return Draw("StridedSlice", [x, *map(index, (*vectors, steps))], masks, (1, 2, 3))


def split(rng: Rng) -> Draw:
    x = array(rng, shape(rng, 1, 4))
    at, parts = axis(rng, x.ndim), whole(rng, 1, 3)
    size = x.shape[at] if -x.ndim <= at < x.ndim else 1
    if rng.random() < 0.5:
        return Draw("Split", [index(at), x], {"num_split": parts}, (0,))
    cuts = sorted(whole(rng, 0, size) for _ in range(parts - 1))
    sizes = np.diff([0, *cuts, size]).tolist()
    sizes[0] = -1 if parts > 1 and rng.random() < 0.2 else sizes[0] + (rng.random() < 0.05)
    return Draw("SplitV", [x, index(sizes), index(at)], {"num_split": parts}, (1, 2))


def squeeze(rng: Rng) -> Draw:
    dims = tuple(1 if rng.random() < 0.5 else size for size in shape(rng))
    ones = [at - len(dims) * (rng.random() < 0.5) for at, size in enumerate(dims) if size == 1 or rng.random() < 0.03]
    return Draw("Squeeze", [array(rng, dims)], {"squeeze_dims": [int(at) for at in ones if rng.random() < 0.7]})


def one_hot(rng: Rng) -> Draw:
    where = array(rng, shape(rng, 0, 3), rng.choice([np.int32, np.int64, np.uint8]), -1, 5)
    kind = rng.choice([np.float32, np.int32])
    ends = [array(rng, () if rng.random() < 0.97 else (1,), kind) for _ in range(2)]
    return Draw("OneHot", [where, index(whole(rng, -1, 5)), *ends], {"axis": whole(rng, -1, where.ndim)}, (1, 2, 3))


def packed(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        dims = shape(rng, 0 if op == "Pack" else 1, 3)
        at = axis(rng, len(dims) + (op == "Pack"))
        if op == "Pack":
            return Draw(op, [array(rng, dims) for _ in range(whole(rng, 1, 3))], {"axis": at})
        return Draw(
            op, [array(rng, dims)], {"axis": at, "num": max(1, dims[at]) if -len(dims) <= at < len(dims) else 1}
        )

    return draw


def range_(rng: Rng) -> Draw:
    kind = rng.choice([np.int32, np.float32])
    return Draw("Range", [array(rng, (), kind, -5, 9) for _ in range(3)], fixed=(0, 1, 2))


def linspace(rng: Rng) -> Draw:
    return Draw("LinSpace", [array(rng, ()), array(rng, ()), index(whole(rng, 0, 6))], fixed=(0, 1, 2), scaled=True)


def scatter(op: str) -> Callable[[Rng], Draw]:
    def draw(rng: Rng) -> Draw:
        dims = shape(rng, 1, 3)
        depth, count = whole(rng, 1, len(dims)), whole(rng, 0, 4)
        bound = [max(size, 1) + (rng.random() < 0.03) for size in dims[:depth]]
        places = np.array([[whole(rng, 0, size - 1) for size in bound] for _ in range(count)], np.int32).reshape(
            count, depth
        )
        if op == "TensorScatterUpdate":
            places = np.unique(places, axis=0)
        updates = array(rng, (len(places), *dims[depth:]) if rng.random() < 0.95 else (len(places) + 1, *dims[depth:]))
        if op == "ScatterNd":
            return Draw(op, [places, updates, index(dims)], fixed=(2,), scaled=True)
        return Draw(op, [array(rng, dims), places, updates])

    return draw


def ensure_shape(rng: Rng) -> Draw:
    dims = shape(rng)
    stated = tuple(None if rng.random() < 0.3 else size + (rng.random() < 0.1) for size in dims)
    return Draw("EnsureShape", [array(rng, dims)], {"shape": stated})


EQUATIONS = (
    "ij,jk->ik",
    "bij,bjk->bik",
    "...ij,...jk->...ik",
    "ii->i",
    "ij->ji",
    "ij->",
    "i,j->ij",
    "ij,ij->j",
    "iij->j",
)


def einsum(rng: Rng) -> Draw:
    equation = str(rng.choice(EQUATIONS))
    sizes = {letter: whole(rng, 1, 4) for letter in "ijkb"}
    terms = equation.partition("->")[0].split(",")
    batch = shape(rng, 0, 2)
    many = [(*(batch if "..." in term else ()), *(sizes[c] for c in term if c in sizes)) for term in terms]
    return Draw("Einsum", [array(rng, dims) for dims in many], {"equation": equation}, ulps=256, scaled=True)


DRAWS: dict[str, Callable[[Rng], Draw]] = {
    **{op: unary(op) for op in (
        "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cos", "Cosh", "Erf", "Erfc", "Exp", "Expm1", "Inv", "Log",
        "Log1p", "Reciprocal", "Rsqrt", "Sigmoid", "Sin", "Sinh", "Softplus", "Sqrt", "Tan", "Tanh", "Ceil", "Floor",
        "Rint", "Round", "IsFinite", "IsInf", "IsNan",
    )},
    **{op: unary(op, NUMBERS) for op in ("Abs", "Neg", "Sign", "Square", "OnesLike", "ZerosLike")},
    **{op: activation(op) for op in (
        "Elu", "Relu", "Relu6", "Selu", "Softsign", "LeakyRelu", "Softmax", "LogSoftmax", "Identity", "StopGradient",
        "CheckNumerics", "Shape", "Size", "Rank",
    )},
    **{op: binary(op) for op in (
        "Add", "AddV2", "Div", "FloorDiv", "FloorMod", "Maximum", "Minimum", "Mod", "Mul", "Pow", "SquaredDifference",
        "Sub", "Greater", "GreaterEqual", "Less", "LessEqual",
    )},
    **{op: binary(op, (np.float32, np.float64)) for op in ("DivNoNan", "RealDiv")},
    **{op: binary(op, (np.int32, np.int64)) for op in ("TruncateDiv", "TruncateMod")},
    **{op: binary(op, (np.bool_,)) for op in ("LogicalAnd", "LogicalOr")},
    **{op: comparison(op) for op in ("Equal", "NotEqual")},
    **{op: reduction(op) for op in ("Max", "Mean", "Min", "Prod", "Sum")},
    **{op: reduction(op, (np.bool_,)) for op in ("All", "Any")},
    **{op: moved(op) for op in ("BroadcastTo", "ExpandDims", "Reshape", "ReverseV2", "Tile", "Transpose")},
    **{op: padded(op) for op in ("MirrorPad", "Pad", "PadV2")},
    **{op: batch_norm(op) for op in ("FusedBatchNorm", "FusedBatchNormV3")},
    **{op: resize(op) for op in ("ResizeBicubic", "ResizeBilinear", "ResizeNearestNeighbor")},
    **{op: window(op, 2) for op in ("AvgPool", "Conv2D", "DepthwiseConv2dNative", "MaxPool")},
    **{op: window(op, 3) for op in ("AvgPool3D", "Conv3D", "MaxPool3D")},
    **{op: blocks(op) for op in ("DepthToSpace", "SpaceToDepth")},
    **{op: packed(op) for op in ("Pack", "Unpack")},
    **{op: scatter(op) for op in ("ScatterNd", "TensorScatterUpdate")},
    **{op: select(op) for op in ("Select", "SelectV2")},
    "AddN": add_n, "ArgMax": arg("ArgMax"), "ArgMin": arg("ArgMin"), "BatchMatMul": matmul("BatchMatMul", 1, 2),
    "BatchMatMulV2": matmul("BatchMatMulV2", 0, 2), "BiasAdd": bias_add, "Cast": cast, "ClipByValue": clip,
    "ConcatV2": concat, "Cumsum": cumsum, "Einsum": einsum, "EnsureShape": ensure_shape, "GatherNd": gather_nd,
    "GatherV2": gather, "LRN": lrn, "LinSpace": linspace, "MatMul": matmul("MatMul", 0, 0), "MatrixBandPart": band_part,
    "OneHot": one_hot, "Range": range_, "Slice": sliced, "Split": split, "Squeeze": squeeze, "StridedSlice": strided,
    "TopKV2": top_k,
}  # fmt: skip
"""Op -> what draws a node of it."""
