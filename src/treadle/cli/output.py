"""Output of commands: tables of aligned columns, quantities with units, JSON, and checks of output paths."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click


def check_writable(path: Path, option: str, read: Iterable[str]) -> None:
    """Raises OSError unless a file can be written at `path`, which stays as it is.

    Raises click.BadParameter for the `option` if `path` is one of the files that the command will `read`.
    """
    for file in map(Path, read):
        if path.exists() and file.exists() and path.samefile(file):
            raise click.BadParameter(f"{str(path)!r} is read by this command; give another path", param_hint=option)
    if path.is_fifo():  # opening it would wait for a reader
        return
    there = os.path.lexists(path)
    path.open("ab").close()
    if not there:
        path.unlink()


def print_json(data: Any) -> None:
    """Prints `data` as JSON on stdout, with null for NaN and infinities."""
    click.echo(json.dumps(finite(data), indent=1, default=str, allow_nan=False))


def finite(data: Any) -> Any:
    """Replaces every float in `data` that is NaN or infinite by None."""
    if isinstance(data, dict):
        return {key: finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def width() -> int:
    """Returns the number of columns of the terminal; 100 without one."""
    return shutil.get_terminal_size((100, 24)).columns


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: str = "") -> str:
    """Formats rows under a header with aligned columns; those with `r` at their position in `right` to the right."""
    cells = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    lines = []
    for row in cells:
        parts = [
            cell.rjust(size) if right[column : column + 1] == "r" else cell.ljust(size)
            for column, (cell, size) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  " + "  ".join(parts).rstrip())
    return "\n".join(lines)


def shorten(text: str, limit: int) -> str:
    """Returns `text`, with its middle replaced by an ellipsis if it is longer than `limit`."""
    if len(text) <= limit:
        return text
    head = (limit - 1) // 2
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def shape(dims: Sequence[int | str | None] | None) -> str:
    """Formats a shape: open dimensions by their names or as "?", and "?" for an unknown rank."""
    return "?" if dims is None else f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]"


def duration(ns: float) -> str:
    """Formats a time with a suitable unit: 350 ns, 12.3 us, 4.56 ms, 1.20 s."""
    for limit, unit, scale in ((1e3, "ns", 1.0), (1e6, "us", 1e3), (1e9, "ms", 1e6)):
        if ns < limit:
            return f"{ns / scale:.3g} {unit}"
    return f"{ns / 1e9:.3g} s"


def size(count: float) -> str:
    """Formats bytes in binary units: 512 B, 1.5 KiB, 98 MiB."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024 or unit == "GiB":
            return f"{count:.3g} {unit}" if unit != "B" else f"{int(count)} B"
        count /= 1024
    return f"{count:.3g} GiB"


def number(count: float) -> str:
    """Formats a large number with an SI prefix: 950, 12.5 k, 4.12 G."""
    for unit in ("", " k", " M", " G"):
        if count < 1000:
            return f"{count:.3g}{unit}"
        count /= 1000
    return f"{count:.3g} T"
