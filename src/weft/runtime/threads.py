"""How many threads: the process-level settings, where each came from, and the team that obeys them.

    weft.threads.set(intra_op=4, inter_op=2)     any time, from any thread; effective at the next op boundary
    weft.threads.get()                           ThreadSettings(intra_op=4, inter_op=2)

Precedence: set() > WEFT_INTRA_OP_THREADS / WEFT_INTER_OP_THREADS > MKL_NUM_THREADS > OMP_NUM_THREADS (the last two for
intra_op only) > automatic. 0 means automatic: the CPUs that are really available. Nothing is clamped.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from weft import _native, knobs
from weft.errors import ThreadSettingError
from weft.runtime.topology import Topology, read_topology

__all__ = ["ThreadSettings", "Threads", "default_team", "get", "info", "set", "validated"]

MOST = _native.MOST_THREADS

_VARIABLES = {
    "intra_op": ("WEFT_INTRA_OP_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"),
    "inter_op": ("WEFT_INTER_OP_THREADS",),
}


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """The limits in effect, both at least 1, and what decided each."""

    intra_op: int
    inter_op: int
    intra_source: str = field(compare=False)
    inter_source: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class _Limit:
    value: int
    source: str


class Threads:
    """Thread settings of one team. The module's functions are those of the process's one instance.

    `environment` and `look` stand in for os.environ and the system in tests.
    """

    def __init__(
        self, name: str, environment: Mapping[str, str] = os.environ, look: Callable[[], Topology] = read_topology
    ) -> None:
        self._name = name
        self._environment = environment
        self._look = look
        self._lock = threading.Lock()
        self._topology: Topology | None = None
        self._limits: dict[str, _Limit] = {}
        self._team: _native.Team | None = None
        os.register_at_fork(after_in_child=self._renew_lock)

    def set(self, *, intra_op: int | None = None, inter_op: int | None = None) -> None:
        """Set one or both limits; None leaves a limit as it is, 0 makes it automatic.

        Takes effect at the next op boundary, also of runs in progress. Raises ThreadSettingError, and then changes
        nothing, for what is not an int in 0..4096.
        """
        asked = {"intra_op": intra_op, "inter_op": inter_op}
        for setting, value in asked.items():
            if value is not None:
                _check(setting, value, f"set({setting}=)")
        with self._lock:
            chosen = {
                setting: self._chosen(value, f"set({setting}={value})")
                for setting, value in asked.items()
                if value is not None
            }
            limits = {setting: chosen.get(setting) or self._limit(setting) for setting in asked}
            self._limits.update(limits)
            if self._team is not None:
                self._team.set_limits(limits["intra_op"].value, limits["inter_op"].value)

    def get(self) -> ThreadSettings:
        """The limits in effect. Raises ThreadSettingError if an environment variable cannot be used."""
        with self._lock:
            intra, inter = self._limit("intra_op"), self._limit("inter_op")
        return ThreadSettings(intra.value, inter.value, intra.source, inter.source)

    def team(self) -> _native.Team:
        """The team, made when first asked for. Raises as get() does."""
        team = self._team
        if team is not None:
            return team
        with self._lock:
            if self._team is None:
                intra, inter = self._limit("intra_op"), self._limit("inter_op")
                spin = float(knobs.get("WEFT_SPIN_US"))
                self._team = _native.Team(self._name, intra.value, inter.value, spin_us=spin)
            return self._team

    def validated(self, setting: str, value: Any, source: str) -> int:
        """What a level below the process passes on: 0 to inherit (for None), else a limit of at least 1.

        `value` 0 is automatic: the available CPUs. Raises ThreadSettingError naming setting, value and source.
        """
        if value is None:
            return 0
        return _check(setting, value, source) or self.topology().available

    def topology(self) -> Topology:
        """What the system offers, as found at the first look."""
        if self._topology is None:
            self._topology = self._look()
        return self._topology

    def info(self) -> dict[str, Any]:
        """Settings, their sources and what they were chosen from, as plain data.

        Keys: intra_op and inter_op (each a dict of value and source), topology (online, allowed, quota, quota_source,
        available, reason), threads (workers started). Raises as get() does.
        """
        settings, topology, team = self.get(), self.topology(), self._team
        return {
            "intra_op": {"value": settings.intra_op, "source": settings.intra_source},
            "inter_op": {"value": settings.inter_op, "source": settings.inter_source},
            "topology": {
                "online": topology.online,
                "allowed": topology.allowed,
                "quota": topology.quota,
                "quota_source": topology.quota_source,
                "available": topology.available,
                "reason": topology.reason,
            },
            "threads": 0 if team is None else team.threads,
        }

    def _limit(self, setting: str) -> _Limit:
        """The limit in effect; the environment is read the first time. Needs the lock."""
        limit = self._limits.get(setting)
        if limit is None:
            limit = self._limits[setting] = self._from_environment(setting)
        return limit

    def _from_environment(self, setting: str) -> _Limit:
        for variable in _VARIABLES[setting]:
            text = self._environment.get(variable, "").strip()
            if not text:
                continue
            # OpenMP allows one number for each level of nesting: the first is the outermost.
            number = text.split(",")[0] if variable == "OMP_NUM_THREADS" else text
            return self._chosen(_parse(setting, number, text, f"environment variable {variable}"), variable)
        return self._chosen(0, "default")

    def _chosen(self, value: int, source: str) -> _Limit:
        if value > 0:
            return _Limit(value, source)
        topology = self.topology()
        return _Limit(topology.available, f"automatic ({source}): {topology.reason}")

    def _renew_lock(self) -> None:
        self._lock = threading.Lock()


def _parse(setting: str, number: str, text: str, source: str) -> int:
    try:
        value = int(number)
    except ValueError:
        raise _impossible(setting, text, source) from None
    return _check(setting, value, source)


def _check(setting: str, value: Any, source: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MOST:
        raise _impossible(setting, value, source)
    return value


def _impossible(setting: str, value: Any, source: str) -> ThreadSettingError:
    return ThreadSettingError(
        f"{setting} from {source}: wanted an int in 0..{MOST} (0 = automatic), "
        f"got {value!r} ({type(value).__name__}); correct or remove the setting"
    )


_process = Threads("main")

set = _process.set  # noqa: A001
get = _process.get
info = _process.info
validated = _process.validated
default_team = _process.team
