"""Outputs of one model share blocks of memory, and nobody can tell: values stay, and what is held is never written."""

from __future__ import annotations

import gc
import itertools
import sys
import threading
from collections.abc import Callable
from math import prod
from random import Random
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.models import small

import treadle
from treadle._native import BufferPool
from treadle.errors import KernelError
from treadle.runtime.outputs import MAX_BLOCK_BYTES, MAX_SHARED, ArraySpec, Block, blocks_of

Array = np.ndarray[Any, Any]


def nbytes(spec: ArraySpec) -> int:
    return spec.dtype.itemsize * prod(spec.shape)


specs = st.builds(
    ArraySpec,
    st.lists(st.sampled_from([0, 1, 2, 3, 16, 64, 100]), max_size=3).map(tuple),
    st.sampled_from(["f4", "f8", "i8", "b1", "f2", "O"]).map(np.dtype),
    st.sampled_from([False, False, False, True]),
)


def sums(shapes: list[list[int]]) -> onnx.ModelProto:
    """Output y<i> of each shape: a constant full of i, plus the scalar x."""
    w = small.ModelWriter()
    for number, shape in enumerate(shapes):
        w.op("Add", w.constant(np.full(shape, number, np.float32)), "x")
        w.nodes[-1].output[0] = f"y{number}"
    return w.model({"x": (small.FLOAT, [])}, {f"y{n}": (small.FLOAT, shape) for n, shape in enumerate(shapes)})


def run(session: treadle.Session, x: float) -> list[Array]:
    return list(session.run({"x": np.float32(x)}).values())


def is_right(results: list[Array], x: float) -> bool:
    return all((each == number + x).all() for number, each in enumerate(results))


ALIKE = [[64, 100]] * 40
"""Ten to a block."""

MIXED = [
    [30, 33],
    [64, 64],
    [],
    [7],
    [0, 5],
    [200, 200],
    [99, 99],
    *[[5, 5], [33, 9]] * 20,
    [200, 200],
    [300, 300],
    [99, 99],
]


@given(
    st.lists(st.tuples(specs, st.sampled_from([1, 2, 20])), max_size=8).map(
        lambda runs: [spec for spec, count in runs for _ in range(count)]
    ),
    st.randoms(use_true_random=False),
)
def test_blocks_hold_outputs_of_one_spec_and_are_bounded(outputs: list[ArraySpec], random: Random) -> None:
    """
    Every output that has an axis and bytes, and whose memory nobody gives, is in one block and begins at a cache line.
    A block of several outputs has at most 256 KiB and 16 outputs.
    """
    random.shuffle(outputs)
    blocks = blocks_of(outputs)

    inside = [number for block in blocks for number in block.indices]
    own = [spec.shape and nbytes(spec) and not spec.dtype.hasobject and not spec.is_given for spec in outputs]
    assert sorted(inside) == [number for number, able in enumerate(own) if able]
    for block in blocks:
        assert all(outputs[number] == block.spec for number in block.indices)
        assert block.pitch % 64 == 0
        assert nbytes(block.spec) <= block.pitch < nbytes(block.spec) + 64
        assert len(block.indices) == 1 or block.size <= MAX_BLOCK_BYTES
        assert len(block.indices) <= MAX_SHARED


def test_equal_outputs_fill_blocks_and_large_ones_have_their_own() -> None:
    """
    Outputs of 64 KiB come four to a block, of 4 KiB sixteen; one of more than 256 KiB alone; other specs between do not
    matter.
    """

    def counts(*sizes: int) -> list[int]:
        return [len(block.indices) for block in blocks_of([ArraySpec((size,), np.dtype("u1")) for size in sizes])]

    assert counts(*[64 << 10] * 32) == [4] * 8
    assert counts(*[4 << 10] * 33) == [16, 16, 1]
    assert counts(*[300 << 10] * 3) == [1] * 3
    assert counts(*[4 << 10, 64 << 10] * 4) == [4, 4]
    assert blocks_of([ArraySpec((10, 3), np.dtype("f4"))] * 2) == [
        Block(ArraySpec((10, 3), np.dtype("f4")), (0, 1), 128, 256)
    ]


@pytest.mark.parametrize("shapes", [ALIKE, MIXED], ids=["alike", "mixed"])
def test_outputs_in_blocks_are_ordinary_arrays(shapes: list[list[int]]) -> None:
    """
    Results have their shapes and values, are contiguous and writable, and writing one changes no other.
    """
    session = treadle.Session(sums(shapes))
    for turn in range(3):
        results = run(session, turn)
        assert [list(each.shape) for each in results] == shapes
        assert all(type(each) is np.ndarray and each.flags.c_contiguous and each.flags.writeable for each in results)
        assert is_right(results, turn)
        for each in results[::2]:
            each[...] = -1
        assert all((each == number + turn).all() for number, each in enumerate(results) if number % 2)


@pytest.mark.parametrize(
    "hold",
    [
        lambda result: result,
        lambda result: result[3:5, ::2],
        lambda result: result.reshape(-1).view(np.int32)[7:],
        memoryview,
        lambda result: memoryview(result[1:]).cast("B"),
        lambda result: np.frombuffer(result, np.uint8),
        np.from_dlpack,
        lambda result: result.flat,
        lambda result: result.base,
        lambda result: result.base.base,
        lambda result: memoryview(result.base.base),
    ],
    ids=["array", "slice", "view", "memoryview", "cast", "frombuffer", "dlpack", "flat", "block", "loan", "loan's"],
)
def test_a_block_with_a_reference_is_not_reused(hold: Callable[[Array], object]) -> None:
    """
    As long as a view or a buffer of one output exists, no run writes to its block; then the memory is used again.
    """
    session = treadle.Session(sums(ALIKE))
    results = run(session, 1)
    block = {each.ctypes.data for each in results[10:20]}
    address = results[13].ctypes.data
    held = hold(results[13])
    del results
    gc.collect()

    others = [run(session, turn) for turn in range(2, 6)]

    written = {each.ctypes.data for results in others for each in results}
    assert not block & written
    assert len(written) == 4 * len(ALIKE), "no two of them are in one place"
    del held
    gc.collect()
    assert address in {each.ctypes.data for each in run(session, 7)}


def test_blocks_are_returned_one_by_one() -> None:
    """
    Keeping one of forty outputs keeps one block of four; the next run uses the memory of the other blocks.
    """
    session = treadle.Session(sums(ALIKE))
    first = run(session, 1)
    before = {each.ctypes.data for each in first}
    kept = first[0]
    del first
    again = run(session, 2)

    assert len(before & {each.ctypes.data for each in again}) == 30
    assert (kept == 1).all()


@pytest.mark.parametrize("shapes", [ALIKE, MIXED], ids=["alike", "mixed"])
def test_outputs_kept_at_random_keep_their_values(shapes: list[list[int]]) -> None:
    """
    Of each run a few results are kept for a few runs: none ever changes.
    """
    rng = np.random.default_rng(0)
    session = treadle.Session(sums(shapes))
    held: list[tuple[float, Array]] = []
    for turn in range(60):
        results = run(session, turn)
        held += [(number + turn, results[number]) for number in rng.choice(len(shapes), 3, replace=False)]
        del results
        held = [each for each in held if rng.random() < 0.8]
        assert all((array == value).all() for value, array in held)


def test_threads_that_run_at_once_and_keep_some_outputs_see_no_others() -> None:
    """
    Six clients on one session, each with some outputs of its last runs, never see another's numbers.
    """
    session = treadle.Session(sums(MIXED))
    wrong: list[str] = []

    def client(number: int) -> None:
        rng = np.random.default_rng(number)
        held: list[tuple[float, Array]] = []
        for turn in range(40):
            x = 1000.0 * number + turn
            results = run(session, x)
            held += [(at + x, results[at]) for at in rng.choice(len(MIXED), 4, replace=False)]
            del results
            held = held[-10:]
            wrong.extend(f"{value} in client {number}" for value, each in held if not (each == value).all())

    clients = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()

    assert wrong == []


def failing() -> onnx.ModelProto:
    """y<i> = table[i][k], for 40 tables of 64 rows."""
    w = small.ModelWriter()
    for number in range(40):
        w.op("Gather", w.random(64, 100), "k", axis=0)
        w.nodes[-1].output[0] = f"y{number}"
    return w.model({"k": (onnx.TensorProto.INT64, [64])}, {f"y{n}": (small.FLOAT, [64, 100]) for n in range(40)})


def test_memory_of_a_run_that_fails_is_used_by_the_next() -> None:
    """
    A run that ends with an error returns its blocks once the error object has been dropped.
    """
    gc.collect()
    session = treadle.Session(failing())
    good, bad = np.arange(64), np.full(64, 64)
    session.run({"k": good})
    kept = BufferPool.idle_bytes()
    assert kept >= 40 * 64 * 100 * 4

    for _ in range(3):
        with pytest.raises(KernelError, match="out of range"):
            session.run({"k": bad})
        gc.collect()
        assert BufferPool.idle_bytes() == kept
    session.run({"k": good})
    session.trim()
    assert BufferPool.idle_bytes() == kept - 40 * 64 * 100 * 4


@pytest.mark.skipif(sys.platform == "win32", reason="page faults are counted elsewhere")
@pytest.mark.parametrize("side", [64, 128])
def test_runs_with_many_outputs_take_no_new_pages(side: int) -> None:
    """
    4 MiB of outputs of 16 KiB or 64 KiB each, dropped together after each run, are not given back to the system and
    found again: that would be a thousand page faults a run.
    """
    import resource

    session = treadle.Session(sums([[side, side]] * ((1 << 20) // side**2)))
    for turn in range(3):
        run(session, turn)

    def faults() -> int:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for turn in range(20):
            run(session, turn)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    assert any(faults() < 20 * 50 for _ in range(5)), "once the system may have moved pages about, but not always"


def test_results_of_other_outputs_and_plans_share_nothing() -> None:
    """
    Plans for some of the outputs, and sessions of one model, have memory of their own.
    """
    one, other = treadle.Session(sums(ALIKE)), treadle.Session(sums(ALIKE))
    held = [
        session.run({"x": np.float32(x)}, outputs=names)
        for x, (session, names) in enumerate(itertools.product((one, other), (None, [f"y{n}" for n in range(20)])))
    ]
    for x, results in enumerate(held):
        assert is_right(list(results.values()), x)
