"""Blocks that are left without having been entered."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import treadle
from treadle.errors import TreadleError

BLOCKS: dict[str, Callable[[Path], AbstractContextManager[object]]] = {
    "trace": lambda folder: treadle.trace(folder / "t.json"),
    "limit": lambda _: treadle.threads.limit(intra_op=1),
    "python_ops": lambda _: treadle.python_ops("thread"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_leaving_a_block_that_was_not_entered_raises_treadle_error(name: str, tmp_path: Path) -> None:
    """
    The error says that the block was not entered.
    """
    with pytest.raises(TreadleError, match="this block was not entered"):
        BLOCKS[name](tmp_path).__exit__(None, None, None)


def test_leaving_a_block_twice_raises_treadle_error() -> None:
    """
    The second time it is not entered any more.
    """
    block = treadle.threads.limit(intra_op=1)
    with block:
        pass

    with pytest.raises(TreadleError, match="this block was not entered"):
        block.__exit__(None, None, None)
