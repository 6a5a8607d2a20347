"""Functions with all their digits where exp(x) - 1, log(1 + x) and 1 - erf(x) lose every one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ulps import worst
from treadle import _native, dtypes
from treadle.driver import Options, compile_specialized
from treadle.graph.graph import Graph
from treadle.ops.evaluate import evaluate
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]

TEAMS = [_native.Team(f"precise{intra}{inter}", intra, inter) for intra, inter in ((1, 1), (4, 2))]

TRUTH: dict[str, Callable[[Array], Array]] = {
    "expm1": np.expm1, "log1p": np.log1p, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erfc": np.vectorize(math.erfc, otypes=[float]),
}  # fmt: skip
LIMITS = {"expm1": 2, "log1p": 2}
"""In ulps; 4 for all others. NumPy's f64, which is the truth of f64 too, may itself be off by one."""


def _points(op: str, dtype: type) -> Array:
    """Both zeros, denormals, the poles and what is beyond them, infinities, NaN, and 60,000 numbers of all sizes."""
    kind = np.finfo(dtype)
    rng = np.random.default_rng(0)
    sizes = np.exp(rng.uniform(np.log(float(kind.tiny)), np.log(float(kind.max)) * 0.99, 30_000))
    near = np.exp(rng.uniform(-30, 3, 30_000))
    edges = [0.0, -0.0, 1.0, -1.0, -1.5, 1.5, np.inf, -np.inf, np.nan, kind.max, kind.min, kind.tiny / 8, 1e-10, -1e-10]
    x = np.concatenate([edges, sizes * rng.choice([-1, 1], 30_000), near * rng.choice([-1, 1], 30_000)])
    return (1 + np.abs(x) if op == "acosh" else x).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("op", TRUTH)
def test_small_numbers_keep_their_digits(op: str, dtype: type, target: Target) -> None:
    """
    Reference and kernels are within a few ulps of NumPy's f64 over the whole range, with the sign of zero kept, and the
    kernels' bits are the same on one thread and on several.
    """
    x = _points(op, dtype)
    graph = Graph()
    place = graph.input("x", dtypes.from_numpy(x.dtype), x.shape)
    y = graph.value("y", place.dtype, x.shape)
    graph.add(op, [place], outputs=[y])
    graph.outputs = [y]
    with np.errstate(all="ignore"):
        truth = TRUTH[op](x.astype(np.float64))
        reference = evaluate(graph, {"x": x})["y"]
    runnable = compile_specialized(graph, Options(target))
    on_one, on_several = (runnable.run([x], team)[0] for team in TEAMS)

    slack = 1 if dtype == np.float64 else 0
    for got in (reference, on_one):
        error, where = worst(got, truth)
        assert error <= LIMITS.get(op, 4) + slack, f"{op}({x[where]!r}) is {got[where]!r}, wanted {truth[where]!r}"
        assert (np.signbit(got) == np.signbit(truth))[~np.isnan(truth)].all()
    assert on_one.tobytes() == on_several.tobytes()
