"""F.embedding_bag and nn.EmbeddingBag, compared with a loop over the bags."""

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from treadle.compat.torch import nn
from treadle.compat.torch.functions.rule import apply_rule
from treadle.compat.torch.recording import COMPILED

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((10, 4)).astype(np.float32)
EVEN = np.array([[1, 2, 3, 4, 4], [4, 4, 4, 4, 4], [9, 8, 0, 9, 4]])
FLAT, OFFSETS, ENDS = EVEN.reshape(-1)[:9], np.array([0, 3, 3, 7]), np.array([0, 3, 3, 9])
REDUCE = {"sum": lambda rows: rows.sum(0), "mean": lambda rows: rows.mean(0), "max": lambda rows: rows.max(0)}

t = torch.from_numpy


def _expected(bags, mode, padding, weights):
    """Returns the bags, computed one by one."""
    found = []
    for bag, factors in zip(bags, weights, strict=True):
        kept = [(TABLE[at] * factor) for at, factor in zip(bag, factors, strict=True) if at != padding]
        found.append(REDUCE[mode](np.array(kept)) if kept else np.zeros(4))
    return np.array(found)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 4, -6])
def test_bags_of_one_size(mode, padding):
    """
    A matrix of indices: padding rows do not count, and a bag of padding only is 0. Eagerly and in a script.
    """
    expected = _expected(EVEN, mode, None if padding is None else 4, np.ones(EVEN.shape))

    def call():
        return F.embedding_bag(t(EVEN), t(TABLE), mode=mode, padding_idx=padding)

    for result in (call(), torch.jit.script(_calls)(call)):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5, atol=1e-6)


def _calls(made):
    return made()


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 4])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_any_size(mode, padding, last):
    """
    A vector of indices and the begins of bags, with or without the end of the last; empty bags are 0.
    """
    ends = ENDS[1:] if last else [*OFFSETS[1:], 9]
    bags = [FLAT[begin:end] for begin, end in zip(ENDS if last else OFFSETS, ends, strict=False)]
    expected = _expected(bags, mode, padding, [np.ones(len(bag)) for bag in bags])

    offsets = t(ENDS if last else OFFSETS)
    found = F.embedding_bag(t(FLAT), t(TABLE), offsets, mode=mode, include_last_offset=last, padding_idx=padding)

    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_sums_are_weighted_per_sample():
    """
    For indices of either rank.
    """
    weights = RNG.random(EVEN.shape).astype(np.float32)
    layer = nn.EmbeddingBag(10, 4, mode="sum", _weight=t(TABLE))

    found = layer(t(EVEN), per_sample_weights=t(weights)).numpy()
    flat = layer(t(EVEN.reshape(-1)), t(np.array([0, 5, 10])), t(weights.reshape(-1))).numpy()

    np.testing.assert_allclose(found, _expected(EVEN, "sum", None, weights), rtol=1e-5)
    np.testing.assert_allclose(flat, found, rtol=1e-5)


def test_the_layer_averages_by_default():
    """
    As PyTorch's layer; the table is called `weight`.
    """
    layer = nn.EmbeddingBag(10, 4)

    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    np.testing.assert_allclose(layer(t(EVEN)).numpy(), layer.weight.numpy()[EVEN].mean(1), rtol=1e-5)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: F.embedding_bag(t(EVEN), t(TABLE), t(OFFSETS)), ValueError, "offsets has to be None"),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE)), ValueError, "1D Tensor but got None"),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE), t(EVEN)), ValueError, "offsets has to be a 1D Tensor"),
        (
            lambda: F.embedding_bag(t(EVEN[None]), t(TABLE)),
            ValueError,
            "1D or 2D Tensor, but got Tensor of dimension 3",
        ),
        (lambda: F.embedding_bag(t(EVEN), t(TABLE), mode="min"), ValueError, "sum, mean or max"),
        (lambda: F.embedding_bag(t(EVEN), t(TABLE), max_norm=1.0), NotImplementedError, "max_norm"),
        (
            lambda: F.embedding_bag(t(EVEN), t(TABLE), per_sample_weights=torch.ones(3, 5)),
            NotImplementedError,
            "only supported for mode='sum'",
        ),
        (
            lambda: F.embedding_bag(t(EVEN), t(TABLE), mode="sum", per_sample_weights=torch.ones(5)),
            ValueError,
            "the shape of the input",
        ),
        (lambda: F.embedding_bag(t(EVEN + 7), t(TABLE)), IndexError, "out of range"),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS + 1)), IndexError, "out of range"),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS[::-1].copy())), IndexError, "out of range"),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS - 3)), IndexError, "out of range"),
        (
            lambda: F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS), padding_idx=10),
            RuntimeError,
            "padding_idx must be a row of 10",
        ),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE.astype(int)), t(OFFSETS)), RuntimeError, "table must be floats"),
        (lambda: F.embedding_bag(t(FLAT), t(TABLE), t(OFFSETS * 2)), IndexError, "out of range"),
    ],
)
def test_invalid_arguments_raise(call, error, message):
    """
    Shapes, modes, indices outside the table, and offsets that do not start at 0, decrease, or exceed the indices.
    """
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("offsets", [[1, 3], [0, 10], [0, 5, 3], [-1, 2], []])
def test_known_invalid_offsets_are_refused_at_import(offsets):
    """
    The rule detects constant offsets that do not fit the nine indices, without a run.
    """
    with pytest.raises(
        RuntimeError, match="offsets must begin at 0 and rise to at most 9, the number of indices; number"
    ):
        apply_rule("embedding_bag", (t(TABLE), t(FLAT), np.array(offsets, np.int64)))


def test_padding_rows_may_hold_nan():
    """
    Padding rows are skipped, not multiplied by 0, and the last bag may end before the indices do.
    """
    table = np.where(np.arange(10)[:, None] == 4, np.nan, TABLE).astype(np.float32)

    found = F.embedding_bag(
        t(FLAT), t(table), t(np.array([0, 3, 6])), padding_idx=4, include_last_offset=True, mode="sum"
    )

    np.testing.assert_allclose(found.numpy(), [table[[1, 2, 3]].sum(0), np.zeros(4)], rtol=1e-5)
    assert FLAT.tolist() == [1, 2, 3, 4, 4, 4, 4, 4, 4]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_one_size_are_reduced_in_one_kernel(mode):
    """
    The kernel gathers and reduces rows; neither rows nor partial sums are stored.
    """
    F.embedding_bag(t(EVEN.astype(np.int32)), t(TABLE), mode=mode)
    session = list(COMPILED._sessions.values())[-1]
    (plan,) = session.plans()

    assert len(session.outputs) == 1
    assert [call.op for call in plan.calls] == ["gather_reduce"]
