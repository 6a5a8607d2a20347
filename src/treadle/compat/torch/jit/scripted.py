"""Scripted functions, as guards see them: scripts enter their code, so it is guarded instead of the object."""

from __future__ import annotations

import inspect
import types


class Scripted:
    """A function with source that `torch.jit.script` has accepted."""

    def __init__(self, original: types.FunctionType) -> None:
        self.original = original
        self.__name__ = original.__name__
        self.__doc__ = original.__doc__

    @property
    def code(self) -> str:
        """The source of the function."""
        return inspect.getsource(self.original)
