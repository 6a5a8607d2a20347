"""Which errors of an import or a load say that there is no memory."""

from __future__ import annotations

import errno

import pytest

from treadle.errors import MemoryLimitError
from treadle.scarce_memory import memory_to


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        OSError(errno.ENOMEM, "Cannot allocate memory"),
        ImportError("libm.so: failed to map segment from shared object"),
        SystemError("error return without exception set"),
        SystemError("<built-in function find_spec> returned NULL without setting an exception"),
    ],
)
def test_errors_for_lack_of_memory_become_one(error: Exception) -> None:
    wanted = r"there is no memory to import it .*; raise the limit"
    with pytest.raises(MemoryLimitError, match=wanted), memory_to("import it", "raise the limit"):
        raise error


@pytest.mark.parametrize(
    "error", [ImportError("no module named x"), OSError(errno.ENOENT, "no file"), SystemError("bad")]
)
def test_other_errors_stay(error: Exception) -> None:
    with pytest.raises(type(error)) as raised, memory_to("import it", "raise the limit"):
        raise error
    assert raised.value is error
