"""A run with the signature of the last one skips checks; a run with another signature must not."""

from __future__ import annotations

import numpy as np
import pytest

import treadle
from tests.models import small


@pytest.fixture(scope="module")
def session() -> treadle.Session:
    w = small.ModelWriter()
    for op in ("Neg", "Abs"):
        w.op(op, "x")
        w.nodes[-1].output[0] = op.lower()
    shape = ["n"]
    return treadle.Session(
        w.model({"x": (small.FLOAT, shape)}, {"neg": (small.FLOAT, shape), "abs": (small.FLOAT, shape)})
    )


@pytest.mark.parametrize("outputs", [None, ["neg"], ["abs"], ["abs", "neg"], ("neg",)])
def test_each_run_gives_its_own_outputs(session: treadle.Session, outputs: list[str] | None) -> None:
    """
    Repeats a run, then changes shapes, memory and outputs.
    """
    for size in (3, 3, 5):
        for x in (np.arange(size, dtype=np.float32) - 2, np.arange(3 * size, dtype=np.float32)[::3]):
            found = session.run({"x": x}, outputs)

            assert list(found) == list(outputs or ("neg", "abs"))
            wanted = {"neg": -x, "abs": np.abs(x)}
            assert all(np.array_equal(array, wanted[name]) for name, array in found.items())


def test_results_of_earlier_runs_keep_their_values(session: treadle.Session) -> None:
    """
    Each run returns memory of its own.
    """
    x = np.ones(4, np.float32)
    first = session.run({"x": x})["neg"]
    session.run({"x": 2 * x})

    assert np.array_equal(first, -x)
