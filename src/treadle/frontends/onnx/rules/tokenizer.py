"""Tokenizer of ONNX Runtime (com.microsoft): texts taken apart by regular expressions of RE2, as a Python step.

https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treadle import dtypes
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.op import Array
from treadle.records import dataclass

_START, _END = "\x02", "\x03"


def tokenizer(node: OnnxNode, b: Builder) -> list[Value]:
    """Tokenizer(texts [C] or [N, C]) -> the tokens of each text [.., most tokens], padded."""
    least, rank = node.integer("mincharnum", 0), node.rank()
    separators, expression = node.texts("separators") or (), node.text("tokenexp", "")
    if least < 1:
        raise Fault(f"attribute 'mincharnum' must be 1 or more, got {least}")
    if rank not in (1, 2, None):
        raise Fault(f"its input must have 1 or 2 dimensions, got {rank}")
    if not separators and not expression:
        raise Fault("it needs one of the attributes 'separators' and 'tokenexp'")
    by_characters = list(separators) == [""] or (not separators and expression == ".")
    if by_characters and least > 1:
        raise Fault(f"attribute 'mincharnum' must be 1 for single characters, got {least}")
    patterns = () if by_characters else tuple(separators) or (expression,)
    for pattern in patterns:
        compiled = _compiled(pattern)
        if separators and compiled.search("") is not None:
            raise Unsupported(f"the separator {pattern!r} matches empty texts")
    pad, marks = node.text("pad_value", ""), node.flag("mark", default=False)
    function = Tokens(patterns, bool(separators), least, pad, marks)
    return b.add_call([node.input(0)], [dtypes.string], function, None, "Tokenizer")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Takes texts apart: at matches of `patterns` if they separate, else into these; without any, into characters."""

    patterns: tuple[str, ...]
    separate: bool
    least: int
    pad: str
    marks: bool

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The tokens of each text, in an array with a further axis."""
        (texts,) = arrays
        if texts.size == 0:
            return [np.empty((0,) * texts.ndim, object)]
        patterns = [_compiled(pattern) for pattern in self.patterns]
        rows = [self._tokens(text, patterns) for text in texts.reshape(-1).tolist()]
        most = max(map(len, rows))
        width = most + 2 * self.marks if most else 0
        if self.marks and most:
            rows = [[_START, *row, _END] for row in rows]
        padded = [[*row, *[self.pad] * (width - len(row))] for row in rows]
        found = np.empty((len(rows), width), object)
        found[...] = np.array(padded, object).reshape(found.shape)
        return [found.reshape(*texts.shape, width)]

    def _tokens(self, text: str, patterns: Sequence[Any]) -> list[str]:
        if not patterns:
            return list(text)
        if not self.separate:
            return [found for each in patterns[0].finditer(text) if len(found := each.group()) >= self.least]
        pieces = [text]
        for pattern in patterns:
            pieces = [part for piece in pieces for part in self._parts(piece, pattern)]
        return pieces

    def _parts(self, text: str, pattern: Any) -> list[str]:
        """What is between the matches of `pattern`, without what is too short."""
        bounds = [each.span() for each in pattern.finditer(text)]
        starts = [0, *(end for _, end in bounds)]
        ends = [*(start for start, _ in bounds), len(text)]
        parts = (text[start:end] for start, end in zip(starts, ends, strict=True))
        return [part for part in parts if len(part) >= self.least]


def _compiled(pattern: str) -> Any:
    """The expression, which prefers long matches. Raises Fault if it is none of RE2."""
    import re2

    options = re2.Options()
    options.log_errors, options.longest_match = False, True
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise Fault(f"the regular expression {pattern!r} is none of RE2: {error}") from None
