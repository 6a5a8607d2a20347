"""The CPUs that this process may really use.

Exists because the count of CPUs in the machine is the wrong default in a container: a worker that the quota of a
control group throttles makes every join wait for it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


@dataclass(frozen=True, slots=True)
class Topology:
    """What bounds the threads worth running.

    `online` CPUs of the machine; `allowed`: those of them in the affinity mask of the process; `quota`: CPUs' worth of
    time its control groups grant, None for no bound; `quota_source`: the file that says so.
    """

    online: int
    allowed: int
    quota: float | None
    quota_source: str | None

    @property
    def available(self) -> int:
        """CPUs that can be kept busy: `allowed`, or the quota rounded down if that is less; at least 1."""
        if self.quota is None:
            return self.allowed
        return max(1, min(self.allowed, int(self.quota)))

    @property
    def reason(self) -> str:
        """What decided `available`, in words."""
        if self.quota is not None and int(self.quota) < self.allowed:
            return f"cgroup quota of {self.quota:g} CPUs ({self.quota_source})"
        if self.allowed < self.online:
            return f"affinity mask, {self.allowed} of {self.online} CPUs"
        return f"{self.online} CPUs online"


def read_topology(root: Path = Path("/"), affinity: frozenset[int] | None = None) -> Topology:
    """Look at the system. Never raises: what cannot be read bounds nothing.

    `root` is the folder that holds `proc` and `sys`; `affinity` the CPU numbers the process may run on, None to ask the
    system.
    """
    online = _online_cpus(root)
    allowed = _affinity() if affinity is None else affinity
    usable = len(online & allowed) or len(allowed) or len(online) or 1
    quota, source = min(_quotas(root), default=(None, None))
    return Topology(online=len(online) or usable, allowed=usable, quota=quota, quota_source=source)


def _affinity() -> frozenset[int]:
    try:
        return frozenset(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not offered by this system
        return frozenset(range(os.cpu_count() or 1))


def _online_cpus(root: Path) -> frozenset[int]:
    text = _read(root / "sys/devices/system/cpu/online")
    try:
        return frozenset(_parse_cpu_list(text))
    except ValueError:
        return frozenset(range(os.cpu_count() or 1))


def _parse_cpu_list(text: str) -> Iterator[int]:
    """`0-2,5` → 0, 1, 2, 5."""
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _quotas(root: Path) -> Iterator[tuple[float, str]]:
    """(CPUs, file) of every quota on the way from the process's control groups up to their roots."""
    for folder, is_v2 in _groups(root):
        quota = _v2_quota(folder) if is_v2 else _v1_quota(folder)
        if quota is not None:
            file = folder / ("cpu.max" if is_v2 else "cpu.cfs_quota_us")
            yield quota, "/" + str(file.relative_to(root))


def _groups(root: Path) -> Iterator[tuple[Path, bool]]:
    """(folder, is version 2) of every control group that holds the process and may bound its CPU time."""
    mounts = list(_mounts(root))
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_v2 = number == "0" and controllers == ""
        if not is_v2 and "cpu" not in controllers.split(","):
            continue
        for mounted_group, folder, mount_is_v2 in mounts:
            if mount_is_v2 != is_v2:
                continue
            steps = _below(path, mounted_group)
            for depth in range(len(steps), -1, -1):
                yield folder.joinpath(*steps[:depth]), is_v2


def _mounts(root: Path) -> Iterator[tuple[str, Path, bool]]:
    """(group at its top, folder, is version 2) of every mounted hierarchy that may have CPU quotas."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        front, _, back = line.partition(" - ")
        fields, kind = front.split(), back.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" or (kind[0] == "cgroup" and "cpu" in kind[2].split(",")):
            yield fields[3], root / fields[4].lstrip("/"), kind[0] == "cgroup2"


def _below(path: str, mounted_group: str) -> tuple[str, ...]:
    """The steps from the mounted group down to `path`; none if `path` lies outside, as in another namespace."""
    parts = PurePosixPath(path).parts
    top = PurePosixPath(mounted_group).parts
    if ".." in parts or parts[: len(top)] != top:
        return ()
    return parts[len(top) :]


def _v2_quota(folder: Path) -> float | None:
    limit, _, period = _read(folder / "cpu.max").strip().partition(" ")
    return _ratio(limit, period or "100000")


def _v1_quota(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(limit: str, period: str) -> float | None:
    try:
        granted, length = int(limit), int(period)
    except ValueError:  # absent, or `max`
        return None
    return granted / length if granted > 0 and length > 0 else None


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
