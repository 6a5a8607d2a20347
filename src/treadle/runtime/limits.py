"""Numbers of threads: what is possible, what the environment says, and the errors that say why not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from treadle import _native
from treadle.errors import ThreadSettingError
from treadle.runtime.topology import Topology

MOST = _native.MAX_THREADS

VARIABLES = {
    "intra_op": ("TREADLE_INTRA_OP_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "inter_op": ("TREADLE_INTER_OP_THREADS",),
}
"""The environment variables of each limit, the strongest first."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value in force and what decided it."""

    value: Any
    source: str


def checked(setting: str, value: Any, source: str) -> int:
    """`value`, if it is an int in 0..MOST. Raises ThreadSettingError naming setting, value and source."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise impossible(setting, value, source, f"an int in 0..{MOST} (0 = automatic)")
    return value


def chosen(value: int, source: str, topology: Topology) -> Setting:
    """The limit that a possible `value` means: 0 is the CPUs available."""
    if value > 0:
        return Setting(value, source)
    return Setting(topology.available, f"automatic ({source}): {topology.reason}")


def from_environment(setting: str, environment: Mapping[str, str], topology: Topology) -> Setting:
    """What the environment says of a limit, else automatic. Raises ThreadSettingError for what cannot be used."""
    for variable in VARIABLES[setting]:
        text = environment.get(variable, "").strip()
        if not text:
            continue
        # OpenMP allows one number for each level of nesting: the first is the outermost.
        numbers = text.split(",") if variable == "OMP_NUM_THREADS" else [text]
        values = [whole(number) for number in numbers]
        if any(value is None or value > MOST for value in values):
            raise impossible(setting, text, f"environment variable {variable}", f"an int in 0..{MOST} (0 = automatic)")
        return chosen(values[0] or 0, variable, topology)
    return chosen(0, "default", topology)


def whole(text: str) -> int | None:
    """The number that `text` writes in decimal digits and nothing else; None if it is none, or longer than any limit."""
    return int(text) if re.fullmatch(r"\s*\+?[0-9]{1,18}\s*", text) else None


def impossible(setting: str, value: Any, source: str, wanted: str) -> ThreadSettingError:
    """The error for a value that cannot be."""
    return ThreadSettingError(
        f"{setting} from {source}: wanted {wanted}, "
        f"got {value!r} ({type(value).__name__}); correct or remove the setting"
    )
