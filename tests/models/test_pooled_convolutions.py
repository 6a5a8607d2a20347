"""Plans in which a convolution and the max pooling of its result are one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models.test_precision import compiled, run
from tests.unit.passes.conftest import Writer
from treadle.graph.graph import Graph
from treadle.passes.lower.conv.direct import pooled
from treadle.passes.lower.conv.direct.pooled import Bands
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


def stem(images: int) -> Graph:
    """The first layers of a network, on row-major images."""
    w = Writer()
    x = w.input(images, 3, 32, 29)
    attrs = {"strides": (2, 2), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
    y = w.op("relu", w.op("conv", x, w.weights(40, 3, 3, 3), w.weights(40), groups=1, **attrs))
    y = w.op("max_pool", y, kernel=(3, 3), ceil_mode=True, **attrs)
    return w.done(w.conv(y, (40, 32)))


@pytest.mark.parametrize("images", [1, 3])
@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_results_have_the_bits_of_two_ops(
    images: int, precision: str, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bits are equal at every number of threads and in every precision."""
    graph = stem(images)

    def families() -> list[str]:
        plan = compiled(graph, target, precision).plan
        return [call.spec.family for call in plan.calls if call.spec is not None]

    monkeypatch.setattr(pooled, "choose_bands", lambda *_: None)
    assert "conv_pool" not in families()
    (separate,) = run(graph, target, precision)
    monkeypatch.setattr(pooled, "choose_bands", lambda *given: Bands.of(given[3], 3))
    assert "conv_pool" in families()
    (together,) = run(graph, target, precision)
    assert together.tobytes() == separate.tobytes()
