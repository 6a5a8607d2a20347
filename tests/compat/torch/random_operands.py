"""Random operands and arguments of PyTorch's functions; some of them are invalid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

Array = np.ndarray[Any, Any]
Rng = np.random.Generator
T = TypeVar("T")

FLOATS = ("float32", "float64")
INTEGERS = ("int32", "int64")
NUMBERS = (*FLOATS, *INTEGERS)
ALL = (*NUMBERS, "bool")
_SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


@dataclass(frozen=True)
class Draw:
    """A call: `run(torch, torch.nn.functional, *tensors)` of PyTorch or of treadle, on tensors of `arrays`."""

    description: str
    arrays: Sequence[Array]
    run: Callable[..., Any]


def pick(rng: Rng, choices: Sequence[T]) -> T:
    return choices[int(rng.integers(len(choices)))]


def shape(rng: Rng, least: int = 0, most: int = 4, *, empty: bool = True) -> tuple[int, ...]:
    """Returns a shape of `least` to `most` axes; sometimes one of them is empty."""
    axes = int(rng.integers(least, most + 1))
    return tuple(0 if empty and rng.random() < 0.06 else int(rng.integers(1, 5)) for _ in range(axes))


def narrower(rng: Rng, wide: tuple[int, ...]) -> tuple[int, ...]:
    """Returns a shape that broadcasts to `wide`."""
    one = tuple(1 if rng.random() < 0.3 else size for size in wide)
    return one[int(rng.integers(0, len(one) + 1)) :] if rng.random() < 0.5 else one


def array(rng: Rng, size: tuple[int, ...], kind: str, *, special: bool = True) -> Array:
    """Returns elements of that dtype; with `special`, some of them are infinite or NaN."""
    if kind == "bool":
        return np.asarray(rng.random(size) < 0.5)
    if kind in INTEGERS:
        return np.asarray(rng.integers(-9, 10, size)).astype(kind)
    found = np.asarray(4 * rng.standard_normal(size))
    if special and rng.random() < 0.4:
        found = np.where(rng.random(size) < 0.3, rng.choice(_SPECIAL, size), found)
    return found.astype(kind)


def axis(rng: Rng, rank: int) -> int:
    """Returns an axis, counted from either end; sometimes one that does not exist."""
    most = max(rank, 1)
    return int(rng.integers(-most - 2, most + 2)) if rng.random() < 0.05 else int(rng.integers(-most, most))


def some_axes(rng: Rng, rank: int) -> Any:
    if not rank:
        return pick(rng, [0, -1, (), (0,)])
    count = int(rng.integers(1, rank + 1))
    return tuple(int(at) - rank * (rng.random() < 0.5) for at in rng.permutation(rank)[:count])
