"""The CPUs that are available to this process.

The number of CPUs in the machine is a wrong default in a container: if a control group's quota throttles one worker,
all others wait for it at the end of each op.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from treadle.records import dataclass

_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Topology:
    """The bounds on useful threads.

    `online`: CPUs of the machine. `allowed`: those in the affinity mask of the process and the CPU sets of its control
    groups; `allowed_source` is the one that decided. `quota`: CPU time per time that its control groups grant, None for
    no bound; `quota_source` is the file that has it.
    """

    online: int
    allowed: int
    quota: float | None
    quota_source: str | None
    allowed_source: str = "affinity mask"

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
            return f"{self.allowed_source}, {self.allowed} of {self.online} CPUs"
        return f"{self.online} CPUs online"


def read_topology(root: Path = Path("/"), affinity: frozenset[int] | None = None) -> Topology:
    """Read the topology of the system. Never raises: a file that cannot be read bounds nothing.

    `root` is the folder that holds `proc` and `sys`; `affinity` are the CPUs of the process's affinity mask, None to
    ask the system.
    """
    online = _online_cpus(root)
    allowed = _affinity(root) if affinity is None else affinity
    usable = online & allowed or allowed or online or frozenset({0})
    allowed_source = "affinity mask"
    for cpus, file in _cpu_sets(root):
        if cpus & usable and not usable <= cpus:
            usable, allowed_source = usable & cpus, f"cpuset ({file})"
    quota, source = min(_quotas(root), default=(None, None))
    return Topology(len(online) or len(usable), len(usable), quota, source, allowed_source)


class Bounds:
    """Reads what bounds the CPUs of this process, to see whether it has changed. That takes a sixth of read_topology().

    60 us (Zen 3; `python -m timeit -s "from treadle.runtime.topology import Bounds; read = Bounds()" "read()"`).
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """`root` is the folder that holds `proc` and `sys`."""
        self._root = root
        self._membership: str | None = None
        self._files: list[Path] = []

    def __call__(self) -> tuple[object, ...]:
        """Return the affinity mask, the control groups, and the content of their files: unequal if one has changed."""
        membership = _read(self._root / "proc/self/cgroup")
        if membership != self._membership:
            self._membership, self._files = membership, list(_bounding_files(self._root))
        return (_affinity(self._root), membership, *map(_read, self._files))


def _bounding_files(root: Path) -> Iterator[Path]:
    """Yield the files of the process's control groups that a topology depends on."""
    for folder, is_v2 in _groups(root, "cpuset"):
        yield folder / _cpu_set_name(is_v2=is_v2)
    for folder, is_v2 in _groups(root, "cpu"):
        yield from [folder / "cpu.max"] if is_v2 else [folder / "cpu.cfs_quota_us", folder / "cpu.cfs_period_us"]


def _cpu_set_name(*, is_v2: bool) -> str:
    return "cpuset.cpus.effective" if is_v2 else "cpuset.cpus"


def _affinity(root: Path) -> frozenset[int]:
    """Return the affinity mask of the process; from /proc if the call is refused; else an empty set."""
    try:
        return frozenset(os.sched_getaffinity(0))
    except (AttributeError, OSError):  # not offered by this system, or forbidden by a sandbox
        for line in _read(root / "proc/self/status").splitlines():
            if line.startswith("Cpus_allowed_list:"):
                return _cpu_list(line.partition(":")[2])
        return frozenset()


def _online_cpus(root: Path) -> frozenset[int]:
    return _cpu_list(_read(root / "sys/devices/system/cpu/online")) or frozenset(range(os.cpu_count() or 1))


def _cpu_list(text: str) -> frozenset[int]:
    """Return the CPUs that `text` lists; an empty set if it is no list."""
    try:
        return frozenset(_parse_cpu_list(text))
    except ValueError:
        return frozenset()


def _parse_cpu_list(text: str) -> Iterator[int]:
    """Yield 0, 1, 2, 5 for `0-2,5`."""
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        yield from range(int(first), int(last if dash else first) + 1)


def _cpu_sets(root: Path) -> Iterator[tuple[frozenset[int], str]]:
    """Yield the CPU sets that bound the process, and their files. They matter if its affinity mask cannot be read."""
    for folder, is_v2 in _groups(root, "cpuset"):
        name = _cpu_set_name(is_v2=is_v2)
        cpus = _cpu_list(_read(folder / name))
        if cpus:
            yield cpus, "/" + str((folder / name).relative_to(root))


def _quotas(root: Path) -> Iterator[tuple[float, str]]:
    """Yield every quota from the process's control groups up to their roots, in CPUs, and its file."""
    for folder, is_v2 in _groups(root, "cpu"):
        quota = _v2_quota(folder) if is_v2 else _v1_quota(folder)
        if quota is not None:
            file = folder / ("cpu.max" if is_v2 else "cpu.cfs_quota_us")
            yield quota, "/" + str(file.relative_to(root))


def _groups(root: Path, wanted: str) -> Iterator[tuple[Path, bool]]:
    """Yield (folder, is version 2) of the control groups of controller `wanted` around the process, innermost first."""
    mounts = list(_mounts(root, wanted))
    for line in _read(root / "proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_v2 = number == "0" and controllers == ""
        if not is_v2 and wanted not in controllers.split(","):
            continue
        for mounted_group, folder, mount_is_v2 in mounts:
            if mount_is_v2 != is_v2:
                continue
            steps = _below(path, mounted_group)
            for depth in range(len(steps), -1, -1):
                yield folder.joinpath(*steps[:depth]), is_v2


def _mounts(root: Path, wanted: str) -> Iterator[tuple[str, Path, bool]]:
    """Yield (group at the top, folder, is version 2) of mounted hierarchies that may have controller `wanted`."""
    for line in _read(root / "proc/self/mountinfo").splitlines():
        front, _, back = line.partition(" - ")
        fields, kind = front.split(), back.split()
        if len(fields) < 5 or len(kind) < 3:
            continue
        if kind[0] == "cgroup2" or (kind[0] == "cgroup" and wanted in kind[2].split(",")):
            yield fields[3], root / fields[4].lstrip("/"), kind[0] == "cgroup2"


def _below(path: str, mounted_group: str) -> tuple[str, ...]:
    """Return the parts of `path` below the mounted group; none if it lies outside, as in another namespace."""
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
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        content = b""
        while piece := os.read(handle, _PIECE):
            content += piece
    except OSError:
        return ""
    finally:
        os.close(handle)
    return content.decode("ascii", "replace")
