"""Pickles functions for worker processes, by cloudpickle, with the names of the files that they come from."""

from __future__ import annotations

import io
import pickle
from collections import ChainMap
from collections.abc import Callable
from functools import lru_cache
from types import CodeType
from typing import Any, ClassVar


def pickled(function: Any) -> bytes:
    """Returns `function`, pickled. Raises what its parts raise that cannot be pickled."""
    with io.BytesIO() as file:
        _pickler()(file, protocol=pickle.HIGHEST_PROTOCOL).dump(function)
        return file.getvalue()


@lru_cache(maxsize=1)
def _pickler() -> Any:
    """Returns a class that keeps file names; from cloudpickle 3.1.3 on, its own does not: tracebacks have no source."""
    import cloudpickle

    table = cloudpickle.Pickler.dispatch_table
    reduce_code = table[CodeType]

    def reduced(code: CodeType) -> tuple[Callable[..., CodeType], tuple[Any, ...]]:
        return code_in_file, (code.co_filename, *reduce_code(code))

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar[Any] = ChainMap({CodeType: reduced}, table)

    return Pickler


def code_in_file(file: str, make: Callable[..., CodeType], args: tuple[Any, ...]) -> CodeType:
    """Returns the code object make(*args) as one from `file`. Worker processes call it for each function sent."""
    return make(*args).replace(co_filename=file)
