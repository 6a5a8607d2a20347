"""`treadle tune`: finds the limits that suit a model on this machine, and gives the reason."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import treadle
from treadle.cli.model import ModelOptions, model_options, progress_bar
from treadle.cli.number import MOST_SECONDS, Positive
from treadle.cli.output import check_writable, duration, number, print_json, table
from treadle.codegen.target import detect
from treadle.compile import runner_of
from treadle.errors import InputError
from treadle.frontends.model_source import file_digest
from treadle.runtime.threads import process
from treadle.runtime.tuned import Tuned, machine, write_tuned
from treadle.tune.choose import AUTOMATIC, Choice, choose, hopeless, off_critical_path
from treadle.tune.clients import Throughput, throughput
from treadle.tune.measure import Run, Schedule, Timings, interleaved, same_everywhere
from treadle.tune.space import Limits, counts, grid

DEFAULT_SECONDS = 10.0
ROUNDS = 15
CLIENT_SECONDS = 0.1
"""Each number of clients is measured for this part of --seconds."""


@click.command()
@model_options
@click.option(
    "--seconds",
    type=Positive(MOST_SECONDS),
    default=DEFAULT_SECONDS,
    metavar="S",
    help=f"Measure for about this long, slow models longer (default: {DEFAULT_SECONDS:g}).",
)
@click.option("--clients", "with_clients", is_flag=True, help="Also the throughput of several clients at once.")
@click.option(
    "--save", type=click.Path(dir_okay=False), metavar="FILE", help="Write the choice for Session(settings=FILE)."
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def tune(
    options: ModelOptions,
    seconds: float,
    with_clients: bool,
    save: str | None,
    as_json: bool,
) -> None:
    """Find the thread settings that suit MODEL on this machine.

    Measures the latency at every (intra_op, inter_op) that the available CPUs allow, by turns, and says which to set
    and why. Automatic wins unless another is better by more than noise. Outputs are compared bit for bit.

    Example: treadle tune resnet50.onnx --save resnet50.json
    """
    if save is not None:
        check_writable(Path(save), "--save", (options.path, *options.files.values()))
    with treadle.threads.limit(intra_op=0, inter_op=0) as available:
        session = options.open_session()
        feed = options.make_inputs(session)
        digest = _digest_to_save(options.path) if save else ""
        tried = grid(available.intra_op)
        same, timings = _measured(lambda limits: session.run(feed, **limits._asdict()), tried, seconds)
        executable = runner_of(session).executable_for(feed)
        independent = None if executable is None else off_critical_path(executable)
        choice = choose(timings, available.intra_op, independent)
        clients = _throughputs(session, feed, available.intra_op, seconds) if with_clients else []
    report = _report(options.path, timings, tried, choice) | {
        "same_outputs": same,
        "inputs": {name: f"{array.dtype}{list(array.shape)}" for name, array in feed.items()},
        "clients": [
            {"clients": each.clients, "runs_per_second": each.runs_per_second, "median_ns": each.median_ns}
            for each in clients
        ],
        "saved": save,
    }
    if save:
        medians = {
            f"{row['intra_op']}, {row['inter_op']}": round(row["median_ns"] / 1e6, 4) for row in report["settings"]
        }
        measured = {"inputs": report["inputs"], "math": options.math, "precision": options.precision}
        measured["median_ms"] = medians
        measured |= {name: list(names) for name, names in (("from", options.begin), ("to", options.end)) if names}
        here = machine(detect().isa, process.topology())
        write_tuned(Path(save), Tuned(*choice.limits, Path(options.path).name, digest, here, choice.why, measured))
    if as_json:
        print_json(report)
    else:
        print_report(report)


def _digest_to_save(model: str) -> str:
    digest = file_digest(model)
    if digest is None:
        raise InputError(f"--save: {model!r} is not a file, and settings are those of a model file; omit --save")
    return digest


def _measured(run: Run, tried: list[Limits], seconds: float) -> tuple[bool, Timings[Limits]]:
    """Returns whether outputs are the same at all limits, and latencies measured for about `seconds`."""
    schedule = Schedule(ROUNDS, seconds / (ROUNDS + 1) / len(tried), most=seconds)
    with progress_bar("measuring") as progress:
        return same_everywhere(run, tried), interleaved(
            run, tried, schedule, drop=lambda timings: hopeless(timings, [tried[0], tried[-1]]), progress=progress
        )


def _throughputs(session: treadle.Session, feed: dict[str, Any], budget: int, seconds: float) -> list[Throughput]:
    """Measures the throughput at automatic limits, for up to twice as many clients as CPUs."""
    return [
        throughput(lambda token: session.run(feed, cancel=token), clients, seconds * CLIENT_SECONDS)
        for clients in sorted({1, *(2 * count for count in counts(budget))})
    ]


def _report(model: str, timings: Timings[Limits], tried: list[Limits], choice: Choice) -> dict[str, Any]:
    automatic = tried[-1]
    rows = []
    for limits in tried:
        low, high = timings.spread(limits)
        rows.append(
            {
                "intra_op": limits.intra_op,
                "inter_op": limits.inter_op,
                "automatic": limits == automatic,
                "median_ns": timings.median(limits),
                "p10_ns": low,
                "p90_ns": high,
                "over_automatic": timings.ratio(limits, automatic),
                "rounds": len(timings.ratios(limits, automatic)),
            }
        )
    return {
        "model": model,
        "cpus": automatic.intra_op,
        "settings": rows,
        "choice": choice.limits._asdict(),
        "why": choice.why,
    }


def print_report(report: dict[str, Any]) -> None:
    """Prints the report on stdout, and how to use a saved file on stderr."""
    choice = report["choice"]
    automatic = choice == AUTOMATIC._asdict()
    click.echo(f"{report['model']}  {report['cpus']} {'CPU' if report['cpus'] == 1 else 'CPUs'} available\n")
    rows = []
    for row in report["settings"]:
        numbers = {name: row[name] for name in ("intra_op", "inter_op")}
        chosen = row["automatic"] if automatic else numbers == choice
        rows.append(
            [
                str(row["intra_op"]),
                str(row["inter_op"]),
                *(duration(row[key]) for key in ("median_ns", "p10_ns", "p90_ns")),
                f"{row['over_automatic']:.3f}",
                " ".join(word for word, holds in (("automatic", row["automatic"]), ("<-", chosen)) if holds),
            ]
        )
    click.echo(table(["intra_op", "inter_op", "median", "p10", "p90", "over automatic", ""], rows, "rrrrrrl"))
    if report["clients"]:
        click.echo("\nseveral clients, automatic settings")
        rows = [
            [str(each["clients"]), number(each["runs_per_second"]), duration(each["median_ns"])]
            for each in report["clients"]
        ]
        click.echo(table(["clients", "runs/s", "median"], rows, "rrr"))
    named = "automatic" if automatic else ", ".join(f"{name}={value}" for name, value in choice.items())
    click.echo(f"\nchoice: {named}\n{report['why']}")
    if report["same_outputs"]:
        click.echo("Outputs are the same at every setting, bit for bit.")
    else:
        click.echo("Outputs differ from run to run at one setting, as those of models that draw random numbers do.")
    if report["saved"]:
        click.echo(
            f"\nwritten to {report['saved']}; use it as treadle.Session(model, settings={report['saved']!r})", err=True
        )
