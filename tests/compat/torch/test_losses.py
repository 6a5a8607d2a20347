"""Losses and torch.linalg give PyTorch's results, eagerly and in replayed scripts."""

from __future__ import annotations

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from treadle.compat.torch import nn
from treadle.errors import RunError

RANDOM = np.random.default_rng(0)
LOGITS = RANDOM.standard_normal((6, 5)).astype(np.float32)
CLASSES = np.array([0, 4, 2, 2, 1, 3])
SHARE = np.array([0.5, 1, 2, 0.1, 1], np.float32)
X = RANDOM.standard_normal((3, 4)).astype(np.float32)
Y = (1 / (1 + np.exp(-RANDOM.standard_normal((3, 4))))).astype(np.float32)
SQUARES = (RANDOM.standard_normal((2, 4, 4)) + 4 * np.eye(4)).astype(np.float32)
KNOWN = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
HIT = -KNOWN[np.arange(6), CLASSES]
OUT = CLASSES != 2


def t(array):
    return torch.from_numpy(np.asarray(array))


LOSSES = {
    "cross_entropy": (lambda: F.cross_entropy(t(LOGITS), t(CLASSES)), HIT.mean()),
    "one_sample": (lambda: F.cross_entropy(t(LOGITS[0]), t(CLASSES[0])), HIT[0]),
    "each": (lambda: F.cross_entropy(t(LOGITS), t(CLASSES), reduction="none"), HIT),
    "left_out": (lambda: F.cross_entropy(t(LOGITS), t(CLASSES), ignore_index=2), HIT[OUT].mean()),
    "weighted": (
        lambda: nn.CrossEntropyLoss(t(SHARE))(t(LOGITS), t(CLASSES)),
        (HIT * SHARE[CLASSES]).sum() / SHARE[CLASSES].sum(),
    ),
    "smoothed": (
        lambda: F.cross_entropy(t(LOGITS), t(CLASSES), label_smoothing=0.1),
        0.9 * HIT.mean() - 0.1 * KNOWN.mean(),
    ),
    "smoothed_and_left_out": (
        lambda: F.cross_entropy(t(LOGITS), t(CLASSES), ignore_index=2, label_smoothing=0.1),
        0.9 * HIT[OUT].mean() - 0.1 * KNOWN[OUT].mean(),
    ),
    "pixels": (
        lambda: F.cross_entropy(t(LOGITS.reshape(2, 3, 5).transpose(0, 2, 1).copy()), t(CLASSES.reshape(2, 3))),
        HIT.mean(),
    ),
    "probabilities": (lambda: F.cross_entropy(t(LOGITS), t(np.exp(KNOWN))), -(np.exp(KNOWN) * KNOWN).sum(1).mean()),
    "large_logits": (lambda: F.cross_entropy(t(np.array([[1000, 0]], np.float32)), t([1])), 1000),
    "nll": (lambda: nn.NLLLoss(reduction="sum")(t(KNOWN), t(CLASSES)), HIT.sum()),
    "mse": (lambda: nn.MSELoss()(t(X), t(Y)), ((X - Y) ** 2).mean()),
    "l1": (lambda: F.l1_loss(t(X), t(Y), reduction="none"), abs(X - Y)),
    "smooth_l1": (
        lambda: F.smooth_l1_loss(t(X), t(Y), beta=0.5),
        np.where(abs(X - Y) < 0.5, (X - Y) ** 2, abs(X - Y) - 0.25).mean(),
    ),
    "huber": (
        lambda: nn.HuberLoss(delta=0.5)(t(X), t(Y)),
        np.where(abs(X - Y) < 0.5, (X - Y) ** 2 / 2, 0.5 * (abs(X - Y) - 0.25)).mean(),
    ),
    "bce": (
        lambda: F.binary_cross_entropy(t(Y), t(Y[::-1].copy())),
        -(Y[::-1] * np.log(Y) + (1 - Y[::-1]) * np.log(1 - Y)).mean(),
    ),
    "bce_of_certain_ones": (lambda: nn.BCELoss()(t(np.array([0.0, 1.0], np.float32)), t(np.ones(2, np.float32))), 50),
    "bce_of_logits": (
        lambda: F.binary_cross_entropy_with_logits(
            t(np.array([200.0, -200.0], np.float32)), t(np.zeros(2, np.float32))
        ),
        100,
    ),
    "kl": (lambda: F.kl_div(t(X), t(Y), reduction="batchmean"), (Y * (np.log(Y) - X)).sum() / 3),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    """
    Each loss agrees with its definition or with PyTorch's number.
    """
    made, expected = LOSSES[name]
    np.testing.assert_allclose(made().numpy(), expected, rtol=2e-5, atol=1e-6)


MATRICES = {
    "inv": (lambda: torch.linalg.inv(t(SQUARES)), np.linalg.inv(SQUARES)),
    "inverse": (lambda: torch.inverse(t(SQUARES[0])), np.linalg.inv(SQUARES[0])),
    "det": (lambda: t(SQUARES[0]).det(), np.linalg.det(SQUARES[0])),
    "logdet": (lambda: torch.logdet(t(SQUARES) @ t(SQUARES).mT), 2 * np.linalg.slogdet(SQUARES)[1]),
    "solve": (lambda: torch.linalg.solve(t(SQUARES), t(SQUARES[::-1].copy())), np.linalg.solve(SQUARES, SQUARES[::-1])),
    "triangle": (
        lambda: torch.linalg.solve_triangular(t(SQUARES), t(X.T.copy()), upper=True),
        np.linalg.solve(np.triu(SQUARES), np.broadcast_to(X.T, (2, 4, 3))),
    ),
    "cholesky": (
        lambda: torch.linalg.cholesky(t(SQUARES) @ t(SQUARES).mT),
        np.linalg.cholesky(SQUARES @ SQUARES.swapaxes(1, 2)),
    ),
    "norm": (lambda: torch.linalg.norm(t(X)), np.linalg.norm(X)),
    "norm_of_rows": (lambda: torch.linalg.norm(t(X), dim=1), np.linalg.norm(X, axis=1)),
    "norm_of_columns": (lambda: torch.linalg.norm(t(X), 1), np.linalg.norm(X, 1)),
    "matrix_norm": (
        lambda: torch.linalg.matrix_norm(t(SQUARES), float("inf")),
        np.linalg.norm(SQUARES, np.inf, (1, 2)),
    ),
    "counted": (lambda: torch.linalg.vector_norm(t(X), 0), 12),
    "cumprod": (lambda: t(X).cumprod(1), X.cumprod(1)),
    "windows": (lambda: t(X).unfold(1, 2, 1), np.lib.stride_tricks.sliding_window_view(X, 2, 1)),
    "scatter_reduce": (
        lambda: torch.scatter_reduce(t(X), 0, t(np.zeros((3, 4), np.int64)), t(Y), "amax"),
        np.concatenate([np.maximum(X[:1], Y.max(0, keepdims=True)), X[1:]]),
    ),
}


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name):
    """
    Inverses, determinants and solutions agree with NumPy's, in float32.
    """
    made, expected = MATRICES[name]
    found = made().numpy()
    assert (found.dtype, found.shape) == (np.float32, np.shape(expected))
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


@torch.jit.script
def perplexity_and_solution(logits, tokens, a):
    entropy = F.cross_entropy(logits, tokens)
    return torch.exp(entropy), torch.linalg.solve(a, a.mT) + torch.linalg.det(a)[:, None, None]


def test_scripts_with_matrix_functions_are_replayed():
    """
    Calls of LAPACK are steps of the graph.
    """
    for shift in range(5):
        a = SQUARES + shift * np.eye(4, dtype=np.float32)
        entropy, solution = perplexity_and_solution(t(LOGITS + shift), t(CLASSES), t(a))
        expected = np.linalg.solve(a, a.swapaxes(1, 2)) + np.linalg.det(a)[:, None, None]
        np.testing.assert_allclose(entropy.numpy(), np.exp(HIT.mean()), rtol=1e-5)
        np.testing.assert_allclose(solution.numpy(), expected, rtol=1e-4)


def test_a_matrix_without_inverse_raises():
    """
    It does not return infinities.
    """
    with pytest.raises(RunError, match=r"inverse: Singular matrix"):
        torch.linalg.inv(t(np.zeros((2, 2), np.float32)))


def test_targets_that_do_not_fit_raise():
    with pytest.raises(RuntimeError, match=r"Expected target size \[6\], got \[5\]"):
        F.cross_entropy(t(LOGITS), t(CLASSES[:5]))
