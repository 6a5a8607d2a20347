"""`treadle sweep`: latency and throughput at every thread setting, of treadle and of other engines."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

import click

import treadle
from treadle.cli.model import ModelOptions, model_options, progress_bar
from treadle.cli.number import MOST_SECONDS, Positive
from treadle.cli.output import check_writable, duration, number, print_json, table
from treadle.tune.rival import ENGINES, ONE_LEVEL
from treadle.tune.space import grid
from treadle.tune.sweep import Measured, Setting, Sweep
from treadle.tune.sweep import sweep as measure_sweep

DEFAULT_SECONDS = 10.0
SHADES = " ░▒▓█"
"""Of a cell of the map: the more, the nearer to the best."""

_SHADED = 2.0
"""A setting that takes so many times as long as the best one has no shade."""


@click.command()
@model_options
@click.option("--clients", type=click.IntRange(1, 4096), default=1, show_default=True, help="Threads that run it.")
@click.option("--engine", "engines", multiple=True, type=click.Choice(sorted(ENGINES)), help="Measure it too.")
@click.option(
    "--seconds",
    type=Positive(MOST_SECONDS),
    default=DEFAULT_SECONDS,
    metavar="S",
    help=f"Measure for about this long (default: {DEFAULT_SECONDS:g}); the time to load other engines comes on top.",
)
@click.option("--html", "page", type=click.Path(dir_okay=False), metavar="FILE", help="Write the maps as a page.")
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def sweep(
    options: ModelOptions, clients: int, engines: tuple[str, ...], seconds: float, page: str | None, as_json: bool
) -> None:
    """Measure MODEL at every pair of thread limits.

    These are the (intra_op, inter_op) that the available CPUs allow. They take turns, so that other load on the machine
    affects all of them alike; hopeless ones are left out after some rounds. Other engines run each in a process of its
    own.

    Example: treadle sweep resnet50.onnx --engine onnxruntime --clients 4
    """
    if page is not None:
        check_writable(Path(page), "--html", (options.path, *options.files.values()))
    with treadle.threads.limit(intra_op=0, inter_op=0) as available:
        session = options.open_session()
        feed, _ = options.first_run(session)
        limits = grid(available.intra_op)
        settings = [
            Setting(engine, *pair)
            for engine in ("treadle", *dict.fromkeys(engines))
            for pair in limits
            if pair.inter_op == 1 or engine not in ONE_LEVEL
        ]
        with progress_bar("measuring") as progress:
            found = measure_sweep(
                session, feed, settings, model=options.path, clients=clients, seconds=seconds, progress=progress
            )
    if page is not None:
        Path(page).write_text(as_page(options.path, found), encoding="utf-8")
    if as_json:
        print_json(report(options.path, found))
    else:
        print_sweep(options.path, found)


def report(model: str, found: Sweep) -> dict[str, Any]:
    """Returns the sweep as JSON has it."""
    return {
        "model": model,
        "clients": found.clients,
        "settings": [
            {
                **each.setting._asdict(),
                "median_ns": each.median_ns,
                "interval_ns": [each.low_ns, each.high_ns],
                "runs_per_second": each.runs_per_second,
                "rounds": each.rounds,
            }
            for each in found.measured
        ],
        "best": {engine: found.best(engine).setting._asdict() for engine in found.engines},
        "refused": found.refused,
    }


def print_sweep(model: str, found: Sweep) -> None:
    """Prints a map for each engine on stdout, and its best setting."""
    who = "one client" if found.clients == 1 else f"{found.clients} clients at once"
    click.echo(f"{model}  {who}; median latency, with the interval of 95 % of the best")
    for engine in found.engines:
        own = [each for each in found.measured if each.setting.engine == engine]
        best = found.best(engine)
        columns = sorted({each.setting.inter_op for each in own})
        rows = []
        for intra in sorted({each.setting.intra_op for each in own}):
            cells = {each.setting.inter_op: each for each in own if each.setting.intra_op == intra}
            rows.append([str(intra), *(_cell(cells[inter], best) if inter in cells else "" for inter in columns)])
        click.echo(f"\n{engine}")
        click.echo(table(["intra_op \\ inter_op", *map(str, columns)], rows, "r" * (len(columns) + 1)))
        click.echo(
            f"  best: ({best.setting.intra_op}, {best.setting.inter_op})  {duration(best.median_ns)} "
            f"[{duration(best.low_ns)}, {duration(best.high_ns)}]  {number(best.runs_per_second)} runs/s"
        )
    for engine, reason in found.refused.items():
        click.echo(f"\n{engine} was not measured: {reason}")
    if len(found.engines) > 1:
        ours = found.best("treadle").median_ns
        ratios = ", ".join(f"{e} {found.best(e).median_ns / ours:.2f}" for e in found.engines if e != "treadle")
        click.echo(f"\nbest of each over treadle's best (above 1: treadle is faster): {ratios}")


def _cell(each: Measured, best: Measured) -> str:
    return f"{duration(each.median_ns)} {SHADES[_shade(each, best)]}"


def _shade(each: Measured, best: Measured) -> int:
    """Returns how near a setting is to the best one, as the number of its shade."""
    nearness = (_SHADED - each.median_ns / best.median_ns) / (_SHADED - 1)
    return max(0, min(len(SHADES) - 1, round(nearness * (len(SHADES) - 1))))


def as_page(model: str, found: Sweep) -> str:
    """Returns the maps as one HTML page that needs no other file."""
    parts = []
    for engine in found.engines:
        best = found.best(engine)
        own = {each.setting[1:]: each for each in found.measured if each.setting.engine == engine}
        intras, inters = (sorted({pair[at] for pair in own}) for at in range(2))
        head = "".join(f"<th>{inter}</th>" for inter in inters)
        rows = ""
        for intra in intras:
            cells = ""
            for inter in inters:
                each = own[intra, inter]
                strength = 0.15 + 0.85 * _shade(each, best) / (len(SHADES) - 1)
                title = f"{duration(each.low_ns)} to {duration(each.high_ns)}, {number(each.runs_per_second)} runs/s"
                mark = " <b>best</b>" if each is best else ""
                cells += (
                    f'<td title="{html.escape(title)}" style="background: rgba(46, 139, 87, {strength:.2f})">'
                    f"{duration(each.median_ns)}{mark}</td>"
                )
            rows += f"<tr><th>{intra}</th>{cells}</tr>"
        parts.append(f"<h2>{html.escape(engine)}</h2><table><tr><th>intra_op \\ inter_op</th>{head}</tr>{rows}</table>")
    refused = "".join(
        f"<p>{html.escape(engine)} was not measured: {html.escape(reason)}</p>"
        for engine, reason in found.refused.items()
    )
    style = "body { font-family: sans-serif; margin: 2em } td, th { padding: 0.5em 1em; text-align: right }"
    return (
        f'<!doctype html><meta charset="utf-8"><title>treadle sweep</title><style>{style}</style>'
        f"<h1>{html.escape(model)}</h1><p>Median latency with {found.clients} "
        f"{'client' if found.clients == 1 else 'clients'}; hold the pointer over a cell for the interval of 95 %.</p>"
        f"{''.join(parts)}{refused}\n"
    )
