"""Futures: results of forked calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from treadle.compat.torch.state import current_call


class Future:
    """The result of a forked call, there once the call has ended; `wait()` gives it or raises what the call raised."""

    def __init__(self) -> None:
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._done

    def set_result(self, result: Any) -> None:
        """End with a result. Raises RuntimeError if it has ended already."""
        self._end(result, None)

    def set_exception(self, error: BaseException) -> None:
        """End with an exception. Raises RuntimeError if it has ended already."""
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        if self._done:
            raise RuntimeError("Future can only be completed once.")
        self._done, self._value, self._error = True, value, error

    def value(self) -> Any:
        """The result of a call that has ended. Raises what the call raised."""
        if not self._done:
            raise RuntimeError("this future has not ended; wait for it with torch.jit.wait(future)")
        if self._error is not None:
            raise self._error
        return self._value

    def __class_getitem__(cls, _: Any) -> type[Future]:
        """Future[Tensor], as annotations have it."""
        return cls

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """The future of `callback(self)`, which is called once this one has ended: here, when it is waited for."""
        self._end_of_wait()
        found = Future()
        try:
            found.set_result(callback(self))
        except Exception as error:  # noqa: BLE001 - it is for whoever waits
            found.set_exception(error)
        return found

    def _end_of_wait(self) -> None:
        with suppress(Exception):
            self.wait()

    def wait(self) -> Any:
        """The result, once it is there. Inside scripts other tasks go on meanwhile."""
        call = current_call()
        if call is not None and not self._done:
            call.drive(self)
        return self.value()
