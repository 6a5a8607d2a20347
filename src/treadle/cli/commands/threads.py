"""`treadle threads`: shows thread settings with their sources, the machine, the build and every pool."""

from __future__ import annotations

from typing import Any

import click

import treadle
from treadle.cli.output import print_json, table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def threads(as_json: bool) -> None:
    """Show the thread settings in force and where each came from.

    Also the machine, the build, and the state of every pool.
    """
    from treadle.codegen.target import detect

    info = treadle.threads.info()
    info["cpu"]["isa"] = detect().isa  # that of kernels to be compiled: this process has none
    if as_json:
        print_json(info)
        return
    settings = [name for name in info if isinstance(info[name], dict) and "source" in info[name]]
    rows = [(name, text(info[name]["value"]), info[name]["source"]) for name in settings]
    click.echo(table(["setting", "value", "source"], rows))
    click.echo()
    rest = {name: info[name] for name in info if name not in settings and name != "pools"}
    for name in settings:
        rest[name] = {key: value for key, value in info[name].items() if key not in ("value", "source")}
    click.echo(table(["property", "value"], flatten(rest)))
    click.echo()
    pools = info["pools"]
    shown = [name for name in pools[0] if not name.endswith("_source")]
    click.echo(table(shown, [[text(pool[name]) for name in shown] for pool in pools]))


def flatten(info: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Returns nested properties as rows of (dotted name, text)."""
    rows: list[tuple[str, str]] = []
    for key, value in info.items():
        name = f"{prefix}{key}"
        rows.extend(flatten(value, f"{name}.") if isinstance(value, dict) else [(name, text(value))])
    return rows


def text(value: Any) -> str:
    """Formats a value: lists without brackets, a dash for None and empty lists."""
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
