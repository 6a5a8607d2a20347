"""Faults of a model: collected while it is imported, raised together."""

import re
from collections import Counter
from collections.abc import Iterable

from treadle.errors import ModelError, UnsupportedModelError


class Fault(Exception):  # noqa: N818 - one fault of the user's model, caught and collected; never reaches the user
    """One thing that is wrong with a node or tensor, as a sentence that does not name it."""


class Misfit(Fault):
    """Operands whose shapes do not fit an op. Runs that do not reach the node need not fail."""


class Unsupported(Fault):
    """The model is valid but uses something that treadle does not support."""


class Faults:
    """Collects faults. A place is `node 'a' (Op)`, `initialiser 'w'`, `input 'x'`, ..."""

    def __init__(self) -> None:
        self._found: dict[str, bool] = {}
        self.only_misfits = True
        """Whether no other kind of fault was found."""

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, place: str, what: str | Exception) -> None:
        """Records the fault `what` at `place`; an identical sentence is recorded once."""
        sentence = f"{place}: {what}"
        self.only_misfits = self.only_misfits and isinstance(what, Misfit)
        self._found[sentence] = self._found.get(sentence, True) and isinstance(what, Unsupported)

    def sentences(self) -> list[str]:
        """The sentences that `raise_all` reports."""
        return list(self._found)

    def raise_all(self, source: str) -> None:
        """Raises one error that lists the faults of the model `source`, one for all nodes of an op that share it.

        Does nothing without faults.

        Raises UnsupportedModelError if treadle does not support what each fault names, else ModelError.
        """
        if not self._found:
            return
        kind = UnsupportedModelError if all(self._found.values()) else ModelError
        reasons = _joined(self._found)
        count = len(reasons)
        raise kind(f"{source} cannot be used, for {count} reason{'s' if count > 1 else ''}:", reasons)


_NODE = re.compile(r"node '([^']*)' (\([^()]*\): .*)", re.DOTALL).fullmatch
"""Finds the name of a node, and its op with what is wrong."""


def _joined(sentences: Iterable[str]) -> list[str]:
    """The sentences, one for all nodes of an op that have the same fault; it names the first."""
    firsts: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for sentence in sentences:
        found = _NODE(sentence)
        key = sentence if found is None else found[2]
        firsts.setdefault(key, sentence)
        counts[key] += 1
    return [_with_others(sentence, counts[key] - 1) for key, sentence in firsts.items()]


def _with_others(sentence: str, others: int) -> str:
    """A sentence on a node that holds for `others` too."""
    if not others:
        return sentence
    before, mark, rest = sentence.partition("): ")
    return f"{before}) and {others} more{mark[1:]}{rest}"
