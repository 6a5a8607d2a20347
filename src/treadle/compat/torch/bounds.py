"""Indices outside an axis, as PyTorch's programs know them."""

from __future__ import annotations

from treadle.errors import KernelError


class OutOfRangeError(KernelError, IndexError):
    """An index is outside the axis it selects from."""


def told(error: KernelError) -> KernelError:
    """`error`, as an OutOfRangeError if it speaks of an index."""
    return OutOfRangeError(str(error)) if "out of range" in str(error) else error
