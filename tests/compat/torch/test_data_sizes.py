"""Scripts whose sizes depend on data take one native run, and one plan for all sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle
import treadle.compat.torch as torch
from tests.compat.torch.data_size_cases import NAMES, functions, operands

RUNS = range(10)
STAGED = ("written",)
"""Functions that write in place, for which all sizes must be known."""


def arrays_of(found: Any) -> list[np.ndarray]:
    return [np.asarray(each) for each in (found if isinstance(found, tuple | list) else (found,))]


def given(module: Any, seed: int) -> list[Any]:
    return [module.from_numpy(each) if each.ndim else module.tensor(int(each)) for each in operands(seed)]


@pytest.mark.parametrize("name", NAMES)
def test_one_native_run_and_one_plan(name: str) -> None:
    """
    Once some sizes have been there, no further plan is compiled; and each call is one native run.
    """
    plain = functions(torch)[name]
    script = torch.jit.script(plain)
    for seed in RUNS[:5]:
        script(*given(torch, seed))
    before, runs = script.compiles, script.native_runs
    for seed in RUNS:
        found = arrays_of(script(*given(torch, seed)))
        wanted = arrays_of(plain(*given(torch, seed)))
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    if name not in STAGED:
        assert script.compiles == before
        assert script.native_runs == runs + len(RUNS)
        assert runs == 5


@pytest.mark.parametrize("name", NAMES)
def test_results_are_those_of_pytorch(name: str) -> None:
    peer = pytest.importorskip("torch", reason="PyTorch is not installed")
    script, wanted_of = torch.jit.script(functions(torch)[name]), functions(peer)[name]
    for seed in RUNS:
        found, wanted = arrays_of(script(*given(torch, seed))), arrays_of(wanted_of(*given(peer, seed)))
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_numbers_that_python_needs() -> None:
    """
    Loops, texts, comparisons, containers and checks of types see Python's numbers.
    """

    @torch.jit.script
    def script(x: Any) -> Any:
        y = x[x > 0]
        count = y.size(0)
        total = y.sum() * 0
        for i in range(count):
            total = total + y[i] * i
        if count > 3:
            total = total + 100
        listed = [count, count + 1]
        return total, count, f"{count}", isinstance(count, int), listed, {"half": count // 2, "rest": count % 2}

    for size in (0, 2, 5):
        x = np.array([-1.0, *range(1, size + 1)], np.float32)
        total, count, text, is_int, listed, named = script(torch.from_numpy(x))
        kept = x[x > 0]
        assert float(total) == sum(i * each for i, each in enumerate(kept.tolist())) + (100 if size > 3 else 0)
        assert (count, text, is_int, listed) == (size, str(size), True, [size, size + 1])
        assert named == {"half": size // 2, "rest": size % 2}
        assert type(count) is int
        assert type(listed[1]) is int


def test_results_that_are_sizes_are_replayed() -> None:
    """
    The number is that of each call, though no Python of the script runs.
    """

    @torch.jit.script
    def script(x: Any) -> Any:
        y = x[x > 0]
        return y * 2, y.size(0) * 3 + 1, int(x.to(torch.int64).sum())

    for seed in range(6):
        x = np.random.default_rng(seed).integers(-5, 5, 9).astype(np.float32)
        doubled, number, total = script(torch.from_numpy(x))
        kept = x[x > 0]
        np.testing.assert_array_equal(doubled.numpy(), kept * 2)
        assert (number, total) == (len(kept) * 3 + 1, int(x.sum()))
    assert script.native_runs == 6
    assert len(script._replays._signatures.values()[0].variants) == 1


def test_forks_share_the_run() -> None:
    @torch.jit.script
    def kept(x: Any) -> Any:
        return x[x > 0].sum()

    @torch.jit.script
    def script(x: Any) -> Any:
        waiting = torch.jit.fork(kept, x)
        y = x[x < 0]
        return torch.jit.wait(waiting), y, y.numel()

    for count in range(1, 4):
        x = np.arange(5, dtype=np.float32) - count
        total, below, number = script(torch.from_numpy(x))
        assert float(total) == x[x > 0].sum()
        np.testing.assert_array_equal(below.numpy(), x[x < 0])
        assert number == count
    assert script.native_runs == 3


def test_a_trace_keeps_sizes_open() -> None:
    """
    What the example's mask chose is no constant of the trace.
    """

    def function(x: Any) -> Any:
        y = x[x > 0]
        return y.view(1, y.shape[0]) * 2, torch.zeros(y.shape[0]) + y

    traced = torch.jit.trace(function, torch.from_numpy(np.array([1, -1, 2], np.float32)))
    for values in ([1, 2, 3], [-1, 5, -2], [1, -1, 2]):
        x = np.array(values, np.float32)
        first, second = traced(torch.from_numpy(x))
        np.testing.assert_array_equal(first.numpy(), x[x > 0][None] * 2)
        np.testing.assert_array_equal(second.numpy(), x[x > 0])
    assert traced.native_runs == 3
    before = traced.compiles
    traced(torch.from_numpy(np.array([1, 2, -3], np.float32)))
    assert traced.compiles == before


def test_operands_that_do_not_fit() -> None:
    """
    It is the error of the call where Python makes it, else one of the run.
    """

    @torch.jit.script
    def script(x: Any, y: Any) -> Any:
        return x[x > 0] + y

    y = torch.ones(3)
    assert script(torch.tensor([1.0, 2.0, 3.0, -1.0]), y).tolist() == [2, 3, 4]
    for _ in range(3):
        with pytest.raises(RuntimeError, match="broadcast"):
            script(torch.tensor([1.0, 2.0, -3.0, -1.0]), y)
    assert script(torch.tensor([1.0, 2.0, 3.0, -1.0]), y).tolist() == [2, 3, 4]


def test_an_index_out_of_range() -> None:
    @torch.jit.script
    def script(x: Any) -> Any:
        return x[x > 0][2]

    assert float(script(torch.tensor([1.0, 2.0, 3.0]))) == 3
    for _ in range(3):
        with pytest.raises(IndexError, match="out of"):
            script(torch.tensor([1.0, -2.0, 3.0]))


def test_views_of_what_a_mask_chooses_share_memory() -> None:
    """
    A write to a view is seen in the tensor, as in PyTorch.
    """

    @torch.jit.script
    def script(x: Any) -> Any:
        y = x[x > 0]
        part = y[1:]
        part += 10.0
        return y, part

    for values in ([1, -1, 2, 3], [4, 5, -6, 7], [1, 2, 3, 4]):
        x = np.array(values, np.float32)
        y, part = script(torch.from_numpy(x))
        wanted = x[x > 0]
        wanted[1:] += 10
        np.testing.assert_array_equal(y.numpy(), wanted)
        np.testing.assert_array_equal(part.numpy(), wanted[1:])


@pytest.mark.usefixtures("threads_as_before")
def test_bits_do_not_depend_on_threads() -> None:
    """
    Products and sums of so many rows are shared among threads, and have other bits in another order.
    """

    @torch.jit.script
    def script(x: Any, w: Any) -> Any:
        rows = x[x[:, 0] > 0]
        return torch.softmax(rows @ w, 1), rows.sum(), rows.sum(0)

    rng = np.random.default_rng(5)
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in ((3000, 257), (257, 129))]
    found = []
    for threads in (1, 2, 4):
        treadle.threads.set(intra_op=threads, inter_op=threads)
        found.append([each.tobytes() for each in arrays_of(script(*map(torch.from_numpy, arrays)))])
    assert found[0] == found[1] == found[2]
