"""Futures: the results of forked calls."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from treadle.compat.torch.state import current_call


class Future:
    """The result of a forked call.

    `torch.jit.fork` returns futures. A program may also create one and end it with `set_result` or `set_exception`.
    """

    def __init__(self) -> None:
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """Returns True if the call has ended."""
        return self._done

    def set_result(self, result: Any) -> None:
        """Ends the future with a result.

        Args:
            result: The value that `wait` returns.

        Raises:
            RuntimeError: The future has ended already.
        """
        self._end(result, None)

    def set_exception(self, error: BaseException) -> None:
        """Ends the future with an exception.

        Args:
            error: The exception that `wait` raises.

        Raises:
            RuntimeError: The future has ended already.
        """
        self._end(None, error)

    def _end(self, value: Any, error: BaseException | None) -> None:
        if self._done:
            raise RuntimeError("Future can only be completed once.")
        self._done, self._value, self._error = True, value, error

    def value(self) -> Any:
        """Returns the result of a call that has ended.

        Raises:
            RuntimeError: The call has not ended.
            BaseException: The exception that the call raised.
        """
        if not self._done:
            raise RuntimeError("this future has not ended; wait for it with torch.jit.wait(future)")
        if self._error is not None:
            raise self._error
        return self._value

    def __class_getitem__(cls, _: Any) -> type[Future]:
        """Returns the class itself: annotations may say Future[Tensor]."""
        return cls

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """Waits for this future, calls `callback` with it, and returns the future of the callback's result.

        PyTorch calls the callback when this future ends; treadle calls it here.

        Args:
            callback: A function of this future.

        Returns:
            A future that has ended with the callback's result, or with the exception that it raised.
        """
        self._end_of_wait()
        found = Future()
        try:
            found.set_result(callback(self))
        except Exception as error:  # noqa: BLE001 - raised by wait()
            found.set_exception(error)
        return found

    def _end_of_wait(self) -> None:
        with suppress(Exception):
            self.wait()

    def wait(self) -> Any:
        """Returns the result, running other tasks of the script until it is there.

        Returns:
            What the forked call returned.

        Raises:
            RuntimeError: The future can never end.
            BaseException: The exception that the call raised.
        """
        call = current_call()
        if call is not None and not self._done:
            call.drive(self)
        return self.value()
