"""A machine model on which everything takes a thousand times as long, so that small ops have several chunks."""

from __future__ import annotations

from pathlib import Path

from treadle.plan.machine import FIGURES, MachineModel

SLOWER = 1000
_OF_THREADS = ("chunk_ns", "line_ns", "wake_ns", "unpark_ns")
"""What handing work to another thread costs stays as it is."""


def write_slow_machine(model: MachineModel, path: Path) -> None:
    """Writes to `path` what TREADLE_MACHINE takes: `model`, slower in everything but threads."""

    def figure(name: str) -> float:
        known = float(getattr(model, name))
        if name.endswith("_bytes_per_ns"):
            return known / SLOWER
        return known * SLOWER if name.endswith("_ns") and name not in _OF_THREADS else known

    lines = [f'isa = "{model.isa}"', "[sources]", 'made = "for tests"', "[figures]"]
    path.write_text(
        "\n".join([*lines, *(f'{name} = [{figure(name)!r}, "made"]' for name in FIGURES)]), encoding="utf-8"
    )
