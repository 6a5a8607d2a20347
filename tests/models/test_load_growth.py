"""Loads of graphs of many ops: the work an op does not grow with their number."""

import os
import sys
import types

import pytest
from benches.loading.graphs import GRAPHS

import treadle


def _calls(model: bytes) -> int:
    """The calls of Python functions in a load."""
    count = 0

    def profile(frame: types.FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(profile)
    try:
        treadle.Session(model)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("name", GRAPHS)
def test_loads_grow_linearly(name, tmp_path, monkeypatch):
    """
    From 250 to 500 ops a load takes about as many calls for each as from 125 to 250.

    Each number of ops has some kernels of its own. If calls grew with the square, there would be twice as many.
    """
    monkeypatch.setenv("TREADLE_OUT_OF_PROCESS", "off")
    counts = []
    for number, ops in enumerate((125, 125, 250, 500)):
        monkeypatch.setenv("TREADLE_CACHE", os.fspath(tmp_path / str(number)))
        counts.append(_calls(GRAPHS[name](ops)))
    _, few, more, most = counts
    assert (most - more) / 250 <= 1.5 * (more - few) / 125
