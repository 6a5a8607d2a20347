"""What facades know of calls by their signature, so that what leads to compiled code is done once for each."""

from __future__ import annotations

from enum import Enum

MULTIPLY = frozenset({"matmul", "einsum", "attention", "conv", "conv_transpose", "lstm", "gru", "rnn"})
"""Ops that a provider of matrix products may run."""


class Met(Enum):
    """Calls that nothing is kept of."""

    ONCE = "met once"
    NEVER = "the result does not follow from the form and the elements alone"
