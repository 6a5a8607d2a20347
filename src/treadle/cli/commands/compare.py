"""`treadle compare`: finds the first node of a model whose values differ from those of another engine."""

from __future__ import annotations

from typing import Any

import click

from treadle.cli.model import ModelOptions, model_options
from treadle.cli.number import Number
from treadle.cli.output import print_json, shorten, table, width
from treadle.compare.engines import compiled, onnxruntime, reference
from treadle.compare.search import Compared, Comparison, compare
from treadle.errors import InputError
from treadle.frontends import ONNX, front_end

ENGINES = ("onnxruntime", "reference")
WORST = 5
"""The number of values that are listed though they agree: those of the largest errors."""


@click.command("compare")
@model_options
@click.option(
    "--against",
    type=click.Choice(ENGINES),
    default="reference",
    show_default=True,
    help="onnxruntime, for ONNX files where it is installed, or the reference implementation of every op in NumPy.",
)
@click.option(
    "--tolerance",
    type=Number(min=0),
    metavar="ERROR",
    help="The largest error of floats, as a share of the largest magnitude in a tensor (default: by dtype, f32 1e-4).",
)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def compare_command(options: ModelOptions, against: str, tolerance: float | None, as_json: bool) -> None:
    """Find the first node of MODEL whose values differ elsewhere.

    MODEL runs here and on another engine. First the outputs are compared as users get them, then the value of every
    node, compiled so that no op is fused with another. If only outputs part, the values are searched for the first that
    parts when what it needs is fused. All values are held in memory at once. The exit code is 1 if anything parts.

    Example: treadle compare model.onnx --against onnxruntime --input x=batch.npy
    """
    if against == "onnxruntime" and front_end(options.path) != ONNX:
        raise InputError(f"--against onnxruntime: wanted an ONNX file, got {options.path!r}; use --against reference")
    session = options.open_session()
    feed, outputs = options.first_run(session)
    graph = session.graph
    wanted = onnxruntime(options.path, feed) if against == "onnxruntime" else reference(graph, feed)
    settings = {"math": options.math, "precision": options.precision}
    found = compare(graph, outputs, wanted, lambda names: compiled(graph, names, feed, **settings), tolerance)
    if as_json:
        print_json(report(found, against))
    else:
        print_report(found, against)
    click.get_current_context().exit(int(found.parts))


def report(found: Comparison, against: str) -> dict[str, Any]:
    """Returns the comparison as plain data."""
    return {
        "against": against,
        "parts": found.parts,
        "first": found.first and row(found.first),
        "first_only_when_fused": found.fused and row(found.fused),
        "outputs": [row(each) for each in found.outputs],
        "values": [row(each) for each in found.values],
    }


def row(each: Compared) -> dict[str, Any]:
    """Returns what is known of one value as plain data."""
    apart = each.difference
    return {
        "value": each.value,
        "node": each.node,
        "op": each.op,
        "error": apart.error,
        "tolerance": apart.tolerance,
        "where": apart.where,
        "why": apart.why,
        "parts": apart.parts,
    }


def print_report(found: Comparison, against: str) -> None:
    """Prints the comparison as text on stdout."""
    click.echo(f"outputs beside {against}")
    click.echo(lines(found.outputs))
    apart = [each for each in found.values if each.difference.parts]
    click.echo(f"\n{len(found.values)} values of nodes compared, {len(apart)} part")
    worst = apart[:1] or sorted(found.values, key=lambda each: -each.difference.error)[:WORST]
    click.echo(lines(worst))
    if found.fused is not None:
        click.echo("\nfirst value that parts only where ops are fused")
        click.echo(lines([found.fused]))
    first = found.first
    if first is not None:
        click.echo(f"\nThe first node whose values part is {first.node!r} ({first.op}), in its result {first.value!r}.")
    elif found.parts:
        click.echo("\nOutputs part, though the values of all nodes agree, fused or not: numbers of runs differ.")
    else:
        click.echo("\nAll values agree.")


def lines(found: Any) -> str:
    """Formats values as a table."""
    most = max(24, width() - 60)
    rows = [
        [
            shorten(each.value, most), each.op, f"{each.difference.error:.2g}", f"{each.difference.tolerance:.2g}",
            each.difference.why or ("" if each.difference.where is None else f"at {list(each.difference.where)}"),
        ]
        for each in found
    ]  # fmt: skip
    return table(["value", "op", "error", "tolerance", "farthest"], rows, "llrrl")
