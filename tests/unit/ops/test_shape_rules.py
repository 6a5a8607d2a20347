"""Shape rules refuse what does not fit, saying what was wanted and what came."""

import numpy as np
import pytest

from treadle import dtypes
from treadle.errors import LimitError, ShapeError
from treadle.graph.expr import Expr, Step
from treadle.ops.op import Info
from treadle.ops.table import OPS

WINDOW = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
CONV = {**WINDOW, "groups": 1}
POOL = {**WINDOW, "kernel": (3, 3), "ceil_mode": False}
PRODUCT = {"transpose_a": False, "transpose_b": False}
SPREAD = {"strides": (4,), "begins": (0,), "ends": (0,)}
RESIZE = {"mode": "linear", "coordinate_mode": "half_pixel"}
RELU = Expr((dtypes.f32,), (Step("relu", (0,), dtypes.f32),), (1,))


def of(*shape, dtype=dtypes.f32):
    """An operand of which only the type is known."""
    return Info(dtype, shape)


def known(*numbers, dtype=np.int64):
    """A constant vector."""
    array = np.array(numbers, dtype)
    return Info(dtypes.from_numpy(array.dtype), array.shape, array)


def infer(op, attrs, *inputs, outputs=1):
    return OPS[op].infer(attrs, inputs, outputs)


FAULTS = [
    ("add", {}, (of(2, 3), of(4)), "shapes [2, 3] and [4] do not broadcast: 3 and 4 on axis 1"),
    ("add", {}, (of(2), of(2, dtype=dtypes.i64)), "operands of add must have one dtype, got f32, i64"),
    ("exp", {}, (of(2, dtype=dtypes.i32),), "exp takes float operands, got i32"),
    ("and", {}, (of(2), of(2)), "and takes bool operands, got f32"),
    ("where", {}, (of(2), of(2), of(2)), "the condition of where must be bool, got f32"),
    ("elementwise", {"expr": RELU}, (of(2, dtype=dtypes.f64),), "wants operands (f32), got (f64)"),
    ("matmul", PRODUCT, (of(2, 3), of(4, 5)), "a is [2, 3], b is [4, 5]: 3 (last axis of a) must equal 4"),
    ("matmul", PRODUCT, (of(), of(4)), "a must have rank 1 or more, got rank 0"),
    ("matmul", PRODUCT, (of(2, 3), of(3, 4, dtype=dtypes.f64)), "a is f32, b is f64"),
    ("matmul", PRODUCT, (of(2, 2, 3), of(5, 3, 4)), "do not broadcast: 2 and 5"),
    ("matmul", PRODUCT, (of(2, 3), of(3, 4), of(4)), "need an epilogue"),
    ("matmul", {**PRODUCT, "epilogue": RELU}, (of(2, 3), of(3, 4), of(4)), "the epilogue takes (f32), got (f32, f32)"),
    ("matmul", {**PRODUCT, "out_perm": (0, 0)}, (of(2, 3), of(3, 4)), "perm [0, 0] is no permutation"),
    ("conv", CONV, (of(1, 3, 8, 8), of(4, 2, 3, 3), None),
     "x has 3 channels, but w [4, 2, 3, 3] with 1 groups wants 2"),
    ("conv", CONV, (of(1, 3, 8, 8), of(4, 3, 3), None), "the same rank, got [1, 3, 8, 8] and [4, 3, 3]"),
    ("conv", CONV, (of(1, 3, 8, 8), of(4, 3, 3, 3), of(5)), "bias must be [4], got [5]"),
    ("conv", CONV, (of(1, 3, 2, 8), of(4, 3, 3, 3), None), "spans 3 elements on spatial axis 0, but the padded input"),
    ("conv", {**CONV, "pads": (1, 1)}, (of(1, 3, 8, 8), of(4, 3, 3, 3), None), "pads must have 4 numbers"),
    ("conv", {**CONV, "strides": (0, 1)}, (of(1, 3, 8, 8), of(4, 3, 3, 3), None), "strides must be 1 or more"),
    ("conv", {**CONV, "groups": 3}, (of(1, 3, 8, 8), of(4, 1, 3, 3), None), "gives 4 channels, which 3 groups"),
    ("conv", CONV, (of(1, 3, 8, 8, dtype=dtypes.i32), of(4, 3, 3, 3, dtype=dtypes.i32), None),
     "must be floating point"),
    ("max_pool", POOL, (of(1, 3, 8),), "the window has 2 spatial axes, the input 1"),
    ("max_pool", {**POOL, "pads": (-1, 0, 0, 0)}, (of(1, 3, 8, 8),), "pads must be 0 or more"),
    ("avg_pool", {**POOL, "count_include_pad": False}, (of(1, 3, 8, 8, dtype=dtypes.i8),), "got i8"),
    ("reduce_sum", {"axes": (2,), "keepdims": True}, (of(2, 3),), "axis 2 is out of range for rank 2; wanted -2 to 1"),
    ("reduce_sum", {"axes": (1, -1), "keepdims": True}, (of(2, 3),), "axes [1, -1] name an axis twice"),
    ("argmax", {"axis": 0, "keepdims": True, "last": False}, (of(0, 3),), "axis 0 of x [0, 3] is empty"),
    ("softmax", {"axis": 0}, (of(),), "axis 0 is out of range for rank 0"),
    ("layer_norm", {"axis": -1, "epsilon": 1e-5}, (of(2, 3), of(4)), "scale must broadcast to [2, 3], got [4]"),
    ("batch_norm", {"epsilon": 1e-5}, (of(2, 3), of(3), of(3), of(3), of(2)), "var must be [3], one number a channel"),
    ("group_norm", {"epsilon": 1e-5, "groups": 2}, (of(2, 3), of(3), of(3)),
     "3 channels, which 2 groups do not divide"),
    ("gather", {"axis": 0}, (of(2, 3), of(2)), "indices must be of an integer type, got f32"),
    ("gather_elements", {"axis": 0}, (of(2, 3), known(1)), "indices [1] must have the rank of x [2, 3]"),
    ("gather_nd", {"batch_dims": 0}, (of(2, 3), of(1, 3, dtype=dtypes.i64)), "addresses 3 axes; x [2, 3] has 2"),
    ("scatter_nd", {"reduction": "none"}, (of(2, 3), of(4, 1, dtype=dtypes.i64), of(4)),
     "updates must be [4, 3], got [4]"),
    ("scatter_elements", {"axis": 0, "reduction": "sum"}, (of(2), known(1), of(1)), "one of none, add, mul, max, min"),
    ("one_hot", {"axis": -1}, (known(1), known(3), of(3)), "values must be [off, on], got shape [3]"),
    ("top_k", {"axis": 0, "largest": True, "sorted": True}, (of(2), known(3)), "k is 3, but axis 0 of x [2] has 2"),
    ("concat", {"axis": 1}, (of(2, 3), of(3, 3)), "operand 1 [3, 3] does not fit operand 0 [2, 3] outside axis 1"),
    ("pick_channels", {"picks": ()}, (of(2, 3), of(3, 3)), "operand 1 [3, 3] does not fit operand 0 [2, 3] outside"),
    ("pick_channels", {"picks": ((0, 3),)}, (of(2, 3),), "there is no channel 3 of operand 0 to pick"),
    ("split", {"axis": 0, "parts": 2}, (of(5), known(2, 2)), "sizes [2, 2] must be 0 or more and sum to 5"),
    ("slice", {}, (of(5), known(0), known(1), known(0), known(0)), "a step of 0 never ends"),
    ("slice", {}, (of(5), known(0), known(1, 2)), "must be equally long, got 1, 2, 1, 1"),
    ("pad", {"mode": "constant"}, (of(5), known(1)), "wanted 2 pads, a begin and an end"),
    ("pad", {"mode": "constant"}, (of(5), known(-3, -3)), "pads -3 and -3 take away more than axis 0 of x [5] has"),
    ("pad", {"mode": "edge"}, (of(0), known(1, 1)), "nothing is there to copy"),
    ("transpose", {"perm": (1, 1)}, (of(2, 3),), "perm [1, 1] is no permutation of the 2 axes 0 to 1"),
    ("reshape", {}, (of(2, 3), known(4, -1)), "6 elements do not divide by 4"),
    ("reshape", {}, (of(2, 3), known(-1, -1)), "sizes, 0 and a single -1 only"),
    ("reshape", {}, (of(2, 3), known(7)), "x [2, 3] with 6 elements cannot become [7] with 7"),
    ("reshape", {}, (of(2, 3), known(6, 1, 0)), "copies axis 2, which x [2, 3] has not"),
    ("reshape", {"allowzero": True}, (of(0), known(0, -1)), "holds both 0 and -1"),
    ("reshape", {}, (of(6), Info(dtypes.f32, (1,), np.array([6.0], np.float32))), "shape must be of an integer type"),
    ("squeeze", {}, (of(2, 1), known(0)), "axis 0 of x [2, 1] has size 2; only size 1 can be squeezed"),
    ("unsqueeze", {}, (of(2), known(0, 0)), "axes [0, 0] name an axis twice"),
    ("expand", {}, (of(2), known(3)), "do not broadcast: 2 and 3"),
    ("tile", {}, (of(2, 3), known(1)), "one number for each of the 2 axes"),
    ("range", {}, (known(0), known(1), known(0)), "in steps of 0 has no length"),
    ("constant_of_shape", {"value": np.ones(1)}, (known(-1),), "negative dimension"),
    ("resize", RESIZE, (of(4), None, None, None), "exactly one of scales and sizes must be given, got 0"),
    ("resize", RESIZE, (of(4), None, None, known(1, 2)), "one number for each of the 1 resized axes, got 2"),
    ("resize", RESIZE, (of(4), None, known(0, dtype=np.float32), None), "scales must be positive"),
    ("resize", {**RESIZE, "mode": "area"}, (of(4), None, None, known(2)), "mode must be one of nearest, linear, cubic"),
    ("einsum", {"equation": "ij,jk->ik"}, (of(2, 3), of(4, 5)), "axis 'j' has size 3 before, but 4 in operand 1"),
    ("einsum", {"equation": "ij->iz"}, (of(2, 3),), "must name axes of the operands"),
    ("einsum", {"equation": "i,j"}, (of(2),), "has 2 operands, got 1"),
    ("depth_to_space", {"block": 2, "mode": "DCR"}, (of(1, 6, 2, 2),), "6 channels, which 2 * 2 does not divide"),
    ("spread", {**SPREAD, "channels": 3}, (of(1, 8, 5),), "8 channels, which are not 4 times 3 or more"),
    ("spread", {**SPREAD, "channels": 2}, (of(1, 8, 5, 5),), "an axis for each of 1 strides"),
    ("spread", {**SPREAD, "channels": 2}, (of(8, 5),), "x must have rank 3 or more"),
    ("spread", {**SPREAD, "channels": 2, "ends": (4,)}, (of(1, 8, 5),), "ends must be in 0..strides (exclusive)"),
    ("spread", {**SPREAD, "channels": 2, "begins": (3,), "ends": (3,)}, (of(1, 8, 1),), "must leave something"),
    ("trilu", {"upper": True}, (of(4),), "x must have rank 2 or more"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "message"), FAULTS, ids=[f"{f[0]}-{i}" for i, f in enumerate(FAULTS)]
)
def test_faults_are_told_precisely(op, attrs, inputs, message):
    """An operand that does not fit raises ShapeError with the numbers that clash."""
    with pytest.raises(ShapeError) as caught:
        infer(op, attrs, *inputs)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("expand", {}, (of(1), known(1 << 50))),
        ("tile", {}, (of(1 << 30), known(1 << 30))),
        ("constant_of_shape", {"value": np.ones(1)}, (known(1 << 30, 1 << 30),)),
        ("pad", {"mode": "constant"}, (of(1), known(1 << 50, 0))),
        ("range", {}, (known(0), known(1 << 60), known(1))),
        ("one_hot", {"axis": -1}, (known(0), known(1 << 50), of(2))),
        ("matmul", PRODUCT, (of(1 << 30, 1), of(1, 1 << 30))),
    ],
)
def test_sizes_are_limited(op, attrs, inputs):
    """A result with an absurd number of elements is refused before anything is allocated."""
    with pytest.raises(LimitError):
        infer(op, attrs, *inputs)


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "outputs"),
    [
        ("reshape", {}, (of(6), of(2, dtype=dtypes.i64)), 1),
        ("expand", {}, (of(6), of(2, dtype=dtypes.i64)), 1),
        ("slice", {}, (of(6), known(0), of(1, dtype=dtypes.i64)), 1),
        ("pad", {"mode": "constant"}, (of(6), of(2, dtype=dtypes.i64)), 1),
        ("split", {"axis": 0, "parts": 2}, (of(6), of(2, dtype=dtypes.i64)), 2),
        ("top_k", {"axis": 0, "largest": True, "sorted": True}, (of(6), of(1, dtype=dtypes.i64)), 2),
        ("resize", RESIZE, (of(6), None, of(1), None), 1),
        ("range", {}, (known(0), of(1, dtype=dtypes.i64), known(1)), 1),
        ("counted", {"axis": 1}, (of(2, 6), of(1, dtype=dtypes.i64)), 1),
    ],
)
def test_shapes_that_depend_on_data_are_none(op, attrs, inputs, outputs):
    """Where a shape-like operand is not known, dtypes are still, and shapes are None."""
    infos = infer(op, attrs, *inputs, outputs=outputs)
    assert len(infos) == outputs
    assert all(info.shape is None and info.dtype is not None for info in infos)


def test_shape_and_size_know_their_values():
    """What follows from a shape alone is known without running anything."""
    (shape,) = infer("shape", {"start": 1, "end": None}, of(2, 3, 4))
    (size,) = infer("size", {}, of(2, 3, 4))
    assert shape.value.tolist() == [3, 4]
    assert size.value == 24
