"""Cases of pad."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers


def _case(
    name: str,
    x: np.ndarray,
    pads: tuple[int, ...],
    mode: str = "constant",
    *,
    value: float | None = None,
    axes: tuple[int, ...] | None = None,
) -> Case:
    fill = None if value is None else np.array(value, x.dtype)
    operands = (x, i64(*pads), fill, None if axes is None else i64(*axes))
    # The other reference cannot crop.
    onnx = None if min(pads) < 0 else OnnxCall("Pad", {"mode": mode})
    return Case(f"pad/{name}", "pad", {"mode": mode}, operands, frozenset({1, 2, 3}), onnx=onnx)


_IMAGE = floats("pad", 2, 3, 5, 7)
_SPATIAL = (0, 0, 1, 2, 0, 0, 3, 4)

CASES = [
    _case("constant", _IMAGE, _SPATIAL),
    _case("value", _IMAGE, _SPATIAL, value=-1.5),
    _case("reflect", _IMAGE, _SPATIAL, "reflect"),
    _case("edge", _IMAGE, _SPATIAL, "edge"),
    _case("wrap", _IMAGE, _SPATIAL, "wrap"),
    _case("axes", _IMAGE, (1, 2, 3, 4), axes=(1, -1)),
    _case("crop", _IMAGE, (0, 0, -1, 0, 0, 0, -2, -3)),
    _case("crop_and_add", floats("pad", 4, 5), (-3, 2, 1, -4)),
    _case("crop_more_than_there_is", floats("pad", 2, 5), (-3, 0, 4, 0)),
    _case("nothing", _IMAGE, (0,) * 8),
    _case("all_axes", floats("pad", 3, 17), (1, 2, 3, 4), value=9.0),
    _case("begin_only", floats("pad", 35), (5, 0)),
    _case("int64", integers("pad", 0, 9, 3, 4), (1, 1, 1, 1), value=7),
    _case("empty_input", np.zeros((0, 3), np.float32), (2, 0, 1, 0), value=1.0),
]
