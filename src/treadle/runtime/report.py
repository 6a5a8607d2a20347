"""The report of `treadle.threads.info()`: settings with their sources, the machine, the build, and all pools."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from treadle import _native
from treadle.runtime import backends, providers
from treadle.runtime.executable import Executable

if TYPE_CHECKING:
    from treadle.runtime.threads import Threads

SETTINGS = ("intra_op", "inter_op", "spin_us", "cpus")
VARIABLES = (
    "TREADLE_INTRA_OP_THREADS", "TREADLE_INTER_OP_THREADS", "TREADLE_SPIN_US", "TREADLE_CPUS", "MKL_NUM_THREADS",
    "OMP_NUM_THREADS", "KMP_BLOCKTIME", "OMP_WAIT_POLICY", "KMP_AFFINITY", "OMP_PROC_BIND", "TREADLE_PARALLEL_BACKEND",
    "TREADLE_MATMUL_PROVIDER",
)  # fmt: skip
"""The environment variables that treadle reads for threads."""


def report(threads: Threads) -> dict[str, Any]:
    """Return plain data about the settings of `threads` and all pools.

    intra_op, inter_op, spin_us, cpus, backend: dicts of value and source. matmul_provider: also version, path, why, and
    the libraries loaded. topology: online, allowed, quota, quota_source, available, reason. cpu: model, features, and
    isa, the instruction sets of the kernels loaded (None if there are none). environment: the variables set that
    treadle reads. build: version, compiler, python, backend and its library. pools: for each its name, limits and their
    sources, threads alive, slots in use, runs in progress and waiting, and why a worker could not be pinned or started
    (None if all could). threads: the number of this team's threads. Raises ThreadSettingError if an environment
    variable cannot be used.
    """
    topology = threads.topology()
    facts: dict[str, Any] = {name: _setting(threads, name) for name in SETTINGS}
    backend = backends.current()
    facts["backend"] = {"value": backend.name, "source": backend.source}
    facts["matmul_provider"] = providers.report()
    facts["topology"] = {
        "online": topology.online,
        "allowed": topology.allowed,
        "quota": topology.quota,
        "quota_source": topology.quota_source,
        "available": topology.available,
        "reason": topology.reason,
    }
    facts["cpu"] = cpu()
    facts["environment"] = _environment(threads.environment)
    facts["build"] = build()
    others = sorted((other for other in type(threads).instances if other is not threads), key=lambda pool: pool.name)
    facts["pools"] = [pool(each) for each in (threads, *others)]
    status = threads.status()
    facts["threads"] = status["workers"] + status["blocking"] + status["abandoned"]
    return facts


def pool(threads: Threads) -> dict[str, Any]:
    """Return the name, the limits and the status of a pool."""
    settings, status = threads.get(), threads.status()
    return {
        "name": threads.name,
        "intra_op": settings.intra_op,
        "inter_op": settings.inter_op,
        "intra_source": settings.intra_source,
        "inter_source": settings.inter_source,
        "threads": status["workers"] + status["blocking"] + status["abandoned"],
        "slots": status["slots"],
        "spinning": status["spinning"],
        "runs": status["runs"],
        "waiting": status["waiting"],
        "pin_fault": status["pin_fault"] or None,
        "thread_fault": status["thread_fault"] or None,
    }


def build() -> dict[str, str | None]:
    """Return versions, the compiler of the native core, and the backend."""
    from treadle import __version__

    backend = backends.current()
    return {
        "treadle": __version__,
        "compiler": _native.COMPILER,
        "python": platform.python_version(),
        "backend": backend.name,
        "backend_library": backend.library,
    }


def cpu() -> dict[str, Any]:
    """Return the name of the processor, its features that matter to generated code, and the instruction sets in use."""
    model, flags = platform.processor() or platform.machine(), frozenset[str]()
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    model = value.strip()
                if key.strip() in ("flags", "Features"):
                    flags = frozenset(value.split())
                    break
    except OSError:
        pass
    wanted = ("avx2", "fma", "avx512", "avx_vnni", "amx", "asimd", "sve", "bf16")
    return {
        "model": model,
        "features": sorted(flag for flag in flags if flag.startswith(wanted)),
        "isa": ", ".join(sorted({each.isa for each in Executable.instances if each.isa})) or None,
    }


def _setting(threads: Threads, name: str) -> dict[str, Any]:
    setting = threads.setting(name)
    value = list(setting.value) if name == "cpus" else setting.value
    if value == math.inf:
        value = "infinite"  # JSON has no infinite number
    return {"value": value, "source": setting.source}


def _environment(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in VARIABLES if environment.get(name, "").strip()}
