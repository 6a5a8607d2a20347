"""Cases of slice."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers

_END = (1 << 63) - 1


def _case(
    name: str,
    x: np.ndarray,
    starts: tuple[int, ...],
    ends: tuple[int, ...],
    axes: tuple[int, ...] | None = None,
    steps: tuple[int, ...] | None = None,
) -> Case:
    operands = (
        x,
        i64(*starts),
        i64(*ends),
        None if axes is None else i64(*axes),
        None if steps is None else i64(*steps),
    )
    return Case(f"slice/{name}", "slice", {}, operands, frozenset({1, 2, 3, 4}), onnx=OnnxCall("Slice"))


_X = floats("slice", 5, 9, 17)

CASES = [
    _case("rows", _X, (1,), (4,)),
    _case("all_axes", _X, (1, 2, 3), (4, 8, 16)),
    _case("last_axis", _X, (3,), (_END,), (2,)),
    _case("negative_bounds", _X, (-4, -9), (-1, -2), (0, -1)),
    _case("bounds_beyond", _X, (-99,), (99,), (1,)),
    _case("step2", _X, (0, 1), (_END, _END), (1, 2), (2, 3)),
    _case("reversed", _X, (_END,), (-_END,), (2,), (-1,)),
    _case("reversed_step2", _X, (7, -1), (1, 0), (1, 2), (-2, -4)),
    _case("empty", _X, (3,), (3,), (0,)),
    _case("empty_crossed", _X, (4,), (2,), (0,)),
    _case("nothing", _X, (), ()),
    _case("scalar", floats("slice"), (), ()),
    _case("vector", floats("slice", 100), (17,), (66,)),
    _case("int64", integers("slice", 0, 99, 12), (2,), (11,), (0,), (3,)),
    _case("bool", _X > 0, (1,), (3,), (1,)),
]
