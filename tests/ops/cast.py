"""Cases of cast between every pair of dtypes that models use."""

import ml_dtypes
import numpy as np
import onnx

from tests.ops.case import Case, OnnxCall, floats, integers
from treadle import dtypes

_TYPES = (dtypes.f32, dtypes.f64, dtypes.i64, dtypes.i32, dtypes.u8, dtypes.boolean)


def _source(dtype: dtypes.DType) -> np.ndarray:
    if dtype.is_float:
        whole = floats("cast", 37) * 20
        return np.abs(np.concatenate([whole, [0.0, 0.5, 1.5, 2.999]])).astype(dtype.numpy)
    if dtype == dtypes.boolean:
        return floats("cast", 41) > 0
    return integers("cast", 0, 200, 41, dtype=dtype.numpy)


def _case(source: dtypes.DType, target: dtypes.DType, x: np.ndarray | None = None, name: str = "") -> Case:
    to = onnx.helper.np_dtype_to_tensor_dtype(target.numpy)
    operand = _source(source) if x is None else x
    return Case(
        f"cast/{source}_to_{target}{name}", "cast", {"to": target}, (operand,), onnx=OnnxCall("Cast", {"to": to})
    )


_HALF = floats("half", 3, 19) * 100

CASES = [
    *(_case(source, target) for source in _TYPES for target in _TYPES),
    _case(dtypes.f32, dtypes.i32, -_source(dtypes.f32), "_negative"),
    _case(dtypes.f32, dtypes.i64, -_source(dtypes.f32), "_negative"),
    _case(dtypes.f32, dtypes.boolean, np.array([0, -0.0, np.nan, np.inf, 1e-40, -1], np.float32), "_specials"),
    _case(dtypes.f64, dtypes.f32, np.array([1e300, -1e300, 1e-300, np.nan, np.inf, 1 / 3]), "_specials"),
    _case(dtypes.f32, dtypes.f16, _HALF),
    _case(dtypes.f16, dtypes.f32, _HALF.astype(np.float16)),
    *(_case(dtypes.f16, target) for target in _TYPES if target != dtypes.f32),
    *(_case(source, dtypes.f16) for source in _TYPES if source != dtypes.f32),
    _case(dtypes.f32, dtypes.bf16, _HALF),
    _case(dtypes.bf16, dtypes.f32, _HALF.astype(ml_dtypes.bfloat16)),
    _case(dtypes.i64, dtypes.i32, integers("wrap", -(1 << 40), 1 << 40, 19), "_wraps"),
]
