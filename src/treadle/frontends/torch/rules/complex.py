"""Complex tensors as real and imaginary parts: the ops that programs apply between real tensors (RoPE, spectra)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Builder, Complex, ComplexType
from treadle.frontends.torch.rules import conv, create, elementwise, index, matmul, reduce, shape
from treadle.frontends.torch.rules.rule import Operand, Rule, promoted
from treadle.graph.value import Value

Part = Callable[[Complex], Value]


def view_as_complex(b: Builder, x: Value) -> Complex:
    """Returns x [.., 2] as complex numbers [..]."""
    if b.shape(x)[-1:] != (2,):
        raise Unsupported(f"view_as_complex takes a last axis of 2, got the shape {list(b.shape(x))}")
    return Complex(shape.select(b, x, -1, 0), shape.select(b, x, -1, 1))


def view_as_real(b: Builder, x: Complex) -> Value:
    """Returns x [..] as real and imaginary parts [.., 2]."""
    return shape.stack(b, [x.re, x.im], -1)


def polar(b: Builder, size: Value, angle: Value) -> Complex:
    """Returns size (cos angle + i sin angle)."""
    return Complex(b.add("mul", size, b.add("cos", angle)), b.add("mul", size, b.add("sin", angle)))


def complex_(b: Builder, re: Value, im: Value) -> Complex:  # noqa: ARG001 - every rule takes a builder
    """Returns re + i im."""
    return Complex(re, im)


def as_complex(b: Builder, x: Any, like: Value) -> Complex:
    """Returns a tensor or Python number as a complex one of the precision of `like`."""
    if isinstance(x, Complex):
        return x
    if isinstance(x, complex):
        return Complex(b.scalar(x.real, like.known_dtype), b.scalar(x.imag, like.known_dtype))
    value = b.cast(x, like.known_dtype) if isinstance(x, Value) else b.scalar(x, like.known_dtype)
    return Complex(value, b.full(0, like.known_dtype, b.shape(value)))


def _is_real(x: Any) -> bool:
    return not isinstance(x, Complex | complex)


def _precision(*operands: Any) -> Value:
    """Returns a part of the first complex operand, or the first tensor (a real one times `1j`)."""
    found = next((each.re for each in operands if isinstance(each, Complex)), None)
    return found or next(each for each in operands if isinstance(each, Value))


def _both(b: Builder, x: Any, y: Any) -> tuple[Complex, Complex]:
    like = _precision(x, y)
    return as_complex(b, x, like), as_complex(b, y, like)


def add(b: Builder, x: Any, y: Any, factor: Operand = 1) -> Complex:
    one, two = _both(b, x, y)
    return Complex(elementwise.add(b, one.re, two.re, factor), elementwise.add(b, one.im, two.im, factor))


def sub(b: Builder, x: Any, y: Any, factor: Operand = 1) -> Complex:
    one, two = _both(b, x, y)
    return Complex(elementwise.sub(b, one.re, two.re, factor), elementwise.sub(b, one.im, two.im, factor))


def rsub(b: Builder, x: Any, y: Any, factor: Operand = 1) -> Complex:
    return sub(b, y, x, factor)


def _product(multiply: Callable[[Value, Value], Value], b: Builder, one: Complex, two: Complex) -> Complex:
    """Returns (a + ib)(c + id) = (ac - bd) + i(ad + bc), for any bilinear `multiply`."""
    re = b.add("sub", multiply(one.re, two.re), multiply(one.im, two.im))
    return Complex(re, b.add("add", multiply(one.re, two.im), multiply(one.im, two.re)))


def mul(b: Builder, x: Any, y: Any) -> Complex:
    for z, factor in ((x, y), (y, x)):
        if isinstance(z, Complex) and _is_real(factor):
            return Complex(elementwise.mul(b, z.re, factor), elementwise.mul(b, z.im, factor))
    return _product(lambda u, v: b.add("mul", u, v), b, *_both(b, x, y))


def div(b: Builder, x: Any, y: Any) -> Complex:
    """Returns x / y = x conj(y) / |y|^2."""
    if isinstance(x, Complex) and _is_real(y):
        return Complex(elementwise.div(b, x.re, y), elementwise.div(b, x.im, y))
    one, two = _both(b, x, y)
    size = absolute(b, two)
    unit = Complex(b.add("div", two.re, size), b.add("neg", b.add("div", two.im, size)))
    turned = mul(b, one, unit)
    return Complex(b.add("div", turned.re, size), b.add("div", turned.im, size))


def matmul_(b: Builder, x: Any, y: Any) -> Complex:
    return _product(lambda u, v: matmul.matmul(b, u, v), b, *_both(b, x, y))


def einsum(b: Builder, equation: str, operands: Sequence[Any], path: object = None) -> Complex:  # noqa: ARG001
    """Returns the einsum of one or two operands. Raises Unsupported for more."""
    like = _precision(*operands)
    one, *rest = (as_complex(b, each, like) for each in operands)
    if not rest:
        return Complex(*(b.add("einsum", part, equation=equation) for part in (one.re, one.im)))
    if len(rest) > 1:
        raise Unsupported("an einsum of more than two complex tensors; write it as two")
    return _product(lambda u, v: b.add("einsum", u, v, equation=equation), b, one, rest[0])


def hypot(b: Builder, x: Operand, y: Operand) -> Value:
    """Returns sqrt(x^2 + y^2) without overflow or underflow: the larger magnitude times sqrt(1 + ratio^2).

    Infinite if an operand is infinite, even if the other is NaN, as C's hypot.
    """
    one, two = (b.add("abs", each) for each in promoted(b, x, y, floating=True))
    large, small = b.add("max", one, two), b.add("min", one, two)
    dtype = large.known_dtype
    infinite = b.add("or", b.add("isinf", one), b.add("isinf", two))
    ratio = b.add("div", small, large)
    scaled = b.add("mul", large, b.add("sqrt", b.add("add", b.add("mul", ratio, ratio), b.scalar(1, dtype))))
    found = b.add("where", b.add("eq", large, b.scalar(0, dtype)), large, scaled)
    return b.add("where", infinite, b.scalar(math.inf, dtype), found)


def absolute(b: Builder, x: Complex) -> Value:
    return hypot(b, x.re, x.im)


def angle(b: Builder, x: Complex) -> Value:
    return elementwise.atan2(b, x.im, x.re)


def real(b: Builder, x: Complex) -> Value:  # noqa: ARG001 - every rule takes a builder
    return x.re


def imag(b: Builder, x: Complex) -> Value:  # noqa: ARG001 - every rule takes a builder
    return x.im


def conj(b: Builder, x: Complex) -> Complex:
    return Complex(x.re, b.add("neg", x.im))


def exp(b: Builder, x: Complex) -> Complex:
    return polar(b, b.add("exp", x.re), x.im)


def power(b: Builder, x: Complex, exponent: Any) -> Complex:
    """Returns x to a whole power from 1 to 8. Raises Unsupported for others."""
    if not isinstance(exponent, int | float) or exponent not in range(1, 9):
        raise Unsupported(f"a complex tensor to the power {exponent!r}; treadle multiplies up to 8 times")
    found = x
    for _ in range(int(exponent) - 1):
        found = mul(b, found, x)
    return found


def on_parts(rule: Rule) -> Rule:
    """Returns a rule that applies `rule` to real and imaginary parts: for ops that move or add elements."""

    def of(part: Part, argument: Any) -> Any:
        if isinstance(argument, Complex):
            return part(argument)
        if isinstance(argument, ComplexType):
            return argument.part
        return [of(part, each) for each in argument] if isinstance(argument, list) else argument

    def both(b: Builder, *args: Any) -> Any:
        re, im = (rule(b, *(of(part, each) for each in args)) for part in (lambda z: z.re, lambda z: z.im))
        return [Complex(*pair) for pair in zip(re, im, strict=True)] if isinstance(re, list) else Complex(re, im)

    return both


def joined(rule: Rule) -> Rule:
    """Returns the rule of cat or stack, which makes real operands complex."""

    def both(b: Builder, operands: Sequence[Any], *args: Any) -> Any:
        like = _precision(*operands)
        return on_parts(rule)(b, [as_complex(b, each, like) for each in operands], *args)

    return both


def filled(number: float) -> Rule:
    """Returns the rule of zeros, ones and the like, for complex dtypes."""

    def rule(b: Builder, like: Any, *args: Any) -> Complex:
        sizes = like if isinstance(like, list | tuple) else b.shape(like)
        kind = next((each for each in args if isinstance(each, ComplexType)), None)
        dtype = like.re.known_dtype if kind is None else kind.part
        return Complex(b.full(number, dtype, tuple(sizes)), b.full(0, dtype, tuple(sizes)))

    return rule


def to_complex(b: Builder, x: Any, *args: Any) -> Any:
    """Converts x to a complex dtype.

    Raises Unsupported for a conversion to a real dtype, which drops the imaginary part.
    """
    kind = next((each for each in args if isinstance(each, ComplexType)), None)
    if kind is None:
        if isinstance(x, Complex) and not any(hasattr(each, "kind") for each in args):
            return x
        raise Unsupported("it makes real numbers of complex ones; take .real or torch.view_as_real")
    if isinstance(x, Complex):
        return Complex(b.cast(x.re, kind.part), b.cast(x.im, kind.part))
    re = b.cast(x, kind.part)
    return Complex(re, b.full(0, kind.part, b.shape(re)))


MOST_BINS = 4096
"""The largest size of a Fourier transform, which is a product with sines and cosines."""


def stft(
    b: Builder,
    x: Value,
    n_fft: int,
    hop: int | None = None,
    win_length: int | None = None,
    window: Value | None = None,
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    *_: Any,
) -> Any:
    """Returns the short-time Fourier transform of x [L] or [N, L] -> [.., bins, frames].

    It is a convolution with windowed waves. `torch.stft` has padded x already.
    """
    width, step = win_length or n_fft, hop or n_fft // 4
    if n_fft > MOST_BINS:
        raise Unsupported(f"a Fourier transform of {n_fft} points; treadle takes up to {MOST_BINS}")
    dtype = x.known_dtype
    bins = n_fft if onesided is False else n_fft // 2 + 1
    turns = np.outer(np.arange(bins), np.arange(n_fft)) % n_fft * (2 * math.pi / n_fft)
    waves = np.concatenate([np.cos(turns), -np.sin(turns)]) / (math.sqrt(n_fft) if normalized else 1)
    kernel = b.constant(waves.astype(dtype.numpy)[:, None])
    if window is None and width < n_fft:
        window = b.full(1, dtype, (width,))
    if window is not None:
        before = (n_fft - width) // 2
        spread = shape.constant_pad(b, b.cast(window, dtype), [before, n_fft - width - before])
        kernel = b.add("mul", kernel, spread)
    batch = x if b.rank(x) == 2 else b.reshape(x, [1, -1])
    found = conv.conv(b, b.reshape(batch, [b.shape(batch)[0], 1, -1]), kernel, None, step)
    found = found if b.rank(x) == 2 else b.reshape(found, b.shape(found)[1:])
    result = Complex(*(shape.narrow(b, found, -2, first, bins) for first in (0, bins)))
    return result if return_complex else view_as_real(b, result)


_MOVING: dict[str, Rule] = {
    "_unsafe_view": shape.view, "alias": shape.identity, "broadcast_to": shape.expand, "chunk": shape.chunk,
    "clone": shape.identity, "contiguous": shape.identity, "cumsum": reduce.cumulative("cumsum"),
    "detach": shape.identity, "expand": shape.expand, "expand_as": shape.expand_as, "flatten": shape.flatten,
    "flip": shape.flip,
    "gather": index.gather, "index": index.index, "index_put": index.index_put, "index_select": index.index_select,
    "lift_fresh": shape.identity, "lift_fresh_copy": shape.identity, "mT": shape.matrix_t, "mean": reduce.mean_of_all,
    "mean.dim": reduce.mean, "movedim": shape.permute, "narrow": shape.narrow, "neg": elementwise.same("neg"),
    "permute": shape.permute, "repeat": shape.repeat, "reshape": shape.view, "resolve_conj": shape.identity,
    "resolve_neg": shape.identity, "roll": shape.roll, "select": shape.select, "select_scatter": index.select_scatter,
    "slice": shape.slice_, "slice_scatter": index.slice_scatter, "split": shape.split,
    "split_with_sizes": shape.split_with_sizes, "squeeze": shape.squeeze, "sum": reduce.sums("reduce_sum"),
    "sum.dim_IntList": reduce.sums_over("reduce_sum"), "swapaxes": shape.transpose, "t": shape.t,
    "transpose": shape.transpose, "unbind": shape.unbind, "unflatten": shape.unflatten, "unsqueeze": shape.unsqueeze,
    "view": shape.view, "view_as": shape.view_as, "where.self": elementwise.where,
}  # fmt: skip

RULES: dict[str, Rule] = {
    **{name: on_parts(rule) for name, rule in _MOVING.items()},
    "_conj": conj,
    "_to_copy": to_complex,
    "abs": absolute,
    "add": add,
    "angle": angle,
    "bmm": matmul_,
    "cat": joined(shape.cat),
    "conj": conj,
    "conj_physical": conj,
    "copy": on_parts(index.copy),
    "div": div,
    "einsum": einsum,
    "exp": exp,
    "full_like": on_parts(create.full_like),
    "imag": imag,
    "linalg_vector_norm": lambda b, x, *args: reduce.norm(b, absolute(b, x), *args),
    "matmul": matmul_,
    "mm": matmul_,
    "mul": mul,
    "new_zeros": lambda b, x, sizes, *args: filled(0)(b, sizes, ComplexType(x.re.known_dtype), *args),
    "ones": filled(1),
    "ones_like": filled(1),
    "pow": power,
    "real": real,
    "rsub": rsub,
    "stack": joined(shape.stack),
    "sub": sub,
    "to.device": to_complex,
    "to.dtype": to_complex,
    "to.dtype_layout": to_complex,
    "to.prim_dtype": to_complex,
    "true_divide": div,
    "view_as_real": view_as_real,
    "zeros": filled(0),
    "zeros_like": filled(0),
}
"""ATen op -> rule for complex operands, or for a complex dtype."""
