"""torch.futures: results of calls that end later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from treadle.compat.torch.future import Future
from treadle.compat.torch.missing_names import missing_name_error

__all__ = ["Future", "collect_all", "wait_all"]


def wait_all(futures: Sequence[Future]) -> list[Any]:
    """Waits for all futures and returns their results in order.

    Args:
        futures: Futures that `torch.jit.fork` returned, or that the program ends itself.

    Raises:
        BaseException: The exception of the first future, in this order, that has one.
    """
    return [future.wait() for future in futures]


def collect_all(futures: Sequence[Future]) -> Future:
    """Returns a future of the list of `futures`; treadle waits for them here.

    Raises:
        BaseException: On `wait` of the result, the exception of the first future that has one.
    """
    found = Future()
    try:
        wait_all(futures)
    except Exception as error:  # noqa: BLE001 - raised by wait()
        found.set_exception(error)
    else:
        found.set_result(list(futures))
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    raise missing_name_error("torch.futures", name, __all__)
