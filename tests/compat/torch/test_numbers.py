"""Tensors of rank 0, numbers that do not fit a dtype, and functions that need floats."""

from __future__ import annotations

import numpy as np
import pytest

import treadle.compat.torch as torch

F = torch.nn.functional
ONE = torch.tensor(2.0)


class TestTensorsWithoutAxes:
    """
    They count as tensors with one axis of size 1 where an axis is requested; results have rank 0 again.
    """

    @pytest.mark.parametrize("dim", [0, -1])
    @pytest.mark.parametrize(
        "function",
        [
            torch.sort,
            lambda x, dim: torch.topk(x, 1, dim),
            lambda x, dim: torch.topk(x, 0, dim),
            lambda x, dim: torch.kthvalue(x, 1, dim),
            lambda x, dim: torch.kthvalue(x, 1, dim, keepdim=True),
            torch.max,
            lambda x, dim: torch.min(x, dim, keepdim=True),
        ],
    )
    def test_values_and_indices(self, function, dim):
        values, places = function(ONE, dim)
        assert (values.shape, places.shape) == ((), ())
        assert (values.item(), places.item()) == (2.0, 0)

    @pytest.mark.parametrize(
        ("function", "expected"),
        [
            (lambda x: torch.cumsum(x, 0), 2.0),
            (lambda x: torch.argmax(x, 0), 0),
            (lambda x: torch.argmin(x, -1, keepdim=True), 0),
            (torch.argsort, 0),
            (lambda x: torch.flip(x, (0,)), 2.0),
            (lambda x: torch.index_select(x, 0, torch.tensor([0])), 2.0),
            (lambda x: torch.index_select(x, 0, torch.tensor(0)), 2.0),
            (lambda x: torch.gather(x, 0, torch.tensor(0)), 2.0),
            (lambda x: torch.var(x, 0, unbiased=False), 0.0),
        ],
    )
    def test_results_of_one_element(self, function, expected):
        found = function(ONE)
        assert found.shape == ()
        assert found.item() == expected

    def test_the_result_of_gather_has_the_shape_of_the_index(self):
        assert torch.gather(ONE, 0, torch.tensor([0])).tolist() == [2.0]
        assert torch.gather(torch.tensor([2.0]), 0, torch.tensor(0)).tolist() == 2.0

    @pytest.mark.parametrize(
        ("function", "error", "message"),
        [
            (lambda x: torch.split(x, 1), RuntimeError, "at least a 1-dimensional tensor"),
            (lambda x: torch.split(x, [1]), RuntimeError, "at least a 1-dimensional tensor"),
            (torch.unbind, IndexError, "Dimension specified as 0 but tensor has no dimensions"),
        ],
    )
    def test_split_and_unbind_raise(self, function, error, message):
        with pytest.raises(error, match=message):
            function(ONE)

    def test_std_of_one_number_is_nan(self):
        assert np.isnan(torch.std(ONE, 0).item())

    @pytest.mark.parametrize(
        "function",
        [
            lambda x: torch.sort(x, 1),
            lambda x: torch.cumsum(x, -2),
            lambda x: torch.argmax(x, 1),
            lambda x: torch.flip(x, (1,)),
        ],
    )
    def test_other_axes_raise(self, function):
        with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-1, 0\]"):
            function(ONE)

    def test_ops_that_need_an_axis_raise(self):
        with pytest.raises(RuntimeError, match="chunk expects at least a 1-dimensional tensor"):
            torch.chunk(ONE, 2)
        with pytest.raises(RuntimeError, match="Index to scalar can have only 1 value, got 2"):
            torch.index_select(ONE, 0, torch.tensor([0, 0]))
        with pytest.raises(RuntimeError, match="selected index k out of range"):
            torch.topk(ONE, 2)


class TestNumbersThatDoNotFit:
    @pytest.mark.parametrize(
        ("make", "name"),
        [
            (lambda: torch.tensor(300, dtype=torch.uint8), "uint8"),
            (lambda: torch.tensor([[1, -129]], dtype=torch.int8), "int8"),
            (lambda: torch.tensor(-256, dtype=torch.uint8), "uint8"),
            (lambda: torch.tensor(300.7, dtype=torch.uint8), "uint8"),
            (lambda: torch.tensor(float("nan"), dtype=torch.int32), "int32"),
            (lambda: torch.as_tensor(2**31, dtype=torch.int32), "int32"),
            (lambda: torch.full((2,), 300, dtype=torch.uint8), "uint8_t"),
            (lambda: torch.full((2,), float("inf"), dtype=torch.int16), "int16_t"),
            (lambda: torch.full((2,), 1e40), "float"),
            (lambda: torch.zeros(2, dtype=torch.uint8).fill_(300), "uint8_t"),
            (lambda: torch.zeros(1, dtype=torch.int8).masked_fill(torch.tensor([True]), 200), "int8_t"),
            (lambda: torch.where(torch.tensor([False]), torch.zeros(1, dtype=torch.int32), 2**40), "int"),
        ],
    )
    def test_raise_in_creation_and_fill(self, make, name):
        with pytest.raises(RuntimeError, match=f"^value cannot be converted to type {name} without overflow$"):
            make()

    @pytest.mark.parametrize(
        ("make", "expected"),
        [
            (lambda: torch.tensor([-1], dtype=torch.uint8), [255]),
            (lambda: torch.full((1,), -1, dtype=torch.uint8), [255]),
            (lambda: torch.zeros(1, dtype=torch.uint8).fill_(-1), [255]),
            (lambda: torch.tensor([3.7], dtype=torch.uint8), [3]),
            (lambda: torch.tensor(torch.tensor([300]), dtype=torch.uint8), [44]),
            (lambda: torch.tensor([2], dtype=torch.bool), [True]),
        ],
    )
    def test_negative_numbers_wrap_fractions_are_truncated_and_tensors_are_cast(self, make, expected):
        assert make().tolist() == expected

    @pytest.mark.parametrize(
        ("compute", "expected"),
        [
            (lambda x: x + 300, [94]),
            (lambda x: x * -3, [106]),
            (lambda x: x > 300, [True]),
            (lambda x: x == 306, [True]),
            (lambda x: x + ((1 << 63) + 3), [53]),
        ],
    )
    def test_wrap_as_operands(self, compute, expected):
        assert compute(torch.tensor([50], dtype=torch.uint8)).tolist() == expected

    @pytest.mark.parametrize("number", [1 << 64, -(1 << 63) - 1])
    def test_integers_of_more_than_64_bits_raise(self, number):
        with pytest.raises(OverflowError):
            torch.tensor([50]) + number


@pytest.mark.parametrize(
    ("function", "kernel"),
    [
        (F.gelu, "GeluKernelImpl"),
        (F.silu, "silu_cpu"),
        (F.elu, "elu_cpu"),
        (F.selu, "elu_cpu"),
        (F.celu, "elu_cpu"),
        (F.mish, "mish_cpu"),
        (F.softplus, "softplus_cpu"),
        (F.leaky_relu, "leaky_relu_cpu"),
        (F.hardsigmoid, "hardsigmoid_cpu"),
        (F.hardswish, "hardswish_cpu"),
        (F.logsigmoid, "log_sigmoid_cpu"),
    ],
)
def test_activations_that_take_floats_refuse_integers(function, kernel):
    with pytest.raises(NotImplementedError, match=f"^\"{kernel}\" not implemented for 'Long'$"):
        function(torch.tensor([1, 2]))


MASK = torch.tensor([True, False])
WAYS = [
    lambda x, number: x.fill_(number),
    lambda x, number: x.masked_fill(MASK, number),
    lambda x, number: x.masked_fill_(MASK, number),
    lambda x, number: x.scatter(0, torch.zeros_like(x, dtype=torch.int64), number),
    lambda x, number: x.__setitem__(0, number) or x,
    lambda x, number: x.__setitem__(slice(None), number) or x,
    lambda x, number: x.__setitem__(MASK, number) or x,
    lambda x, number: x.__setitem__(torch.tensor([0]), number) or x,
]


@pytest.mark.parametrize("write", WAYS)
class TestNumbersWritten:
    """
    Into a tensor's memory, or into a copy of it.
    """

    @pytest.mark.parametrize("number", [0.1, 1e39, 2**53 - 1])
    def test_doubles_keep_all_their_digits(self, write, number):
        assert write(torch.zeros(2, dtype=torch.float64), number)[0].item() == number

    @pytest.mark.parametrize(
        ("dtype", "number", "name"),
        [
            (torch.uint8, 300, "uint8_t"),
            (torch.int8, -300, "int8_t"),
            (torch.int32, float("inf"), "int"),
            (torch.float16, 65510.0, "c10::Half"),
            (torch.bfloat16, 1e39, "c10::BFloat16"),
            (torch.float32, 1e39, "float"),
        ],
    )
    def test_numbers_that_do_not_fit_raise(self, write, dtype, number, name):
        x = torch.zeros(2, 2, dtype=dtype)
        with pytest.raises(RuntimeError, match=f"cannot be converted to type {name} without overflow"):
            write(x, number)
        assert x.tolist() == [[0, 0], [0, 0]]


def _scripted(x, place):
    x[place] = 0.1
    x[0, :] = 0.3
    return x.masked_fill(x == 0.3, 0.7)


def test_a_script_writes_doubles_with_all_digits():
    x, place = torch.zeros(2, 2, dtype=torch.float64), torch.tensor([1])
    assert torch.jit.script(_scripted)(x, place).tolist() == [[0.7, 0.7], [0.1, 0.1]]


def test_a_single_half_becomes_infinite():
    """
    As in PyTorch, which checks numbers that fill several elements only.
    """
    x = torch.zeros(2, dtype=torch.float16)
    x[1] = 1e6
    assert x.tolist() == [0.0, np.inf]
    assert torch.full((1,), 1e6, dtype=torch.float16).tolist() == [np.inf]


@pytest.mark.parametrize("function", [F.hardtanh, F.relu6])
def test_integers_limited_by_hardtanh_stay_integers(function):
    found = function(torch.tensor([0, 1], dtype=torch.uint8))
    assert (found.dtype, found.tolist()) == (torch.uint8, [0, 1])
    with pytest.raises(NotImplementedError, match="Bool inputs not supported"):
        function(torch.tensor([True]))


def test_fractions_of_limits_are_dropped_for_integers():
    assert F.hardtanh(torch.tensor([-5, 8]), -2.5, 3.7).tolist() == [-2, 3]
