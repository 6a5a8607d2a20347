"""Cases of cumsum."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(name: str, x: np.ndarray, axis: int, *, exclusive: bool = False, reverse: bool = False) -> Case:
    known = OnnxCall("CumSum", {"exclusive": int(exclusive), "reverse": int(reverse)}, (x, np.array(axis)))
    return Case(
        f"cumsum/{name}", "cumsum", {"axis": axis, "exclusive": exclusive, "reverse": reverse}, (x,), onnx=known
    )


CASES = [
    _case("last", floats("cumsum", 3, 37), 1),
    _case("first", floats("cumsum", 37, 3), 0),
    _case("middle", floats("cumsum", 2, 9, 5), -2),
    _case("exclusive", floats("cumsum", 3, 17), 1, exclusive=True),
    _case("reverse", floats("cumsum", 3, 17), 1, reverse=True),
    _case("exclusive_reverse", floats("cumsum", 3, 17), 1, exclusive=True, reverse=True),
    _case("int64", integers("cumsum", -9, 9, 4, 13), 1),
    _case("one", floats("cumsum", 3, 1), 1, exclusive=True),
]
