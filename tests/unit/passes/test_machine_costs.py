"""Estimates follow the figures of the machine model, and equal models give equal plans."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.unit.passes.conftest import Writer

from treadle.graph.graph import Graph
from treadle.passes.base import PassContext
from treadle.passes.make_plan import make_plan
from treadle.passes.pipeline import infer, optimize
from treadle.plan.machine import FOLDER
from treadle.plan.plan import Plan
from treadle.plan.target import Target

TARGET = Target("avx2", "x86_64-unknown-linux-gnu", "", "", 32, 16, 1 << 15, 1 << 19, 1 << 25)


def products() -> Graph:
    w = Writer()
    x = w.input(256, 512)
    w.graph.outputs = [w.op("softmax", w.op("matmul", x, w.weights(512, 384)), axis=1)]
    return w.graph


def plan_for(target: Target) -> Plan:
    context = PassContext(target)
    graph = products()
    infer(graph, context)
    return make_plan(optimize(graph, context), target, "fast")


def changed(folder: Path, **figures: float) -> Target:
    """A machine like the generic one but for some figures."""
    lines = (FOLDER / "generic-avx2.toml").read_text().splitlines()
    for name, number in figures.items():
        lines = [f'{name} = [{number}, "assumed"]' if line.startswith(f"{name} = ") else line for line in lines]
    file = folder / f"{'-'.join(figures)}.toml"
    file.write_text("\n".join(lines))
    return replace(TARGET, model=str(file))


def test_a_faster_machine_has_lower_estimates_and_as_many_chunks(tmp_path: Path) -> None:
    """
    A chunk is worth some multiply-adds, not some time: workers wait for each other for the same part of an op.
    """
    slow, fast = plan_for(TARGET), plan_for(changed(tmp_path, fma_ns=0.1, fma_latency_ns=0.8))

    assert [call.op for call in slow.calls] == [call.op for call in fast.calls]
    for before, after in zip(slow.calls, fast.calls, strict=True):
        assert after.cost < 0.6 * before.cost
        assert after.chunks >= before.chunks
    assert fast.calls[0].chunks == slow.calls[0].chunks > 1


def test_slow_caches_raise_estimates_of_what_moves_memory(tmp_path: Path) -> None:
    """
    A softmax of cheap elements waits for memory.
    """
    slow = plan_for(changed(tmp_path, l3_bytes_per_ns=0.5))

    assert slow.calls[1].cost > 2 * plan_for(TARGET).calls[1].cost


def test_equal_models_give_equal_plans(tmp_path: Path) -> None:
    """
    The name of the file does not matter.
    """
    copy = changed(tmp_path, chunk_ns=100.0)

    one, other = plan_for(TARGET), plan_for(copy)

    assert copy.machine.name != TARGET.machine.name
    assert [(call.spec, call.args, call.chunks, call.cost) for call in one.calls] == [
        (call.spec, call.args, call.chunks, call.cost) for call in other.calls
    ]
    assert one.tasks == other.tasks
