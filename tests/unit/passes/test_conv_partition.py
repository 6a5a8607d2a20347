"""How direct convolutions are partitioned into chunks."""

from __future__ import annotations

import pytest
from tests.kernel_runner import lower_graph
from tests.unit.codegen.conv.conv_case import Case

from treadle.passes.lower.conv.direct import cost
from treadle.plan.kernels.conv.direct import DirectConvArgs
from treadle.plan.target import Target


def reads_of_x(case: Case, target: Target) -> int:
    """Returns how many chunks read the same pixels."""
    calls, _ = lower_graph(case.graph(target)[0], target, math="exact")
    (args,) = (call.args for call in calls if isinstance(call.args, DirectConvArgs))
    return -(-args.groups // args.groups_per_chunk)


@pytest.mark.parametrize(("channels", "outputs", "size"), [(1024, 256, (64, 80)), (256, 256, (160, 160))])
def test_pointwise_kernels_read_large_images_seldom(
    channels: int, outputs: int, size: tuple[int, int], target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would wait for most of the pixels again, which lie in another block of channels each time.

    So fewer chunks read the same pixels than if pixels cost as much as weights: one, where a vector, and so a run of
    pixels, is short.
    """
    case = Case(channels, outputs, size, (1, 1))
    reads = reads_of_x(case, target)
    assert reads == 1 or target.vector_bytes == 64
    monkeypatch.setattr(cost, "_RUN_BYTES", 0)
    assert reads < reads_of_x(case, target)


def test_small_images_are_partitioned_by_groups_too(target: Target) -> None:
    """The L2 cache holds them, so chunks share the weights among them."""
    assert reads_of_x(Case(256, 1024, (7, 7), (1, 1)), target) > 1
