"""Extreme numbers and invalid arguments are handled as PyTorch 2.15 handles them."""

import math

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from treadle.compat.torch import nn

INF, NAN = math.inf, math.nan
NOTHING, IMAGE = torch.zeros(0), torch.ones(1, 1, 8, 8)
LEAST = -(2**63)


def _nan(*others):
    return torch.tensor([NAN, *others])


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (lambda: torch.clamp(_nan(1, 3), min=NAN), [NAN, NAN, NAN]),
        (lambda: torch.clamp(_nan(1, 3), max=NAN), [NAN, NAN, NAN]),
        (lambda: torch.clamp(_nan(1, 3), 0, NAN), [NAN, NAN, NAN]),
        (lambda: torch.clamp(_nan(1, 3), 0, 2), [NAN, 1, 2]),
        (lambda: _nan(1, 3).clamp_min(NAN), [NAN, NAN, NAN]),
        (lambda: torch.median(_nan(1, 3)), NAN),
        (lambda: torch.tensor([[1.0, NAN, 0], [5, 4, 3]]).median(1).values, [NAN, 4]),
        (lambda: torch.tensor([[1.0, NAN, 0], [5, 4, 3]]).median(1).indices, [1, 1]),
        (NOTHING.median, NAN),
        (lambda: NOTHING.long().median(), LEAST),
        (lambda: torch.sign(_nan(-2, 0, 3, -INF)), [0, -1, 0, 1, -1]),
        (
            lambda: torch.atan2(torch.tensor([INF, INF, -0.0]), torch.tensor([INF, -INF, -1])),
            np.pi * np.array([0.25, 0.75, -1]),
        ),
        (lambda: F.hardshrink(_nan(1, 0.1)), [NAN, 1, 0]),
        (lambda: torch.lerp(torch.tensor([-INF, 1]), torch.tensor([1.0, 2]), 1.0), [NAN, 2]),
        (lambda: torch.isclose(torch.tensor([INF, INF]), torch.tensor([INF, 1])), [True, False]),
        (lambda: torch.isclose(torch.tensor([True]), torch.tensor([True])), [True]),
        (lambda: torch.maximum(torch.tensor([True, False]), torch.tensor(False)), [True, False]),
        (lambda: torch.tensor([True, False]) <= torch.tensor([False, False]), [False, True]),
        (lambda: torch.tensor([False, True]).max(0).indices, 1),
        (lambda: torch.outer(torch.tensor([True, False]), torch.tensor([True])), [[True], [False]]),
        (lambda: torch.addmm(torch.ones(1, 1).int(), *[torch.ones(1, 1).int()] * 2, alpha=1.5), [[2]]),
        (lambda: torch.cat([torch.ones(1, 2), torch.zeros(0)]), [[1, 1]]),
        (lambda: torch.masked_select(torch.tensor(3.0), torch.tensor(True)), [3]),
        (lambda: torch.argsort(torch.tensor([2, 1, 2]), descending=True, stable=True), [0, 2, 1]),
        (lambda: F.softshrink(_nan(1, 0.1, -1)), [NAN, 0.5, 0, -0.5]),
        (lambda: F.threshold(_nan(1, -1), 0, 5), [NAN, 1, 5]),
        (lambda: torch.any(torch.tensor([[True, False]]), dim=[]), [[True, False]]),
        (lambda: torch.all(torch.tensor([[True, False]]), dim=()), [[True, False]]),
        (lambda: torch.softmax(torch.tensor(3.0), 0), 1),
        (lambda: F.softmax(torch.zeros(2, 4, 5)), np.full((2, 4, 5), 0.5)),
        (lambda: F.pad(torch.arange(4.0).reshape(1, 1, 4), (-2, 3), "reflect"), [[[2, 3, 2, 1, 0]]]),
        (lambda: F.pad(torch.arange(4.0).reshape(1, 1, 4), (-1, 2), "circular"), [[[1, 2, 3, 1, 2]]]),
        (lambda: torch.tensor([2**70, 1.0]), [2.0**70, 1]),
        (lambda: torch.tensor([2**70], dtype=torch.float64), [2.0**70]),
    ],
)
def test_extreme_numbers_give_pytorchs_results(made, expected):
    """
    Eagerly and in a script.
    """
    for result in (made(), torch.jit.script(_calls)(made)):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def _calls(made):
    return made()


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (NOTHING.max, RuntimeError, "max(): Expected reduction dim to be specified for input.numel() == 0"),
        (NOTHING.min, RuntimeError, "min(): Expected reduction dim to be specified for input.numel() == 0"),
        (NOTHING.amax, RuntimeError, "amax(): Expected reduction dim to be specified"),
        (NOTHING.aminmax, RuntimeError, "aminmax()"),
        (
            NOTHING.argmax,
            IndexError,
            "argmax(): Expected reduction dim to be specified for input.numel() == 0.",
        ),
        (lambda: torch.zeros(3, 0).amin(-1), IndexError, "amin(): Expected reduction dim -1 to have non-zero size."),
        (lambda: torch.zeros(0, 3).max(0), IndexError, "max(): Expected reduction dim 0 to have non-zero size."),
        (lambda: torch.zeros(2, 0).median(1), IndexError, "median(): Expected reduction dim 1 to have non-zero size."),
        (
            lambda: torch.where(torch.tensor([1]), 1.0, 0.0),
            RuntimeError,
            "to be a boolean tensor, but got a tensor with dtype Long",
        ),
        (
            lambda: torch.ones(2).masked_fill(torch.tensor([1, 0]), 3),
            RuntimeError,
            "masked_fill_ only supports boolean masks",
        ),
        (
            lambda: torch.masked_select(torch.ones(2), torch.tensor([1, 0])),
            RuntimeError,
            "masked_select: expected BoolTensor for mask",
        ),
        (lambda: torch.softmax(torch.tensor([1, 2]), 0), NotImplementedError, "not implemented for 'Long'"),
        (lambda: torch.log_softmax(torch.tensor([True]), 0), NotImplementedError, "not implemented for 'Bool'"),
        (
            lambda: F.conv2d(IMAGE, torch.ones(1, 1, 3, 3), padding="same", stride=(1, 2)),
            RuntimeError,
            "not supported for strided",
        ),
        (lambda: nn.Conv1d(1, 1, 3, padding="same", stride=2), ValueError, "not supported for strided convolutions"),
        (lambda: F.max_pool2d(IMAGE, 3, 1, 2), RuntimeError, "half of the kernel size"),
        (lambda: F.avg_pool2d(IMAGE, 3, 1, -1), RuntimeError, "half of the kernel size"),
        (
            lambda: F.pad(IMAGE, (0, 0, 8, 0), "reflect"),
            RuntimeError,
            "Padding size should be less than the corresponding input dimension",
        ),
        (lambda: F.pad(IMAGE, (9, 0), "circular"), RuntimeError, "wrapping around more than once"),
        (lambda: F.pad(IMAGE, (1, 1), "replicate", 2.0), RuntimeError, "doesn't take in value argument"),
        (
            lambda: F.conv_transpose2d(IMAGE, torch.ones(1, 1, 3, 3), stride=2, output_padding=2),
            RuntimeError,
            "output padding must be smaller",
        ),
        (
            lambda: F.conv_transpose1d(IMAGE[0], torch.ones(1, 1, 3), stride=2, output_padding=-1),
            RuntimeError,
            "output padding",
        ),
        (
            lambda: torch.add(torch.tensor([1]), 2, alpha=1.5),
            RuntimeError,
            "argument alpha must not be a floating point number",
        ),
        (
            lambda: torch.rsub(torch.tensor([1]), 2, alpha=1.5),
            RuntimeError,
            "argument alpha must not be a floating point number",
        ),
        (
            lambda: torch.addmm(torch.ones(5), torch.ones(3, 2), torch.ones(2, 2), beta=0),
            RuntimeError,
            "The expanded size of the tensor (2)",
        ),
        (lambda: torch.addmm(torch.ones(2, 2).double(), torch.ones(2, 2), torch.ones(2, 2)), RuntimeError, "one dtype"),
        (lambda: torch.split(torch.ones(3), 0), RuntimeError, "split_size"),
        (lambda: torch.ones(3).narrow(0, 1, -1), RuntimeError, "narrow(): length must be non-negative."),
        (lambda: torch.ones(3).narrow(0, -4, 1), IndexError, "start out of range (expected to be in range of [-3, 3]"),
        (lambda: torch.tensor(1).narrow(0, 0, 1), RuntimeError, "narrow() cannot be applied to a 0-dim tensor."),
        (lambda: torch.roll(torch.tensor(1), 1, 0), IndexError, "tensor has no dimensions"),
        (lambda: torch.repeat_interleave(torch.tensor(1), 2, 0), IndexError, "tensor has no dimensions"),
        (lambda: torch.flatten(torch.ones(2, 3), -1, 0), RuntimeError, "start_dim cannot come after end_dim"),
        (
            lambda: torch.unflatten(torch.ones(0, 3), 1, (-1, 2)),
            RuntimeError,
            "don't multiply up to the size of dim 1 (3)",
        ),
        (lambda: torch.arange(3, 1), RuntimeError, "inconsistent with step sign"),
        (lambda: torch.arange(1, 3, -1), RuntimeError, "inconsistent with step sign"),
        (lambda: torch.isclose(torch.ones(1), torch.ones(1).double()), RuntimeError, "Float did not match Double"),
        (lambda: torch.frac(torch.tensor([1])), NotImplementedError, "not implemented for 'Long'"),
        (lambda: torch.trace(torch.ones(1, 1, 1)), RuntimeError, "expected a matrix"),
        (lambda: torch.outer(torch.ones(2, 2), torch.ones(2)), RuntimeError, "Expected 1-D argument self"),
        (lambda: F.rms_norm(torch.ones(2, 3), (4,)), RuntimeError, "Given normalized_shape=[4]"),
        (lambda: torch.tensor([2**70]), ValueError, "Overflow when unpacking long long"),
        (lambda: torch.tensor([[1], [2**63]]), ValueError, "Overflow when unpacking long long"),
        (lambda: torch.tensor(-(2**63) - 1, dtype=torch.int64), ValueError, "Overflow when unpacking long long"),
    ],
)
def test_calls_that_pytorch_refuses_raise_its_exceptions(call, kind, message):
    """
    Eagerly and in a script.
    """
    for way in (call, lambda: torch.jit.script(_calls)(call)):
        with pytest.raises(kind) as caught:
            way()
        assert message in str(caught.value)


def test_cumulative_products_of_integers_and_bools_are_int64():
    """
    As cumulative sums are.
    """
    for kind in (torch.int32, torch.bool):
        assert torch.cumprod(torch.ones(2).to(kind), 0).dtype is torch.int64


def test_unflatten_splits_an_empty_axis():
    """
    The size that -1 stands for follows from the size of the axis alone.
    """
    assert torch.unflatten(torch.zeros(0, 2), -1, (-1,)).shape == (0, 2)
    assert torch.unflatten(torch.zeros(1, 0), 0, (1, -1)).shape == (1, 1, 0)


def test_pieces_of_an_empty_axis_are_empty():
    """
    `chunk` returns as many as requested, `split` one for each size.
    """
    assert [part.shape for part in torch.chunk(NOTHING, 3)] == [(0,)] * 3
    assert [part.shape for part in torch.split(NOTHING, 2)] == [(0,)]


def test_only_a_reduced_axis_needs_elements():
    """
    Axes that are kept may be empty.
    """
    assert torch.zeros(0, 3).amax(1).shape == (0,)
    assert torch.zeros(0, 3).max(1).indices.shape == (0,)
