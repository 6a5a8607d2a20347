"""Limits on threads: their range, and the environment variables that set them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from treadle import _native
from treadle.errors import ThreadSettingError
from treadle.records import dataclass
from treadle.runtime.topology import Topology

MOST = _native.MAX_THREADS

VARIABLES = {
    "intra_op": ("TREADLE_INTRA_OP_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "inter_op": ("TREADLE_INTER_OP_THREADS",),
}
"""The environment variables of each limit; the first that is set decides."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and what decided it; `automatic` is what asked for the CPUs available, None for any other value."""

    value: Any
    source: str
    automatic: str | None = field(default=None, compare=False)

    def on(self, topology: Topology) -> Setting:
        """Return the setting where the CPUs available are those of `topology`."""
        return self if self.automatic is None else chosen(0, self.automatic, topology)


def checked(setting: str, value: Any, source: str) -> int:
    """Return `value`. Raises ThreadSettingError naming setting, value and source unless it is an int in 0..MOST."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise impossible(setting, value, source, f"an int in 0..{MOST} (0 = automatic)")
    return value


def chosen(value: int, source: str, topology: Topology) -> Setting:
    """Return the limit for a valid `value`; 0 means the CPUs available."""
    if value > 0:
        return Setting(value, source)
    return Setting(topology.available, f"automatic ({source}): {topology.reason}", source)


def from_environment(setting: str, environment: Mapping[str, str], topology: Topology) -> Setting:
    """Return the environment's limit, else the automatic one. Raises ThreadSettingError for text that is no limit."""
    for variable in VARIABLES[setting]:
        text = environment.get(variable, "").strip()
        if not text:
            continue
        # OpenMP allows a number for each level of nesting; the first is that of the outermost level.
        numbers = text.split(",") if variable == "OMP_NUM_THREADS" else [text]
        values = [whole(number) for number in numbers]
        if any(value is None or value > MOST for value in values):
            raise impossible(setting, text, f"environment variable {variable}", f"an int in 0..{MOST} (0 = automatic)")
        return chosen(values[0] or 0, variable, topology)
    return chosen(0, "default", topology)


def whole(text: str) -> int | None:
    """Return the number that `text` writes in decimal digits; None if it is no number, or longer than any limit."""
    return int(text) if re.fullmatch(r"\s*\+?[0-9]{1,18}\s*", text) else None


def impossible(setting: str, value: Any, source: str, wanted: str) -> ThreadSettingError:
    """Return the error for a value that is not valid."""
    return ThreadSettingError(
        f"{setting} from {source}: wanted {wanted}, "
        f"got {value!r} ({type(value).__name__}); correct or remove the setting"
    )
