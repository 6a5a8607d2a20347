"""Random calls of PyTorch's functions: CALLS has a generator for each."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.compat.torch.random_operands import (
    ALL,
    FLOATS,
    NUMBERS,
    Draw,
    Rng,
    array,
    axis,
    narrower,
    pick,
    shape,
    some_axes,
)

UNARY = (
    "exp log sqrt rsqrt sin cos tan tanh sigmoid erf abs neg floor ceil round trunc sign reciprocal log1p expm1 log2 "
    "log10 exp2 asin acos atan sinh cosh asinh acosh atanh relu isnan isfinite isinf square frac logical_not "
    "bitwise_not nonzero erfc fliplr flipud ravel atleast_1d atleast_2d t numel trace"
)
BINARY = (
    "add sub mul div pow maximum minimum fmod remainder atan2 eq ne lt le gt ge logical_and logical_or logical_xor "
    "bitwise_and bitwise_or bitwise_xor hypot logaddexp"
)
NEEDS_TENSORS = "maximum minimum atan2 logical_and logical_or logical_xor hypot logaddexp"
"""Of these treadle also takes a number as the second operand, where PyTorch does not."""
REDUCTIONS = "sum mean prod amax amin argmax argmin var std logsumexp all any max min median aminmax"
ALONG = "cumsum cumprod softmax log_softmax flip unbind unsqueeze squeeze"
PLAIN = "silu mish relu6 hardsigmoid hardswish softsign logsigmoid tanhshrink selu relu"
ACTIVATIONS: dict[str, list[dict[str, Any]]] = {
    **{name: [{}] for name in PLAIN.split()},
    "gelu": [{}, {"approximate": "tanh"}],
    "softplus": [{}, {"beta": 2}, {"threshold": 1}],
    "leaky_relu": [{}, {"negative_slope": 0.3}],
    "elu": [{}, {"alpha": 0.5}],
    "celu": [{}, {"alpha": 2}],
    "hardtanh": [{}, {"min_val": -2, "max_val": 0.5}],
    "hardshrink": [{}, {"lambd": 1}],
    "softshrink": [{}, {"lambd": 1}],
    "normalize": [{}, {"p": 1, "dim": 0}],
    "softmin": [{"dim": 0}],
}


def _unary(name: str, rng: Rng) -> Draw:
    return Draw("", [array(rng, shape(rng), pick(rng, ALL))], lambda t, f, x: getattr(t, name)(x))


def _binary(name: str, rng: Rng) -> Draw:
    wide = shape(rng)
    x = array(rng, narrower(rng, wide) if rng.random() < 0.3 else wide, pick(rng, ALL))
    if rng.random() < 0.35 and name not in NEEDS_TENSORS.split():
        number = pick(rng, [0, 1, 2, -3, 0.5, -1.5, 2.0, True, float("nan"), float("inf")])
        if rng.random() < 0.25:
            return Draw(f"{number} first", [x], lambda t, f, x: getattr(t, name)(t.tensor(number), x))
        return Draw(f"{number}", [x], lambda t, f, x: getattr(t, name)(x, number))
    other = tuple(size + 1 for size in wide) if rng.random() < 0.03 else narrower(rng, wide)
    y = array(rng, other, pick(rng, ALL) if rng.random() < 0.5 else str(x.dtype))
    return Draw("", [x, y], lambda t, f, x, y: getattr(t, name)(x, y))


def _operators(rng: Rng) -> Draw:
    wide = shape(rng)
    how = pick(
        rng, [operator.add, operator.sub, operator.mul, operator.truediv, operator.mod, operator.and_, operator.lt]
    )
    x, number = array(rng, wide, pick(rng, ALL)), pick(rng, [2, -1, 0.5, True, 3])
    if rng.random() < 0.5:
        first = bool(rng.random() < 0.5)
        return Draw(f"{how} {number} {first}", [x], lambda t, f, x: how(number, x) if first else how(x, number))
    return Draw(f"{how}", [x, array(rng, narrower(rng, wide), pick(rng, ALL))], lambda t, f, x, y: how(x, y))


def _reduction(name: str, rng: Rng) -> Draw:
    size = shape(rng)
    x, given = array(rng, size, pick(rng, NUMBERS if name == "median" else ALL)), {}
    chosen = rng.random()
    if chosen < 0.25 and name != "logsumexp":
        return Draw("", [x], lambda t, f, x: getattr(t, name)(x))
    one = chosen < 0.65 or name in ("argmax", "argmin", "max", "min", "median", "prod")
    given["dim"] = axis(rng, len(size)) if one else some_axes(rng, len(size))
    if rng.random() < 0.5:
        given["keepdim"] = bool(rng.random() < 0.5)
    if name in ("var", "std") and rng.random() < 0.5:
        given["unbiased"] = bool(rng.random() < 0.5)
    return Draw(f"{given}", [x], lambda t, f, x: getattr(t, name)(x, **given))


def _along(name: str, rng: Rng) -> Draw:
    size = shape(rng, empty=name not in ("softmax", "log_softmax"))
    dim = axis(rng, len(size) + (name == "unsqueeze"))
    given: Any = (dim,) if name == "flip" else dim
    return Draw(f"{given}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: getattr(t, name)(x, given))


def _sort(name: str, rng: Rng) -> Draw:
    size, descending = shape(rng), bool(rng.random() < 0.5)
    dim = axis(rng, len(size))
    x = array(rng, size, pick(rng, ALL), special=False)
    return Draw(
        f"{dim} {descending}", [x], lambda t, f, x: getattr(t, name)(x, dim=dim, descending=descending, stable=True)
    )


def _topk(rng: Rng) -> Draw:
    size = shape(rng, empty=False)
    k, dim, largest = int(rng.integers(0, 5)), axis(rng, len(size)), bool(rng.random() < 0.5)
    x = array(rng, size, pick(rng, FLOATS), special=False)
    return Draw(f"{k} {dim} {largest}", [x], lambda t, f, x: t.topk(x, k, dim=dim, largest=largest))


def _reshape(rng: Rng) -> Draw:
    size = shape(rng)
    x = array(rng, size, pick(rng, ALL))
    to = pick(rng, [(-1,), (1, -1), (-1, 1), (x.size,), size[::-1], (2, -1), (0, -1), (x.size, 1, 1), (-1, -1)])
    return Draw(f"{to}", [x], lambda t, f, x: t.reshape(x, to))


def _two_axes(name: str, rng: Rng) -> Draw:
    size = shape(rng)
    one, two = axis(rng, len(size)), axis(rng, len(size))
    return Draw(f"{one} {two}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: getattr(t, name)(x, one, two))


def _permute(rng: Rng) -> Draw:
    size = shape(rng)
    order = [int(at) - len(size) * (rng.random() < 0.3) for at in rng.permutation(len(size))]
    order = order[:-1] if rng.random() < 0.1 else order
    return Draw(f"{order}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: t.permute(x, tuple(order)))


def _copies(name: str, rng: Rng) -> Draw:
    size = shape(rng, most=3)
    counts = tuple(int(at) for at in rng.integers(0, 3, max(1, len(size) + int(rng.integers(0, 2)))))
    return Draw(f"{counts}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: getattr(x, name)(*counts))


def _joined(name: str, rng: Rng) -> Draw:
    size = list(shape(rng, least=1, most=3))
    dim, arrays = axis(rng, len(size) + (name == "stack")), []
    for _ in range(int(rng.integers(1, 4))):
        if name == "cat" and -len(size) <= dim < len(size):
            size[dim] = int(rng.integers(0, 4))
        here = (0,) if rng.random() < 0.05 else tuple(size)
        arrays.append(array(rng, here, pick(rng, ALL) if rng.random() < 0.3 else "float32"))
    return Draw(f"{dim}", arrays, lambda t, f, *tensors: getattr(t, name)(tensors, dim=dim))


def _cut(name: str, rng: Rng) -> Draw:
    size = shape(rng)
    dim, count = axis(rng, len(size)), int(rng.integers(-1, 5))
    return Draw(f"{count} {dim}", [array(rng, size, "float32")], lambda t, f, x: getattr(t, name)(x, count, dim=dim))


def _part(name: str, rng: Rng) -> Draw:
    size = shape(rng)
    given = (axis(rng, len(size)), int(rng.integers(-4, 4)), *([int(rng.integers(0, 4))] if name == "narrow" else []))
    return Draw(f"{given}", [array(rng, size, "float32")], lambda t, f, x: getattr(t, name)(x, *given))


def _shifted(name: str, rng: Rng) -> Draw:
    size = shape(rng, most=3)
    number, dim = int(rng.integers(0, 5)), pick(rng, [None, axis(rng, len(size))])
    given = (number,) if dim is None else (number, dim)
    return Draw(f"{given}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: getattr(t, name)(x, *given))


def _unflatten(rng: Rng) -> Draw:
    size = shape(rng)
    dim, to = axis(rng, len(size)), pick(rng, [(1, -1), (-1, 2), (2, 2), (-1,)])
    return Draw(f"{dim} {to}", [array(rng, size, "float32")], lambda t, f, x: t.unflatten(x, dim, to))


def _diagonal(name: str, rng: Rng) -> Draw:
    least, most = (1, 2) if name == "diag" else (2, 4)
    size, offset = shape(rng, least, most), int(rng.integers(-4, 5))
    return Draw(f"{offset}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: getattr(t, name)(x, offset))


def _chosen(name: str, rng: Rng) -> Draw:
    size = shape(rng, least=1, most=3, empty=False)
    dim = int(rng.integers(-len(size), len(size)))
    past = rng.random() < 0.05
    places: tuple[int, ...] = tuple(int(rng.integers(1, entries + 1)) for entries in size)
    if name == "index_select":
        places = (int(rng.integers(0, 4)),)
    index = rng.integers(0, size[dim] + past, places)
    return Draw(f"{dim}", [array(rng, size, pick(rng, ALL)), index], lambda t, f, x, i: getattr(t, name)(x, dim, i))


def _scattered(name: str, rng: Rng) -> Draw:
    size, kind = shape(rng, least=1, most=3, empty=False), pick(rng, NUMBERS)
    dim, given = int(rng.integers(-len(size), len(size))), list(size)
    given[dim] = 1 if name == "scatter" else 3
    index = rng.integers(0, size[dim] + (rng.random() < 0.05), given)
    arrays = [array(rng, size, kind, special=False), index, array(rng, tuple(given), kind, special=False)]
    return Draw(f"{dim}", arrays, lambda t, f, x, i, y: getattr(t, name)(x, dim, i, y))


def _where(rng: Rng) -> Draw:
    wide, number = shape(rng), pick(rng, [None, 0, 1.5, True, float("nan")])
    condition, x = array(rng, narrower(rng, wide), "bool"), array(rng, wide, pick(rng, ALL))
    if number is not None:
        return Draw(f"{number}", [condition, x], lambda t, f, c, x: t.where(c, number, x))
    y = array(rng, narrower(rng, wide), pick(rng, ALL))
    return Draw("", [condition, x, y], lambda t, f, c, x, y: t.where(c, x, y))


def _masked(name: str, rng: Rng) -> Draw:
    wide = shape(rng)
    given = [pick(rng, [0, -1, 1.5, True, float("-inf"), 300])] if name == "masked_fill" else []
    arrays = [array(rng, wide, pick(rng, ALL)), array(rng, narrower(rng, wide), "bool")]
    return Draw(f"{given}", arrays, lambda t, f, x, m: getattr(t, name)(x, m, *given))


def _clamp(rng: Rng) -> Draw:
    low = pick(rng, [None, -1, 0.5, 0, float("-inf"), float("nan")])
    high = pick(rng, [None, 2, 0.25, -2, float("inf")])
    return Draw(f"{low} {high}", [array(rng, shape(rng), pick(rng, ALL))], lambda t, f, x: t.clamp(x, low, high))


def _index(rng: Rng) -> Draw:
    size = shape(rng, most=3, empty=False)
    parts = [slice(None), slice(0, 2), slice(None, None, 2), slice(-2, None), 0, -1, None]
    index = tuple(pick(rng, parts) for _ in range(int(rng.integers(0, len(size) + 1))))
    return Draw(f"{index}", [array(rng, size, pick(rng, ALL))], lambda t, f, x: x[index])


def _indices(rng: Rng) -> Draw:
    size = shape(rng, least=1, most=3, empty=False)
    places = shape(rng, most=2)
    indices = [rng.integers(-n, n + (rng.random() < 0.03), places) for n in size[: int(rng.integers(1, len(size) + 1))]]
    return Draw("", [array(rng, size, pick(rng, ALL)), *indices], lambda t, f, x, *indices: x[indices])


def _activation(name: str, rng: Rng) -> Draw:
    given = pick(rng, ACTIVATIONS[name])
    x = array(rng, shape(rng), pick(rng, ALL) if rng.random() < 0.5 else pick(rng, FLOATS))
    return Draw(f"{given}", [x], lambda t, f, x: getattr(f, name)(x, **given))


def _matmul(rng: Rng) -> Draw:
    m, k, n = (int(size) for size in rng.integers(0 if rng.random() < 0.1 else 1, 5, 3))
    batch, kind = shape(rng, most=2, empty=False), pick(rng, NUMBERS)
    one = pick(rng, [(k,), (m, k), (*batch, m, k)])
    two = pick(rng, [(k,), (k, n), (*narrower(rng, batch), k, n), (k + 1, n)])
    arrays = [array(rng, size, kind, special=False) for size in (one, two)]
    return Draw("", arrays, lambda t, f, x, y: t.matmul(x, y))


def _addmm(rng: Rng) -> Draw:
    scales = {"alpha": pick(rng, [1, 0, 2, 0.5]), "beta": pick(rng, [1, 0, 2])}
    kind, added = pick(rng, NUMBERS), pick(rng, [(2, 4), (4,), (1,), (2, 1), ()])
    arrays = [array(rng, added, kind), *(array(rng, size, kind, special=False) for size in ((2, 3), (3, 4)))]
    return Draw(f"{scales}", arrays, lambda t, f, c, x, y: t.addmm(c, x, y, **scales))


def _product(name: str, sizes: tuple[tuple[int, ...], ...], rng: Rng) -> Draw:
    kind = pick(rng, ALL)
    arrays = [array(rng, (*size, 2) if rng.random() < 0.05 else size, kind, special=False) for size in sizes]
    return Draw("", arrays, lambda t, f, x, y: getattr(t, name)(x, y))


def _cast(rng: Rng) -> Draw:
    to = pick(rng, [*ALL, "uint8", "int8", "int16", "float16"])
    x = array(rng, shape(rng), pick(rng, ALL), special=False)
    return Draw(to, [x], lambda t, f, x: x.to(getattr(t, to)))


def _arange(rng: Rng) -> Draw:
    given = pick(rng, [0, 1, -2, 0.5, 2.5]), pick(rng, [0, 3, 5.0, -3, 7]), pick(rng, [1, 2, -1, 0.5, 0.3])
    return Draw(f"{given}", [], lambda t, f: t.arange(*given))


def _lerp(rng: Rng) -> Draw:
    size, kind, weight = shape(rng), pick(rng, FLOATS), pick(rng, [0.0, 0.3, 0.7, 1.0])
    return Draw(f"{weight}", [array(rng, size, kind) for _ in range(2)], lambda t, f, x, y: t.lerp(x, y, weight))


def _isclose(rng: Rng) -> Draw:
    size, kind, equal_nan = shape(rng), pick(rng, ALL), bool(rng.random() < 0.5)
    x = array(rng, size, kind)
    y = x if rng.random() < 0.5 else array(rng, size, pick(rng, ALL) if rng.random() < 0.1 else kind)
    return Draw(f"{equal_nan}", [x, y], lambda t, f, x, y: t.isclose(x, y, equal_nan=equal_nan))


def _one_hot(rng: Rng) -> Draw:
    classes = pick(rng, [-1, 4, 6])
    return Draw(
        f"{classes}", [rng.integers(0, 4, shape(rng, 1, 2, empty=False))], lambda t, f, x: f.one_hot(x, classes)
    )


def _of(draw: Callable[..., Draw], names: str) -> dict[str, Callable[[Rng], Draw]]:
    return {name: partial(draw, name) for name in names.split()}


CALLS: dict[str, Callable[[Rng], Draw]] = {
    **_of(_unary, UNARY),
    **_of(_binary, BINARY),
    **_of(_reduction, REDUCTIONS),
    **_of(_along, ALONG),
    **_of(_sort, "sort argsort"),
    **_of(_two_axes, "flatten transpose movedim"),
    **_of(_copies, "repeat tile"),
    **_of(_joined, "cat stack"),
    **_of(_cut, "split chunk"),
    **_of(_part, "select narrow"),
    **_of(_shifted, "roll repeat_interleave"),
    **_of(_diagonal, "tril triu diagonal diag"),
    **_of(_chosen, "gather index_select"),
    **_of(_scattered, "scatter scatter_add"),
    **_of(_masked, "masked_fill masked_select"),
    **_of(_activation, " ".join(ACTIVATIONS)),
    "mm": partial(_product, "mm", ((2, 3), (3, 4))),
    "bmm": partial(_product, "bmm", ((2, 3, 4), (2, 4, 1))),
    "mv": partial(_product, "mv", ((3, 4), (4,))),
    "dot": partial(_product, "dot", ((4,), (4,))),
    "outer": partial(_product, "outer", ((3,), (4,))),
    "addmm": _addmm,
    "arange": _arange,
    "cast": _cast,
    "clamp": _clamp,
    "index": _index,
    "indices": _indices,
    "isclose": _isclose,
    "lerp": _lerp,
    "matmul": _matmul,
    "one_hot": _one_hot,
    "operators": _operators,
    "permute": _permute,
    "reshape": _reshape,
    "topk": _topk,
    "unflatten": _unflatten,
    "where": _where,
}
