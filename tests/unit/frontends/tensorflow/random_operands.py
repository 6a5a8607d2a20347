"""Random operands, attributes and shapes of nodes, some of which are invalid."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Rng = np.random.Generator


@dataclass(frozen=True)
class Draw:
    """A node: `operands` (arrays are fed; `fixed` says which of them are constants), attributes, and how exact it is.

    `ulps` is the error that is allowed in units in the last place of the result, or of its largest element if `scaled`.
    """

    op: str
    operands: list[Array]
    attrs: dict[str, Any] = field(default_factory=dict)
    fixed: tuple[int, ...] = ()
    ulps: float = 16
    scaled: bool = False


def shape(rng: Rng, least: int = 0, most: int = 4, longest: int = 5) -> tuple[int, ...]:
    """A shape of `least` to `most` axes; now and then with an axis of size 0."""
    found = rng.integers(1, longest + 1, rng.integers(least, most + 1))
    if found.size and rng.random() < 0.08:
        found[rng.integers(found.size)] = 0
    return tuple(found.tolist())


def broadcast(rng: Rng, whole: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to `whole`, or now and then nearly."""
    kept = [1 if rng.random() < 0.3 else size for size in whole][int(rng.integers(0, len(whole) + 1)) :]
    if kept and rng.random() < 0.1:
        kept[rng.integers(len(kept))] += 1
    return tuple(kept) if rng.random() < 0.6 else whole


def array(rng: Rng, dims: tuple[int, ...], kind: Any = np.float32, low: int = -9, high: int = 9) -> Array:
    kind = np.dtype(kind)
    if kind.kind == "b":
        return rng.random(dims) < 0.5
    if kind.kind in "iu":
        return rng.integers(max(low, 0) if kind.kind == "u" else low, high + 1, dims).astype(kind)
    found = np.asarray(rng.standard_normal(dims) * 2)
    return found.astype(kind)


def special(rng: Rng, values: Array) -> Array:
    """`values`, now and then with zeros, infinities, NaN and large numbers among them."""
    if values.dtype.kind != "f" or rng.random() < 0.6 or not values.size:
        return values
    flat = values.reshape(-1).copy()
    flat[rng.integers(flat.size)] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 88.0, -104.0, 0.5, 2.5, 1e-30])
    return flat.reshape(values.shape)


def whole(rng: Rng, low: int, high: int) -> int:
    return int(rng.integers(low, high + 1))


def axis(rng: Rng, rank: int) -> int:
    """An axis from either end, now and then out of range."""
    return whole(rng, -rank, max(rank - 1, 0)) if rng.random() < 0.93 else int(rng.choice([rank, -rank - 1, 7]))


def index(numbers: Any, kind: Any = np.int32) -> Array:
    return np.asarray(numbers, kind)
