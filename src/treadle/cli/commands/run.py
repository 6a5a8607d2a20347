"""`treadle run`: runs a model and reports how fast it is and where the time goes."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

import treadle
from treadle.cli.model import ModelOptions, model_options
from treadle.cli.number import MOST_SECONDS, Positive
from treadle.cli.output import check_writable, duration, number, print_json, shape, shorten, size, table, width
from treadle.cli.timeline import draw
from treadle.tracing.chrome import write
from treadle.tracing.record import Event
from treadle.tracing.typical import typical

DEFAULT_SECONDS = 1.0
TOP_OPS = 10
MOST_TRACED = 5
"""The largest number of runs that are traced to show the one of median duration."""


@click.command()
@model_options
@click.option("--intra", type=int, metavar="N", help="Workers that may share one op (0: automatic).")
@click.option("--inter", type=int, metavar="N", help="Ops that may run at once (0: automatic).")
@click.option("--settings", type=click.Path(), metavar="FILE", help="Take both from what `treadle tune --save` wrote.")
@click.option("--runs", type=click.IntRange(min=1), metavar="N", help="Time this many runs.")
@click.option(
    "--seconds",
    type=Positive(MOST_SECONDS),
    metavar="S",
    help=f"Time runs for this long (default: {DEFAULT_SECONDS:g}).",
)
@click.option(
    "--trace",
    "trace_file",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the timeline of a typical run for Perfetto.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the figures as JSON.")
def run(
    options: ModelOptions,
    intra: int | None,
    inter: int | None,
    settings: str | None,
    runs: int | None,
    seconds: float | None,
    trace_file: str | None,
    as_json: bool,
) -> None:
    """Run MODEL and say how fast it is and where the time goes.

    MODEL is an ONNX file, a frozen TensorFlow graph or a PyTorch program. Reports outputs, latency, CPU use, memory,
    the slowest ops, and a timeline of the workers.

    Example: treadle run resnet50.onnx --intra 2 --runs 50 --trace run.json
    """
    if runs is not None and seconds is not None:
        raise click.UsageError("give --runs or --seconds, not both")
    if trace_file is not None:  # report an impossible path before measuring
        check_writable(
            Path(trace_file), "--trace", (options.path, *options.files.values(), *([settings] if settings else []))
        )
    start = time.perf_counter()
    session = options.open_session(intra, inter, settings)
    feed, outputs = options.first_run(session)
    loaded = time.perf_counter() - start
    latencies, cpu_use = measure(session, feed, runs, seconds)
    traced_runs = min(MOST_TRACED, len(latencies))
    events = typical(lambda: session.run(feed), traced_runs)
    if trace_file:
        with Path(trace_file).open("w", encoding="utf-8") as file:
            write(events, file)
    limits = session.get()
    report: dict[str, Any] = {
        "model": options.path,
        "inputs": {name: {"dtype": str(array.dtype), "shape": array.shape} for name, array in feed.items()},
        "outputs": {name: summary(array) for name, array in outputs.items()},
        "threads": {
            "intra_op": limits.intra_op,
            "inter_op": limits.inter_op,
            "intra_source": limits.intra_source,
            "inter_source": limits.inter_source,
        },
        "load_seconds": loaded,
        "latency_ns": percentiles(latencies),
        "throughput_per_second": 1e9 * len(latencies) / sum(latencies),
        "cpu_use": cpu_use,
        "peak_memory_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "traced_runs": traced_runs,
        "top_ops": top_ops(events),
        "trace": trace_file,
        "settings": settings,
    }
    if as_json:
        print_json(report)
    else:
        print_report(report, events)


def measure(
    session: treadle.Session, feed: dict[str, Any], runs: int | None, seconds: float | None
) -> tuple[list[int], float]:
    """Returns latencies in ns of `runs` runs, or of as many as fit in `seconds`, and CPU time per elapsed time."""
    end = time.perf_counter_ns() + int((seconds or DEFAULT_SECONDS) * 1e9)
    latencies: list[int] = []
    cpu, wall = time.process_time(), time.perf_counter()
    while len(latencies) < runs if runs is not None else (not latencies or time.perf_counter_ns() < end):
        before = time.perf_counter_ns()
        session.run(feed)
        latencies.append(time.perf_counter_ns() - before)
    return latencies, (time.process_time() - cpu) / max(time.perf_counter() - wall, 1e-9)


def percentiles(latencies: list[int]) -> dict[str, float]:
    """Returns min, p50, p90, p99 and the number of runs."""
    p50, p90, p99 = np.percentile(latencies, [50, 90, 99])
    return {"min": min(latencies), "p50": float(p50), "p90": float(p90), "p99": float(p99), "runs": len(latencies)}


def summary(array: Any) -> dict[str, Any]:
    """Returns shape and dtype and, for numbers, range and mean; of a list its length, of other objects the type."""
    if not isinstance(array, np.ndarray):
        return {"dtype": type(array).__name__, "shape": [len(array)] if isinstance(array, list) else []}
    properties: dict[str, Any] = {"dtype": str(array.dtype), "shape": array.shape}
    if array.size and array.dtype.kind in "fiub":
        values = array.astype(np.float64)
        properties |= {"min": float(values.min()), "mean": float(values.mean()), "max": float(values.max())}
    return properties


def top_ops(events: list[Event]) -> list[dict[str, Any]]:
    """Returns the nodes that took most worker time in a traced run, slowest first."""
    spent: dict[str, dict[str, Any]] = {}
    for event in events:
        entry = spent.setdefault(event.node, {"node": event.node, "op": event.op, "ns": 0, "workers": set()})
        entry["ns"] += event.end - event.start
        entry["workers"].add(event.worker)
    whole = sum(entry["ns"] for entry in spent.values()) or 1
    longest = sorted(spent.values(), key=lambda entry: -entry["ns"])[:TOP_OPS]
    return [{**entry, "workers": len(entry["workers"]), "share": entry["ns"] / whole} for entry in longest]


def print_report(report: dict[str, Any], events: list[Event]) -> None:
    """Prints the report as text on stdout."""
    click.echo(f"{report['model']}  intra_op {report['threads']['intra_op']}, inter_op {report['threads']['inter_op']}")
    if report["settings"]:
        click.echo(f"  intra_op: {report['threads']['intra_source']}\n  inter_op: {report['threads']['inter_source']}")
    click.echo("\noutputs")
    rows = [
        [
            name,
            properties["dtype"],
            shape(properties["shape"]),
            *(f"{properties[key]:.4g}" if key in properties else "-" for key in ("min", "mean", "max")),
        ]
        for name, properties in report["outputs"].items()
    ]
    click.echo(table(["name", "dtype", "shape", "min", "mean", "max"], rows, "lllrrr"))
    latency = report["latency_ns"]
    click.echo(f"\nlatency over {latency['runs']} runs")
    click.echo("  " + "   ".join(f"{key} {duration(latency[key])}" for key in ("min", "p50", "p90", "p99")))
    click.echo(
        f"  {number(report['throughput_per_second'])} runs/s   CPU {report['cpu_use']:.0%} of one core   "
        f"peak memory {size(report['peak_memory_bytes'])}   load {report['load_seconds']:.2f} s"
    )
    traced = report["traced_runs"]
    which = "one traced run" if traced == 1 else f"in the median of {traced} traced runs"
    click.echo(f"\nops that took longest ({which})")
    rows = [
        [
            shorten(op["node"], max(24, width() - 48)),
            op["op"],
            duration(op["ns"]),
            f"{op['share']:.0%}",
            str(op["workers"]),
        ]
        for op in report["top_ops"]
    ]
    click.echo(table(["node", "op", "time", "share", "workers"], rows, "llrrr"))
    click.echo("\nworkers (the same run)")
    click.echo(draw(events, width()))
    if report["trace"]:
        click.echo(f"\ntimeline written to {report['trace']}; open it at ui.perfetto.dev", err=True)
