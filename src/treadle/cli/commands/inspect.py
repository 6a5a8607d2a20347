"""`treadle inspect`: shows a model and how treadle will run it."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import click

from treadle.cli.model import ModelOptions, model_options
from treadle.cli.output import duration, number, print_json, shape, shorten, size, table, width
from treadle.cli.variants import is_taken, variants_of
from treadle.compile import runner_of
from treadle.errors import ShapeError
from treadle.graph.dim import RealExpr, is_expression
from treadle.graph.guard import evaluate
from treadle.open_plans import sizes_of
from treadle.passes.lower.searches import FUNCTIONS
from treadle.plan.call import Call
from treadle.plan.plan import Home, Plan
from treadle.runtime.signature import Tensor

if TYPE_CHECKING:
    from treadle.compiled_plans import Open

_MOST_TEXT = 48
"""The largest number of characters of an expression in a table; JSON has all of it."""

_POLYNOMIAL: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
"""Real operations that whole numbers have too."""


@click.command()
@model_options
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def inspect(
    options: ModelOptions,
    as_json: bool,
) -> None:
    """Show what MODEL is and how each of its ops will run.

    Inputs, outputs, ops, the kernel of each step with its chunks and estimated time, memory and FLOPs. Of a model with
    open dimensions: the plans that serve all their sizes, and the conditions under which each is valid; shapes are
    expressions, and with --dim or --input numbers.

    Example: treadle inspect resnet50.onnx --dim batch=8

    A TorchScript file declares no shapes: treadle inspect model.pt --input 'x=f32[1,3,224,224]'
    """
    session = options.open_session()
    sizes: dict[str, int] | None = None
    if options.dims or options.files or not session.open_plans():
        feed = options.make_inputs(session)
        try:
            plans = session.plans_for(feed)
        except ShapeError as error:
            ones = sorted(dims_of(session.inputs) - {*options.dims})
            if options.files or not ones or session.open_plans():
                raise
            reason = f"\neach combination of sizes is compiled for itself: {session.why_per_size()}"
            raise ShapeError(f"{error}; give other sizes than 1 with --dim for {', '.join(ones)}{reason}") from None
        shapes = [feed[tensor.name].shape for tensor in session.inputs]
        sizes = sizes_of(session.inputs, shapes, runner_of(session).interface.dims)
    else:
        plans = [session.open_plans()[0].plan]
    why = session.why_per_size()
    report = {
        "model": options.path,
        "inputs": [{"name": t.name, "dtype": str(t.dtype), "shape": t.shape} for t in session.inputs],
        "outputs": [{"name": t.name, "dtype": t.type or str(t.dtype), "shape": t.shape} for t in session.outputs],
        "model_ops": dict(Counter(node.op for node in session.graph.nodes).most_common()),
        "open_plans": [open_plan(plan) for plan in session.open_plans()],
        "per_size": why and {"reason": why.reason, "nodes": [{"node": n.node, "op": n.op} for n in why.nodes]},
        "compiles": session.compiles,
        "sizes": sizes,
        "valid": sizes and [at for at, plan in enumerate(session.open_plans()) if plan.serves(sizes)],
        "steps": [step for at, plan in enumerate(plans) for step in steps(plan, None if at else sizes)],
        "tasks": sum(len(plan.tasks) for plan in plans),
        "arena_bytes": None if plans[0].rivals else sum(plan.arena_bytes for plan in plans),
        "constant_bytes": sum(b.size for plan in plans for b in plan.buffers if b.home is Home.CONSTANT),
        "flops": quantity(total(flops_of(call) for plan in plans for call in plan.calls)),
        "isa": plans[0].target.isa,
    }
    if as_json:
        print_json(report)
    else:
        print_report(report, str(why or ""))


def dims_of(tensors: Iterable[Tensor]) -> set[str]:
    """Returns the names of the open dimensions of `tensors`."""
    return {dim for tensor in tensors for dim in tensor.shape or () if isinstance(dim, str)}


def open_plan(plan: Open) -> dict[str, Any]:
    """Returns the guards of a plan with open sizes, its sample sizes, and its shapes."""
    return {
        "guards": plan.guards,
        "samples": plan.samples,
        "inputs": [{"name": port.name, "shape": shape_of(port.shape)} for port in plan.plan.inputs],
        "outputs": [{"name": port.name, "shape": shape_of(port.shape)} for port in plan.plan.outputs],
        "variants": variants_of(plan),
        "steps": [
            {"node": call.node, "op": call.op, "shapes": [shape_of(value.static_shape) for value in call.writes]}
            for call in plan.plan.calls
        ],
    }


def shape_of(dims: Sequence[int], sizes: Mapping[str, int] | None = None) -> list[float | str]:
    """Returns `dims` for `sizes` of the symbols; without sizes expressions as texts."""
    return [quantity(dim) if sizes is None else evaluate(dim, sizes, FUNCTIONS) for dim in dims]


def quantity(value: float) -> float | str:
    """Returns a number, or the text of an expression."""
    return str(value) if is_expression(value) else value


def flops_of(call: Call) -> float:
    """Returns what the step computes; 0 for sizes at which another variant is taken."""
    return call.flops if call.variant is None else call.flops * call.variant.taken


def total(numbers: Iterable[float]) -> float:
    """Returns the sum, in canonical form where it is an expression of whole numbers."""
    found: float = 0
    for each in numbers:
        found = found + expanded(each)
    return found


def expanded(value: float) -> float:
    """Returns `value` in canonical form if it is a sum or product of whole numbers and sizes."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, RealExpr) or value.op not in _POLYNOMIAL:
        return value
    left, right = map(expanded, value.args)
    return cast(float, _POLYNOMIAL[value.op](left, right))


def steps(plan: Plan, sizes: Mapping[str, int] | None) -> list[dict[str, Any]]:
    """Returns for each call of the plan its node, op, how it runs, the shapes of its results, chunks and estimates.

    For no `sizes` quantities that depend on open sizes are texts; chunks and times that do are None.
    """
    return [
        {
            "node": call.node,
            "op": call.op,
            "runs_as": call.runs_as,
            "variant": call.variant and call.variant.name,
            "native": call.function is None,
            "shapes": [shape_of(value.static_shape, sizes) for value in call.writes],
            "chunks": None if is_expression(call.chunks) else call.chunks,
            "flops": quantity(expanded(call.flops)),
            "bytes": quantity(expanded(call.traffic)),
            "estimated_ns": None if is_expression(call.cost) else call.cost,
            "note": call.note,
        }
        for call in all_calls(plan)
        if sizes is None or is_taken(call, sizes)
    ]


def all_calls(plan: Plan) -> Iterator[Call]:
    """Yields the calls of the plan, each followed by those of its bodies."""
    for call in plan.calls:
        yield call
        for body in call.plans:
            yield from all_calls(body)


def print_report(report: dict[str, Any], why: str) -> None:
    """Prints the report as text on stdout. `why` says why the model is compiled for each combination of sizes."""
    for kind in ("inputs", "outputs"):
        click.echo(kind)
        found = {t["name"]: t["shape"] for plan in report["open_plans"][:1] for t in plan[kind]}
        rows = [[t["name"], t["dtype"], shape(found.get(t["name"], t["shape"]))] for t in report[kind]]
        click.echo(table(["name", "dtype", "shape"], rows))
        click.echo()
    click.echo("ops of the model: " + ", ".join(f"{op} {count}" for op, count in report["model_ops"].items()))
    print_open_plans(report, why)
    native = sum(step["native"] for step in report["steps"])
    sizes = report["sizes"] or {}
    bound = f" for {', '.join(f'{name} = {size}' for name, size in sizes.items())}" if sizes else ""
    click.echo(
        f"\nplan{bound} ({report['isa']}): {len(report['steps'])} steps in {report['tasks']} tasks, "
        f"{native} of them native kernels"
    )
    click.echo(table(*step_rows(report["steps"])))
    for note, count in Counter(step["note"] for step in report["steps"] if step["note"]).items():
        click.echo(f"{count} {'step' if count == 1 else 'steps'} {note}")
    arena = "" if report["arena_bytes"] is None else f"{size(report['arena_bytes'])} for intermediate values, "
    click.echo(
        f"\nmemory: {arena}{size(report['constant_bytes'])} of constants"
        f"\nwork: {amount(report['flops'], number)} FLOPs a run"
    )


def print_open_plans(report: dict[str, Any], why: str) -> None:
    """Prints the plans for all sizes, or why there are none; nothing for a model without open dimensions."""
    if why:
        others = "other sizes are" if report["open_plans"] else "each combination of sizes is"
        click.echo(f"\n{others} compiled for itself: {why}")
    for at, plan in enumerate(report["open_plans"]):
        used = ", used for these sizes" if at in (report["valid"] or ())[:1] else ""
        click.echo(f"\nplan {at + 1} of {len(report['open_plans'])}{used}, is valid for")
        for guard in plan["guards"]:
            click.echo(f"  {guard}")
        if plan["variants"]:
            samples = ", ".join(f"{name} = {size}" for name, size in plan["samples"].items())
            click.echo(f"variants by one size while the others are {samples}:")
            rows = [
                [each["node"], dim, ", ".join(f"{first}-{last} {name}" for first, last, name in found)]
                for each in plan["variants"]
                for dim, found in each["ranges"].items()
            ]
            click.echo(table(["node", "size", "taken"], rows))


def step_rows(steps: Sequence[dict[str, Any]]) -> tuple[list[str], list[list[str]], str]:
    """Returns the header of the table of steps, its rows, and which columns are aligned to the right.

    Columns that have no number before sizes are known are left out.
    """
    header = ["node", "op", "runs as", "results", "FLOPs", "traffic"]
    rows = [
        [
            shorten(step["node"], max(24, width() - 90)), step["op"],
            " ".join(filter(None, (step["runs_as"], step["variant"]))),
            shorten(" ".join(map(shape, step["shapes"])), _MOST_TEXT),
            amount(step["flops"], number), amount(step["bytes"], size),
        ]
        for step in steps
    ]  # fmt: skip
    if any(step["estimated_ns"] is None or step["chunks"] is None for step in steps):
        return header, rows, "llll"
    for row, step in zip(rows, steps, strict=True):
        row += [str(step["chunks"]), duration(step["estimated_ns"])]
    return [*header, "chunks", "estimate"], rows, "llllrrrr"


def amount(value: float | str, with_unit: Callable[[float], str]) -> str:
    """Formats a number with its unit, and an expression as it is unless it is long."""
    return shorten(value, _MOST_TEXT) if isinstance(value, str) else with_unit(value)
