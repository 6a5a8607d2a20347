"""Cases of trilu."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(name: str, x: np.ndarray, k: int | None, *, upper: bool) -> Case:
    operands = (x, None if k is None else np.array(k))
    return Case(
        f"trilu/{name}",
        "trilu",
        {"upper": upper},
        operands,
        frozenset({1}),
        onnx=OnnxCall("Trilu", {"upper": int(upper)}),
    )


CASES = [
    _case("upper", floats("trilu", 7, 9), None, upper=True),
    _case("lower", floats("trilu", 7, 9), None, upper=False),
    _case("above", floats("trilu", 2, 6, 6), 2, upper=True),
    _case("below", floats("trilu", 2, 6, 6), -3, upper=True),
    _case("lower_above", floats("trilu", 5, 4), 1, upper=False),
    _case("beyond", floats("trilu", 3, 3), 9, upper=True),
    _case("int64", integers("trilu", 0, 9, 5, 5), 0, upper=False),
]
