"""weft: the CPU runtime that makes threads make sense.

    session = weft.Session("model.onnx")
    outputs = session.run({"x": x})
    weft.threads.set(intra_op=4, inter_op=2)
    with weft.trace("run.json"):
        session.run({"x": x})

Names are loaded when they are first used, so that importing weft stays quick.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it: importing `typing` would be most of importing weft
if TYPE_CHECKING:
    from typing import Any

    from weft import errors as errors
    from weft.compile import Session as Session
    from weft.runtime import threads as threads
    from weft.runtime.control import CancelToken as CancelToken
    from weft.runtime.pool import Pool as Pool
    from weft.runtime.python_ops.executor import python_ops as python_ops
    from weft.tracing.record import trace as trace

__version__ = "0.1.0"
__all__ = ["CancelToken", "Pool", "Session", "__version__", "errors", "python_ops", "threads", "trace"]

_HOMES = {
    "CancelToken": ("weft.runtime.control", "CancelToken"),
    "Pool": ("weft.runtime.pool", "Pool"),
    "Session": ("weft.compile", "Session"),
    "errors": ("weft.errors", None),
    "python_ops": ("weft.runtime.python_ops.executor", "python_ops"),
    "threads": ("weft.runtime.threads", None),
    "trace": ("weft.tracing.record", "trace"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}; it offers {', '.join(__all__)}")
    from importlib import import_module

    module, attribute = _HOMES[name]
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
