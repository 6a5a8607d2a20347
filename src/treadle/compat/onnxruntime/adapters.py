"""LoRA adapters: their names are here so that programs import them; using one is refused."""

from __future__ import annotations

from typing import Any

from treadle.compat.onnxruntime.errors import NotImplemented, error  # noqa: A004 - the name that onnxruntime gives it

_REFUSED = "treadle has no LoRA adapters: give the adapter's parameters to run() as inputs of the model"


class LoraAdapter:
    """An adapter of a model's weights."""

    def Load(self, path: str) -> None:  # noqa: N802 - the name that onnxruntime gives it
        """Raise NotImplemented."""
        raise error(NotImplemented, f"{_REFUSED} ({path})")


class AdapterFormat:
    """A file of adapters."""

    @staticmethod
    def read_adapter(path: str) -> AdapterFormat:
        """Raise NotImplemented."""
        raise error(NotImplemented, f"{_REFUSED} ({path})")

    def export_adapter(self, path: str) -> None:
        """Raise NotImplemented."""
        raise error(NotImplemented, f"{_REFUSED} ({path})")


def refuse_adapter(adapter: Any) -> None:
    """Raise NotImplemented: `adapter` would change the results of a run. Raises TypeError for what is none."""
    if not isinstance(adapter, LoraAdapter):
        raise TypeError(f"add_active_adapter(): wanted a LoraAdapter, got {type(adapter).__name__}")
    raise error(NotImplemented, _REFUSED)
