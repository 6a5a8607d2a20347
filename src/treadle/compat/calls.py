"""What the caches of calls in facades share."""

from __future__ import annotations

from enum import Enum

PROVIDER_OPS = frozenset({"matmul", "einsum", "attention", "conv", "conv_transpose", "lstm", "gru", "rnn"})
"""Ops that a provider of matrix products may run, in whole or in part."""


CLOSE = 0.85
"""How alike a missing name and one that there is must be, for difflib, so that it was probably meant."""


class Uncached(Enum):
    """Signatures of calls that are known, but have no cached compiled form."""

    ONCE = "called once so far"
    NEVER = "the result depends on more than the signature and the elements of the tensors"
