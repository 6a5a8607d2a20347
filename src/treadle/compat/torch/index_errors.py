"""Errors for indices outside an axis, as PyTorch programs expect them."""

from __future__ import annotations

from treadle.errors import KernelError


class OutOfRangeError(KernelError, IndexError):
    """An index is outside the axis that it selects from."""


def as_index_error(error: KernelError) -> KernelError:
    """Returns `error`, as an OutOfRangeError if its message is about an index."""
    return OutOfRangeError(str(error)) if "out of range" in str(error) else error
