"""torch.load: reads checkpoints in both forms of PyTorch's, and in that of safetensors."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from treadle.compat.torch.checkpoints.older_form import load_older
from treadle.compat.torch.checkpoints.places import MapLocation, Places
from treadle.compat.torch.checkpoints.zip_form import BEGIN, load_zip
from treadle.compat.torch.devices import device
from treadle.compat.torch.tensor import Tensor


def load(
    f: Any,
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """Loads what `torch.save` wrote, here or in PyTorch, or a file of safetensors.

    No code in the file is run: names stand for tensors, dtypes and containers, and for what
    `torch.serialization.add_safe_globals` allows.

    Args:
        f: The path, or a file that can be read and sought. A path that ends in `.safetensors` is read as such, with the
            safetensors package.
        map_location: Where storages go. Those of other devices need "cpu", a dictionary from their location, or a
            function of storage and location that returns the storage.
        pickle_module: None: no other module reads pickles safely.
        weights_only: None or True.
        mmap: Accepted: storages are read when the file is loaded, so that a change of the file changes nothing.
        **pickle_load_args: Ignored with a warning, as in PyTorch.

    Returns:
        The object; tensors that share a storage share their memory.

    Raises:
        UnpicklingError: The file needs what is not allowed, or is damaged.
        RuntimeError: It is no checkpoint, or a TorchScript archive, or has tensors on other devices.
        NotImplementedError: weights_only=False, or an older checkpoint of a big-endian machine.
    """
    if weights_only is not None and not weights_only:
        raise NotImplementedError(
            "torch.load(weights_only=False) would run code from the file; treadle never does. Load it with PyTorch and "
            "save the state_dict, or allow its classes with torch.serialization.add_safe_globals"
        )
    if pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_load_args:
        warnings.warn("pickle_load_args only works if `weights_only=False`.", stacklevel=2)
    if isinstance(f, str | os.PathLike) and os.fspath(f).endswith(".safetensors"):
        return _load_safetensors(os.fspath(f), map_location)
    if mmap and not isinstance(f, str | os.PathLike):
        raise ValueError("f must be a file path in order to use the mmap argument")
    with _opened(f) as file:
        begin = file.tell()
        first = file.read(len(BEGIN))
        file.seek(begin)
        if first == BEGIN:
            return load_zip(file, Places(map_location))
        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True), please "
                "torch.save your checkpoint with this option in order to use mmap."
            )
        return load_older(file, Places(map_location))


@contextmanager
def _opened(f: Any) -> Iterator[IO[bytes]]:
    """The file `f`, open for reading; closed at the end if it is a path."""
    if isinstance(f, str | os.PathLike):
        with Path(f).open("rb") as file:
            yield file
        return
    for name in ("read", "readline", "seek", "tell"):
        if not hasattr(f, name):
            raise AttributeError(
                f"{type(f).__name__!r} object has no attribute {name!r}. You can only torch.load from a file that is "
                "seekable. Please pre-load the data into a buffer like io.BytesIO and try to load from it instead."
            )
    yield f


def _load_safetensors(path: str, map_location: MapLocation) -> dict[str, Tensor]:
    """The tensors of a file of safetensors by name."""
    if isinstance(map_location, dict) or callable(map_location):
        kind = "dict" if isinstance(map_location, dict) else "callable"
        raise RuntimeError(  # noqa: TRY004 - PyTorch's class
            f"Loading safetensors file with {kind} map_location is not supported. Use a device string or torch.device "
            "instead."
        )
    if map_location is not None:
        device(map_location.decode("ascii") if isinstance(map_location, bytes) else map_location)
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file
    except ImportError:
        raise RuntimeError(
            "Attempting to load a safetensors file but safetensors is not installed. Please install safetensors with: "
            "pip install safetensors"
        ) from None
    try:
        found = load_file(path, backend="pread")  # a mapped file that is cut would end the process
    except SafetensorError as error:
        raise RuntimeError(f"{path}: {error}") from None
    return {name: Tensor(array) for name, array in found.items()}
