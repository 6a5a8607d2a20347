"""tf.debugging: checks of values, at once or when the graph runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from treadle.compat.tensorflow.convert import convert_to_tensor
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.compat.tensorflow.python_ops import check_op
from treadle.compat.tensorflow.tensor import Tensor


def Assert(condition: Any, data: Sequence[Any] = (), summarize: int | None = None, name: str | None = None) -> Any:  # noqa: N802
    """Check that all elements of `condition` are true. See tf.debugging.Assert in TensorFlow's documentation.

    Args:
        condition: a boolean tensor.
        data: texts and tensors for the error message.
        summarize: has no effect: all elements are shown.
        name: the name of the operation.

    Returns:
        The operation in a graph, else None.

    Raises:
        tf.errors.InvalidArgumentError: at once or in the run, if an element is false.
    """
    return _assert(convert_to_tensor(condition), data, "assertion failed", name)


def _assert(test: Any, data: Sequence[Any], message: str, name: str | None) -> Any:
    texts = [item for item in data if isinstance(item, str)]
    tensors = [convert_to_tensor(item) for item in data if not isinstance(item, str)]

    def check(arrays: Sequence[Any]) -> None:
        if not arrays[0].all():
            shown = " ".join(f"[{item}]" for item in (*texts, *arrays[1:]))
            raise InvalidArgumentError(None, None, f"{message}: {shown}" if shown else message)

    return check_op(check, [test, *tensors], name or "Assert")


def comparison(op: str, sign: str) -> Callable[..., Any]:
    """Return the check that x `sign` y holds for all elements."""

    def check(x: Any, y: Any, message: str | None = None, summarize: int | None = None, name: str | None = None) -> Any:
        """Raises InvalidArgumentError with `message` unless it holds; in a graph an operation that does so."""
        first = convert_to_tensor(x)
        second = convert_to_tensor(y, dtype_hint=first.dtype)
        text = f"{message or ''} Condition x {sign} y did not hold".strip()
        found = _assert(call(op, first, second), [first, second], text, name or f"assert_{op}")
        return found if isinstance(first, Tensor) or isinstance(second, Tensor) else None

    return check


CHECKS: dict[str, Callable[..., Any]] = {
    "assert_equal": comparison("equal", "=="),
    "assert_greater": comparison("greater", ">"),
    "assert_greater_equal": comparison("greater_equal", ">="),
    "assert_less": comparison("less", "<"),
    "assert_less_equal": comparison("less_equal", "<="),
    "assert_none_equal": comparison("not_equal", "!="),
}


def assert_v1(check: Callable[..., Any]) -> Callable[..., Any]:
    """Return `check` with TensorFlow 1's order of arguments."""

    def function(
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Any:
        return check(x, y, message, summarize, name)

    return function
