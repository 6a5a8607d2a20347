"""One error for all the ways to say that there is no memory: Python's, NumPy's, those of imports and of the system."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from treadle.errors import MemoryLimitError

_SAID_BY_LOADERS = ("failed to map segment", "annot allocate memory", "annot map zero-fill pages")
"""What the messages of the dynamic loader (glibc) have in them if there is no memory for a library."""

_SAID_BY_PYTHON = ("error return without exception set", "returned NULL without setting an exception")
"""What a SystemError says where CPython lost a MemoryError on its way. Code that works with more memory raises no such
error."""


@contextmanager
def memory_to(purpose: str, advice: str) -> Iterator[None]:
    """Return a context manager that raises MemoryLimitError where its block finds no memory.

    The message says "there is no memory to", the `purpose` and the `advice`.
    """
    try:
        yield
    except MemoryLimitError:
        raise
    except (MemoryError, ImportError, OSError, SystemError) as error:
        if not _lacks_memory(error):
            raise
        reason = str(error).strip().splitlines() or [type(error).__name__]
        raise MemoryLimitError(f"there is no memory to {purpose} ({reason[0]}); {advice}") from error


def _lacks_memory(error: BaseException | None) -> bool:
    """Whether `error`, or one that it follows from, says that there is no memory."""
    while error is not None:
        if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
            return True
        if any(text in str(error) for text in _SAID_BY_LOADERS):
            return True
        if isinstance(error, SystemError) and any(text in str(error) for text in _SAID_BY_PYTHON):
            return True
        error = error.__cause__ or error.__context__
    return False
