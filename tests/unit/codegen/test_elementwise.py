"""Elementwise kernels: broadcasting, layouts, dtypes, and independence of the C library."""

import struct
from typing import Any

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, object_code
from tests.single_node import SingleNode, blocked

from treadle import dtypes
from treadle.dtypes import DType, boolean, f32
from treadle.graph.expr import Expr, Step
from treadle.ops.elementwise import SCALAR_OPS
from treadle.plan.target import Target

SHAPES = [
    ((), ()),
    ((1,), (1,)),
    ((7,), ()),
    ((100_003,), (100_003,)),
    ((3, 5, 7), (5, 1)),
    ((3, 5, 7), (7,)),
    ((3, 1, 7), (1, 5, 1)),
    ((2, 3, 4, 5, 6), (3, 1, 5, 1)),
    ((64, 1, 1), (2, 64, 20, 21)),
    ((2, 64, 20, 21), (2, 1, 20, 21)),
    ((200, 300), (200, 1)),
    ((5, 60_000), (5, 1)),
    ((5000, 3), (3,)),
    ((0, 4), (4,)),
]


def _array(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).integers(1, 50, shape).astype(dtype.numpy)


def _program(dtype: DType) -> Expr:
    """(max(a * b, a), a < b)"""
    steps = (Step("mul", (0, 1), dtype), Step("max", (2, 0), dtype), Step("lt", (0, 1), boolean))
    return Expr((dtype, dtype), steps, (3, 4))


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.i64, dtypes.u8], ids=str)
def test_operands_broadcast_to_several_results(target: Target, shapes: Any, dtype: DType) -> None:
    """
    Rows, columns, scalars and any mixture broadcast as NumPy's, into results of different dtypes.
    """
    arrays = [_array(shape, dtype) for shape in shapes]
    SingleNode("elementwise", arrays, {"expr": _program(dtype)}, outputs=2).check(target)


@pytest.mark.parametrize("channels", [32, 20])
@pytest.mark.parametrize("shape", [(-1, 1, 1), (1, -1, 1, 1), (1,), (1, 1, 6, 5)], ids=str)
def test_constants_broadcast_over_blocked_channels(target: Target, channels: int, shape: tuple[int, ...]) -> None:
    """
    A constant per channel, per pixel or per tensor is added to a blocked image, whether its channels fill whole
    blocks or not.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, channels, 6, 5)).astype(np.float32)
    bias = rng.standard_normal([channels if size == -1 else size for size in shape]).astype(np.float32)
    layouts = (blocked(target), blocked(target))
    SingleNode("add", [x, bias], constants=[1], layouts=layouts).check(target)


def test_blocked_images_gate_each_other(target: Target) -> None:
    """
    A blocked [N, C, 1, 1] scales a blocked [N, C, H, W] in place of memory order.
    """
    rng = np.random.default_rng(0)
    x, gate = (rng.standard_normal((2, 20, *size)).astype(np.float32) for size in ((6, 5), (1, 1)))
    SingleNode("mul", [x, gate], layouts=(blocked(target), blocked(target))).check(target)


_NUMBERS = [dtypes.f32, dtypes.f64, dtypes.i8, dtypes.u8, dtypes.i16, dtypes.u16, dtypes.i32, dtypes.u32, dtypes.i64,
            dtypes.u64, dtypes.boolean]  # fmt: skip


@pytest.mark.parametrize("source", _NUMBERS, ids=str)
@pytest.mark.parametrize("to", _NUMBERS, ids=str)
def test_casts_are_those_of_numpy(target: Target, source: DType, to: DType) -> None:
    """
    Fractions are dropped, narrow integers wrap, and anything but 0 is True, NaN and fractions too.
    """
    rng = np.random.default_rng(0)
    signed = source.kind in ("float", "int") and to.kind != "uint"
    x = (rng.uniform(0, 100, 203) - 50 * signed).astype(source.numpy)
    x[:3] = 0, 1, -0.0 if source.is_float else 0
    if source.is_float and to == boolean:
        x[3:5] = np.nan, 0.25
    SingleNode("cast", [x], {"to": to}).check(target)


@pytest.mark.parametrize("value", [2.0, 3.0, 0.5, -1.0, 1.0])
def test_powers_with_simple_constants_take_short_cuts(target: Target, value: float) -> None:
    """
    Squares, roots and inverses written as powers agree with pow, at zeros and infinities too.
    """
    x = np.array([0.0, -0.0, 1.5, 9.0, np.inf, -np.inf, np.nan, -2.0], np.float32)
    steps = (Step("const", (), f32, value), Step("pow", (0, 1), f32))
    (got,) = SingleNode("elementwise", [x], {"expr": Expr((f32,), steps, (2,))}).run(target)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(got, np.power(x, np.full_like(x, value)), rtol=1e-6)


def test_clip_and_relu_let_nan_through(target: Target) -> None:
    """
    NaN stays NaN through clip and relu, with constant bounds and with bounds from memory.
    """
    x = np.array([np.nan, -1.0, 0.5, 9.0, np.inf] * 7, np.float32)
    bounds = [np.float32(0).reshape(()), np.float32(1).reshape(())]
    SingleNode("clip", [x, *bounds]).check(target)
    SingleNode("relu", [x]).check(target)
    steps = (Step("const", (), f32, 0.0), Step("const", (), f32, 1.0), Step("clip", (0, 1, 2), f32))
    SingleNode("elementwise", [x], {"expr": Expr((f32,), steps, (3,))}).check(target)


@pytest.mark.parametrize("op", SCALAR_OPS)
@pytest.mark.parametrize("dtype", [dtypes.f32, dtypes.f64, dtypes.i32, dtypes.boolean], ids=str)
def test_kernels_call_nothing_outside_themselves(target: Target, op: str, dtype: DType) -> None:
    """
    No scalar op needs the C library or a run-time support library: kernels are objects without undefined symbols.
    """
    definition = SCALAR_OPS[op]
    kinds = [boolean if op == "where" and i == 0 else dtype for i in range(definition.arity)]
    try:
        definition.result(kinds)
    except ValueError:
        return
    node = SingleNode(op, [np.ones(40, kind.numpy) for kind in kinds])
    calls, _ = lower_graph(node.graph, target)
    for call in calls:
        assert undefined_symbols(object_code(call.spec, target)) == []


def undefined_symbols(elf: bytes) -> list[str]:
    """The names that an ELF64 object refers to and does not define."""
    assert elf[:5] == b"\x7fELF\x02", "not an ELF64 object"
    at, size, count = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQII", elf, at + size * number) for number in range(count)]
    names = []
    for _, kind, _, _, offset, length, link, _ in sections:
        if kind != 2:
            continue
        texts = sections[link][4]
        for entry in range(offset + 24, offset + length, 24):
            name, _, _, section = struct.unpack_from("<IBBH", elf, entry)
            if section == 0:
                names.append(elf[texts + name : elf.index(b"\0", texts + name)].decode())
    return names
