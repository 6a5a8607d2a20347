"""Modules of TorchScript files, as PyTorch has read them: their tensors, attributes, submodules and methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.dtypes import array_of
from treadle.frontends.torch.methods import Method
from treadle.ops.op import Array


class StoredTensor(NamedTuple):
    """A tensor of a module.

    Attributes:
        name: That of the attribute.
        array: Its elements, in PyTorch's memory.
        identity: The same for all names of one tensor.
        is_parameter: Whether it is a parameter; else it is a buffer, or an attribute that is neither.
    """

    name: str
    array: Array
    identity: int
    is_parameter: bool = False


class StoredModule:
    """A module of a TorchScript file. It is not changed."""

    def __init__(self, module: torch.jit.ScriptModule) -> None:
        self._module = module
        self.original_name = str(module.original_name)
        self.is_training = bool(module.training)

    @staticmethod
    def read(file: Any, extra_files: dict[str, Any] | None) -> StoredModule:
        """Returns the module in a file: a path, or a file of bytes. Raises what PyTorch raises, mostly RuntimeError."""
        return StoredModule(torch.jit.load(file, "cpu", extra_files))

    @property
    def code(self) -> str:
        """The source of its method forward, as PyTorch writes it."""
        return str(self._module.code)

    def parameters(self) -> Iterator[StoredTensor]:
        """Yields the parameters. Raises Unsupported as array_of()."""
        for name, tensor in torch._C.ParameterDict(self._module._c).items():
            yield _stored(name, tensor, is_parameter=True)

    def buffers(self) -> Iterator[StoredTensor]:
        """Yields the buffers. Raises Unsupported as array_of()."""
        for name, tensor in torch._C.BufferDict(self._module._c).items():
            yield _stored(name, tensor)

    def children(self) -> Iterator[tuple[str, StoredModule]]:
        """Yields the submodules with their names."""
        for name, module in self._module._modules.items():
            yield name, StoredModule(module)

    def has_attribute(self, name: str) -> bool:
        """Returns True if it has an attribute of this name."""
        return bool(self._module._c.hasattr(name))

    def attribute(self, name: str) -> Any:
        """Returns an attribute, with a StoredTensor for each tensor. Raises Unsupported for other objects."""
        return _plain(name, self._module._c.getattr(name))

    def has_method(self, name: str) -> bool:
        """Returns True if it has a method of this name."""
        return bool(self._module._c._has_method(name))

    def method(self, name: str) -> Method:
        """Returns a method. Raises UnsupportedModelError, which lists what treadle does not support."""
        return Method(self._module, name)


def _stored(name: str, tensor: torch.Tensor, *, is_parameter: bool = False) -> StoredTensor:
    try:
        return StoredTensor(name, array_of(tensor), id(tensor), is_parameter)
    except Unsupported as error:
        raise Unsupported(f"the tensor {name!r}: {error}") from None


def _plain(name: str, held: Any) -> Any:
    if isinstance(held, torch.Tensor):
        return _stored(name, held)
    if isinstance(held, list | tuple):
        made = [_plain(name, each) for each in held]
        return made if isinstance(held, list) else tuple(made)
    if isinstance(held, dict):
        return {key: _plain(name, each) for key, each in held.items()}
    if held is None or isinstance(held, bool | int | float | str):
        return held
    raise Unsupported(f"the attribute {name!r} is a {type(held).__name__}")
