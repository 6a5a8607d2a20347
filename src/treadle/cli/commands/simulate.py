"""`treadle simulate`: predicts latency and throughput on more cores than there are."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.model import ModelOptions, model_options
from treadle.cli.number import Positive
from treadle.cli.output import duration, number, print_json, table
from treadle.codegen.target import detect
from treadle.errors import InputError
from treadle.tune.scaling import Scaled, last_gain, scale
from treadle.tune.task_graph import TaskGraph, record_tasks

DEFAULT_CORES = "4,8,16,32,64,128"
MOST_CORES = 1024
TRACED = 20
"""Runs whose tasks are recorded."""

_HELD_BY = {
    "memory": "the bandwidth of memory",
    "cache": "the bandwidth of the cache that cores share",
    "lock": "the scheduler's lock, which each op takes",
    "wake-ups": "the time until workers that are called begin",
    "chunks": "ops with too few chunks for so many workers",
    "span": "ops that wait for each other",
    "nothing": "nothing",
}


def _cores(_context: click.Context, _parameter: click.Parameter, text: str) -> list[int]:
    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1 or found[-1] > MOST_CORES:
        raise click.BadParameter(f"wanted numbers from 1 to {MOST_CORES}, separated by commas, got {text!r}")
    return found


@click.command()
@model_options
@click.option(
    "--cores",
    default=DEFAULT_CORES,
    callback=_cores,
    metavar="N,N,...",
    help=f"Numbers of cores (default: {DEFAULT_CORES}).",
)
@click.option("--clients", type=click.IntRange(min=1, max=1024), default=1, metavar="N", help="Callers at once.")
@click.option(
    "--memory",
    type=Positive(),
    metavar="GB/S",
    help="Bandwidth of memory for all cores (default: that of two cores here, and 5 GB/s for each further one).",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def simulate(options: ModelOptions, cores: list[int], clients: int, memory: float | None, as_json: bool) -> None:
    """Predict how fast MODEL runs on more cores.

    Records the tasks of runs on one worker here, and replays them on a model of so many cores of this kind, which share
    memory, a cache and the scheduler. Says how many times as fast each number of cores is as one, which limits are
    best, and what holds it there.

    Example: treadle simulate resnet50.onnx --cores 8,16,32 --memory 200
    """
    session = options.open_session()
    feed, _ = options.first_run(session)
    plans = session.plans_for(feed)
    if len(plans) != 1:
        raise InputError(f"the model runs in {len(plans)} stages, and a simulation takes one; give --from or --to")
    graph = record_tasks(lambda: session.run(feed, intra_op=1, inter_op=1), plans[0], TRACED)
    machine = detect().machine
    found = scale(graph, machine, cores, clients, memory)
    report = _report(options.path, machine.name, graph, found, clients)
    if as_json:
        print_json(report)
    else:
        print_report(report)


def _report(model: str, machine: str, graph: TaskGraph, found: list[Scaled], clients: int) -> dict[str, Any]:
    return {
        "model": model,
        "machine": machine,
        "clients": clients,
        "tasks": len(graph.tasks),
        "work_ns": graph.work_ns,
        "span_ns": graph.span_ns,
        "outside_ns": graph.outside_ns,
        "cores": [
            {
                "cores": each.cores,
                **each.limits._asdict(),
                "latency_ns": each.found.latency_ns,
                "runs_per_second": each.found.runs_per_second,
                "busy": each.found.busy,
                "speedup": each.speedup,
                "held_by": each.held_by,
                "gain_without": each.gain,
            }
            for each in found
        ],
        "gains_up_to": last_gain(found),
    }


def print_report(report: dict[str, Any]) -> None:
    """Prints the report on stdout."""
    clients = report["clients"]
    click.echo(f"{report['model']}  {report['tasks']} tasks, machine model {report['machine']}")
    click.echo(
        f"one worker: {duration(report['work_ns'])} in tasks, {duration(report['span_ns'])} on the longest path, "
        f"{duration(report['outside_ns'])} outside of them\n"
    )
    rows = [
        [
            str(row["cores"]),
            str(row["intra_op"]),
            str(row["inter_op"]),
            duration(row["latency_ns"]),
            number(row["runs_per_second"]),
            f"{row['speedup']:.1f}",
            f"{row['busy']:.0%}",
            row["held_by"],
        ]
        for row in report["cores"]
    ]
    header = ["cores", "intra_op", "inter_op", "latency", "runs/s", "times one core", "busy", "held by"]
    click.echo(table(header, rows, "rrrrrrrl"))
    last = report["cores"][-1]
    whom = "one client" if clients == 1 else f"{clients} clients"
    if report["gains_up_to"] == last["cores"]:
        click.echo(f"\nWith {whom}, each further number of cores gains a tenth or more.")
    else:
        click.echo(f"\nWith {whom}, more than {report['gains_up_to']} cores gain less than a tenth.")
    reason = _HELD_BY[last["held_by"]]
    gain = f": without, runs would be {last['gain_without']:.2f} times as fast" if last["gain_without"] > 1 else ""
    click.echo(f"What holds it with {last['cores']} cores: {reason}{gain}.")
