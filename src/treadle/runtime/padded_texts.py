"""What a run without padding knows of its texts: where their tokens lie among all positions."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class PaddedTexts:
    """The positions of the tokens of several texts, which are packed one after another.

    Attributes:
        tokens: How many there are.
        starts_with_tokens: Whether the first position of every text is a token.
    """

    def __init__(self, mask: Array) -> None:
        """Take the attention mask [texts, positions], which is 1 for tokens and 0 for padding."""
        self._real = mask != 0
        self._length = mask.shape[1]
        self._rows = np.flatnonzero(self._real)
        self._offsets = np.zeros(len(mask) + 1, np.int64)
        np.cumsum(self._real.sum(axis=1), out=self._offsets[1:])
        self.tokens = len(self._rows)
        self.starts_with_tokens = bool(self._real[:, 0].all())

    @property
    def has_empty(self) -> bool:
        """Whether a text has no token."""
        return bool((self._offsets[1:] == self._offsets[:-1]).any())

    def array(self, kind: str) -> Array:
        """Return int64 numbers by their `kind`.

        Of each token: "rows" (its position among those of all texts), "positions" (in its text), "texts" (the number of
        its text). Of each text: "offsets" (the packed row of its first token, and then the number of tokens), "firsts"
        (the same without the last). "places" are the packed rows of all positions; that of padding is the first one of
        its text.
        """
        if kind == "rows":
            return self._rows
        if kind == "positions":
            return np.asarray(self._rows % self._length)
        if kind == "texts":
            return np.asarray(self._rows // self._length)
        if kind == "offsets":
            return self._offsets
        if kind == "firsts":
            return self._offsets[:-1].copy()
        assert kind == "places", kind
        places = np.repeat(self._offsets[:-1, None], self._length, axis=1)
        places[self._real] = np.arange(self.tokens)
        return places


def is_mask(array: Array) -> bool:
    """Whether `array` has elements of 0 and 1 only."""
    return array.dtype == np.bool_ or bool(((array == 0) | (array == 1)).all())
