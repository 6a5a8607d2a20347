"""Warnings that PyTorch's exporter raises about its own use of PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_exporter_warnings() -> Iterator[None]:
    """Suppresses the exporter's warnings in the block: the user can do nothing about them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", message="The tensor attributes .* were assigned during export")
        yield
