"""What ONNX has no op for, written out in float64."""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from tests.ops.case import Case
from tests.ops.recurrent_formulas import recurrent

Array = np.ndarray


def _wide(case: Case) -> list[Any]:
    return [None if a is None else a.astype(np.float64) if a.dtype.kind == "f" else a for a in case.inputs]


def _by_element(function: Callable[[int, int], int]) -> Callable[[Case], Array]:
    def formula(case: Case) -> Array:
        a, b = np.broadcast_arrays(*case.inputs)
        found = [function(int(x), int(y)) for x, y in zip(a.ravel(), b.ravel(), strict=True)]
        return np.array(found, a.dtype).reshape(a.shape)

    return formula


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _wrapped_power(bits: int) -> Callable[[int, int], int]:
    def power(a: int, b: int) -> int:
        return (a**b + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)

    return power


def _power(case: Case) -> Array:
    return _by_element(_wrapped_power(case.inputs[0].dtype.itemsize * 8))(case)


def _floored_remainder(case: Case) -> Array:
    a, b = _wide(case)
    return a - np.floor(a / b) * b


def _truncated_remainder(case: Case) -> Array:
    a, b = _wide(case)
    return a - np.trunc(a / b) * b


def _softplus(case: Case) -> Array:
    (x,) = _wide(case)
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _erf(x: Array) -> Array:
    """The integral of the bell curve, summed up by its power series."""
    total, term = np.zeros_like(x), x.copy()
    for n in range(200):
        total += term / (2 * n + 1)
        term = -term * x * x / (n + 1)
    return 2 / np.sqrt(np.pi) * total


def _elementwise(case: Case) -> list[Array]:
    operands = _wide(case)
    name = case.id.split("/")[1].rstrip("0123456789")
    if name == "gelu":
        (x,) = operands
        return [0.5 * x * (1 + _erf(x * np.sqrt(0.5)))]
    if name == "of_a_byte":
        (x,) = operands
        return [np.rint(255 / (1 + np.exp(-0.05 * x))).astype(np.uint8)]
    if name == "two_results":
        a, b = operands
        return [np.maximum(a + b, 0), a > b]
    if name == "passed_through":
        row, x = operands
        return [np.broadcast_to(row, x.shape), -x]
    number, x, condition = operands
    return [1 / (1 + np.exp(-np.where(condition, number * x, x)))]


def _matmul(case: Case) -> Array:
    a, b, *rest = _wide(case)
    if "out_perm" in case.attrs:
        product = np.einsum("bhqk,bkhd->bqhd", a, b)
        return product + rest[0] if rest else product
    product = np.einsum("ik,kj->ij", a, b)
    return {
        "epilogue_bias": lambda: product + rest[0],
        "epilogue_bias_relu": lambda: np.maximum(product + rest[0], 0),
        "epilogue_residual": lambda: np.tanh(product / 8 + rest[0] + rest[1]),
        "epilogue_scalar": lambda: product + 2,
        "epilogue_column": lambda: product + rest[0],
        "epilogue_to_bool": lambda: product > 0,
    }[case.id.split("/")[1]]()


def _conv(case: Case) -> Array:
    """Stride 1 and dilation 1: the cases with epilogues have no others."""
    x, w, bias, *rest = _wide(case)
    top, left, bottom, right = case.attrs["pads"]
    padded = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], axis=(2, 3))
    if case.attrs["groups"] > 1:
        plain = np.einsum("nchwij,cij->nchw", windows, w[:, 0])
    else:
        plain = np.einsum("nchwij,mcij->nmhw", windows, w)
    plain += bias.reshape(-1, 1, 1)
    if rest:
        return np.maximum(plain + rest[0], 0)
    return np.maximum(plain, 0) if "relu" in case.id else plain / (1 + np.exp(-plain))


def _layer_norm(case: Case) -> Array:
    x, scale, bias = _wide(case)
    found = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + case.attrs["epsilon"])
    return found * (1 if scale is None else scale) + (0 if bias is None else bias)


def _block_matmul(case: Case) -> Array:
    """Number by number; a rounded left factor block by block."""
    x, weights, scales, zeros = case.inputs
    bits, block = case.attrs["bits"], case.attrs["block"]
    assert x is not None
    assert weights is not None
    assert scales is not None
    depth = x.shape[-1]
    real = np.zeros((len(weights), depth))
    for (column, t), _ in np.ndenumerate(real):
        place, within = divmod(t, block)
        byte, part = divmod(within * bits, 8)
        number = int(weights[column, place, byte]) >> part & ((1 << bits) - 1)
        begin = 1 << (bits - 1) if zeros is None else float(zeros[column, place])
        real[column, t] = (number - begin) * float(scales[column, place])
    left = x.astype(np.float64).reshape(-1, depth)
    if case.attrs["rounds"]:
        for row in left:
            for first in range(0, depth, block):
                part = row[first : first + block]
                step = np.abs(part).max() / 127
                part[:] = np.rint(part.astype(np.float32) * (np.float32(127) / np.abs(part).max().astype(np.float32)))
                part *= step
    return np.asarray((left @ real.T).reshape(*x.shape[:-1], len(weights)))


def _roi_align(case: Case) -> Array:
    """Pixel by pixel: the weight of a sample at a pixel falls from 1 at its place to 0 a pixel further."""
    x, regions, images = (np.asarray(array) for array in case.inputs)
    rows, columns, largest = (case.attrs[name] for name in ("rows", "columns", "largest"))
    y = np.zeros((len(regions), rows, columns, x.shape[3]))

    def weights(first: float, last: float, bins: int, size: int) -> list[list[list[tuple[int, float]]]]:
        half = 0.5 if case.attrs["half_pixel"] else 0.0
        kind = x.dtype.type
        begin, end = (kind(place) * kind(case.attrs["scale"]) - kind(half) for place in (first, last))
        length = end - begin if half else max(end - begin, kind(1))
        each = length / kind(bins)
        count = case.attrs["samples"] or math.ceil(each)
        found: list[list[list[tuple[int, float]]]] = []
        for number in range(bins):
            found.append([])
            for i in range(count):
                place = float(begin) + (number + (i + 0.5) / count) * float(each)
                kept = min(max(place, 0.0), size - 1.0)
                near = [(pixel, 1 - abs(kept - pixel)) for pixel in range(size) if abs(kept - pixel) < 1]
                found[-1].append(near if -1 <= place <= size else [])
        return found

    for region, image, target in zip(regions, images, y, strict=True):
        down = weights(region[1], region[3], rows, x.shape[1])
        across = weights(region[0], region[2], columns, x.shape[2])
        for row, column in np.ndindex(rows, columns):
            samples = [(p, q) for p in down[row] for q in across[column]]
            parts = [[a * b * x[image, i, j] for i, a in p for j, b in q] for p, q in samples]
            if largest:
                nought = [np.zeros(x.shape[3])]
                every = [np.max(part + (nought if len(part) < 4 else []), axis=0) for part in parts]
                target[row, column] = np.max(every, axis=0) if every else 0
            elif parts:
                target[row, column] = sum((sum(part) for part in parts if part), np.zeros(x.shape[3])) / len(parts)
    return y


def _attention(case: Case) -> Array:
    operands = _wide(case)
    sink = operands.pop() if case.attrs.get("sink") else None
    perms = [case.attrs.get(f"{name}_perm", range(a.ndim)) for name, a in zip("qkv", operands, strict=False)]
    q, k, v = (array.transpose(perm) for array, perm in zip(operands, perms, strict=False))
    if "repeats" in case.attrs:
        heads = np.arange(q.shape[-3]) // case.attrs["repeats"]
        k, v = k[..., heads, :, :], v[..., heads, :, :]
    scores = np.einsum("...id,...jd->...ij", q, k)
    if len(operands) == 4 and operands[3].dtype == bool:
        scores = np.where(operands[3], scores, -np.inf)
    elif "epilogue" in case.attrs:
        scores = scores * 0.25 + (operands[3] if len(operands) == 4 else 0)
    if sink is not None:
        scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)
    shares = _shares(scores, -1, safe="safe" in case.attrs)
    found = np.einsum("...ij,...jd->...id", shares[..., : k.shape[-2]], v)
    return found.transpose(case.attrs["out_perm"]) if "out_perm" in case.attrs else found


def _packed_attention(case: Case) -> Array:
    offsets = case.inputs[3]
    attrs = {name: value for name, value in case.attrs.items() if name != "longest"}
    at = 1 if "q_perm" in attrs else 0
    texts = [
        Case(case.id, "attention", attrs, tuple(np.take(x, range(*text), at) for x in case.inputs[:3]))
        for text in pairwise(offsets)
        if text[0] < text[1]
    ]
    return np.concatenate([_attention(text) for text in texts], axis=at)


def _shares(x: Array, axis: int, *, safe: bool) -> Array:
    powers = np.exp(x - x.max(axis, keepdims=True))
    found = powers / powers.sum(axis, keepdims=True)
    return np.where((x == -np.inf).all(axis, keepdims=True), 0.0, found) if safe else found


def _softmax(case: Case) -> Array:
    return _shares(*_wide(case), case.attrs["axis"], safe="safe" in case.attrs)


def _log_softmax(case: Case) -> Array:
    (x,), axis = _wide(case), case.attrs["axis"]
    shifted = x - x.max(axis, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _lrn(case: Case) -> Array:
    (x,), attrs = _wide(case), case.attrs
    size = attrs["size"]
    around = np.pad(x**2, ((0, 0), ((size - 1) // 2, size // 2), *((0, 0),) * (x.ndim - 2)))
    total = sum(around[:, first : first + x.shape[1]] for first in range(size))
    return x / (attrs["bias"] + attrs["alpha"] / size * total) ** attrs["beta"]


def _conv_transpose(case: Case) -> Array:
    """Two spatial axes, no pads and no dilation: the case with groups has no others."""
    x, w, bias = _wide(case)
    groups, stride = case.attrs["groups"], case.attrs["strides"][0]
    (batch, channels, height, width), (_, out, *kernel) = x.shape, w.shape
    sizes = [stride * (size - 1) + k for size, k in zip((height, width), kernel, strict=True)]
    total = np.zeros((batch, out * groups, *sizes))
    for c, y, z in np.ndindex(channels, height, width):
        first = c // (channels // groups) * out
        seen = np.s_[:, first : first + out, y * stride : y * stride + kernel[0], z * stride : z * stride + kernel[1]]
        total[seen] += x[:, c, y, z].reshape(-1, 1, 1, 1) * w[c]
    return total + bias.reshape(-1, 1, 1)


def _cropped(case: Case) -> Array:
    x, pads = case.inputs[0], case.inputs[1]
    begins, ends = pads[: x.ndim], pads[x.ndim :]
    found = np.zeros(np.array(x.shape) + begins + ends, x.dtype)
    for place in np.ndindex(found.shape):
        source = np.array(place) - begins
        if (source >= 0).all() and (source < x.shape).all():
            found[place] = x[tuple(source)]
    return found


def _gather_elements(case: Case) -> Array:
    x, indices = case.inputs
    axis = case.attrs["axis"] % x.ndim
    seen = x[tuple(slice(None if at == axis else n) for at, n in enumerate(indices.shape))]
    return np.take_along_axis(seen, indices, axis)


def _gather_reduce(case: Case) -> Array:
    x, indices, *weights = _wide(case)
    factors = weights[0].reshape(indices.shape) if weights else np.ones(indices.shape, x.dtype)
    rows = np.array([x[at] * factor for at, factor in zip(indices.ravel(), factors.ravel(), strict=True)])
    rows = rows.reshape(*indices.shape, *x.shape[1:])
    reduce = getattr(np, case.attrs["how"].removeprefix("reduce_"))
    return np.asarray(reduce(rows, axis=case.attrs["axes"], keepdims=case.attrs["keepdims"]))


def _cumulative(case: Case) -> Array:
    """Each element by itself: the reduction of all that are part of it."""
    (x,) = _wide(case)
    lines = np.moveaxis(x, case.attrs["axis"], 0)
    count, gap, back = len(lines), int(case.attrs["exclusive"]), case.attrs["reverse"]
    parts = [lines[at + gap :] if back else lines[: at + 1 - gap] for at in range(count)]
    nothing = {"cummax": -np.inf, "cummin": np.inf, "logcumsumexp": -np.inf}[case.op]
    reduce: dict[str, Callable[[Array], Array]] = {
        "cummax": lambda part: part.max(0),
        "cummin": lambda part: part.min(0),
        "logcumsumexp": lambda part: np.log(np.exp(part).sum(0)),
    }
    found = [reduce[case.op](part) if len(part) else np.full(lines.shape[1:], nothing) for part in parts]
    return np.moveaxis(np.array(found, x.dtype), 0, case.attrs["axis"])


def _search_sorted(case: Case) -> Array:
    sequence, values = case.inputs
    rows = np.broadcast_to(sequence, (*values.shape[:-1], sequence.shape[-1])) if values.ndim else sequence
    compare = np.less_equal if case.attrs["right"] else np.less
    return compare(rows[..., None, :], values[..., None]).sum(-1).reshape(values.shape).astype(np.int64)


def _spread(case: Case) -> Array:
    """Element by element: the channel and the position of x that each element of the result comes from."""
    (x,), strides = case.inputs, case.attrs["strides"]
    begins, ends = case.attrs["begins"], case.attrs["ends"]
    part = x.shape[1] // int(np.prod(strides))
    sides = zip(x.shape[2:], strides, begins, ends, strict=True)
    sizes = [size * stride - begin - end for size, stride, begin, end in sides]
    y = np.empty((x.shape[0], case.attrs["channels"], *sizes), x.dtype)
    for channel, *at in np.ndindex(*y.shape[1:]):
        wide = [place + begin for place, begin in zip(at, begins, strict=True)]
        number = int(np.ravel_multi_index([w % s for w, s in zip(wide, strides, strict=True)], strides))
        source = (number * part + channel, *(w // s for w, s in zip(wide, strides, strict=True)))
        y[(slice(None), channel, *at)] = x[(slice(None), *source)]
    return y


def _pick_channels(case: Case) -> Array:
    starts = np.cumsum([0, *(x.shape[1] for x in case.inputs)])
    return np.concatenate(case.inputs, axis=1)[:, [starts[number] + channel for number, channel in case.attrs["picks"]]]


def _trees(case: Case) -> Array:
    x, nodes, thresholds, firsts, ids, weights, roots = _wide(case)
    y = np.zeros((len(x), case.attrs["targets"]))
    for row, sums in zip(x, y, strict=True):
        for root, _ in roots:
            at = root
            while nodes[at, 1] != at:
                value = row[nodes[at, 0] // 2]
                at = nodes[at, 1 if value <= thresholds[at] or (np.isnan(value) and nodes[at, 0] % 2) else 2]
            np.add.at(sums, ids[firsts[at] : firsts[at + 1]], weights[firsts[at] : firsts[at + 1]])
    return y


def _branch(case: Case) -> Array:
    condition, a, b = _wide(case)
    return (a @ b if condition.item() else a - b).astype(np.float32)


def _loop(case: Case) -> list[Array]:
    limit, _, state, items, matrix = (None if operand is None else operand.astype(float) for operand in case.inputs)
    assert state is not None
    assert items is not None
    stacked = []
    for number, item in enumerate(items if limit is None else items[: int(limit)]):
        stacked.append(state @ matrix + item)
        state = stacked[-1] + number
    shape = (len(stacked), *state.shape)
    results = [state, np.array(stacked).reshape(shape), np.array(len(stacked))]
    return results if case.outputs == 3 else [results[0], results[2]]


def _non_zero(case: Case) -> list[Array]:
    x = case.inputs[0]
    found = [at for at in np.ndindex(x.shape) if x[at] != 0]
    return _in_room(np.array(found, np.int64).reshape(len(found), x.ndim).T, 1, x.size)


def _in_room(found: Array, axis: int, room: int) -> list[Array]:
    """`found` at the start of the memory of `room` along an axis, and how many there are."""
    shape = (*found.shape[:axis], room, *found.shape[axis + 1 :])
    padded = np.resize(np.append(found.ravel(), np.zeros(int(np.prod(shape)) - found.size, np.int64)), shape)
    return [padded.astype(np.int64), np.array([found.shape[axis]], np.int64)]


def _non_max_suppression(case: Case) -> list[Array]:
    boxes, scores, most, overlap, least = (each.tolist() for each in _wide(case))
    found = []
    for image, labels in enumerate(scores):
        corners = [_box_corners(box, center=case.attrs["center"]) for box in boxes[image]]
        for label, own in enumerate(labels):
            kept: list[int] = []
            for box in sorted(range(len(own)), key=lambda at: -own[at] if own[at] == own[at] else math.inf):
                apart = all(_overlap(corners[box], corners[other]) <= overlap[0] for other in kept)
                if own[box] > least[0] and apart and len(kept) < most[0]:
                    kept.append(box)
            found += [(image, label, box) for box in kept]
    room = len(scores) * len(scores[0]) * min(max(most[0], 0), len(boxes[0]))
    return _in_room(np.array(found, np.int64).reshape(-1, 3), 0, room)


def _box_corners(box: list[float], *, center: bool) -> tuple[float, float, float, float]:
    a, b, c, d = box
    if center:
        return a - c / 2, b - d / 2, a + c / 2, b + d / 2
    return min(a, c), min(b, d), max(a, c), max(b, d)


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    high, wide = (min(one[2 + at], other[2 + at]) - max(one[at], other[at]) for at in (0, 1))
    sizes = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return high * wide / (sum(sizes) - high * wide) if high > 0 and wide > 0 and min(sizes) > 0 else 0.0


def _linear_attention(case: Case) -> list[Array]:
    """Computes head after head. A head's state is the sum of key times value over its tokens, each decayed since."""
    q, k, v, state, factor, rate = _wide(case)
    heads, shared = case.attrs["heads"], case.attrs["shared"]
    batch, tokens, _ = q.shape
    q, k, v = (
        x.reshape(batch, tokens, count, x.shape[2] // count) for x, count in ((q, heads), (k, shared), (v, shared))
    )
    key, value, most = k.shape[3], v.shape[3], max(heads, shared)
    factor = np.ones((batch, tokens, shared)) if factor is None else factor
    factor = factor.reshape(batch, tokens, shared, factor.shape[2] // shared)
    factor = np.broadcast_to(factor, (batch, tokens, shared, key))
    y, last = np.zeros((batch, tokens, most, value)), np.zeros((batch, shared, key, value))
    for n, head in np.ndindex(batch, shared):
        now = np.zeros((key, value)) if state is None else state[n, head]
        for token in range(tokens):
            now = np.diag(factor[n, token, head]) @ now
            added = v[n, token, head]
            if rate is not None:
                added = (added - k[n, token, head] @ now) * rate[n, token, head if rate.shape[2] > 1 else 0]
            now = now + np.outer(k[n, token, head], added)
            for reader in range(most):
                if reader * shared // most == head:
                    y[n, token, reader] = q[n, token, reader * heads // most] @ now
        last[n, head] = now
    return [y.reshape(batch, tokens, most * value), last]


FORMULAS: dict[str, Callable[[Case], Array | list[Array]]] = {
    "branch": _branch,
    "loop": _loop,
    "non_zero": _non_zero,
    "non_max_suppression": _non_max_suppression,
    "rsqrt": lambda case: 1 / np.sqrt(_wide(case)[0]),
    "softplus": _softplus,
    "expm1": lambda case: np.expm1(_wide(case)[0]),
    "log1p": lambda case: np.log1p(_wide(case)[0]),
    "erfc": lambda case: np.vectorize(math.erfc, otypes=[float])(_wide(case)[0]),
    "inverse": lambda case: np.linalg.inv(_wide(case)[0]),
    "linear_attention": _linear_attention,
    "roi_align": _roi_align,
    "trees": _trees,
    "ne": lambda case: ~(case.inputs[0] == case.inputs[1]),
    "div": _by_element(_divide),
    "pow": _power,
    "mod": _floored_remainder,
    "fmod": _truncated_remainder,
    "elementwise": _elementwise,
    "matmul": _matmul,
    "block_matmul": _block_matmul,
    "attention": _attention,
    "packed_attention": _packed_attention,
    "conv": _conv,
    "layer_norm": _layer_norm,
    "log_softmax": _log_softmax,
    "softmax": _softmax,
    "lrn": _lrn,
    "conv_transpose": _conv_transpose,
    "lstm": recurrent,
    "gru": recurrent,
    "rnn": recurrent,
    "pad": _cropped,
    "gather_elements": _gather_elements,
    "cummax": _cumulative,
    "cummin": _cumulative,
    "logcumsumexp": _cumulative,
    "gather_reduce": _gather_reduce,
    "search_sorted": _search_sorted,
    "pick_channels": _pick_channels,
    "spread": _spread,
    "transpose": lambda case: case.inputs[0],
    "reduce_sum": lambda case: case.inputs[0],
    "reduce_max": lambda case: np.full(case.inputs[0].shape[0], -np.inf),
}
