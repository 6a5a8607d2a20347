"""The legacy tensor classes, such as torch.FloatTensor: constructors, and classes for isinstance."""

from __future__ import annotations

from typing import Any

from treadle.compat.torch.dtypes import LEGACY, NAMES, dtype
from treadle.compat.torch.functions.creation import tensor, zeros
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.tensor import Tensor


class _LegacyTensor(type):
    """A class whose instances are the tensors of one dtype."""

    kind: dtype

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.kind

    def __call__(cls, *given: Any) -> Any:
        """Returns a tensor of nested numbers, an array or a tensor; of sizes, a tensor of zeros.

        Raises TypeError for a tensor of another dtype.
        """
        if len(given) != 1 or isinstance(given[0], int | Size):
            return zeros(*(given or (0,)), dtype=cls.kind)
        if isinstance(given[0], Tensor) and given[0].dtype is not cls.kind:
            raise TypeError(f"expected {cls.kind} (got {given[0].dtype})")
        if isinstance(given[0], Tensor):
            return given[0]
        return tensor(given[0], dtype=cls.kind)


LEGACY_TENSORS: dict[str, Any] = {
    name: _LegacyTensor(name, (), {"kind": NAMES[kind], "__doc__": f"Tensors of {kind}; see PyTorch's documentation."})
    for kind, name in LEGACY.items()
}
"""The classes by name."""
