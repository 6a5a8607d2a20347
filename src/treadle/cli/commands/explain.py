"""`treadle explain`: says why a model takes the time that it takes, and what would help."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.model import ModelOptions, model_options
from treadle.cli.output import duration, number, print_json, shorten, size, table, width
from treadle.tune.explain import Explanation, OpReport
from treadle.tune.explain import explain as explain_session

_MOST_OPS = 20

_NOTICEABLE = 0.1
"""If other programs had the CPU for a larger part of the time, figures are doubtful."""


@click.command()
@model_options
@click.option("--intra", type=int, metavar="N", help="Workers that may share one op (0: automatic).")
@click.option("--inter", type=int, metavar="N", help="Ops that may run at once (0: automatic).")
@click.option("--all", "all_ops", is_flag=True, help=f"Show all ops, not only the {_MOST_OPS} that take longest.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def explain(options: ModelOptions, intra: int | None, inter: int | None, all_ops: bool, as_json: bool) -> None:
    """Say why MODEL takes the time that it takes on this machine.

    For each op: its kernel, how many workers shared it, its time, what it computes and moves, and what part of one
    core's limit it reaches. For the workers: what they waited for. The last line is advice.

    Example: treadle explain resnet50.onnx
    """
    session = options.open_session(intra, inter)
    feed, _ = options.first_run(session)
    found = explain_session(session, feed)
    if as_json:
        print_json(report(options.path, found))
    else:
        print_explanation(options.path, found, all_ops=all_ops)


def report(model: str, found: Explanation) -> dict[str, Any]:
    """Returns the explanation as JSON has it."""
    return {
        "model": model,
        "threads": dict(zip(("intra_op", "inter_op"), found.threads, strict=True)),
        "latency_ns": {"one_thread": found.alone_ns, "threads": found.latency_ns},
        "work_ns": found.work_ns,
        "longest_path_ns": found.path_ns,
        "most_from_inter_op": found.most_from_inter_op,
        "peaks": {
            "flops_per_ns": found.peaks.flops_per_ns,
            "core_bytes_per_ns": found.peaks.core_bytes_per_ns,
            "bytes_per_ns": found.peaks.bytes_per_ns,
        },
        "waits_ns": found.waits,
        "slowed_ns": found.slowed_ns,
        "ops": [
            {
                "node": op.node,
                "op": op.op,
                "kernel": op.kernel,
                "chunks": op.chunks,
                "workers": op.workers,
                "one_thread_ns": op.alone_ns,
                "threads_ns": op.shared_ns,
                "span_ns": op.span_ns,
                "flops": op.flops,
                "bytes": op.traffic,
                "flops_per_byte": op.intensity,
                "of_arithmetic_limit": op.arithmetic_share(found.peaks),
                "of_memory_limit": op.memory_share(found.peaks),
            }
            for op in found.ops
        ],
        "disturbed": found.disturbed,
        "advice": found.advice,
    }


def print_explanation(model: str, found: Explanation, *, all_ops: bool) -> None:
    """Prints the explanation as text on stdout."""
    peaks, workers = found.peaks, max(found.threads)
    click.echo(f"{model}  intra_op {found.threads[0]}, inter_op {found.threads[1]}")
    click.echo(
        f"  {duration(found.latency_ns)} a run, {duration(found.alone_ns)} on one thread: "
        f"{found.speedup:.2f} times as fast\n"
        f"  work {duration(found.work_ns)}, longest path {duration(found.path_ns)}: independent ops at once can gain "
        f"at most {found.most_from_inter_op:.2f} times\n"
        f"  one core gives {number(1e9 * peaks.flops_per_ns)}FLOP/s and {number(1e9 * peaks.core_bytes_per_ns)}B/s "
        f"of memory, all of them {number(1e9 * peaks.bytes_per_ns)}B/s"
    )
    shown = found.ops if all_ops else sorted(found.ops, key=lambda op: -op.alone_ns)[:_MOST_OPS]
    click.echo(f"\nops{'' if all_ops else ' that take longest'} (time on one thread)")
    header = ["node", "op", "kernel", "chunks", "workers", "time", "work", "FLOPs", "bytes", "FLOPs/byte", "of limit"]
    click.echo(table(header, [_row(op, found) for op in shown], "lllrrrrrrrl"))
    if workers > 1:
        waits = {reason: ns for reason, ns in found.waits.items() if ns}
        spent = {"executing ops": found.work_ns, "ops that take longer beside others": found.slowed_ns, **waits}
        rows = [[what, duration(ns), f"{ns / found.workers_ns:.0%}"] for what, ns in spent.items()]
        click.echo(f"\nthe time of {workers} workers")
        click.echo(table(["what", "time", "part"], rows, "lrr"))
    click.echo("\nAbove 100%: some algorithms take fewer operations than are counted, caches give more than memory.")
    click.echo(f"\n{found.advice}")
    if found.disturbed > _NOTICEABLE:
        click.echo(
            f"other programs had the CPU for {found.disturbed:.0%} of the time; end them and explain again", err=True
        )


def _row(op: OpReport, found: Explanation) -> list[str]:
    arithmetic, memory = op.arithmetic_share(found.peaks), op.memory_share(found.peaks)
    best = max((arithmetic or 0.0, "arithmetic"), (memory or 0.0, "memory"))
    return [
        shorten(op.node, max(20, width() - 110)),
        op.op,
        op.kernel,
        str(op.chunks),
        str(op.workers),
        duration(op.alone_ns),
        f"{op.alone_ns / (found.work_ns or 1):.0%}",
        "-" if op.flops is None else number(op.flops),
        "-" if op.traffic is None else size(op.traffic),
        "-" if op.intensity is None else f"{op.intensity:.3g}",
        f"{best[0]:.0%} {best[1]}" if best[0] else "-",
    ]
