"""Stores the hashes of model files on disk, so that a large file is not read at every load.

Also stores which external data files a model has, so that they are known before the model is parsed.
"""

from __future__ import annotations

import hashlib
import json
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


def load_external(digest: str) -> list[str]:
    """Returns the stored external data files of the model whose hash is `digest`; an empty list if none are stored."""
    with open_cache() as cache:
        content = None if cache is None else cache.load(_external_key(digest))
    return [] if content is None else json.loads(content)


def store_external(digest: str, files: Sequence[str]) -> None:
    """Stores the external data `files`, relative to the model's folder, of the model whose hash is `digest`."""
    with open_cache() as cache:
        if cache is not None:
            cache.store(_external_key(digest), json.dumps(list(files)).encode())


def _external_key(digest: str) -> str:
    return hashlib.sha256(f"external\n{digest}".encode()).hexdigest()


def _key(stamp: Sequence[int]) -> str:
    return hashlib.sha256(f"file\n{tuple(stamp)}".encode()).hexdigest()
