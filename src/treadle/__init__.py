"""treadle: the CPU runtime that makes threads make sense.

    session = treadle.Session("model.onnx")
    outputs = session.run({"x": x})
    treadle.threads.set(intra_op=4, inter_op=2)
    with treadle.trace("run.json"):
        session.run({"x": x})

Names are loaded when they are first used, so importing treadle is fast.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it: importing `typing` would be most of importing treadle
if TYPE_CHECKING:
    from typing import Any

    from treadle import errors as errors
    from treadle.compile import Session as Session
    from treadle.runtime import threads as threads
    from treadle.runtime.control import CancelToken as CancelToken
    from treadle.runtime.pool import Pool as Pool
    from treadle.runtime.python_ops.executor import python_ops as python_ops
    from treadle.runtime.state import State as State
    from treadle.tracing.record import trace as trace
    from treadle.tune.explain import explain as explain
    from treadle.tune.sweep import sweep as sweep

__version__ = "0.1.0"
__all__ = [
    "CancelToken",
    "Pool",
    "Session",
    "State",
    "__version__",
    "errors",
    "explain",
    "python_ops",
    "sweep",
    "threads",
    "trace",
]

_HOMES = {
    "CancelToken": ("treadle.runtime.control", "CancelToken"),
    "Pool": ("treadle.runtime.pool", "Pool"),
    "Session": ("treadle.compile", "Session"),
    "State": ("treadle.runtime.state", "State"),
    "errors": ("treadle.errors", None),
    "explain": ("treadle.tune.explain", "explain"),
    "python_ops": ("treadle.runtime.python_ops.executor", "python_ops"),
    "sweep": ("treadle.tune.sweep", "sweep"),
    "threads": ("treadle.runtime.threads", None),
    "trace": ("treadle.tracing.record", "trace"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'treadle' has no attribute {name!r}; it offers {', '.join(__all__)}")
    from importlib import import_module

    from treadle.scarce_memory import memory_to

    module, attribute = _HOMES[name]
    with memory_to(f"import {module}", "raise the limit of the process or its container"):
        found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
