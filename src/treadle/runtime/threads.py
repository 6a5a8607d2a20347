"""How many threads, how the idle wait and where workers run: the settings, where each came from, and their team.

    treadle.threads.set(intra_op=4, inter_op=2)     any time, from any thread; effective at the next op boundary
    treadle.threads.get()                           ThreadSettings(intra_op=4, inter_op=2)
    with treadle.threads.limit(intra_op=1): ...     for the whole process, while the block runs

Precedence: run > session > set() and limit() > TREADLE_INTRA_OP_THREADS / TREADLE_INTER_OP_THREADS > MKL_NUM_THREADS >
OMP_NUM_THREADS (the last two for intra_op only) > automatic. 0 means automatic: the CPUs that are really available.
Idle spin: set(spin_us=) > TREADLE_SPIN_US > KMP_BLOCKTIME > OMP_WAIT_POLICY. Pinning: set(cpus=) > TREADLE_CPUS >
KMP_AFFINITY > OMP_PROC_BIND. Nothing is clamped, and nothing ignored in silence.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from dataclasses import dataclass, field
from threading import get_ident
from typing import TYPE_CHECKING, Any, ClassVar

from treadle import _native, forking
from treadle.errors import TreadleError
from treadle.runtime import backends, providers
from treadle.runtime.limits import MOST, Setting, checked, chosen, from_environment
from treadle.runtime.pinning import checked_cpus, cpus_from_environment, usable
from treadle.runtime.spinning import checked_spin, spin_from_environment
from treadle.runtime.topology import Topology, read_topology

if TYPE_CHECKING:
    from treadle.runtime.futures import Background

__all__ = ["ThreadSettings", "get", "info", "limit", "set", "set_backend", "set_matmul_provider"]

Settings = dict[str, Setting]


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """The limits in effect, both at least 1, and what decided each."""

    intra_op: int
    inter_op: int
    intra_source: str = field(compare=False)
    inter_source: str = field(compare=False)


class Threads:
    """Thread settings of one team. The module's functions are those of the process's one instance.

    `environment` and `look` stand in for os.environ and the system in tests.
    """

    instances: ClassVar[weakref.WeakSet[Threads]] = weakref.WeakSet()

    def __init__(
        self, name: str, environment: Mapping[str, str] = os.environ, look: Callable[[], Topology] = read_topology
    ) -> None:
        self.name = name
        self._environment = environment
        self._look = look
        self._lock = forking.lock()
        self._topology: Topology | None = None
        self._settings: Settings = {}
        self._scopes: list[Scope] = []  # of limit(), the innermost last
        self._team: _native.Team | None = None
        self._inherited: _native.Team | None = None  # of the process that forked, until this one needs it
        self._background: Background | None = None
        self._extra_slots = 0  # places of threads that wait for runs in the background
        self._listeners: list[Callable[[], None]] = []
        Threads.instances.add(self)

    def set(
        self,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        spin_us: float | None = None,
        cpus: Any = None,
    ) -> None:
        """Set what is named; None leaves a setting as it is.

        `intra_op`, `inter_op`: limits, 0 for automatic (the system is looked at anew), effective at the next op
        boundary, also of runs in progress.
        `spin_us`: how long idle workers spin before they park, in microseconds (math.inf: for ever). `cpus`: where
        workers are pinned, as "0-3,5" or a list of ints; empty unpins. Inside a limit() block this goes before the
        block's own values and stays after it. Raises ThreadSettingError, and then changes nothing, for what is
        impossible; CPUs that the system refuses are reported by one ThreadSettingWarning.
        """
        made = self._checked({"intra_op": intra_op, "inter_op": inter_op, "spin_us": spin_us, "cpus": cpus}, "set")
        with self._lock:
            for name in ("intra_op", "inter_op"):
                if name not in made:
                    self._base(name)  # raises before anything has changed
            self._settings.update(made)
            for scope in self._scopes:
                for name in made:
                    scope.settings.pop(name, None)
            self._apply()

    def begin(self, asked: dict[str, int | None], function: str) -> None:
        """The settings that `function` was called with to make this, before anything else has set one."""
        self._settings.update(self._checked(asked, function))

    def limit(self, *, intra_op: int | None = None, inter_op: int | None = None) -> Limit:
        """Other limits while a `with` block runs, for every thread of the process: they are the team's.

        Blocks nest, the innermost counting; each takes back its own limits alone when it ends, so blocks of several
        threads may overlap. Yields the settings in effect. What is returned serves any number of blocks, of any
        threads, and is a decorator. Raises ThreadSettingError as set() does, before the block runs.
        """
        return Limit(self, {"intra_op": intra_op, "inter_op": inter_op})

    def begin_scope(self, owner: Limit, asked: dict[str, int | None]) -> ThreadSettings:
        """A block of `owner` begins: what is asked for goes before other settings. Returns those in effect."""
        settings = self._checked(asked, "limit")
        with self._lock:
            self._limits()
            self._scopes.append(Scope(owner, get_ident(), settings))
            self._apply()
            return self.get()

    def end_scope(self, owner: Limit) -> None:
        """The innermost block of `owner` that this thread has begun ends; another thread's if it has begun none."""
        with self._lock:
            begun = [scope for scope in reversed(self._scopes) if scope.owner is owner]
            if not begun:
                raise TreadleError("treadle.threads.limit: this block was not entered")
            self._scopes.remove(next((scope for scope in begun if scope.thread == get_ident()), begun[0]))
            self._apply()

    def get(self) -> ThreadSettings:
        """The limits in effect. Raises ThreadSettingError if an environment variable cannot be used."""
        intra, inter = self._limits()
        return ThreadSettings(intra.value, inter.value, intra.source, inter.source)

    def setting(self, name: str) -> Setting:
        """The value in effect of intra_op, inter_op, spin_us or cpus, and its source. Raises as get() does."""
        with self._lock:
            for scope in reversed(self._scopes):
                if name in scope.settings:
                    return scope.settings[name]
            return self._base(name)

    def team(self) -> _native.Team:
        """The team, made when first asked for. Raises as get() does."""
        team = self._team
        if team is not None:
            return team
        with self._lock:
            if self._team is None:
                backends.load()
                intra, inter = self._limits()
                self._team = self._inherited or _native.Team(self.name, intra.value, inter.value)
                self._apply()
            return self._team

    def background(self) -> Background:
        """The threads that serve run_async()."""
        with self._lock:
            if self._background is None:
                from treadle.runtime.futures import Background

                self._background = Background(self.name, self._extra_slot)
            return self._background

    @contextmanager
    def _extra_slot(self) -> Iterator[None]:
        """Room for one thread more, while one that has a place only waits."""
        with self._lock:
            self._extra_slots += 1
            self._apply()
        try:
            yield
        finally:
            with self._lock:
                self._extra_slots -= 1
                self._apply()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change of a setting, in the thread that makes it."""
        self._listeners.append(listener)

    def status(self) -> _native.TeamStatus:
        """What the team is doing (see _native.TeamStatus); all zero before its first run."""
        team = self._team
        if team is None:
            return {
                "workers": 0,
                "blocking": 0,
                "abandoned": 0,
                "slots": 0,
                "spinning": 0,
                "runs": 0,
                "waiting": 0,
                "pin_fault": "",
                "thread_fault": "",
            }
        return team.status()

    def validated(self, setting: str, value: Any, source: str) -> int:
        """What a level below the process passes on: 0 to inherit (for None), else a limit of at least 1.

        `value` 0 is automatic: the available CPUs. Raises ThreadSettingError naming setting, value and source.
        """
        if value is None:
            return 0
        return checked(setting, value, source) or self.topology().available

    def topology(self) -> Topology:
        """What the system offers, as found when an automatic number was last asked for by set() or limit(), or first."""
        topology = self._topology
        if topology is None:
            topology = self._topology = self._look()
        return topology

    def info(self) -> dict[str, Any]:
        """Everything about threads as plain data: see runtime.report."""
        from treadle.runtime.report import report

        return report(self)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment that the settings are read from."""
        return self._environment

    def _checked(self, asked: dict[str, Any], function: str) -> Settings:
        """The settings that are not None, validated, with their sources."""
        made: Settings = {}
        for name, value in asked.items():
            if value is None:
                continue
            source, where = f"{function}({name}={value})", f"{function}({name}=)"
            if name == "spin_us":
                made[name] = Setting(checked_spin(value, where), source)
            elif name == "cpus":
                made[name] = Setting(usable(checked_cpus(value, where), where, value), source)
            else:
                if checked(name, value, where) == 0:
                    self._topology = None  # what is available may have changed
                made[name] = chosen(value, source, self.topology())
        return made

    def _limits(self) -> tuple[Setting, Setting]:
        return self.setting("intra_op"), self.setting("inter_op")

    def _base(self, name: str) -> Setting:
        """The setting outside all limit() blocks; the environment is read the first time. Needs the lock."""
        if name not in self._settings:
            self._settings[name] = self._from_environment(name)
        return self._settings[name]

    def _from_environment(self, name: str) -> Setting:
        if name == "spin_us":
            return spin_from_environment(self._environment)
        if name == "cpus":
            return cpus_from_environment(self._environment)
        return from_environment(name, self._environment, self.topology())

    def _apply(self) -> None:
        """Tell the team, and who follows. Needs the lock."""
        if self._team is not None:
            intra, inter = self._limits()
            self._team.set_limits(*(min(MOST, limit.value + self._extra_slots) for limit in (intra, inter)))
            self._team.set_spin(self.setting("spin_us").value)
            self._team.set_cpus(self.setting("cpus").value)
        for listener in self._listeners:
            listener()

    def forked(self) -> None:
        """For the child after fork(), where other threads do not exist."""
        self._inherited, self._team = self._team or self._inherited, None
        if self._background is not None:
            self._background.is_forked = True
        self._background = None
        self._extra_slots = 0


class Limit(ContextDecorator):
    """What limit() returns: a `with` block, or, as a decorator, the calls of a function."""

    def __init__(self, threads: Threads, asked: dict[str, int | None]) -> None:
        self._threads = threads
        self._asked = asked

    def __enter__(self) -> ThreadSettings:
        return self._threads.begin_scope(self, self._asked)

    def __exit__(self, *_: object) -> None:
        self._threads.end_scope(self)


@dataclass(slots=True, eq=False)
class Scope:
    """What a block of a Limit has set, and the thread that began it."""

    owner: Limit
    thread: int
    settings: Settings


def __dir__() -> list[str]:
    return sorted(__all__)


def _after_fork() -> None:
    for threads in list(Threads.instances):
        threads.forked()


os.register_at_fork(after_in_child=_after_fork)
process = Threads("main")

set = process.set  # noqa: A001
limit = process.limit
get = process.get
info = process.info
validated = process.validated
default_team = process.team
set_backend = backends.set_backend
set_matmul_provider = providers.set_matmul_provider
