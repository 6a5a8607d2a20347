"""Shapes under PyTorch's name."""

from __future__ import annotations

import math

from treadle.compat.torch.state import current


class Size(tuple[int, ...]):
    """A shape: a tuple of ints, one for each axis."""

    __slots__ = ()

    def numel(self) -> int:
        """Returns the number of elements of a tensor of this shape."""
        return math.prod(self)

    def __eq__(self, other: object) -> bool:
        """Compares as a tuple; in scripts, where shapes are lists, also with a list."""
        return super().__eq__(tuple(other) if isinstance(other, list) and current() is not None else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"
