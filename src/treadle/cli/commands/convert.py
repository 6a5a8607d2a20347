"""`treadle convert`: writes the optimised graph of a model as an ONNX file."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from treadle.cli.model import parse_dims
from treadle.cli.output import print_json

if TYPE_CHECKING:
    from treadle.convert import Converted
    from treadle.passes.base import Math


@click.command("convert")
@click.argument("model", type=click.Path())
@click.argument("out", type=click.Path())
@click.option(
    "--from", "begin", multiple=True, metavar="NAME", help="Begin at this tensor of a frozen TensorFlow graph."
)
@click.option("--to", "end", multiple=True, metavar="NAME", help="End at this tensor of a frozen TensorFlow graph.")
@click.option(
    "--dim",
    "dims",
    multiple=True,
    metavar="NAME=SIZE",
    help="A size of an open dimension for which MODEL is right. The dimension stays open.",
)
@click.option(
    "--math",
    type=click.Choice(["fast", "exact"]),
    default="fast",
    show_default=True,
    help="exact forbids rewrites that round differently.",
)
@click.option(
    "--external/--no-external",
    default=None,
    help="Write weights to OUT.data beside OUT (default: only if OUT would exceed the 2 GiB that protobuf reads).",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def convert_command(
    model: str,
    out: str,
    begin: tuple[str, ...],
    end: tuple[str, ...],
    dims: tuple[str, ...],
    math: Math,
    external: bool | None,
    as_json: bool,
) -> None:
    """Write the optimised graph of MODEL to OUT as ONNX.

    Any engine for ONNX runs the file.

    Constants are folded. Shape arithmetic, dead nodes and nodes without effect are removed. Batch normalisation is
    folded into the weights. Layer normalisation and softmax are one node each. Inputs and outputs keep their names,
    dtypes and open dimensions. If ONNX cannot express a node, the command fails and writes nothing.

    Example: treadle convert frozen.pb model.onnx
    """
    from treadle.convert import convert  # imports the compiler, which other commands may do without

    sizes = parse_dims(dims)
    done = convert(model, out, math=math, external=external, dims=sizes, inputs=begin or None, outputs=end or None)
    if as_json:
        print_json(report(done))
    else:
        click.echo(text(done))


def report(done: Converted) -> dict[str, object]:
    """Returns what was written as plain data."""
    return {
        "path": str(done.path),
        "external": None if done.external is None else str(done.external),
        "before": dict(done.before),
        "after": dict(done.after),
        "guards": list(done.guards),
    }


def text(done: Converted) -> str:
    """Returns what was written as text."""
    lines = [f"{done.path}: {_count(done.after)} (of {_count(done.before)} here)"]
    if done.external is not None:
        lines.append(f"weights: {done.external}")
    lines += [f"the same model only if {guard}" for guard in done.guards]
    return "\n".join(lines)


def _count(ops: Counter[str]) -> str:
    return f"{ops.total()} node{'' if ops.total() == 1 else 's'}"
