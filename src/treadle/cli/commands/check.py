"""`treadle check`: judges a model that is not trusted, in a process with limits."""

from __future__ import annotations

from dataclasses import asdict

import click

from treadle.cli.check.limited import Verdict
from treadle.cli.check.limited import check as judge_file
from treadle.cli.model import parse_dims
from treadle.cli.output import print_json, shape, size, table

DEFAULT_SECONDS, DEFAULT_MEMORY = 60, 4096


@click.command()
@click.argument("model", type=click.Path())
@click.option(
    "--dim", "dims", multiple=True, metavar="NAME=SIZE", help="Size of an open dimension; 1, or large, if not given."
)
@click.option(
    "--seconds", type=click.IntRange(min=1, max=86400), default=DEFAULT_SECONDS, show_default=True, metavar="S",
    help="How long the model may take.",
)  # fmt: skip
@click.option(
    "--memory", type=click.IntRange(min=64, max=1 << 20), default=DEFAULT_MEMORY, show_default=True, metavar="MIB",
    help="How many MiB the model may need.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def check(model: str, dims: tuple[str, ...], seconds: int, memory: int, as_json: bool) -> None:
    """Judge MODEL, which is not trusted, in a limited process.

    The process reads it, compiles it, and runs it on random inputs. The system limits its time and memory; it can write
    no file and stores nothing. The exit code is 0 if every stage is complete, and 1 if the model is refused, needs more
    time or memory, has inputs that cannot be made up, or crashes the process, which would be a fault of treadle.
    PyTorch's files are programs and are not judged.

    Example: treadle check download.onnx --memory 512 --seconds 20
    """
    verdict = judge_file(model, parse_dims(dims), seconds, memory << 20)
    if as_json:
        print_json({"model": model, **asdict(verdict)})
    else:
        print_report(model, verdict)
    click.get_current_context().exit(int(verdict.ending != "usable"))


def print_report(model: str, verdict: Verdict) -> None:
    """Prints the verdict as text on stdout."""
    read, compiled, ran = (verdict.facts.get(stage) for stage in ("read", "compile", "run"))
    if read is not None:
        rows = [
            [kind[:-1], name, dtype, shape(dims)] for kind in ("inputs", "outputs") for name, dtype, dims in read[kind]
        ]
        click.echo(table(["", "name", "dtype", "shape"], rows))
        if read["ops"]:
            click.echo("\nops: " + ", ".join(f"{op} {count}" for op, count in read["ops"].items()))
            click.echo(f"constants: {size(read['constant_bytes'])}")
        if read["files"]:
            click.echo("files beside the model's own: " + ", ".join(read["files"]))
    if compiled is not None and compiled["per_size"]:
        click.echo(f"each combination of sizes is compiled for itself: {compiled['per_size']}")
    if ran is not None:
        shapes = [f"{name} {each['dtype']}{shape(each['shape'])}" for name, each in ran["outputs"].items()]
        sizes = " ".join(f"{name}={size}" for name, size in ran["large_sizes"].items())
        click.echo(f"outputs of a run{sizes and f' with {sizes}'}: " + ", ".join(shapes))
    if verdict.ending == "inputs":
        click.echo(f"\n{model} was read, but neither compiled nor run: {verdict.message}")
    elif verdict.ending == "usable":
        click.echo(f"\n{model} is usable: it was read, compiled and run within the limits.")
    else:
        doing = {"read": "reading", "compile": "compiling", "run": "running"}[verdict.stage]
        click.echo(f"\n{model} is not usable: {doing} it, {ENDINGS[verdict.ending]}\n{verdict.message}")


ENDINGS = {
    "refused": "treadle refused it:",
    "time": "the time was over:",
    "memory": "there was not enough memory within the limit:",
    "crash": "the process failed; if memory was not short, please report the model as SECURITY.md says:",
}
"""What a verdict means, by its ending."""
