"""Shape rules on sizes that are expressions give what they give for each of those sizes."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.ops.case import Case, graph_of
from tests.ops.suite import CASE_OPS, cases_of, named

from treadle import dtypes
from treadle.errors import LimitError, ShapeError
from treadle.graph.facts import Facts
from treadle.graph.guard import evaluate, is_assumed
from treadle.graph.shape import equal_shapes, text
from treadle.ops.evaluate import infer_node
from treadle.ops.op import Array, Attrs, Info
from treadle.ops.operands import sizes_array
from treadle.ops.reshape import reshaped
from treadle.ops.resize import scaled
from treadle.ops.slice import resolved
from treadle.ops.table import OPS

MODES = ("shared", "distinct", "values")
"""How sizes become symbols: one for each size; one for each axis; as "shared", in the elements of operands, too."""


def opened(case: Case, facts: Facts, mode: str, least: int = 1) -> list[Info | None]:
    """The operands of `case`, sizes being symbols from `least`, or 0, whose samples are the sizes of the case."""
    infos: list[Info | None] = []
    for index, array in enumerate(case.inputs):
        if array is None:
            infos.append(None)
            continue
        dtype = dtypes.from_numpy(array.dtype)
        if index in case.constant_inputs:
            infos.append(Info(dtype, array.shape, array))
            continue
        names = [f"x{index}_{axis}" if mode == "distinct" else f"n{size}" for axis, size in enumerate(array.shape)]
        named = zip(names, array.shape, strict=True)
        infos.append(Info(dtype, tuple(facts.symbol(name, size, least=min(size, least)) for name, size in named)))
    return [with_symbols(info, facts) for info in infos] if mode == "values" else infos


def with_symbols(info: Info | None, facts: Facts) -> Info | None:
    """`info` with symbols for those of its integers that are sizes."""
    if info is None or info.value is None or info.dtype != dtypes.i64 or info.value.ndim > 1:
        return info
    found = [facts.symbols.get(f"n{number}", number) for number in info.value.reshape(-1).tolist()]
    return Info(info.dtype, info.shape, sizes_array(found).reshape(info.value.shape))


def at(info: Info | None, values: dict[str, int]) -> Info | None:
    """`info` for these values of the symbols."""
    if info is None or info.shape is None:
        return info
    return Info(info.dtype, tuple(evaluate(dim, values) for dim in info.shape), array_at(info, values))


def array_at(info: Info, values: dict[str, int]) -> Array | None:
    if info.value is None or info.value.dtype != object or info.dtype == dtypes.string:
        return info.value
    numbers = [evaluate(element, values) for element in info.value.reshape(-1)]
    return np.array(numbers, info.dtype.numpy).reshape(info.value.shape)


def other_size(hint: int, rng: random.Random) -> int:
    """A size that is perhaps related to `hint`."""
    return rng.choice((hint - 1, hint, hint + 1, hint * 2, rng.randint(1, 40)))


def other_sizes(facts: Facts, rng: random.Random) -> list[dict[str, int]]:
    """Values of the symbols for which the guards hold: some at which equal samples stay equal, some at random."""
    found = []
    hints = {symbol.hint for symbol in facts.symbols.values()}
    for turn in range(60):
        changed = {hint: other_size(hint, rng) for hint in hints}
        values = {
            name: max(int(symbol.least), changed[symbol.hint] if turn % 2 else other_size(symbol.hint, rng))
            for name, symbol in facts.symbols.items()
        }
        if all(is_assumed(guard, values) for guard in facts.guards):
            found.append(values)
    return found


def assert_stable(facts: Facts, results: list[Info], infer: Callable[[], list[Info]]) -> None:
    """Another inference gives sizes that are known to be equal, and assumes nothing more."""
    guards = list(map(str, facts.guards))
    for before, after in zip(results, infer(), strict=True):
        assert equal_shapes(before.shape, after.shape) or before.shape is after.shape is None
    assert list(map(str, facts.guards)) == guards


@pytest.mark.parametrize("op", CASE_OPS)
def test_rules_hold_for_all_sizes_under_the_guards(op: str) -> None:
    """One inference on symbols gives the shapes of the case, and those of all other sizes that the guards admit."""
    for case, mode in product(cases_of(op), MODES):
        with named(case, mode):
            assert_rule_holds(case, mode)


def assert_rule_holds(case: Case, mode: str) -> None:
    facts = Facts()
    node = graph_of(case)[0].nodes[0]
    operands = opened(case, facts, mode)
    results = infer_node(node, operands)
    samples = {name: symbol.hint for name, symbol in facts.symbols.items()}
    assert all(is_assumed(guard, samples) for guard in facts.guards)
    assert_stable(facts, results, lambda: infer_node(node, operands))
    for values in (samples, *other_sizes(facts, random.Random(case.id + mode))):
        wanted = infer_node(node, [at(info, values) for info in operands])
        for result, expected in zip(results, wanted, strict=True):
            found = at(result, values)
            assert found is not None
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), f"{result.shape} for {values}"
            assert (found.value is None) == (expected.value is None)
            if found.value is not None:
                np.testing.assert_array_equal(found.value, expected.value)


SAMPLES = {"batch": 3, "length": 40, "past": 24, "height": 96, "width": 128, "heads": 12}
END = (1 << 63) - 1


def symbols(facts: Facts) -> Any:
    """The symbols of SAMPLES as attributes."""
    return SimpleNamespace(**{name: facts.symbol(name, hint) for name, hint in SAMPLES.items()})


def of(*shape: int, dtype: dtypes.DType = dtypes.f32) -> Info:
    """An operand of which only the type is known."""
    return Info(dtype, shape)


def ids(*shape: int) -> Info:
    """An operand of indices."""
    return Info(dtypes.i64, shape)


def known(*numbers: Any, dtype: dtypes.DType = dtypes.i64) -> Info:
    """A vector whose elements are known."""
    array = sizes_array(numbers) if dtype == dtypes.i64 else np.array(numbers, dtype.numpy)
    return Info(dtype, array.shape, array)


def scalar(number: Any, dtype: dtypes.DType = dtypes.i64) -> Info:
    """A scalar that is known: an array of Python objects if it is an expression."""
    array = np.empty((), object)
    array[()] = number
    return Info(dtype, (), array if not isinstance(number, int | float) else np.array(number, dtype.numpy))


PRODUCT = {"transpose_a": False, "transpose_b": False}
WINDOW = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}
CONV = {**WINDOW, "groups": 1}
POOL = {**WINDOW, "kernel": (3, 3), "strides": (2, 2), "ceil_mode": False}
RESIZE = {"mode": "linear", "coordinate_mode": "half_pixel"}
REDUCE = {"axes": (-1,), "keepdims": True}
TOP = {"axis": -1, "largest": True, "sorted": True}
STATES = {"reverse": (False,)}

TYPICAL: dict[str, tuple[Callable[[Any], tuple[str, Attrs, tuple[Info | None, ...]]], str, tuple[str, ...]]] = {
    "mask": (lambda s: ("add", {}, (of(s.batch, s.heads, s.length, s.length), of(s.batch, 1, 1, s.length))),
             "[batch, heads, length, length]", ()),
    "bias": (lambda s: ("add", {}, (of(768), of(s.batch, s.length, 768))), "[batch, length, 768]", ()),
    "cached_mask": (lambda s: ("where", {}, (of(1, 1, s.length, s.past + s.length, dtype=dtypes.boolean),
                                             of(s.batch, 12, s.length, s.past + s.length), of())),
                    "[batch, 12, length, length + past]", ()),
    "lengths_that_agree": (lambda s: ("add", {}, (of(s.batch, s.length), of(s.batch, s.past + 16))),
                           "[batch, length]", ("length == past + 16",)),
    "matmul_by_weights": (lambda s: ("matmul", PRODUCT, (of(s.batch, s.length, 768), of(768, 64))),
                          "[batch, length, 64]", ()),
    "matmul_of_both": (lambda s: ("matmul", PRODUCT, (of(s.batch, 12, s.length, 64), of(s.batch, 12, 64, s.length))),
                       "[batch, 12, length, length]", ()),
    "attention": (lambda s: ("attention", {}, (of(s.batch, 12, s.length, 64), of(s.batch, 12, s.past, 64),
                                               of(s.batch, 12, s.past, 32))), "[batch, 12, length, 32]", ()),
    "einsum": (lambda s: ("einsum", {"equation": "bld,dhk->bhlk"}, (of(s.batch, s.length, 768), of(768, 12, 64))),
               "[batch, 12, length, 64]", ()),
    "layer_norm": (lambda s: ("layer_norm", {"axis": -1}, (of(s.batch, s.length, 768), of(768), of(768))),
                   "[batch, length, 768]", ()),
    "softmax": (lambda s: ("softmax", {"axis": -1}, (of(s.batch, s.length),)), "[batch, length]", ()),
    "reduce": (lambda s: ("reduce_mean", REDUCE, (of(s.batch, s.length),)), "[batch, 1]", ()),
    "argmax": (lambda s: ("argmax", {"axis": 1, "keepdims": False, "last": False}, (of(s.batch, s.length),)),
               "[batch]", ()),
    **{op: (lambda s, op=op: (op, {"axis": 1}, (of(s.batch, s.length),)), "[batch, length]", ())
       for op in ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")},
    "embedding": (lambda s: ("gather", {"axis": 0}, (of(30000, 768), ids(s.batch, s.length))),
                  "[batch, length, 768]", ()),
    "gather_nd": (lambda s: ("gather_nd", {"batch_dims": 1}, (of(s.batch, s.length, 8), ids(s.batch, 5, 1))),
                  "[batch, 5, 8]", ()),
    "scatter_nd": (lambda s: ("scatter_nd", {"reduction": "none"}, (of(s.length, 8), ids(s.batch, 1), of(s.batch, 8))),
                   "[length, 8]", ()),
    "one_hot": (lambda s: ("one_hot", {"axis": -1}, (ids(s.batch), scalar(s.length), of(2))), "[batch, length]", ()),
    "top_5": (lambda s: ("top_k", TOP, (of(s.batch, s.length), known(5))), "[batch, 5]", ("length >= 5",)),
    "transpose": (lambda s: ("transpose", {"perm": (0, 2, 1)}, (of(s.batch, s.length, 64),)),
                  "[batch, 64, length]", ()),
    "concat": (lambda s: ("concat", {"axis": 1}, (of(s.batch, s.past, 64), of(s.batch, s.length, 64))),
               "[batch, length + past, 64]", ()),
    "split_heads": (lambda s: ("reshape", {}, (of(s.batch, s.length, 768), known(0, 0, 12, 64))),
                    "[batch, length, 12, 64]", ()),
    "split_heads_by_sizes": (lambda s: ("reshape", {}, (of(s.batch, s.length, 768), known(s.batch, s.length, 12, -1))),
                             "[batch, length, 12, 64]", ()),
    "join_heads": (lambda s: ("reshape", {}, (of(s.batch, s.length, 12, 64), known(s.batch, -1, 768))),
                   "[batch, length, 768]", ()),
    "fold_batch": (lambda s: ("reshape", {}, (of(s.batch, s.heads, s.length, 64), known(s.batch * s.heads, -1, 64))),
                   "[batch*heads, length, 64]", ()),
    "rows": (lambda s: ("reshape", {}, (of(s.batch, s.length, 768), known(-1, 768))), "[batch*length, 768]", ()),
    "chunks": (lambda s: ("reshape", {}, (of(s.batch, s.length), known(-1, 8))),
               "[(batch*length)//8, 8]", ("batch*length == 8*((batch*length)//8)",)),
    "flatten": (lambda s: ("flatten", {"axis": 1}, (of(s.batch, 3, s.height, s.width),)),
                "[batch, 3*height*width]", ()),
    "squeeze": (lambda s: ("squeeze", {}, (of(s.batch, 1, s.length), known(1))), "[batch, length]", ()),
    "expand": (lambda s: ("expand", {}, (of(s.batch, 1, 1, s.length), known(s.batch, 1, s.past, s.length))),
               "[batch, 1, past, length]", ()),
    "tile": (lambda s: ("tile", {}, (of(1, s.length), known(s.batch, 2))), "[batch, 2*length]", ()),
    "first_token": (lambda s: ("slice", {}, (of(s.batch, s.length, 8), known(0), known(1), known(1))),
                    "[batch, 1, 8]", ()),
    "last_token": (lambda s: ("slice", {}, (of(s.batch, s.length, 8), known(-1), known(END), known(1))),
                   "[batch, 1, 8]", ()),
    "all_but_last": (lambda s: ("slice", {}, (of(s.batch, s.length), known(0), known(-1), known(1))),
                     "[batch, length - 1]", ()),
    "positions": (lambda s: ("slice", {}, (of(1, 512), known(0), known(s.length), known(1))),
                  "[1, min(length, 512)]", ()),
    "cached_positions": (lambda s: ("slice", {}, (of(1, 512), known(s.past), known(s.past + s.length), known(1))),
                         "[1, max(0, min(length, -past + 512))]", ()),
    "newest": (lambda s: ("slice", {}, (of(s.batch, s.past + s.length), known(-s.length), known(END), known(1))),
               "[batch, length]", ()),
    "last_five": (lambda s: ("slice", {}, (of(s.batch, s.length), known(-5), known(END), known(1))),
                  "[batch, min(length, 5)]", ()),
    "every_second": (lambda s: ("slice", {}, (of(s.batch, s.length), known(0), known(END), known(1), known(2))),
                     "[batch, (length + 1)//2]", ()),
    "backwards": (lambda s: ("slice", {}, (of(s.batch, s.length), known(-1), known(-END), known(1), known(-1))),
                  "[batch, length]", ()),
    "pad": (lambda s: ("pad", {"mode": "reflect"}, (of(s.batch, s.length), known(0, 2, 0, 3), None, None)),
            "[batch, length + 5]", ()),
    "pad_to_multiple": (lambda s: ("pad", {"mode": "constant"}, (of(s.length), known(0, -s.length % 16), None, None)),
                        "[16*((length + 15)//16)]", ()),
    "range": (lambda s: ("range", {}, (scalar(0), scalar(s.length), scalar(1))), "[length]", ()),
    "range_of_new": (lambda s: ("range", {}, (scalar(s.past), scalar(s.past + s.length), scalar(1))), "[length]", ()),
    "range_of_floats": (lambda s: ("range", {}, tuple(scalar(number, dtypes.f32) for number in (0.0, s.length, 2.0))),
                        "[(length + 1)//2]", ()),
    "zeros": (lambda s: ("constant_of_shape", {"value": np.zeros(1, np.float32)}, (known(s.batch, s.length),)),
              "[batch, length]", ()),
    "conv_same": (lambda s: ("conv", CONV, (of(s.batch, 3, s.height, s.width), of(8, 3, 3, 3), None)),
                  "[batch, 8, height, width]", ()),
    "conv_halves": (lambda s: ("conv", {**CONV, "strides": (2, 2)},
                               (of(1, 3, s.height, s.width), of(8, 3, 3, 3), None)),
                    "[1, 8, (height + 1)//2, (width + 1)//2]", ()),
    "conv_valid": (lambda s: ("conv", {**CONV, "pads": (0, 0, 0, 0)},
                              (of(1, 3, s.height, s.height), of(8, 3, 5, 3), None)),
                   "[1, 8, height - 4, height - 2]", ("height >= 5",)),
    "conv_transpose": (lambda s: ("conv_transpose",
                                  {**CONV, "strides": (2, 2), "pads": (0,) * 4, "output_padding": (0, 0)},
                                  (of(1, 8, s.height, s.width), of(8, 3, 2, 2), None)),
                       "[1, 3, 2*height, 2*width]", ()),
    "max_pool": (lambda s: ("max_pool", POOL, (of(s.batch, 8, s.height, s.width),)),
                 "[batch, 8, (height + 1)//2, (width + 1)//2]", ()),
    "max_pool_ceil": (lambda s: ("max_pool", {**POOL, "ceil_mode": True}, (of(s.batch, 8, s.height, 96),)),
                      "[batch, 8, height//2 + 1, 49]", ()),
    "avg_pool": (lambda s: ("avg_pool", {**POOL, "pads": (0,) * 4, "kernel": (2, 2), "count_include_pad": False},
                            (of(s.batch, 8, s.height * 2, 4),)), "[batch, 8, height, 2]", ()),
    "resize_twice": (lambda s: ("resize", RESIZE, (of(1, 3, s.height, s.width), None,
                                                  known(1, 1, 2, 0.5, dtype=dtypes.f32), None)),
                     "[1, 3, 2*height, width//2]", ()),
    "resize_to": (lambda s: ("resize", RESIZE, (of(1, 3, s.height, s.height), None, None,
                                                known(1, 3, s.width, s.height * 3))), "[1, 3, width, 3*height]", ()),
    "depth_to_space": (lambda s: ("depth_to_space", {"block": 2, "mode": "DCR"}, (of(s.batch, 8, s.height, s.width),)),
                       "[batch, 2, 2*height, 2*width]", ()),
    "spread": (lambda s: ("spread", {"strides": (2, 3), "channels": 6, "begins": (1, 0), "ends": (0, 2)},
                          (of(s.batch, 48, s.height, s.width),)), "[batch, 6, 2*height - 1, 3*width - 2]", ()),
    "trilu": (lambda s: ("trilu", {"upper": True}, (of(s.length, s.length), scalar(1))), "[length, length]", ()),
    "batch_norm": (lambda s: ("batch_norm", {}, (of(s.batch, 8, s.height), of(8), of(8), of(8), of(8))),
                   "[batch, 8, height]", ()),
    "group_norm": (lambda s: ("group_norm", {"groups": 2}, (of(s.batch, 8, s.height), of(8), of(8))),
                   "[batch, 8, height]", ()),
    "lstm": (lambda s: ("lstm", STATES, (of(s.length, s.batch, 1, 256), of(1, 256, 64), None, None, ids(s.batch))),
             "[length, 1, batch, 64]", ()),
    "search_sorted": (lambda s: ("search_sorted", {"right": False}, (of(s.batch, 9), of(s.batch, s.length))),
                      "[batch, length]", ()),
    "reverse_sequence": (lambda s: ("reverse_sequence", {"time_axis": 0, "batch_axis": 1},
                                    (of(s.length, s.batch, 64), ids(s.batch))), "[length, batch, 64]", ()),
    "embedding_bag": (lambda s: ("gather_reduce", {"how": "reduce_sum", "axes": (1,), "keepdims": False},
                                 (of(100, 64), ids(s.batch, s.length), of(s.batch, s.length))), "[batch, 64]", ()),
    "shape": (lambda s: ("shape", {}, (of(s.batch, s.length),)), "[2]", ()),
}  # fmt: skip
"""Inference on open dimensions: (op, attributes, operands), the shape of the first result, all guards."""


@pytest.mark.parametrize("name", TYPICAL)
def test_ordinary_models_need_few_guards(name: str) -> None:
    """Sizes stay open, in canonical form, and only what must hold is assumed."""
    build, shape, guards = TYPICAL[name]
    facts = Facts()
    op, attrs, operands = build(symbols(facts))
    result = OPS[op].infer(attrs, operands, 1)[0]
    assert result.shape is not None
    assert text(result.shape) == shape
    assert tuple(map(str, facts.guards)) == guards
    assert_stable(facts, [result], lambda: OPS[op].infer(attrs, operands, 1)[:1])
    rng = random.Random(name)
    for _ in range(20):
        values = {key: rng.randint(1, 70) for key in SAMPLES}
        if all(is_assumed(guard, values) for guard in facts.guards):
            wanted = OPS[op].infer(attrs, [at(info, values) for info in operands], 1)[0]
            assert wanted.shape == tuple(evaluate(dim, values) for dim in result.shape), values


def bounds(rng: random.Random, open_sizes: Any) -> int:
    """A start or an end of a slice."""
    sizes = (open_sizes.length, open_sizes.past, -open_sizes.past, open_sizes.length - rng.randint(0, 60))
    numbers = (0, -1, END, -END, rng.randint(-60, 60))
    return rng.choice((*sizes, *numbers))


@pytest.mark.parametrize("seed", range(200))
def test_slices_follow_python(seed: int) -> None:
    """A slice between any bounds begins where Python's does, and has as many elements."""
    rng = random.Random(seed)
    facts = Facts()
    open_sizes = symbols(facts)
    start, end, step = bounds(rng, open_sizes), bounds(rng, open_sizes), rng.choice((1, 1, 2, 3, -1, -2))
    ((first, _, count),) = resolved((open_sizes.length,), (start,), (end,), None, (step,))
    checked = 0
    for _ in range(60):
        values = {key: rng.randint(1, 70) for key in SAMPLES}
        if all(is_assumed(guard, values) for guard in facts.guards):
            length, begin, stop = (evaluate(size, values) for size in (open_sizes.length, start, end))
            wanted = range(length)[begin:stop:step]
            assert evaluate(count, values) == len(wanted), (start, end, step, values)
            assert not wanted or evaluate(first, values) == wanted[0], (start, end, step, values)
            checked += 1
    assert checked


@pytest.mark.parametrize(
    "factor",
    [2, 0.5, 1.5, 0.375, 3.25, 100, 0.1, 0.7, 1 / 3, 1 / 31, 1.1, 2.3333333, 640 / 333, 0.999999, 1e-3, 12345.67],
)
def test_scaled_sizes_are_those_of_numbers(factor: float) -> None:
    """A size times a scale is rounded as for numbers, bit for bit."""
    facts = Facts()
    height = facts.symbol("height", 96)
    single = np.float32(factor)
    found = scaled(height, single)
    assert facts.guards == []
    rng = random.Random(str(factor))
    for size in (*range(1, 700), *(rng.randint(1, 1 << 24) for _ in range(300))):
        wanted = scaled(size, single)
        assert evaluate(found, {"height": size}) == wanted
        assert size >= 1 << 15 or wanted == int(np.floor(np.float32(size) * single))


def test_limits_hold_for_what_is_certain() -> None:
    """A shape that is too large for every size is refused while compiling; binding counts the others."""
    facts = Facts()
    sizes = symbols(facts)
    zeros = {"value": np.zeros(1, np.float32)}
    with pytest.raises(LimitError):
        OPS["constant_of_shape"].infer(zeros, (known(sizes.length, 1 << 41),), 1)
    with pytest.raises(LimitError):
        OPS["range"].infer({}, (scalar(0), scalar(sizes.length + (1 << 41)), scalar(1)), 1)
    OPS["constant_of_shape"].infer(zeros, (known(sizes.length, sizes.past, sizes.height),), 1)
    assert facts.guards == []


def test_a_size_that_cannot_fit_is_refused() -> None:
    """What differs for the sample sizes is an error, as for numbers."""
    facts = Facts()
    sizes = symbols(facts)
    with pytest.raises(ShapeError, match=r"inner sizes differ: a is \[batch, length\], b is \[past, 4\]"):
        OPS["matmul"].infer(PRODUCT, (of(sizes.batch, sizes.length), of(sizes.past, 4)), 1)
    with pytest.raises(ShapeError, match="do not broadcast: length and past"):
        OPS["add"].infer({}, (of(sizes.length), of(sizes.past)), 1)
    with pytest.raises(ShapeError, match="take away more than axis 0"):
        OPS["pad"].infer({"mode": "constant"}, (of(sizes.past), known(-sizes.length, 0)), 1)
    with pytest.raises(ShapeError, match="cannot become"):
        OPS["reshape"].infer({}, (of(sizes.batch, sizes.length), known(7, -1)), 1)


@pytest.mark.parametrize("seed", range(100))
def test_reshapes_that_regroup_axes_need_no_guard(seed: int) -> None:
    """Axes that are merged, split off by a number or left to -1 give exact sizes, whatever the symbols are."""
    rng = random.Random(seed)
    facts = Facts()
    sizes = [*vars(symbols(facts)).values(), facts.symbol("batch", 3) + 1, 2, 3, 64]
    shape = [rng.choice(sizes) for _ in range(rng.randint(1, 5))]
    merged = [shape[0]]
    for dim in shape[1:]:
        if rng.random() < 0.5:
            merged[-1] = merged[-1] * dim
        else:
            merged.append(dim)
    rng.shuffle(merged)
    wanted = list(merged)
    wanted[rng.randrange(len(wanted))] = -1
    assert reshaped(tuple(shape), wanted, allowzero=False) == tuple(merged)
    assert facts.guards == []
