"""torch.jit.load: modules of files that PyTorch's torch.jit.save wrote."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

from treadle.compat.torch.devices import device
from treadle.compat.torch.jit.script import ScriptModule
from treadle.frontends.torch import needs_pytorch


def load(
    f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, _restore_shapes: bool = False
) -> ScriptModule:
    """Loads a module or function that PyTorch's `torch.jit.save` wrote. PyTorch reads the file; treadle runs it.

    Args:
        f: The path, or a file that can be read.
        map_location: None or the CPU: tensors of other devices come to it in either case.
        _extra_files: A dictionary whose keys name further files of the archive; receives their bytes.
        _restore_shapes: Ignored, as shapes of traced inputs are not kept.

    Returns:
        The module. It can be called, reads its parameters in each call, and has the methods of modules.

    Raises:
        ValueError: There is no such file.
        RuntimeError: It is no TorchScript archive, or is damaged, or `map_location` is another device.
        NotImplementedError: It has sparse, quantized or complex tensors.
        ImportError: PyTorch, which reads the file, is not installed.
    """
    if map_location is not None:
        device(map_location)
    if isinstance(f, str | os.PathLike):
        if not os.path.exists(f):  # noqa: PTH110 - bytes are paths, too
            raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
        if Path(f).is_dir():
            raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
        f = os.fspath(f)
    else:
        f = io.BytesIO(f.read())
    missing = ImportError(
        "torch.jit.load reads the file with PyTorch, which is not installed: install torch, or export the model to "
        "ONNX where it is and load it with treadle.Session"
    )
    with needs_pytorch(missing):
        from treadle.compat.torch.jit.loaded import module_of
    return module_of(f, _extra_files)
