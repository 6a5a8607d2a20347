"""Thread settings: how many threads run, how idle workers wait, and where workers run.

    treadle.threads.set(intra_op=4, inter_op=2)     any time, from any thread; in force at the next op
    treadle.threads.get()                           ThreadSettings(intra_op=4, inter_op=2)
    with treadle.threads.limit(intra_op=1): ...     for the whole process, while the block runs

Precedence: run > session > set() and limit() > TREADLE_INTRA_OP_THREADS / TREADLE_INTER_OP_THREADS > MKL_NUM_THREADS >
OMP_NUM_THREADS (the last two for intra_op only) > automatic. 0 means automatic: the CPUs that are really available.
Idle spin: set(spin_us=) > TREADLE_SPIN_US > KMP_BLOCKTIME > OMP_WAIT_POLICY. Pinning: set(cpus=) > TREADLE_CPUS >
KMP_AFFINITY > OMP_PROC_BIND. No value is clamped, and none is ignored silently.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager
from dataclasses import field
from threading import get_ident
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from treadle import _native, forking
from treadle.errors import TreadleError
from treadle.records import dataclass
from treadle.runtime import backends, providers
from treadle.runtime.limits import MOST, Setting, checked, chosen, from_environment
from treadle.runtime.pinning import checked_cpus, cpus_from_environment, usable
from treadle.runtime.spinning import checked_spin, spin_from_environment
from treadle.runtime.topology import Bounds, Topology, read_topology

if TYPE_CHECKING:
    from treadle.runtime.futures import Background

__all__ = ["ThreadSettings", "get", "info", "limit", "set", "set_backend", "set_matmul_provider"]

Settings = dict[str, Setting]

_LOOK_SECONDS = 0.9
"""Runs that begin look at most this often whether the CPUs available have changed, which costs 0.01 % of a core."""


@dataclass(frozen=True, slots=True)
class ThreadSettings:
    """The limits in force and what decided each.

    Attributes:
        intra_op: How many workers may share one op, at least 1.
        inter_op: How many independent ops may be in progress at once, at least 1.
        intra_source: The call, variable or default that decided intra_op.
        inter_source: The same for inter_op.
    """

    intra_op: int
    inter_op: int
    intra_source: str = field(compare=False)
    inter_source: str = field(compare=False)


class Threads:
    """The thread settings of one team. The module's functions are methods of the process's instance.

    Automatic limits follow the affinity mask and the quotas of the process: runs look whether these have changed.
    Tests replace the `environment` and the functions that read the system's `topology` and the `bounds` that it
    depends on.
    """

    instances: ClassVar[weakref.WeakSet[Threads]] = weakref.WeakSet()

    def __init__(
        self,
        name: str,
        environment: Mapping[str, str] = os.environ,
        topology: Callable[[], Topology] = read_topology,
        bounds: Callable[[], object] | None = None,
    ) -> None:
        self.name = name
        self._environment = environment
        self._read_topology = topology
        self._lock = forking.lock()
        self._read_bounds = bounds or Bounds()
        self._bounds: object = None  # when the topology was read
        self._next_look = 0.0
        self._topology: Topology | None = None
        self._settings: Settings = {}
        self._scopes: list[Scope] = []  # entered limit() blocks, the innermost last
        self._team: _native.Team | None = None
        self._inherited: _native.Team | None = None  # the parent process's, from fork() until this process needs a team
        self._background: Background | None = None
        self._extra_slots = 0  # for threads that wait for background runs and lend their slots
        self._listeners: list[Callable[[], None]] = []
        self._followers: weakref.WeakSet[Follower] = weakref.WeakSet()
        Threads.instances.add(self)

    def set(
        self,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        spin_us: float | None = None,
        cpus: Any = None,
    ) -> None:
        """Change settings of the process, at any time, from any thread. Runs in progress follow at their next op.

        Inside a limit() block the new value replaces the block's own, and stays after it.

        Args:
            intra_op: How many workers may share one op. 0: automatic, from the CPUs now available. None: unchanged.
            inter_op: How many independent ops may be in progress at once. 0: automatic. None: unchanged.
            spin_us: How long idle workers spin before they park, in microseconds; math.inf: they never park. None:
                unchanged.
            cpus: The CPUs that workers are pinned to, as "0-3,5" or a list of ints; empty: unpinned. None: unchanged.

        Raises:
            ThreadSettingError: A value cannot be. Nothing is changed then.

        Warns:
            ThreadSettingWarning: The system refuses some of the CPUs.

        Example:
            >>> treadle.threads.set(intra_op=4, inter_op=2)
            >>> treadle.threads.set(cpus="0-3", spin_us=0)
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

    def begin(self, limits: dict[str, int | None], function: str) -> None:
        """Enter the settings that `function` was called with to make this object."""
        self._settings.update(self._checked(limits, function))

    def limit(self, *, intra_op: int | None = None, inter_op: int | None = None) -> Limit:
        """Set other limits while a `with` block runs, for all threads of the process: limits belong to the team.

        Blocks nest; the innermost one counts. A block that ends takes back its own limits only, so blocks of several
        threads may overlap. `with` yields the ThreadSettings in force.

        Args:
            intra_op: How many workers may share one op. 0: automatic. None: unchanged.
            inter_op: How many independent ops may be in progress at once. 0: automatic. None: unchanged.

        Returns:
            A context manager, also a decorator, for any number of blocks in any threads. Entering it raises
            ThreadSettingError for a number that cannot be.

        Example:
            >>> with treadle.threads.limit(intra_op=1):
            ...     session.run({"x": x})
        """
        return Limit(self, {"intra_op": intra_op, "inter_op": inter_op})

    def begin_scope(self, owner: Limit, limits: dict[str, int | None]) -> ThreadSettings:
        """Begin a block of `owner` that sets these limits. Returns the settings in force."""
        settings = self._checked(limits, "limit")
        with self._lock:
            self._limits()
            self._scopes.append(Scope(owner, get_ident(), settings))
            self._apply()
            return self.get()

    def end_scope(self, owner: Limit) -> None:
        """End the innermost block of `owner` that this thread has begun, or another thread's if it has begun none."""
        with self._lock:
            begun = [scope for scope in reversed(self._scopes) if scope.owner is owner]
            if not begun:
                raise TreadleError("treadle.threads.limit: this block was not entered")
            self._scopes.remove(next((scope for scope in begun if scope.thread == get_ident()), begun[0]))
            self._apply()

    def get(self) -> ThreadSettings:
        """Return the limits in force and what decided each.

        Raises:
            ThreadSettingError: An environment variable that decides a limit cannot be used.

        Example:
            >>> treadle.threads.get()
            ThreadSettings(intra_op=4, inter_op=2, intra_source='set(intra_op=4)', inter_source='set(inter_op=2)')
        """
        intra, inter = self._limits()
        return ThreadSettings(intra.value, inter.value, intra.source, inter.source)

    def setting(self, name: str) -> Setting:
        """Return the value in force of intra_op, inter_op, spin_us or cpus, and its source. Raises as get() does."""
        with self._lock:
            for scope in reversed(self._scopes):
                if name in scope.settings:
                    return scope.settings[name]
            return self._base(name)

    def team(self) -> _native.Team:
        """Return the team; the first call makes it. Raises as get() does."""
        team = self._team
        if team is not None:
            if monotonic() >= self._next_look:
                self._look()
            return team
        with self._lock:
            if self._team is None:
                backends.load()
                intra, inter = self._limits()
                self._team = self._inherited or _native.Team(self.name, intra.value, inter.value)
                self._apply()
            return self._team

    def _look(self) -> None:
        """Let automatic limits follow the CPUs that are available, if the bounds on these have changed."""
        with self._lock:
            self._next_look = monotonic() + _LOOK_SECONDS
            if self._topology is None or self._read_bounds() == self._bounds:
                return
            self._topology = None
            topology = self.topology()
            for settings in (self._settings, *(scope.settings for scope in self._scopes)):
                settings.update({name: setting.on(topology) for name, setting in settings.items()})
            self._apply()
            followers = list(self._followers)
        for follower in followers:
            follower.follow(topology)

    def add_follower(self, follower: Follower) -> None:
        """Call `follower.follow`, while it lives, in the thread that notices that the CPUs available have changed."""
        with self._lock:
            self._followers.add(follower)

    def background(self) -> Background:
        """Return the queue of run_async() and its threads."""
        with self._lock:
            if self._background is None:
                from treadle.runtime.futures import Background

                self._background = Background(self.name, self._extra_slot)
            return self._background

    @contextmanager
    def _extra_slot(self) -> Iterator[None]:
        """Add a slot to the team, while a thread that holds one waits."""
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
        """Return the status of the team (see _native.TeamStatus), all zero before its first run."""
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
        """Return the limit of a session or run: 0, which inherits, for None; else at least 1.

        A `value` of 0 is automatic: the available CPUs. Raises ThreadSettingError naming setting, value and source.
        """
        if value is None:
            return 0
        return checked(setting, value, source) or self.topology().available

    def topology(self) -> Topology:
        """Return the CPUs available when they were last looked at: by a run, or by set() or limit() to automatic."""
        topology = self._topology
        if topology is None:
            self._bounds = self._read_bounds()
            topology = self._topology = self._read_topology()
        return topology

    def info(self) -> dict[str, Any]:
        """Return all settings with their sources, the machine, the build and all pools, as plain data.

        Returns:
            A dict with these keys. `intra_op`, `inter_op`, `spin_us` (microseconds), `cpus`, `backend`: dicts of
            `value` and `source`. `matmul_provider`: also `version`, `path`, `why` and `loaded`. `topology`: `online`,
            `allowed`, `quota` (CPUs), `quota_source`, `available`, `reason`. `cpu`: `model`, `features`, `isa`.
            `environment`: the variables set that treadle reads. `build`: versions, compiler, backend. `pools`: a dict
            for each pool. `threads`: the number of this team's threads.

        Raises:
            ThreadSettingError: An environment variable cannot be used.
        """
        from treadle.runtime.report import report

        return report(self)

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables that settings are read from."""
        return self._environment

    def _checked(self, settings: dict[str, Any], function: str) -> Settings:
        """Return the settings that are not None, with their sources. Raises ThreadSettingError."""
        made: Settings = {}
        for name, value in settings.items():
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
        """Return the setting outside all limit() blocks; the first call reads the environment. Needs the lock."""
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
        """Put the settings in force in the team, and call the listeners. Needs the lock."""
        if self._team is not None:
            intra, inter = self._limits()
            self._team.set_limits(*(min(MOST, limit.value + self._extra_slots) for limit in (intra, inter)))
            self._team.set_spin(self.setting("spin_us").value)
            self._team.set_cpus(self.setting("cpus").value)
        for listener in self._listeners:
            listener()

    def forked(self) -> None:
        """Drop, in the child after fork(), what belongs to threads of the parent."""
        self._inherited, self._team = self._team or self._inherited, None
        if self._background is not None:
            self._background.is_forked = True
        self._background = None
        self._extra_slots = 0


class Follower(Protocol):
    """Has automatic limits of its own."""

    def follow(self, topology: Topology) -> None:
        """Replace them by those of `topology`."""


class Limit(ContextDecorator):
    """Limits of `with` blocks, or, as a decorator, of the calls of a function."""

    def __init__(self, threads: Threads, limits: dict[str, int | None]) -> None:
        self._threads = threads
        self._limits = limits

    def __enter__(self) -> ThreadSettings:
        return self._threads.begin_scope(self, self._limits)

    def __exit__(self, *_: object) -> None:
        self._threads.end_scope(self)


@dataclass(slots=True, eq=False)
class Scope:
    """The settings of an entered block of a Limit, and the thread that entered it."""

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
