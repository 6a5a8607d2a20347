"""`weft threads`: what is set, where each value came from, and what is really available."""

from __future__ import annotations

from typing import Any

import click

import weft
from weft.cli.output import print_json, table


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def threads(as_json: bool) -> None:
    """Show the thread settings in force, the source of each, and the CPUs that are available."""
    info = weft.threads.info()
    if as_json:
        print_json(info)
        return
    click.echo(table(["setting", "value"], list(flatten(info))))


def flatten(info: dict[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested facts as (dotted name, text) rows."""
    rows: list[tuple[str, str]] = []
    for key, value in info.items():
        name = f"{prefix}{key}"
        rows.extend(flatten(value, f"{name}.") if isinstance(value, dict) else [(name, str(value))])
    return rows
