"""Pooling over windows, adaptive pooling, and resizing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.torch.build import Builder
from treadle.frontends.torch.rules.max_positions import max_positions
from treadle.frontends.torch.rules.rule import Rule, Sizes, batched_like, per_axis, with_batch
from treadle.graph.dim import equals, floor_int, is_expression
from treadle.graph.shape import elements, is_open
from treadle.graph.value import Value


def max_pool(rank: int) -> Rule:
    """Returns the rule of max_pool1d, 2d, 3d."""

    def max_rule(
        b: Builder,
        input: Value,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> Value:
        if _is_whole(b, input, rank, kernel_size, padding, dilation):
            return _whole(b, "reduce_max", input, rank)
        window = _window(rank, kernel_size, stride, padding, dilation)
        return batched_like(b, b.add("max_pool", with_batch(b, input, rank), **window, ceil_mode=ceil_mode), input)

    return max_rule


def max_pool_with_indices(rank: int) -> Rule:
    """Returns the rule of pools that also return indices; reading those of a window of open sizes is refused."""
    pool = max_pool(rank)

    def rule(
        b: Builder,
        input: Value,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
    ) -> list[Value | None]:
        pooled = pool(b, input, kernel_size, stride, padding, dilation, ceil_mode)
        if is_open(per_axis(kernel_size, rank)):
            return [pooled, None]
        window = _window(rank, kernel_size, stride, padding, dilation)
        how = window["kernel"], window["strides"], window["pads"][:rank], window["dilations"]
        return [pooled, max_positions(b, input, pooled, *how)]

    return rule


def avg_pool(rank: int) -> Rule:
    """Returns the rule of avg_pool1d, 2d, 3d."""

    def avg_rule(
        b: Builder,
        input: Value,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        padding: Sizes = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Value:
        if divisor_override is not None:
            raise Unsupported("it overrides the divisor; multiply the result instead")
        if _is_whole(b, input, rank, kernel_size, padding):
            return _whole(b, "reduce_mean", input, rank)
        window = _window(rank, kernel_size, stride, padding)
        how = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
        return batched_like(b, b.add("avg_pool", with_batch(b, input, rank), **window, **how), input)

    return avg_rule


def _window(
    rank: int, kernel_size: Sizes, stride: Sizes | None, padding: Sizes, dilation: Sizes = 1
) -> dict[str, tuple[int, ...]]:
    """Returns the attributes of a pool that say where its windows lie; without a stride they lie side by side."""
    kernel, pads = per_axis(kernel_size, rank), per_axis(padding, rank)
    for pad, size in zip(pads, kernel, strict=True):
        if not 0 <= pad <= size // 2:
            raise Fault(f"padding must be from 0 to half of the kernel size, got padding {pad} and kernel size {size}")
    return {
        "kernel": kernel,
        "strides": per_axis(stride, rank) if stride else kernel,
        "pads": pads * 2,
        "dilations": per_axis(dilation, rank),
    }


def _is_whole(b: Builder, x: Value, rank: int, kernel: Sizes, padding: Sizes, dilation: Sizes = 1) -> bool:
    """Returns whether the windows are open sizes, those of the whole input. Raises Unsupported for other open ones."""
    sizes = per_axis(kernel, rank)
    if not is_open(sizes):
        return False
    plain = not any(per_axis(padding, rank)) and all(number == 1 for number in per_axis(dilation, rank))
    if plain and all(map(equals, sizes, b.shape(x)[-rank:])):
        return True
    raise Unsupported("the sizes of its windows are known only when the graph runs, and are not those of its input")


def _whole(b: Builder, op: str, x: Value, rank: int) -> Value:
    """Returns `x` reduced by `op` along its last `rank` axes."""
    axes = range(b.rank(x) - rank, b.rank(x))
    return b.reduce(op, x, tuple(axes), keepdims=True)


def adaptive(kind: str, rank: int) -> Rule:
    """Returns the rule of adaptive pools.

    Pooling to size 1 is a reduction, and to sizes that divide the input a pool. To others, means are products with
    averaging weights, and maxima, like all pools of open sizes, are reductions of slices.
    """
    op = "reduce_mean" if kind == "avg" else "reduce_max"

    def rule(b: Builder, input: Value, output_size: int | Sequence[int | None] | None) -> Value:
        shape = b.shape(input)
        sizes = shape[len(shape) - rank :]
        given = (output_size,) * rank if output_size is None or isinstance(output_size, int) else tuple(output_size)
        outputs = [size if out is None else out for size, out in zip(sizes, given, strict=True)]
        if all(out == 1 for out in outputs):
            return _whole(b, op, input, rank)
        kept = [equals(out, size) for size, out in zip(sizes, outputs, strict=True)]
        if all(kept):
            return input
        if any(is_expression(out) and not same for out, same in zip(outputs, kept, strict=True)):
            raise Unsupported("it pools to a size that is known only when the graph runs, other than that of its input")
        kernel = _equal_windows(b, input, rank, output_size)
        if kernel is not None:
            return max_pool(rank)(b, input, kernel) if kind == "max" else avg_pool(rank)(b, input, kernel)  # type: ignore[no-any-return]
        x = input
        for axis, (size, out) in enumerate(zip(sizes, outputs, strict=True), len(shape) - rank):
            if kept[axis - len(shape)]:
                continue
            by_slices = kind == "max" or is_expression(size)
            x = _reduced_windows(b, op, x, axis, out) if by_slices else _means(b, x, axis, size, out)
        return x

    return rule


def _bounds(size: int, out: int) -> list[tuple[int, int]]:
    """Returns the begins and ends of the windows of an adaptive pool."""
    return [(index * size // out, -(-(index + 1) * size // out)) for index in range(out)]


def _means(b: Builder, x: Value, axis: int, size: int, out: int) -> Value:
    """Returns the means over the windows along `axis`, as a product."""
    weights = np.zeros((size, out))
    for index, (begin, end) in enumerate(_bounds(size, out)):
        weights[begin:end, index] = 1 / (end - begin)
    last = b.rank(x) - 1
    perm = [*(other for other in range(last + 1) if other != axis), axis]
    product = b.matmul(b.transpose(x, perm), b.constant(weights.astype(x.known_dtype.numpy)))
    return b.transpose(product, [*range(axis), last, *range(axis, last)])


def _reduced_windows(b: Builder, op: str, x: Value, axis: int, out: int) -> Value:
    """Returns the windows along `axis`, each reduced by `op`."""
    bounds = _bounds(b.shape(x)[axis], out)
    parts = [b.reduce(op, b.slice(x, axis, *each), (axis,), keepdims=True) for each in bounds]
    return b.add("concat", *parts, axis=axis)


def adaptive_max_with_indices(rank: int) -> Rule:
    """Returns the rule of adaptive pools that also return indices; reading those is refused where windows differ."""
    pool = adaptive("max", rank)

    def rule(b: Builder, x: Value, output_size: int | Sequence[int | None]) -> list[Value | None]:
        kernel = _equal_windows(b, x, rank, output_size)
        if kernel is not None:
            found: list[Value | None] = max_pool_with_indices(rank)(b, x, kernel)
            return found
        return [pool(b, x, output_size), None]

    return rule


def _equal_windows(
    b: Builder, x: Value, rank: int, output_size: int | Sequence[int | None] | None
) -> tuple[int, ...] | None:
    """Returns the windows of an adaptive pool whose output sizes divide known sizes of the input; None for others."""
    sizes = b.shape(x)[-rank:]
    given = (output_size,) * rank if output_size is None or isinstance(output_size, int) else tuple(output_size)
    outputs = [size if out is None else out for size, out in zip(sizes, given, strict=True)]
    if is_open(sizes) or is_open(tuple(outputs)):
        return None
    if not all(out and size % out == 0 for size, out in zip(sizes, outputs, strict=True)):
        return None
    return tuple(size // out for size, out in zip(sizes, outputs, strict=True))


def max_unpool(rank: int) -> Rule:
    """Returns the rule of max_unpool2d and 3d: zeros, and the elements of x where the indices of their planes say."""

    def rule(b: Builder, x: Value, indices: Value, output_size: Sequence[int], *_: object) -> Value:
        outer = list(b.shape(x))[: b.rank(x) - rank]
        planes = b.full(0, x.known_dtype, (*outer, elements(output_size)))
        flat = [b.reshape(each, [*outer, elements(b.shape(x)[-rank:])]) for each in (indices, x)]
        found = b.add("scatter_elements", planes, *flat, axis=len(outer), reduction="none")
        return b.reshape(found, [*outer, *output_size])

    return rule


def upsample(mode: str, *, corners: bool) -> Rule:
    """Returns the rule of upsample_*.

    Its arguments are (x, output_size, [align_corners], scales...), or for `.vec` (.., scale_factors).
    """

    def rule(b: Builder, x: Value, size: Sequence[int] | None, *rest: object) -> Value:
        align = bool(rest[0]) if corners else False
        scales = _factors(rest[1:] if corners else rest)
        shape = b.shape(x)
        rank = len(shape) - 2
        if size is None:
            if scales is None:
                raise Fault("either the output's size or scale factors must be given")
            size = [_scaled(dim, factor) for dim, factor in zip(shape[2:], scales, strict=True)]
        given = scales is not None and len(scales) == rank and not align
        factors = np.asarray([1, 1, *scales], np.float32) if given and scales is not None else None
        exact = given and all(equals(_scaled(d, f), s) for d, f, s in zip(shape[2:], scales or (), size, strict=True))
        return b.add(
            "resize",
            x,
            None,
            b.constant(factors) if exact and factors is not None else None,
            None if exact else b.ints([*shape[:2], *size]),
            mode=mode,
            coordinate_mode="asymmetric" if mode == "nearest" else "align_corners" if align else _HALF[mode],
            nearest_mode="floor",
        )

    return rule


def _scaled(size: int, factor: float) -> int:
    return size * int(factor) if factor.is_integer() else floor_int(size * factor)


_HALF = {"linear": "half_pixel", "cubic": "half_pixel"}


def _factors(given: Sequence[object]) -> list[float] | None:
    """Returns scale factors given as one list or as a number per axis."""
    if len(given) == 1 and isinstance(given[0], list | tuple):
        return [float(factor) for factor in given[0]]
    found = [factor for factor in given if isinstance(factor, int | float)]
    return [float(factor) for factor in found] if found and len(found) == len(given) else None
