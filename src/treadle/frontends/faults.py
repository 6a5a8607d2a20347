"""Faults of a model: collected while it is imported, raised together."""

from treadle.errors import ModelError, UnsupportedModelError


class Fault(Exception):  # noqa: N818 - one fault of the user's model, caught and collected; never reaches the user
    """One thing that is wrong with a node or tensor, as a sentence that does not name it."""


class Unsupported(Fault):
    """The model is valid but uses something that treadle does not support."""


class Faults:
    """Collects faults. A place is `node 'a' (Op)`, `initialiser 'w'`, `input 'x'`, ..."""

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, place: str, what: str | Exception) -> None:
        """Records the fault `what` at `place`; an identical sentence is recorded once."""
        sentence = f"{place}: {what}"
        self._found[sentence] = self._found.get(sentence, True) and isinstance(what, Unsupported)

    def sentences(self) -> list[str]:
        """The sentences that `raise_all` reports."""
        return list(self._found)

    def raise_all(self, source: str) -> None:
        """Raises one error that lists every fault of the model `source`; does nothing without faults.

        Raises UnsupportedModelError if treadle does not support what each fault names, else ModelError.
        """
        if not self._found:
            return
        kind = UnsupportedModelError if all(self._found.values()) else ModelError
        count = len(self._found)
        raise kind(f"{source} cannot be used, for {count} reason{'s' if count > 1 else ''}:", list(self._found))
