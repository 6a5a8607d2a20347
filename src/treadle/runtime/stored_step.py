"""The form on disk of steps that are Python functions. A model that has none imports nothing that runs them."""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable
from typing import Any


class StoredStep:
    """A function of one argument from disk: a PythonCall, a BoundCall, or what makes an object of arrays.

    It, and what it imports, is loaded by the first call. `text` is its form on disk.
    """

    detachable = True
    """Functions of users are not stored."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._step: Callable[[Any], Any] | None = None

    def __call__(self, argument: Any) -> Any:
        """Calls the function."""
        if self._step is None:
            self._step = pickle.loads(base64.b64decode(self.text))  # noqa: S301 - the owner's, as machine code is
        return self._step(argument)


def pickled_text(function: object) -> str:
    """Returns the form on disk of a function that can be pickled, from which a StoredStep is made."""
    return function.text if isinstance(function, StoredStep) else base64.b64encode(pickle.dumps(function)).decode()
