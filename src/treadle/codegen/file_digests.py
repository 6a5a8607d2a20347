"""Stores the hashes of model files on disk, so that a large file is not read at every load."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from treadle.codegen.cache import open_cache


def load_digest(stamp: Sequence[int]) -> str | None:
    """Returns the stored hash of the file whose status is `stamp`; None if there is none."""
    with open_cache() as cache:
        digest = None if cache is None else cache.load(_key(stamp))
    return None if digest is None else digest.decode()


def store_digest(stamp: Sequence[int], digest: str) -> None:
    """Stores `digest` for the file whose status is `stamp`."""
    with open_cache() as cache:
        if cache is not None:
            cache.store(_key(stamp), digest.encode())


def _key(stamp: Sequence[int]) -> str:
    return hashlib.sha256(f"file\n{tuple(stamp)}".encode()).hexdigest()
