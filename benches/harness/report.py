"""Command lines, tables and JSON files of benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def parser(
    description: str | None, *, rounds: int, seconds: float | None = None, threads: str | None = None
) -> argparse.ArgumentParser:
    """Returns a parser of --rounds and --json, and of --seconds and --threads if they have defaults."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rounds", type=int, default=rounds)
    if seconds is not None:
        made.add_argument("--seconds", type=float, default=seconds, help="of a turn")
    if threads is not None:
        made.add_argument("--threads", type=numbers, default=numbers(threads), help=f"numbers by comma: {threads}")
    made.add_argument("--json", type=Path, help="a file for all figures")
    return made


def numbers(text: str) -> list[int]:
    """Parses whole numbers separated by commas."""
    return [int(number) for number in text.split(",")]


def cpu_name() -> str:
    """The name of the CPU model."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor()


def machine() -> str:
    """The CPU model and the number of CPUs."""
    return f"{cpu_name()}, {os.cpu_count()} CPUs"


def print_header(*columns: str) -> None:
    """Prints the first two lines of a Markdown table."""
    print_row(columns)
    print_row("---" for _ in columns)


def print_row(cells: Iterable[object]) -> None:
    """Prints one line of a Markdown table."""
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def write_json(path: Path | None, **figures: Any) -> None:
    """Writes the CPU's name and `figures` to the file, if one was asked for."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"cpu": cpu_name(), **figures}, indent=1))
