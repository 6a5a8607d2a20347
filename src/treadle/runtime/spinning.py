"""How long idle workers spin before they park: TREADLE_SPIN_US, KMP_BLOCKTIME, OMP_WAIT_POLICY.

A spinning worker starts new work within a microsecond. A parked one takes about 25, and uses no CPU meanwhile. Never do
more threads spin or work than the team has slots.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from treadle import _native
from treadle.runtime.limits import Setting, impossible, whole

MOST_US = 1e12
WANTED = f"microseconds in 0..{MOST_US:g}, or infinity"
_UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def checked_spin(value: Any, source: str) -> float:
    """Return `value` as microseconds. Raises ThreadSettingError naming value and source if it is not valid."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not (0 <= value <= MOST_US or value == math.inf)
    ):
        raise impossible("spin_us", value, source, WANTED)
    return float(value)


def spin_from_environment(environment: Mapping[str, str]) -> Setting:
    """Return microseconds and their source: the first variable that is set decides. Raises ThreadSettingError."""
    for variable, parse in _PARSERS.items():
        text = environment.get(variable, "").strip()
        if text:
            return Setting(parse(text, f"environment variable {variable}"), variable)
    return Setting(_native.DEFAULT_SPIN_US, "default")


def _microseconds(text: str, source: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?(e[0-9]{1,2})?|inf(inity)?", text.lower()):
        raise impossible("spin_us", text, source, WANTED)
    if float(text) > MOST_US and "inf" not in text.lower():
        raise impossible("spin_us", text, source, WANTED)
    return float(text)


def _block_time(text: str, source: str) -> float:
    """KMP_BLOCKTIME: milliseconds, or a number with the unit us, ms or s, or `infinite`."""
    if text.lower() in ("infinite", "infinity"):
        return math.inf
    found = re.fullmatch(r"(.*?)(us|ms|s|)", text.lower())
    number = whole(found[1]) if found else None
    if found is None or number is None or number > MOST_US:
        raise impossible("spin_us", text, source, "milliseconds, 0 or more, or 'infinite'")
    return number * _UNITS[found[2] or "ms"]


def _wait_policy(text: str, source: str) -> float:
    """OMP_WAIT_POLICY as in LLVM's OpenMP: active workers never park, passive ones do not spin."""
    policies = {"active": math.inf, "passive": 0.0}
    if text.lower() not in policies:
        raise impossible("spin_us", text, source, "'active' or 'passive'")
    return policies[text.lower()]


_PARSERS = {"TREADLE_SPIN_US": _microseconds, "KMP_BLOCKTIME": _block_time, "OMP_WAIT_POLICY": _wait_policy}
