"""Faults of a model: collected while it is imported, raised together."""

from treadle.errors import ModelError, UnsupportedModelError


class Fault(Exception):  # noqa: N818 - one fault of the user's model, caught and collected; never reaches the user
    """What is wrong with a node or tensor, in one sentence without the name of its place."""


class Unsupported(Fault):
    """The model is right, but asks for something treadle does not offer."""


class Faults:
    """The faults found so far. A place is `node 'a' (Op)`, `initialiser 'w'`, `input 'x'`, ..."""

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, place: str, what: str | Exception) -> None:
        """Note that at `place` there is `what`; a repeated sentence counts once."""
        sentence = f"{place}: {what}"
        self._found[sentence] = self._found.get(sentence, True) and isinstance(what, Unsupported)

    def sentences(self) -> list[str]:
        """The faults as they are told."""
        return list(self._found)

    def raise_all(self, source: str) -> None:
        """Raise one error that lists every fault of the model `source`; do nothing if there is none.

        UnsupportedModelError if each fault is something treadle does not offer, else ModelError.
        """
        if not self._found:
            return
        kind = UnsupportedModelError if all(self._found.values()) else ModelError
        count = len(self._found)
        raise kind(f"{source} cannot be used, for {count} reason{'s' if count > 1 else ''}:", list(self._found))
