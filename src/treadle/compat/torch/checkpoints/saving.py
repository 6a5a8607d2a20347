"""torch.save: writes checkpoints that PyTorch and treadle load with weights_only=True."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from treadle.compat.torch.checkpoints.older_form import write_older
from treadle.compat.torch.checkpoints.pickler import Pickler
from treadle.compat.torch.checkpoints.zip_form import write_zip


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Saves tensors, and containers of tensors, numbers and texts, such as a state_dict, for `torch.load`.

    Tensors that share memory share a storage in the file, which holds all of the memory that they are views of.

    Args:
        obj: What to save.
        f: The path, or a file that can be written.
        pickle_module: None: pickles are written here.
        pickle_protocol: 2, which `torch.load` reads.
        _use_new_zipfile_serialization: False writes the form before PyTorch 1.6.

    Raises:
        NotImplementedError: A module, or another object that is no part of a checkpoint of weights.
    """
    if pickle_module is not None or pickle_protocol != 2:
        raise NotImplementedError("torch.save writes protocol 2 without a pickle_module; leave both out")
    pickler = Pickler(has_views=not _use_new_zipfile_serialization)
    data = pickler.dump(obj)
    with _opened(f) as file:
        if _use_new_zipfile_serialization:
            folder = Path(os.fspath(f)).stem if isinstance(f, str | os.PathLike) else "archive"
            write_zip(file, folder or "archive", data, pickler.storages)
        else:
            write_older(file, data, pickler.storages)


@contextmanager
def _opened(f: Any) -> Iterator[IO[bytes]]:
    """The file `f`, open for writing; closed at the end if it is a path."""
    if isinstance(f, str | os.PathLike):
        with Path(f).open("wb") as file:
            yield file
        return
    if not hasattr(f, "write"):
        raise AttributeError("expected 'f' to be string, path, or a file-like object with a 'write' attribute")
    if hasattr(f, "tell"):
        yield f
        return
    buffer = io.BytesIO()
    yield buffer
    f.write(buffer.getvalue())
