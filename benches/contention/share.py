"""What other programs, quotas and masks leave of the CPUs: how each is made, and what an ideal engine gets."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_PERIOD_US = 100_000
_MOST_SHARES, _MOST_WEIGHT = 262_144, 10_000
"""The most of a control group of version 1 and 2, so that other programs take little of the CPU time of the quota."""

_BUSY = "while True: pass"
_GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Where control groups with quotas are: of version 1, of version 2."""


@dataclass(frozen=True, slots=True)
class Share:
    """A condition: `busy` foreign threads that never wait, a quota of CPU time, or CPUs taken away after loading.

    Attributes:
        name: How tables call it.
        busy: Foreign threads of the same priority.
        quota: CPU time per time that the engine's control group grants; None: no bound.
        cpus: CPUs that are left of the mask once the engine is loaded; None: all.
    """

    name: str
    busy: int = 0
    quota: float | None = None
    cpus: int | None = None

    def ideal(self, cpus: int) -> float:
        """Returns the CPUs that an engine gets of `cpus` which never waits for a thread that has none.

        A foreign thread takes half of a CPU where one thread of the engine is beside it. With more foreign threads than
        CPUs, all threads get the same.
        """
        if self.quota is not None:
            return min(self.quota, cpus)
        if self.cpus is not None:
            return min(self.cpus, cpus)
        return cpus - self.busy / 2 if self.busy <= cpus else cpus * cpus / (cpus + self.busy)


SHARES = (
    Share("alone"),
    Share("1 busy thread", busy=1),
    Share("2 busy threads", busy=2),
    Share("4 busy threads", busy=4),
    Share("a quota of 1.5 CPUs", quota=1.5),
    Share("a quota of 1 CPU", quota=1.0),
    Share("a quota of 0.5 CPUs", quota=0.5),
    Share("a mask that shrinks to 1 CPU", cpus=1),
)


@contextmanager
def busy_threads(count: int) -> Iterator[None]:
    """Keeps `count` threads of other processes busy while the block runs."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


@contextmanager
def quota(cpus: float) -> Iterator[None]:
    """Bounds the CPU time of this process, and of those that it starts, while the block runs.

    Raises OSError if this process may not make control groups.
    """
    root = next((root for root in _GROUPS if (root / "cgroup.procs").exists()), _GROUPS[-1])
    is_first = root == _GROUPS[0]
    before = root / _group_of_this_process("cpu" if is_first else "").lstrip("/")
    group = before / f"treadle-bench-{os.getpid()}"
    group.mkdir()
    try:
        if is_first:
            (group / "cpu.shares").write_text(str(_MOST_SHARES))
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(cpus * _PERIOD_US)))
        else:
            (group / "cpu.weight").write_text(str(_MOST_WEIGHT))
            (group / "cpu.max").write_text(f"{int(cpus * _PERIOD_US)} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(str(os.getpid()))
        yield
    finally:
        (before / "cgroup.procs").write_text(str(os.getpid()))
        group.rmdir()


def _group_of_this_process(controller: str) -> str:
    """Returns the path of this process's group in the hierarchy of `controller`; "": in that of version 2."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            return path
    raise OSError(f"this process is in no control group of {controller or 'version 2'}")


@contextmanager
def only_first_cpus(pid: int, count: int) -> Iterator[None]:
    """Leaves the first `count` CPUs of its mask to every thread of a process while the block runs."""
    mask = os.sched_getaffinity(pid)
    _set_mask(pid, set(sorted(mask)[:count]))
    try:
        yield
    finally:
        _set_mask(pid, mask)


def _set_mask(pid: int, mask: set[int]) -> None:
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), mask)
