"""The convolution kernel for few outputs against the reference, on every instruction set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.kernel_runner import run_graph
from tests.unit.codegen.conv.conv_case import EPILOGUES, Case

from treadle.dtypes import f32, f64
from treadle.plan.target import Target

SAME = (1, 1, 1, 1)

SHAPES = {
    "3x3": Case(32, 1, (9, 67), (3, 3), pads=SAME),
    "3x3, two outputs, a cut block": Case(21, 2, (8, 50), (3, 3), pads=SAME, images=2),
    "1x1, no padding": Case(48, 1, (6, 33), (1, 1)),
    "7x7, three outputs": Case(16, 3, (12, 41), (7, 7), pads=(3, 3, 3, 3)),
    "strided": Case(17, 1, (11, 90), (3, 3), strides=(2, 2), pads=(0, 1, 1, 0), images=2),
    "strided, uneven pads": Case(32, 2, (9, 101), (2, 5), strides=(1, 3), pads=(1, 4, 0, 2)),
    "dilated, padded beyond the kernel": Case(16, 1, (7, 40), (3, 3), pads=(5, 6, 5, 6), dilations=(3, 2)),
    "1-D": Case(32, 1, (133,), (7,), pads=(3, 3)),
    "rows of whole blocks": Case(16, 1, (3, 66), (3, 3)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_few_outputs(name: str, target: Target) -> None:
    """A convolution from a blocked tensor to a row-major one equals the reference."""
    case = SHAPES[name]
    case = replace(case, few_outputs=True, outputs=min(case.outputs, target.lanes(case.dtype) // 4))
    assert case.families(target) == ["conv_few_outputs"]
    case.check(target)


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("epilogue", EPILOGUES)
def test_fused_epilogue(epilogue: str, outputs: int, target: Target) -> None:
    """Epilogues with operands of every kind are applied before the store."""
    outputs = min(outputs, target.lanes(f32) // 4)
    replace(SHAPES["3x3"], few_outputs=True, epilogue=epilogue, outputs=outputs, images=2).check(target)


def test_double_precision(target: Target) -> None:
    """The same kernel serves fp64, where a vector has four lanes or more."""
    if target.lanes(f64) < 4:
        pytest.skip("a quarter of a vector is less than one output")
    replace(SHAPES["strided"], few_outputs=True, dtype=f64).check(target)


def test_what_fills_up_the_last_block_is_not_read(target: Target) -> None:
    """Lanes behind the last channel may hold anything, such as NaN that an epilogue has made of zeros."""
    case = replace(SHAPES["3x3, two outputs, a cut block"], few_outputs=True, outputs=1)
    graph, given = case.graph(target)
    (reorder,) = (node for node in graph.nodes if node.op == "reorder")
    (conv,) = (node for node in graph.nodes if node.op == "conv")
    inverse = graph.value("inverse", reorder.output.dtype, reorder.output.shape)
    inverse.layout = reorder.output.layout
    graph.nodes.remove(conv)
    graph.add("reciprocal", [reorder.output], outputs=[inverse])
    graph.set_input(conv, 0, inverse)
    graph.nodes.append(conv)
    (result,) = run_graph(graph, given, target=target, math="exact").values()
    assert np.isfinite(result).all()
