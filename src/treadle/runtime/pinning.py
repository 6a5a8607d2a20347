"""Which CPUs workers are pinned to: TREADLE_CPUS, KMP_AFFINITY, OMP_PROC_BIND.

Worker i of a team is pinned to CPU i of the list, modulo its length. Worker 0 is the caller of `run`, which is never
pinned as its thread is not treadle's. Pinning is off by default.

Honoured: lists of CPUs; OMP_PROC_BIND false, true, close, spread; KMP_AFFINITY none, disabled, compact, scatter,
balanced and explicit with a proclist of single CPUs and ranges. Other legal values, and CPUs that the system refuses,
are ignored with one ThreadSettingWarning.
"""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from treadle.errors import ThreadSettingWarning
from treadle.runtime.limits import Setting, impossible

WANTED = "CPU numbers such as '0-3,5'"
MOST_CPUS = 1 << 14

_reported: set[tuple[str, str]] = set()


def checked_cpus(value: Any, source: str) -> tuple[int, ...]:
    """Return CPU numbers in the order of the workers. Raises ThreadSettingError naming value and source."""
    if isinstance(value, str):
        return _parse_list(value, source)
    if not isinstance(value, Iterable) or isinstance(value, bytes | bytearray):
        raise impossible("cpus", value, source, WANTED + " or a list of ints")
    cpus = tuple(value)
    if not all(isinstance(cpu, int) and not isinstance(cpu, bool) and 0 <= cpu < MOST_CPUS for cpu in cpus):
        raise impossible("cpus", value, source, WANTED + " or a list of ints")
    return cpus


def usable(cpus: tuple[int, ...], source: str, text: Any) -> tuple[int, ...]:
    """Return those of `cpus` that a thread of this process may be pinned to; one warning reports the others."""
    refused = _refused(sorted(set(cpus)))
    if refused:
        faults = "; ".join(f"CPU {cpu}: {fault}" for cpu, fault in refused.items())
        report(source, str(text), f"workers cannot be pinned ({faults})")
    return tuple(cpu for cpu in cpus if cpu not in refused)


def cpus_from_environment(environment: Mapping[str, str], root: Path = Path("/")) -> Setting:
    """Return CPUs and their source: the first variable that is set decides. Raises ThreadSettingError."""
    for variable, parse in _PARSERS.items():
        text = environment.get(variable, "").strip()
        if text:
            source = f"environment variable {variable}"
            cpus = parse(text, source, root)
            if variable == "OMP_PROC_BIND":
                _report_places(environment)
            return Setting(usable(cpus, source, text), variable)
    _report_places(environment)
    return Setting((), "default")


def _report_places(environment: Mapping[str, str]) -> None:
    places = environment.get("OMP_PLACES", "")
    if places.strip():
        report("environment variable OMP_PLACES", places, "places are not offered; use TREADLE_CPUS")


def report(source: str, value: str, fault: str) -> None:
    """Warn, once for each source and value, that a setting is not honoured."""
    if (source, value) in _reported:
        return
    _reported.add((source, value))
    warnings.warn(f"{source} = {value!r} is not honoured: {fault}", ThreadSettingWarning, stacklevel=2)


def _refused(cpus: list[int]) -> dict[int, str]:
    """Return the CPUs that a thread cannot be pinned to, and the reasons. A short-lived thread tries them."""
    faults: dict[int, str] = {}

    def attempt() -> None:
        for cpu in cpus:
            try:
                os.sched_setaffinity(0, {cpu})
            except AttributeError:
                faults[cpu] = "this system offers no pinning"
            except (OSError, ValueError, OverflowError) as fault:
                faults[cpu] = getattr(fault, "strerror", None) or str(fault)

    if cpus:
        thread = threading.Thread(target=attempt, name="treadle-pin")
        thread.start()
        thread.join()
    return faults


def _parse_list(text: str, source: str) -> tuple[int, ...]:
    cpus: list[int] = []
    for part in text.split(",") if text.strip() else []:
        found = re.fullmatch(r"\s*(\d{1,5})(?:-(\d{1,5})(?::(\d{1,5}))?)?\s*", part)
        first, last, stride = (int(n) if n else None for n in found.groups()) if found else (None, None, None)
        if first is None or (last is not None and last < first) or stride == 0:
            raise impossible("cpus", text, source, WANTED)
        cpus.extend(range(first, (first if last is None else last) + 1, stride or 1))
    if any(cpu >= MOST_CPUS for cpu in cpus):
        raise impossible("cpus", text, source, WANTED)
    return tuple(cpus)


def _explicit(text: str, source: str, _root: Path) -> tuple[int, ...]:
    return _parse_list(text, source)


def _proc_bind(text: str, source: str, root: Path) -> tuple[int, ...]:
    policies = [policy.strip().lower() for policy in text.split(",")]
    if not set(policies) <= {"false", "true", "close", "spread", "primary", "master"}:
        raise impossible("cpus", text, source, "'false', 'true', 'close', 'spread', 'primary' or 'master'")
    policy = policies[0]  # of the outermost level of nesting
    if policy in ("primary", "master"):
        report(source, text, "workers on the caller's own CPU would take turns with it")
    if policy in ("false", "primary", "master"):
        return ()
    return ordered_cpus(root, scattered=policy == "spread")


def _kmp_affinity(text: str, source: str, root: Path) -> tuple[int, ...]:
    lists = re.findall(r"proclist=\[([^\]]*)\]", text)
    words = [word.strip().lower() for word in re.sub(r"proclist=\[[^\]]*\]", "", text).split(",") if word.strip()]
    kinds = [word for word in words if word in _KINDS]
    unknown = [word for word in words if word not in _KINDS and word not in _HARMLESS]
    foreign = [word for word in unknown if word.isdecimal() or word in _COARSE]
    if len(kinds) > 1 or len(unknown) > len(foreign) or not (kinds or lists or unknown or words):
        raise impossible("cpus", text, source, "a KMP_AFFINITY such as 'compact' or 'explicit,proclist=[0,2-3]'")
    if foreign:
        report(source, text, f"{', '.join(foreign)}: workers are pinned to single CPUs in the order of their cores")
    kind = kinds[0] if kinds else "explicit" if lists else "none"
    if kind == "explicit":
        if len(lists) != 1:
            raise impossible("cpus", text, source, "one proclist=[...] beside 'explicit'")
        if "{" in lists[0]:
            report(source, text, "sets of CPUs are not offered; list single ones")
            return ()
        return _parse_list(lists[0], source)
    if kind in ("logical", "physical"):
        report(source, text, f"{kind!r} is not offered; use compact or scatter")
        return ()
    return () if kind in ("none", "disabled") else ordered_cpus(root, scattered=kind != "compact")


_KINDS = ("none", "disabled", "compact", "scatter", "balanced", "explicit", "logical", "physical")
_HARMLESS = (
    "verbose", "noverbose", "warnings", "nowarnings", "respect", "norespect", "reset", "noreset",
    "granularity=fine", "granularity=thread",
)  # fmt: skip
_COARSE = tuple(
    f"granularity={unit}"
    for unit in ("core", "tile", "module", "die", "node", "group", "socket", "package", "numa_domain", "ll_cache")
)
_PARSERS = {"TREADLE_CPUS": _explicit, "KMP_AFFINITY": _kmp_affinity, "OMP_PROC_BIND": _proc_bind}


def ordered_cpus(root: Path = Path("/"), *, scattered: bool) -> tuple[int, ...]:
    """Return the CPUs that the process may use: neighbours first, or (`scattered`) spread over packages, then cores."""
    try:
        allowed = sorted(os.sched_getaffinity(0))
    except (AttributeError, OSError):
        allowed = list(range(os.cpu_count() or 1))
    homes = {cpu: (_number(root, cpu, "physical_package_id"), _number(root, cpu, "core_id")) for cpu in allowed}
    near = sorted(allowed, key=lambda cpu: (*homes[cpu], cpu))
    if not scattered:
        return tuple(near)
    cores: dict[int, list[int]] = {}
    siblings: dict[tuple[int, int], int] = {}
    ranks = {}
    for cpu in near:
        package, core = homes[cpu]
        seen = cores.setdefault(package, [])
        if core not in seen:
            seen.append(core)
        sibling = siblings[package, core] = siblings.get((package, core), -1) + 1
        ranks[cpu] = (sibling, seen.index(core), package)
    return tuple(sorted(near, key=ranks.__getitem__))


def _number(root: Path, cpu: int, name: str) -> int:
    try:
        return int((root / f"sys/devices/system/cpu/cpu{cpu}/topology/{name}").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return cpu if name == "core_id" else 0
