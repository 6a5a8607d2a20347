"""One kernel for a convolution and the max pooling of its result gives the bits of two, on every instruction set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph
from tests.machines import MACHINES
from tests.unit.codegen.conv.conv_case import Case

from treadle.codegen import target as targets
from treadle.dtypes import f64
from treadle.graph.graph import Graph
from treadle.graph.value import Value
from treadle.ops.op import Info
from treadle.ops.table import OPS
from treadle.passes.choose_kernels import choose_kernels
from treadle.passes.lower.conv.direct import pooled
from treadle.passes.lower.conv.direct.pooled import Bands
from treadle.passes.lower.pool import axes_of
from treadle.plan.kernels.conv.direct import DirectConvSpec
from treadle.plan.target import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Pooled:
    """A convolution, and the window of the pooling that reads it."""

    conv: Case
    kernel: tuple[int, ...] = (3, 3)
    strides: tuple[int, ...] = (2, 2)
    pads: tuple[int, ...] = (0, 0, 0, 0)
    dilations: tuple[int, ...] = (1, 1)
    ceil: bool = False
    op: str = "max_pool"

    def graph(self, target: Target, *, separate: bool = False) -> tuple[Graph, dict[str, Array]]:
        """The graph and its inputs by name. With `separate`, the result of the convolution is an output too."""
        graph, given = self.conv.graph(target)
        reorder = graph.nodes[-1]
        convolved = reorder.operand(0)
        attrs: dict[str, Any] = {
            "kernel": self.kernel, "strides": self.strides, "pads": self.pads,
            "dilations": self.dilations, "ceil_mode": self.ceil,
        }  # fmt: skip
        if self.op == "avg_pool":
            attrs["count_include_pad"] = False
        (info,) = OPS[self.op].infer(attrs, [Info(convolved.known_dtype, convolved.static_shape)], 1)
        y = graph.value("pooled", info.dtype, info.shape)
        y.layout = convolved.layout
        graph.add(self.op, [convolved], attrs, outputs=[y])
        plain = graph.value("plain", info.dtype, info.shape)
        graph.add("reorder", [y], outputs=[plain])
        outputs: list[Value] = [plain]
        nodes = [node for node in graph.nodes if node is not reorder]
        if separate:
            nodes.append(reorder)
            outputs.append(reorder.output)
        graph.rebuild(nodes)
        graph.outputs = outputs
        return graph, given

    def families(self, target: Target) -> list[str]:
        """The kernels of the convolution and the pooling."""
        calls, _ = lower_graph(self.graph(target)[0], target, self.conv.math)
        return [call.spec.family for call in calls if call.spec is not None and call.op in ("conv", self.op)]

    def run(self, target: Target, *, separate: bool = False, reverse_chunks: bool = False) -> Array:
        """The pooled image, of one kernel, or with `separate` of two."""
        graph, given = self.graph(target, separate=separate)
        found = run_graph(graph, given, target=target, reverse_chunks=reverse_chunks, math=self.conv.math)
        return found[graph.outputs[0].name]

    def check(self, target: Target, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
        """Asserts that chunks of `rows` rows, in any order, give the bits of two kernels."""
        graph, _ = self.graph(target)
        (pool,) = (node for node in graph.nodes if node.op == self.op)
        bands = Bands.of(axes_of(pool)[0], rows)
        monkeypatch.setattr(pooled, "choose_bands", lambda *_: bands)
        assert self.families(target) == ["conv_pool"]
        together = self.run(target)
        assert np.array_equal(together, self.run(target, separate=True))
        assert np.array_equal(together, self.run(target, reverse_chunks=True))


SHAPES = {
    "stem of a network": Pooled(Case(3, 64, (31, 33), (3, 3), strides=(2, 2), plain_input=True)),
    "7x7 stem with pads": Pooled(
        Case(3, 40, (30, 29), (7, 7), strides=(2, 2), pads=(3, 3, 3, 3), plain_input=True), pads=(1, 1, 1, 1)
    ),
    "windows that share nothing": Pooled(Case(16, 32, (13, 14), (3, 3), pads=(1, 1, 1, 1)), kernel=(2, 2)),
    "windows side by side": Pooled(Case(16, 19, (12, 11), (3, 3), pads=(1, 1, 1, 1)), strides=(1, 1)),
    "windows that leave rows out": Pooled(Case(16, 16, (17, 11), (3, 1)), kernel=(2, 2), strides=(4, 3)),
    "windows that reach past the end": Pooled(Case(5, 24, (14, 12), (3, 3), pads=(1, 1, 1, 1)), ceil=True),
    "uneven pads of both": Pooled(Case(16, 8, (11, 9), (2, 3), pads=(0, 2, 3, 1)), pads=(0, 1, 2, 0), ceil=True),
    "dilations of both": Pooled(
        Case(16, 16, (19, 17), (3, 3), dilations=(2, 1), pads=(2, 1, 2, 1)), dilations=(3, 2), pads=(2, 0, 1, 1)
    ),
    "several images": Pooled(Case(19, 48, (11, 10), (3, 3), images=3)),
    "several images of rows": Pooled(Case(3, 20, (11, 10), (3, 3), images=2, plain_input=True)),
    "groups": Pooled(Case(64, 64, (12, 12), (3, 3), groups=2, pads=(1, 1, 1, 1)), kernel=(2, 2)),
    "one spatial axis": Pooled(
        Case(16, 32, (41,), (5,), images=2), kernel=(3,), strides=(2,), pads=(1, 0), dilations=(1,)
    ),
    "every second pixel": Pooled(Case(32, 48, (15, 15), (1, 1), strides=(2, 2)), kernel=(2, 2)),
}


@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("name", SHAPES)
def test_shapes(name: str, rows: int, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows may share rows, reach beyond the image or skip rows, and a chunk may have any number of rows."""
    SHAPES[name].check(target, monkeypatch, rows)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("epilogue", ["", "relu", "bias_clip", "silu"])
def test_epilogues(epilogue: str, bias: bool, target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """The epilogue of the convolution is applied before pooling."""
    for outputs in (24, 64, 77):
        case = Case(16, outputs, (11, 13), (3, 3), epilogue=epilogue, bias=bias)
        Pooled(case).check(target, monkeypatch, 2)


def test_double_precision(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both kernels have lanes of 8 bytes."""
    Pooled(Case(16, 24, (11, 13), (3, 3), dtype=f64, epilogue="relu")).check(target, monkeypatch, 2)


def test_reduction_in_passes(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums over the first channels are stored in the rows in scratch."""
    small = replace(target, l2=1 << 17)
    case = Case(512, 32, (9, 9), (3, 3), epilogue="relu", math="exact")
    calls, _ = lower_graph(case.graph(small)[0], small, "exact")
    assert [call.spec.passes for call in calls if isinstance(call.spec, DirectConvSpec)] == [True]
    Pooled(case).check(small, monkeypatch, 2)


STEM = Pooled(Case(3, 64, (224, 224), (3, 3), strides=(2, 2), plain_input=True, epilogue="relu"))


MACHINE = MACHINES["avx512"].description()
"""These tests choose kernels and run none; whether pooling is fused depends on the width of vectors."""


def test_load_is_balanced() -> None:
    """There are as many chunks as eight workers need."""
    target = replace(MACHINE, l2=1 << 20)
    (call,) = (call for call in lower_graph(STEM.graph(target)[0], target)[0] if call.op == "conv")
    assert call.spec is not None
    assert call.spec.family == "conv_pool"
    assert call.chunks == 8


def test_one_call_stands_for_both_nodes() -> None:
    """The pooling has no call, and the caps of both nodes hold."""
    target = replace(MACHINE, l2=1 << 20)
    graph, _ = STEM.graph(target)
    conv, pool = (node for node in graph.nodes if node.op in ("conv", "max_pool"))
    names, pool.max_workers = {conv.name, pool.name}, 1
    calls = [call for call in choose_kernels(graph, target, "fast").calls if call.op in ("conv", "max_pool")]
    assert [call.node for call in calls] == [f"{conv.name}+{pool.name}"]
    assert set(calls[0].caps) == names
    assert calls[0].caps[pool.name] == 1


def test_bands_fill_at_most_half_of_the_cache() -> None:
    """Where the cache holds too few rows, there are two kernels."""
    families = []
    for l2 in (1 << 18, 1 << 19, 1 << 20, 1 << 21):
        target = replace(MACHINE, l2=l2)
        (call,) = (call for call in lower_graph(STEM.graph(target)[0], target)[0] if call.op == "conv")
        assert call.spec is not None
        assert call.scratch <= l2 // 2
        families.append(call.spec.family)
    assert families == ["conv", "conv", "conv_pool", "conv_pool"]


@pytest.mark.parametrize(
    "case",
    [
        replace(STEM, op="avg_pool"),
        replace(STEM, conv=replace(STEM.conv, kernel=(7, 7), pads=(3, 3, 3, 3))),
        replace(STEM, conv=Case(64, 64, (56, 56), (3, 3), pads=(1, 1, 1, 1), math="fast"), kernel=(2, 2)),
        replace(STEM, conv=Case(8, 64, (112, 112), (1, 1)), kernel=(2, 2)),
        replace(STEM, conv=replace(STEM.conv, plain_input=False, epilogue="residual_relu")),
        replace(STEM, conv=Case(2048, 2048, (7, 7), (3, 3))),
    ],
    ids=[
        "means",
        "expensive rows",
        "Winograd's algorithm",
        "pixels in one row",
        "an epilogue that reads rows",
        "weights",
    ],
)
def test_not_used_where_it_is_slower_or_impossible(case: Pooled) -> None:
    """There are two kernels where one would not be faster, or could not compute the result."""
    target = replace(targets.detect(), l2=1 << 20)
    assert "conv_pool" not in case.families(target)


def test_not_used_if_the_convolution_has_another_reader() -> None:
    """Another node, or the caller, needs the result of the convolution."""
    target = targets.detect()
    graph, _ = STEM.graph(target, separate=True)
    assert [call.spec.family for call in lower_graph(graph, target)[0] if call.spec is not None].count("conv_pool") == 0
    graph, _ = STEM.graph(target)
    (conv,) = (node for node in graph.nodes if node.op == "conv")
    graph.outputs.append(conv.output)
    assert [call.spec.family for call in lower_graph(graph, target)[0] if call.spec is not None].count("conv_pool") == 0
