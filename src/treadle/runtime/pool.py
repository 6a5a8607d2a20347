"""Pools: teams of threads beside the one of the process."""

from __future__ import annotations

import itertools
import weakref
from typing import Any, NoReturn

from treadle import forking
from treadle.errors import ThreadSettingError
from treadle.runtime.limits import checked
from treadle.runtime.threads import Threads, ThreadSettings, process

_numbers = itertools.count(1)
_named: weakref.WeakValueDictionary[str, Pool] = weakref.WeakValueDictionary()
_lock = forking.lock()


class Pool:
    """A team of threads beside the one of the process, for sessions (`Session(model, pool=)`) or runs (`run(pool=)`).

    Its threads start when a run first profits from them, are named treadle-<name>-<i>, and end when nothing refers to
    the pool any more. All calls of Pool with one name return the same pool while it lives.

    Args:
        name: Printable text. None: a pool that no other call returns.
        intra_op: How many workers may share one op. 0 or None: automatic.
        inter_op: How many independent ops may be in progress at once. 0 or None: automatic.

    Raises:
        ThreadSettingError: The name or a number cannot be, or the pool of that name has other limits.

    Example:
        >>> background = treadle.Pool("background", intra_op=2)
        >>> session = treadle.Session("model.onnx", pool=background)
    """

    _threads: Threads

    def __new__(cls, name: str | None = None, *, intra_op: int | None = None, inter_op: int | None = None) -> Pool:  # noqa: PYI034 - a pool found by name is of this class
        """Return the pool of that name; make it if there is none."""
        limits = {"intra_op": intra_op, "inter_op": inter_op}
        for setting, value in limits.items():
            if value is not None:
                checked(setting, value, f"Pool({setting}=)")
        if name is None:
            return cls._make(f"pool{next(_numbers)}", limits)
        if not isinstance(name, str) or not name.isprintable() or not name.strip() or name == "main":
            raise ThreadSettingError(
                f"name from Pool(name=): wanted printable text other than 'main' (the process's own), got {name!r}"
            )
        with _lock:
            found = _named.get(name)
            if found is None:
                found = _named[name] = cls._make(name, limits)
            else:
                _must_agree(found, limits)
            return found

    @classmethod
    def _make(cls, name: str, limits: dict[str, int | None]) -> Pool:
        pool = super().__new__(cls)
        pool._threads = Threads(name)
        pool._threads.begin(limits, "Pool")
        return pool

    @property
    def name(self) -> str:
        """The name of the pool; a generated one if it was made without."""
        return self._threads.name

    @property
    def threads(self) -> Threads:
        """The settings and the team of the pool."""
        return self._threads

    def set(self, **settings: Any) -> None:
        """Change settings of the pool at any time, as treadle.threads.set() does for the process.

        Args:
            **settings: `intra_op`, `inter_op`, `spin_us` and `cpus`, as treadle.threads.set() takes them.

        Raises:
            ThreadSettingError: A value cannot be. Nothing is changed then.
        """
        self._threads.set(**settings)

    def get(self) -> ThreadSettings:
        """Return the limits in effect and what decided each.

        Raises:
            ThreadSettingError: An environment variable that decides a limit cannot be used.
        """
        return self._threads.get()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a treadle.Pool cannot be pickled or copied: its threads belong to this process")

    def __repr__(self) -> str:
        settings = self.get()
        return f"<treadle.Pool {self.name!r} intra_op={settings.intra_op} inter_op={settings.inter_op}>"


def _must_agree(pool: Pool, limits: dict[str, int | None]) -> None:
    for setting, value in limits.items():
        if value is None:
            continue
        has = pool.threads.setting(setting)
        if (value or pool.threads.topology().available) != has.value:
            raise ThreadSettingError(
                f"{setting} from Pool({pool.name!r}, {setting}=): the pool already has {has.value} "
                f"({has.source}), got {value}; leave the number out, or change it with the pool's set()"
            )


def threads_of(pool: Pool | None, source: str) -> Threads:
    """Return the settings and team of `pool`, the process's for None. Raises ThreadSettingError for another value."""
    if pool is None:
        return process
    if not isinstance(pool, Pool):
        raise ThreadSettingError(f"pool from {source}: wanted a treadle.Pool or None, got {pool!r}")
    return pool.threads
