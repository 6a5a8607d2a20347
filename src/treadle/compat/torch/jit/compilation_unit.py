"""torch.jit.CompilationUnit: scripted functions from a text."""

from __future__ import annotations

import itertools
import linecache
import types
import typing
from typing import Any

from treadle.compat.torch.jit.script import ScriptFunction
from treadle.compat.torch.tensor import Tensor

_NUMBER = itertools.count()
_TYPING = ("Any", "Dict", "Final", "List", "NamedTuple", "Optional", "Tuple", "Union")

NAMES: dict[str, Any] = {"Tensor": Tensor, **{name: getattr(typing, name) for name in _TYPING}}
"""What is known in the texts; the facade adds itself as `torch`."""


class CompilationUnit:
    """Scripted functions that a text defines, as attributes. See torch.jit.CompilationUnit in PyTorch's documentation.

    Args:
        lang: The source of functions. `torch`, `Tensor` and the names of typing are known in it.

    Raises:
        SyntaxError: The text is no Python.
        ScriptError: A function cannot be scripted (a RuntimeError).

    Example:
        unit = torch.jit.CompilationUnit("def twice(x: Tensor) -> Tensor: return x + x")
        unit.twice(torch.ones(2))
    """

    def __init__(self, lang: str | None = None) -> None:
        self._functions: dict[str, ScriptFunction] = {}
        if lang is not None:
            self.define(lang)

    def define(self, lang: str) -> None:
        """Adds the functions of another text, which may call those that are there.

        Raises:
            SyntaxError: The text is no Python.
            ScriptError: A function cannot be scripted (a RuntimeError).
        """
        file = f"<torch.jit.CompilationUnit {next(_NUMBER)}>"
        names: dict[str, Any] = {**NAMES, **self._functions}
        linecache.cache[file] = len(lang), None, lang.splitlines(keepends=True), file
        exec(compile(lang, file, "exec"), names)  # noqa: S102 - the program's own text
        found = {
            name: ScriptFunction(each)
            for name, each in names.items()
            if isinstance(each, types.FunctionType) and each.__code__.co_filename == file
        }
        self._functions.update(found)

    def __getattr__(self, name: str) -> Any:
        functions = self.__dict__.get("_functions", {})
        if name not in functions:
            raise AttributeError(f"'CompilationUnit' object has no attribute '{name}'; it has {', '.join(functions)}")
        return functions[name]
