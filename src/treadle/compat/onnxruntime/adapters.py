"""LoRA adapters: values for inputs of a model that files hold, and that runs with an adapter take."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from treadle.compat.onnxruntime.adapter_file import FORMAT_VERSION, Adapter, read, write
from treadle.compat.onnxruntime.feeds import check_complete
from treadle.compat.onnxruntime.values import OrtValue

Array = np.ndarray[Any, Any]


class LoraAdapter:
    """The parameters of an adapter, which `RunOptions.add_active_adapter` gives to runs."""

    def __init__(self) -> None:
        """Make an adapter without parameters."""
        self.parameters: dict[str, Array] = {}

    def Load(self, path: str | os.PathLike[str]) -> None:  # noqa: N802 - the name that onnxruntime gives it
        """Take the parameters of a file. Raises RuntimeError if it cannot be read."""
        self.parameters = _read(path).parameters


class AdapterFormat:
    """What a file of an adapter has: versions, and parameters as OrtValues."""

    def __init__(self, adapter: Adapter | None = None) -> None:
        """Make the content of a file without parameters."""
        self._adapter = Adapter() if adapter is None else adapter
        self._values = {name: OrtValue(array) for name, array in self._adapter.parameters.items()}

    @staticmethod
    def read_adapter(file_path: str | os.PathLike[str]) -> AdapterFormat:
        """Return what is in a file. Raises RuntimeError if it cannot be read."""
        return AdapterFormat(_read(file_path))

    def export_adapter(self, file_path: str | os.PathLike[str]) -> None:
        """Write a file. Raises RuntimeError for a tensor that no adapter can have."""
        arrays = {name: value.numpy() for name, value in self._values.items()}
        made = Adapter(self._adapter.version, self._adapter.model_version, arrays)
        try:
            Path(file_path).write_bytes(write(made))
        except (OSError, TypeError, ValueError) as fault:
            raise RuntimeError(f"the adapter {str(file_path)!r} cannot be written: {fault}") from None

    def get_format_version(self) -> int:
        """Return the version of the form of such files."""
        return FORMAT_VERSION

    def set_adapter_version(self, adapter_version: int) -> None:
        """Set the version of the adapter."""
        self._adapter.version = adapter_version

    def get_adapter_version(self) -> int:
        """Return the version of the adapter."""
        return self._adapter.version

    def set_model_version(self, model_version: int) -> None:
        """Set the version of the model that the adapter is for."""
        self._adapter.model_version = model_version

    def get_model_version(self) -> int:
        """Return the version of the model that the adapter is for."""
        return self._adapter.model_version

    def set_parameters(self, params: Mapping[str, OrtValue]) -> None:
        """Set the parameters. Raises TypeError for a value that is no OrtValue."""
        for name, value in params.items():
            if not isinstance(value, OrtValue):
                raise TypeError(f"set_parameters(): {name!r}: wanted an OrtValue, got {type(value).__name__}")
        self._values = dict(params)

    def get_parameters(self) -> dict[str, OrtValue]:
        """Return the parameters."""
        return dict(self._values)


def with_parameters(
    given: Mapping[str, Any], adapters: Iterable[LoraAdapter], inputs: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the feeds of a run with these adapters: the first one that has an input gives it, before a feed does.

    Raises ValueError if one of the `inputs`, which have no other value, is not among those `given`.
    """
    check_complete(inputs, given)
    found: dict[str, Any] = {}
    for adapter in adapters:
        found = adapter.parameters | found
    return {**given, **found}


def _read(path: str | os.PathLike[str]) -> Adapter:
    try:
        return read(Path(path).read_bytes())
    except (OSError, ValueError) as fault:
        raise RuntimeError(f"the adapter {str(path)!r} cannot be read: {fault}") from None
