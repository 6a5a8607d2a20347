"""Measuring the error of elementary functions in units in the last place."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.kernel_runner import run_graph
from treadle import dtypes
from treadle.graph.graph import Graph
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


def evaluate(op: str, operands: list[Array], target: Target) -> Array:
    """What the generated kernel of scalar op `op` gives for arrays of one dtype and shape."""
    graph = Graph()
    dtype = dtypes.from_numpy(operands[0].dtype)
    inputs = [graph.input(f"x{i}", dtype, array.shape) for i, array in enumerate(operands)]
    output = graph.value("y", dtype, operands[0].shape)
    graph.add(op, inputs, outputs=[output])
    graph.outputs = [output]
    return run_graph(graph, {f"x{i}": array for i, array in enumerate(operands)}, target=target)["y"]


def worst(got: Array, truth: Array) -> tuple[float, int]:
    """(the greatest error of `got` in ulps of the correctly rounded result, where), `truth` being wider.

    A NaN or an infinity in only one of them counts as an infinite error, save that a result which
    overflows within an ulp of the border counts as 1.
    """
    kind = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        rounded = truth.astype(got.dtype)
        finite = np.isfinite(rounded)
        ulp = np.spacing(np.where(finite, np.abs(rounded), kind.max)).astype(truth.dtype)
        error = np.abs(got.astype(truth.dtype) - truth) / ulp
        error = np.where(np.isnan(truth) & np.isnan(got), 0, error)
        error = np.where(np.isinf(rounded) & (got == rounded), 0, error)
        border = np.abs(truth) >= kind.max
        largest = np.abs(got) >= kind.max
        error = np.where(
            border & np.isfinite(truth) & largest & (got != rounded) & (np.sign(got) == np.sign(truth)), 1, error
        )
    error = np.where(np.isnan(error), np.inf, error)
    where = int(np.argmax(error))
    return float(error[where]), where


def assert_within(limit: float, op: str, operands: list[Array], truth: Array, target: Target) -> None:
    """The kernel of `op` errs by at most `limit` ulps anywhere."""
    got = evaluate(op, operands, target)
    error, where = worst(got, truth)
    point = ", ".join(repr(array[where]) for array in operands)
    assert error <= limit, f"{op}({point}) is {got[where]!r}, {error:.3f} ulps from {truth[where]!r}"
