"""Hashes of model files kept on disk, so that a large file is read once and not at every load."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from treadle.codegen.cache import open_cache


def find_digest(stamp: Sequence[int]) -> str | None:
    """The hash kept for the file whose status is `stamp`; None if there is none."""
    with open_cache() as cache:
        kept = None if cache is None else cache.load(_key(stamp))
    return None if kept is None else kept.decode()


def keep_digest(stamp: Sequence[int], digest: str) -> None:
    """Keep `digest` for the file whose status is `stamp`."""
    with open_cache() as cache:
        if cache is not None:
            cache.store(_key(stamp), digest.encode())


def _key(stamp: Sequence[int]) -> str:
    return hashlib.sha256(f"file\n{tuple(stamp)}".encode()).hexdigest()
