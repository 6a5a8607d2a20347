"""Text operators for the `onnx` package's reference implementation whose own may run for ever.

A regular expression of Python's `re` may take time exponential in the text, without giving up the interpreter. RE2,
whose syntax the specification asks for, takes linear time. n-grams are searched at every skip distance that the node
declares, also at those beyond the row.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

Array = np.ndarray[Any, Any]


@cache
def regex_full_match() -> type[OpRun]:
    """Return the RegexFullMatch of the specification (https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html)."""
    import re2
    from onnx.reference.ops import op_regex_full_match

    class RegexFullMatch(op_regex_full_match.RegexFullMatch):
        op_domain = ""

        def _run(self, x: Array, pattern: str | None = None) -> tuple[Array]:
            options = re2.Options()
            options.log_errors = False
            try:
                expression = re2.compile(pattern, options)
            except re2.error as error:
                raise ValueError(f"the regular expression {pattern!r} is none of RE2: {error}") from None
            found = [expression.fullmatch(text) is not None for text in x.reshape(-1).tolist()]
            return (np.array(found, np.bool_).reshape(x.shape),)

    return RegexFullMatch


@cache
def tfidf_vectorizer() -> type[OpRun]:
    """Return a TfIdfVectorizer that skips no more elements than a row has: n-grams at larger distances do not exist."""
    from onnx.reference.ops import op_tfidf_vectorizer

    class TfIdfVectorizer(op_tfidf_vectorizer.TfIdfVectorizer):
        op_domain = ""

        def _run(self, x: Array, **attributes: Any) -> Any:  # type: ignore[override]
            length = x.shape[-1] if x.ndim else 1
            skipped = min(attributes.pop("max_skip_count"), length)
            return super()._run(x, max_skip_count=skipped, **attributes)  # type: ignore[no-untyped-call]

    return TfIdfVectorizer
