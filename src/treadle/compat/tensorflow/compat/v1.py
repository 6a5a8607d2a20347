"""TensorFlow 1's names: `import treadle.compat.tensorflow.compat.v1 as tf`."""

from __future__ import annotations

from typing import Any

from treadle.compat.tensorflow import names as _names

_MEMBERS = _names.tree(_names.FIRST, "tf.compat.v1")


def __getattr__(name: str) -> Any:
    raise _names.absent("tf.compat.v1", name, list(_MEMBERS))


def __dir__() -> list[str]:
    return sorted(_MEMBERS)


globals().update(_MEMBERS)
