"""Polynomials with integer coefficients: sums of integer multiples of products of atoms, in one canonical order.

An atom is any object with a `serial` number, `least` and `most`: bounds of its value, which may be infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Protocol, TypeVar


class Factor(Protocol):
    """What a product is made of."""

    @property
    def serial(self) -> int:
        """The number by which factors are ordered."""
        ...

    @property
    def least(self) -> float:
        """A lower bound of the value; may be -inf."""
        ...

    @property
    def most(self) -> float:
        """An upper bound of the value; may be inf."""
        ...


A = TypeVar("A", bound=Factor)
Product = tuple[A, ...]
"""Factors in the order of their serial numbers; () is the number 1."""

Terms = tuple[tuple[tuple[A, ...], int], ...]
"""(product, coefficient) pairs in canonical order, no coefficient 0. The last pair is the constant, if there is one."""

_HUGE = 1 << 200
"""Bounds beyond this count as infinite."""


def ordered(coefficients: Mapping[Product[A], int]) -> Terms[A]:
    """Returns the terms in canonical order: larger products first, then by their factors."""
    kept = [(product, number) for product, number in coefficients.items() if number]
    if len(kept) > 1:
        kept.sort(key=lambda term: (-len(term[0]), [factor.serial for factor in term[0]]))
    return tuple(kept)


def added(left: Terms[A], right: Terms[A], times: int = 1) -> Terms[A]:
    """Returns left + times * right."""
    if not left or not right:
        return left or scaled(right, times)
    sums = dict(left)
    for product, number in right:
        sums[product] = sums.get(product, 0) + times * number
    return ordered(sums)


def scaled(terms: Terms[A], times: int) -> Terms[A]:
    """Returns times * terms."""
    if times == 1:
        return terms
    return tuple((product, times * number) for product, number in terms) if times else ()


def multiplied(left: Terms[A], right: Terms[A]) -> Terms[A]:
    """Returns left * right."""
    if len(right) == 1 and not right[0][0]:
        return scaled(left, right[0][1])
    if len(left) == 1 and not left[0][0]:
        return scaled(right, left[0][1])
    sums: dict[Product[A], int] = {}
    for product, number in left:
        for other, times in right:
            joined = joined_product(product, other)
            sums[joined] = sums.get(joined, 0) + number * times
    return ordered(sums)


def joined_product(left: Product[A], right: Product[A]) -> Product[A]:
    """Returns the product of two products."""
    return tuple(sorted((*left, *right), key=lambda factor: factor.serial)) if left and right else left or right


def constant_of(terms: Terms[A]) -> int:
    """Returns the constant term."""
    return terms[-1][1] if terms and not terms[-1][0] else 0


def without_constant(terms: Terms[A]) -> Terms[A]:
    """Returns the terms but the constant one."""
    return terms[:-1] if terms and not terms[-1][0] else terms


def common_number(terms: Iterable[tuple[Product[A], int]]) -> int:
    """Returns the greatest common divisor of the coefficients; 0 without terms."""
    return math.gcd(*(number for _, number in terms))


def common_product(terms: Terms[A]) -> Product[A]:
    """Returns the largest product that divides every term."""
    if not terms or not terms[-1][0]:
        return ()
    shared = list(terms[0][0])
    for product, _ in terms[1:]:
        left = list(product)
        kept = []
        for factor in shared:
            if factor in left:
                left.remove(factor)
                kept.append(factor)
        shared = kept
    return tuple(shared)


def quotient_of_products(product: Product[A], divisor: Product[A]) -> Product[A] | None:
    """Returns product / divisor; None if the divisor does not divide it."""
    if not divisor:
        return product
    left = list(product)
    for factor in divisor:
        if factor not in left:
            return None
        left.remove(factor)
    return tuple(left)


def divided(terms: Terms[A], product: Product[A], number: int) -> Terms[A]:
    """Returns terms / (number * product), which divides every term."""
    result = []
    for each, coefficient in terms:
        quotient = quotient_of_products(each, product)
        assert quotient is not None, "not a common product"
        result.append((quotient, coefficient // number))
    return tuple(result)  # what all products share does not decide their order


def split(terms: Terms[A], divisor: Terms[A]) -> tuple[Terms[A], Terms[A]]:
    """Returns (quotient, remainder), terms = quotient * divisor + remainder, by exact multiples of the divisor's first
    term."""
    quotient: dict[Product[A], int] = {}
    rest = terms
    lead, times = divisor[0]
    while True:
        for product, number in rest:
            factor = quotient_of_products(product, lead)
            if factor is not None and number % times == 0 and factor not in quotient:
                quotient[factor] = number // times
                rest = added(rest, multiplied(divisor, ((factor, number // times),)), -1)
                break
        else:
            return ordered(quotient), rest


def bounds_of(terms: Terms[A]) -> tuple[float, float]:
    """Returns (lower, upper) bounds of the sum from those of the atoms."""
    shared = common_product(terms)
    if shared and len(terms) > 1:
        return _times(_bounds_of_product(shared), bounds_of(divided(terms, shared, 1)))
    least: float = 0
    most: float = 0
    for product, number in terms:
        low, high = _bounds_of_product(product)
        if (number < 0) != (low > high):  # bounds of what cannot be may be the wrong way round
            low, high = high, low
        least, most = least + _clamped(low * number), most + _clamped(high * number)
    return _clamped(least), _clamped(most)


def text_of(terms: Terms[A]) -> str:
    """Returns the text of a sum; "0" if it has no terms."""
    parts = []
    for product, number in terms:
        factors = [str(atom) for atom in product]
        if len(factors) > 1 or number != 1:
            factors = [f"({text})" if "//" in text else text for text in factors]
        size = [str(abs(number))] if abs(number) != 1 or not factors else []
        parts.append(("-" if number < 0 else "+", "*".join(size + factors)))
    text = " ".join(f"{sign} {part}" for sign, part in parts) or "0"
    return "-" + text.removeprefix("- ") if text.startswith("- ") else text.removeprefix("+ ")


def _bounds_of_product(product: Product[A]) -> tuple[float, float]:
    if not product:
        return 1, 1
    first, *others = product
    bounds = first.least, first.most
    for factor in others:
        bounds = _times(bounds, (factor.least, factor.most))
    return bounds


def _times(left: tuple[float, float], right: tuple[float, float]) -> tuple[float, float]:
    if 0 <= left[0] <= left[1] and 0 <= right[0] <= right[1]:
        low, high = (0 if 0 in (a, b) else a * b for a, b in zip(left, right, strict=True))
        return _clamped(low), _clamped(high)
    corners = [0 if 0 in (a, b) else a * b for a in left for b in right]
    return _clamped(min(corners)), _clamped(max(corners))


def _clamped(bound: float) -> float:
    return bound if -_HUGE < bound < _HUGE else math.copysign(math.inf, bound)
