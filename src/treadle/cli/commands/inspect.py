"""`treadle inspect`: shows a model and how treadle will run it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import click

from treadle.cli.model import ModelOptions, model_options
from treadle.cli.output import duration, number, print_json, shape, shorten, size, table, width
from treadle.plan.call import Call
from treadle.plan.kernels.library_gemm import LibraryGemmSpec
from treadle.plan.plan import Home, Plan


@click.command()
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def inspect(
    options: ModelOptions,
    as_json: bool,
) -> None:
    """Show what MODEL is and how each of its ops will run.

    Inputs, outputs, ops, the kernel of each step with its chunks and estimated time, memory and FLOPs.

    Example: treadle inspect resnet50.onnx --dim batch=8

    A TorchScript file declares no shapes: treadle inspect model.pt --input 'x=f32[1,3,224,224]'
    """
    session = options.open_session()
    feed = options.make_inputs(session.inputs)
    plans = session.plans_for(feed)
    report = {
        "model": options.path,
        "inputs": [{"name": t.name, "dtype": str(t.dtype), "shape": t.shape} for t in session.inputs],
        "outputs": [{"name": t.name, "dtype": str(t.dtype), "shape": t.shape} for t in session.outputs],
        "model_ops": dict(Counter(node.op for node in session.graph.nodes).most_common()),
        "steps": [step for plan in plans for step in steps(plan)],
        "tasks": sum(len(plan.tasks) for plan in plans),
        "arena_bytes": sum(plan.arena_bytes for plan in plans),
        "constant_bytes": sum(b.size for plan in plans for b in plan.buffers if b.home is Home.CONSTANT),
        "flops": sum(call.flops for plan in plans for call in plan.calls),
        "isa": plans[0].target.isa,
    }
    if as_json:
        print_json(report)
    else:
        print_report(report)


def steps(plan: Plan) -> list[dict[str, Any]]:
    """Returns for each call of the plan its node, op, how it runs, chunks and estimates."""
    return [
        {
            "node": call.node,
            "op": call.op,
            "runs_as": runs_as(call),
            "native": call.spec is not None,
            "chunks": call.chunks,
            "flops": call.flops,
            "bytes": call.traffic,
            "estimated_ns": call.cost,
            "note": call.note,
        }
        for call in plan.calls
    ]


def runs_as(call: Call) -> str:
    """Returns the family of the generated kernel, the matmul provider, or `reference`."""
    if call.spec is None:
        return "reference"
    return f"{call.spec.provider} gemm" if isinstance(call.spec, LibraryGemmSpec) else call.spec.family


def print_report(report: dict[str, Any]) -> None:
    """Prints the report as text on stdout."""
    for kind in ("inputs", "outputs"):
        click.echo(kind)
        rows = [[t["name"], t["dtype"], shape(t["shape"])] for t in report[kind]]
        click.echo(table(["name", "dtype", "shape"], rows))
        click.echo()
    click.echo("ops of the model: " + ", ".join(f"{op} {count}" for op, count in report["model_ops"].items()))
    native = sum(step["native"] for step in report["steps"])
    click.echo(
        f"\nplan ({report['isa']}): {len(report['steps'])} steps in {report['tasks']} tasks, "
        f"{native} of them native kernels"
    )
    rows = [
        [
            shorten(step["node"], max(24, width() - 70)), step["op"], step["runs_as"], str(step["chunks"]),
            number(step["flops"]), size(step["bytes"]), duration(step["estimated_ns"]),
        ]
        for step in report["steps"]
    ]  # fmt: skip
    click.echo(table(["node", "op", "runs as", "chunks", "FLOPs", "traffic", "estimate"], rows, "lllrrrr"))
    for note, count in Counter(step["note"] for step in report["steps"] if step["note"]).items():
        click.echo(f"{count} {'step' if count == 1 else 'steps'} {note}")
    click.echo(
        f"\nmemory: {size(report['arena_bytes'])} for intermediate values, "
        f"{size(report['constant_bytes'])} of constants"
        f"\nwork: {number(report['flops'])} FLOPs a run"
    )
