"""Pools: teams of threads of one's own."""

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
    """A team of threads beside the process's own, for sessions or runs: `Session(model, pool=)`, `run(pool=)`.

    `intra_op` and `inter_op` limit it (0 or None: automatic). A named pool is one and the same for everybody who
    asks for the name while it lives; asking for it with other limits raises ThreadSettingError. Its threads start
    when they first pay, are named treadle-<name>-<i>, and end when nothing refers to the pool any more.
    """

    _threads: Threads

    def __new__(cls, name: str | None = None, *, intra_op: int | None = None, inter_op: int | None = None) -> Pool:  # noqa: PYI034 - found pools are of this class
        asked = {"intra_op": intra_op, "inter_op": inter_op}
        for setting, value in asked.items():
            if value is not None:
                checked(setting, value, f"Pool({setting}=)")
        if name is None:
            return cls._make(f"pool{next(_numbers)}", asked)
        if not isinstance(name, str) or not name.isprintable() or not name.strip() or name == "main":
            raise ThreadSettingError(
                f"name from Pool(name=): wanted printable text other than 'main' (the process's own), got {name!r}"
            )
        with _lock:
            found = _named.get(name)
            if found is None:
                found = _named[name] = cls._make(name, asked)
            else:
                _must_agree(found, asked)
            return found

    @classmethod
    def _make(cls, name: str, asked: dict[str, int | None]) -> Pool:
        pool = super().__new__(cls)
        pool._threads = Threads(name)
        pool._threads.begin(asked, "Pool")
        return pool

    @property
    def name(self) -> str:
        """Its name; made up for a pool without one."""
        return self._threads.name

    @property
    def threads(self) -> Threads:
        """Its settings and team."""
        return self._threads

    def set(self, **settings: Any) -> None:
        """Change intra_op, inter_op, spin_us or cpus at any time, as treadle.threads.set() does for the process."""
        self._threads.set(**settings)

    def get(self) -> ThreadSettings:
        """The limits in effect and what decided each."""
        return self._threads.get()

    def __reduce__(self) -> NoReturn:
        raise TypeError("a treadle.Pool cannot be pickled or copied: its threads belong to this process")

    def __repr__(self) -> str:
        settings = self.get()
        return f"<treadle.Pool {self.name!r} intra_op={settings.intra_op} inter_op={settings.inter_op}>"


def _must_agree(pool: Pool, asked: dict[str, int | None]) -> None:
    for setting, value in asked.items():
        if value is None:
            continue
        has = pool.threads.setting(setting)
        if (value or pool.threads.topology().available) != has.value:
            raise ThreadSettingError(
                f"{setting} from Pool({pool.name!r}, {setting}=): the pool already has {has.value} "
                f"({has.source}), got {value}; leave the number out, or change it with the pool's set()"
            )


def threads_of(pool: Pool | None, source: str) -> Threads:
    """Settings and team of `pool`; those of the process for None. Raises ThreadSettingError for anything else."""
    if pool is None:
        return process
    if not isinstance(pool, Pool):
        raise ThreadSettingError(f"pool from {source}: wanted a treadle.Pool or None, got {pool!r}")
    return pool.threads
