"""Cases of concat."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, integers


def _case(name: str, axis: int, *arrays: np.ndarray, constants: tuple[int, ...] = ()) -> Case:
    return Case(
        f"concat/{name}",
        "concat",
        {"axis": axis},
        arrays,
        frozenset(constants),
        onnx=OnnxCall("Concat", {"axis": axis}),
    )


CASES = [
    _case("rows", 0, floats("a", 2, 9), floats("b", 3, 9)),
    _case("columns", 1, floats("a", 4, 5), floats("b", 4, 17), floats("c", 4, 1)),
    _case("channels", 1, *(floats(str(c), 2, c, 5, 3) for c in (8, 16, 3))),
    _case("last_negative", -1, floats("a", 2, 3, 4), floats("b", 2, 3, 6)),
    _case("one", 0, floats("a", 3)),
    _case("with_empty", 0, floats("a", 2, 3), np.zeros((0, 3), np.float32), floats("b", 1, 3)),
    _case("twice_the_same_constant", 1, floats("a", 3, 2), floats("a", 3, 2), constants=(1,)),
    _case("int64", 0, integers("a", 0, 9, 3), integers("b", 0, 9, 1)),
    _case("many", 0, *(floats(str(n), n % 3, 2) for n in range(1, 12))),
]
