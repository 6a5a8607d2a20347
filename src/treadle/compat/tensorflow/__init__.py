"""TensorFlow's public API, run by treadle: `import treadle.compat.tensorflow as tf`.

It has graphs, sessions, variables, control flow, Python functions and the ops that programs use. Thread settings may
change at any time, all sessions share one team of threads, and results do not depend on the number of threads.
"""

from __future__ import annotations

from types import ModuleType as _ModuleType
from typing import Any

from treadle.compat.tensorflow import names as _names
from treadle.compat.tensorflow.compat import v1 as _v1

__version__ = "2.21.0"
_MEMBERS = {**_names.tree(_names.PUBLIC, "tf"), "compat": _names.Namespace("tf.compat", {"v1": _v1})}


def __getattr__(name: str) -> Any:
    raise _names.absent("tf", name, list(_MEMBERS))


def __dir__() -> list[str]:
    return sorted(_MEMBERS)


def _forget_modules() -> None:
    """Remove the submodules of this package from its names: they can be imported, but are not part of the API."""
    for name, value in list(globals().items()):
        if isinstance(value, _ModuleType) and not name.startswith("_"):
            del globals()[name]


_forget_modules()
globals().update(_MEMBERS)
