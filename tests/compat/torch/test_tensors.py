"""Tensors and functions, compared with NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812

RNG = np.random.default_rng(0)
A, B = (RNG.standard_normal((3, 4)).astype(np.float32) for _ in range(2))
P = np.abs(A) + np.float32(0.5)
S = RNG.standard_normal((4, 4)).astype(np.float32)
K = RNG.standard_normal((2, 3, 4)).astype(np.float32)
I64 = np.array([[3, 1, 2], [0, 5, 4]])


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def normal(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def t(array: object) -> torch.Tensor:
    return torch.from_numpy(np.asarray(array))


CASES = {
    "add": (lambda: t(A) + t(B), A + B),
    "add alpha": (lambda: torch.add(t(A), t(B), alpha=2), A + 2 * B),
    "number on the left": (lambda: 1 - t(A), 1 - A),
    "mul broadcasts": (lambda: t(A) * t(B[0]), A * B[0]),
    "div": (lambda: t(A) / t(P), A / P),
    "ints divide to floats": (lambda: t(I64) / 2, (I64 / 2).astype(np.float32)),
    "floor division": (lambda: t(-I64) // 2, -I64 // 2),
    "floor division of floats": (lambda: t(A) // 0.5, A // 0.5),
    "trunc division": (lambda: torch.div(t(-I64), 2, rounding_mode="trunc"), np.trunc(-I64 / 2).astype(np.int64)),
    "remainder": (lambda: t(-I64) % 3, -I64 % 3),
    "pow": (lambda: t(P) ** 2.5, P**2.5),
    "negation": (lambda: -t(A), -A),
    "abs": (lambda: abs(t(A)), np.abs(A)),
    "comparison": (lambda: t(A) > 0, A > 0),
    "logic": (lambda: (t(A) > 0) & ~(t(B) > 0), (A > 0) & ~(B > 0)),
    "exp log sqrt": (lambda: t(P).log().exp().sqrt(), np.sqrt(P)),
    "log2 log1p": (lambda: torch.log2(t(P)) + torch.log1p(t(P)), np.log2(P) + np.log1p(P)),
    "trigonometry": (
        lambda: torch.sin(t(A)) * torch.cos(t(A)) + torch.atan(t(A)),
        np.sin(A) * np.cos(A) + np.arctan(A),
    ),
    "where": (lambda: torch.where(t(A) > 0, t(A), 0.0), np.where(A > 0, A, 0)),
    "where as a method": (lambda: t(A).where(t(A) > 0, t(B)), np.where(A > 0, A, B)),
    "masked_fill": (lambda: t(A).masked_fill(t(A) > 0, -1), np.where(A > 0, -1, A)),
    "clamp": (lambda: t(A).clamp(-0.5, 0.5), A.clip(-0.5, 0.5)),
    "maximum": (lambda: torch.maximum(t(A), t(B)), np.maximum(A, B)),
    "lerp": (lambda: torch.lerp(t(A), t(B), 0.3), A + 0.3 * (B - A)),
    "int and float": (lambda: t(I64) + 0.5, (I64 + 0.5).astype(np.float32)),
    "isfinite": (lambda: torch.isfinite(t(np.array([1, np.inf, np.nan], np.float32))), np.array([True, False, False])),
    "mm": (lambda: torch.mm(t(A), t(S)), A @ S),
    "matmul operator": (lambda: t(K) @ t(S), K @ S),
    "bmm": (lambda: torch.bmm(t(K), t(K).transpose(1, 2)), K @ K.transpose(0, 2, 1)),
    "mv and dot": (lambda: torch.mv(t(A), t(B[0])) + torch.dot(t(A[0]), t(B[0])), A @ B[0] + A[0] @ B[0]),
    "addmm": (lambda: torch.addmm(t(A), t(A), t(S), beta=0.5, alpha=2), 0.5 * A + 2 * A @ S),
    "linear": (lambda: F.linear(t(A), t(S), t(B[0])), A @ S.T + B[0]),
    "einsum": (lambda: torch.einsum("bij,kj->bki", t(K), t(S)), np.einsum("bij,kj->bki", K, S)),
    "sum": (lambda: t(A).sum(), A.sum()),
    "sum of ints": (lambda: t(I64.astype(np.int32)).sum(1), I64.sum(1)),
    "mean": (lambda: t(K).mean((0, 2), keepdim=True), K.mean((0, 2), keepdims=True)),
    "prod": (lambda: t(A).prod(1), A.prod(1)),
    "max": (lambda: t(A).max(1).values, A.max(1)),
    "max of all": (lambda: t(A).max(), A.max()),
    "max of two": (lambda: torch.max(t(A), t(B)), np.maximum(A, B)),
    "argmin": (lambda: t(A).argmin(), A.argmin()),
    "argmax": (lambda: t(A).argmax(1), A.argmax(1)),
    "var": (lambda: t(A).var(1), A.var(1, ddof=1)),
    "std": (lambda: torch.std(t(A), 0, unbiased=False), A.std(0)),
    "norm": (lambda: t(A).norm(), np.linalg.norm(A)),
    "norm of p 1": (lambda: t(A).norm(1, 1), np.abs(A).sum(1)),
    "logsumexp": (lambda: torch.logsumexp(t(A), 1), np.log(np.exp(A).sum(1))),
    "all and any": (
        lambda: torch.stack([(t(A) > 0).any(), (t(A) > 0).all()]),
        np.array([(A > 0).any(), (A > 0).all()]),
    ),
    "cumsum": (lambda: t(A).cumsum(1), A.cumsum(1)),
    "topk": (lambda: torch.topk(t(A), 2, 1)[0], np.sort(A, 1)[:, ::-1][:, :2]),
    "sort": (lambda: torch.sort(t(A), 0).values, np.sort(A, 0)),
    "argsort": (lambda: torch.argsort(t(A), 1), np.argsort(A, 1)),
    "cat": (lambda: torch.cat([t(A), t(B)], 1), np.concatenate([A, B], 1)),
    "stack": (lambda: torch.stack([t(A), t(B)], -1), np.stack([A, B], -1)),
    "split": (lambda: torch.split(t(A), 3, 1)[1], A[:, 3:]),
    "chunk": (lambda: t(A).chunk(2, 1)[1], A[:, 2:]),
    "view": (lambda: t(A).view(2, -1), A.reshape(2, -1)),
    "flatten": (lambda: t(K).flatten(1), K.reshape(2, -1)),
    "permute": (lambda: t(K).permute(2, 0, 1).contiguous(), K.transpose(2, 0, 1)),
    "T": (lambda: t(A).T, A.T),
    "squeeze": (lambda: t(A).unsqueeze(1).unsqueeze(-1).squeeze(1), A[..., None]),
    "expand": (lambda: t(B[0]).expand(2, 3, -1), np.broadcast_to(B[0], (2, 3, 4))),
    "repeat": (lambda: t(A).repeat(2, 1, 2), np.tile(A, (2, 1, 2))),
    "flip": (lambda: t(A).flip(0, 1), A[::-1, ::-1]),
    "tril": (lambda: t(S).tril(-1) + torch.triu(t(S)), S),
    "index": (lambda: t(K)[1, ..., ::2], K[1, ..., ::2]),
    "index with None": (lambda: t(A)[:, None, 1:], A[:, None, 1:]),
    "index by integers": (lambda: t(A)[t(np.array([2, 0]))], A[[2, 0]]),
    "index by integers on an axis": (lambda: t(A)[:, [3, 1]], A[:, [3, 1]]),
    "index by several": (lambda: t(A)[t(np.array([2, 0])), t(np.array([3, 1]))], A[[2, 0], [3, 1]]),
    "index by mask": (lambda: t(A)[t(A) > 0], A[A > 0]),
    "masked_select": (lambda: torch.masked_select(t(A), t(B[0]) > 0), A[:, B[0] > 0].ravel()),
    "nonzero": (lambda: torch.nonzero(t(A) > 0), np.argwhere(A > 0)),
    "gather": (
        lambda: t(A).gather(1, t(np.array([[0], [1], [2]]))),
        np.take_along_axis(A, np.array([[0], [1], [2]]), 1),
    ),
    "index_select": (lambda: torch.index_select(t(A), 1, t(np.array([1, 1]))), A[:, [1, 1]]),
    "scatter": (
        lambda: torch.scatter(t(A), 1, t(np.array([[0], [1], [2]])), 9.0)[1],
        np.array([A[1, 0], 9, *A[1, 2:]]),
    ),
    "embedding": (lambda: F.embedding(t(I64), t(RNG_TABLE)), None),
    "one_hot": (lambda: F.one_hot(t(np.array([0, 2]))), np.eye(3, dtype=np.int64)[[0, 2]]),
    "relu": (lambda: torch.relu(t(A)), np.maximum(A, 0)),
    "sigmoid": (lambda: t(A).sigmoid(), 1 / (1 + np.exp(-A))),
    "tanh": (lambda: torch.tanh(t(A)), np.tanh(A)),
    "gelu": (lambda: F.gelu(t(A)), A * 0.5 * (1 + np.vectorize(math.erf)(A / math.sqrt(2)))),
    "silu": (lambda: F.silu(t(A)), A / (1 + np.exp(-A))),
    "softplus": (lambda: F.softplus(t(A), 2), np.log1p(np.exp(2 * A)) / 2),
    "leaky_relu": (lambda: F.leaky_relu(t(A), 0.1), np.where(A > 0, A, 0.1 * A)),
    "elu": (lambda: F.elu(t(A)), np.where(A > 0, A, np.exp(A) - 1)),
    "hardswish": (lambda: F.hardswish(t(A)), A * (A / 6 + 0.5).clip(0, 1)),
    "logsigmoid": (lambda: F.logsigmoid(t(A)), -np.log1p(np.exp(-A))),
    "glu": (lambda: F.glu(t(A), 1), A[:, :2] / (1 + np.exp(-A[:, 2:]))),
    "softmax": (lambda: torch.softmax(t(A), 0), softmax(A, 0)),
    "log_softmax": (lambda: F.log_softmax(t(A), dim=1), np.log(softmax(A, 1))),
    "layer_norm": (lambda: F.layer_norm(t(A), (4,), t(B[0]), t(B[1])), normal(A, (1,)) * B[0] + B[1]),
    "group_norm": (lambda: F.group_norm(t(K), 1), normal(K, (1, 2))),
    "batch_norm": (lambda: F.batch_norm(t(K), torch.zeros(3), torch.ones(3)), K / np.sqrt(1 + 1e-5)),
    "rms_norm": (lambda: F.rms_norm(t(A), (4,), eps=0.0), A / np.sqrt((A * A).mean(1, keepdims=True))),
    "normalize": (lambda: F.normalize(t(A), dim=1), A / np.linalg.norm(A, axis=1, keepdims=True)),
    "pad": (lambda: F.pad(t(A), (1, 2, 0, 1), value=7.0), np.pad(A, ((0, 1), (1, 2)), constant_values=7)),
    "dropout at inference": (lambda: F.dropout(t(A), training=False), A),
    "attention": (
        lambda: F.scaled_dot_product_attention(t(K), t(K), t(K)),
        softmax(K @ K.transpose(0, 2, 1) / 2, -1) @ K,
    ),
    "conversion": (lambda: t(A).to(torch.float64).long(), A.astype(np.int64)),
    "arange": (lambda: torch.arange(1, 7, 2), np.arange(1, 7, 2)),
    "full": (lambda: torch.full((2, 2), 3), np.full((2, 2), 3)),
    "linspace": (lambda: torch.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32)),
}
RNG_TABLE = RNG.standard_normal((6, 2)).astype(np.float32)
CASES["embedding"] = (CASES["embedding"][0], RNG_TABLE[I64])


@pytest.mark.parametrize("name", CASES)
def test_functions_agree_with_numpy(name: str) -> None:
    """
    In shape, dtype and elements.
    """
    run, expected = CASES[name]
    found, expected = run().numpy(), np.asarray(expected)

    assert found.shape == expected.shape
    assert found.dtype == (np.float32 if expected.dtype == np.float64 else expected.dtype)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("name", CASES)
def test_scripts_compute_the_same(name: str) -> None:
    """
    The same code in a scripted function.
    """
    run, _ = CASES[name]

    @torch.jit.script
    def program():
        return run()

    np.testing.assert_allclose(program().numpy(), run().numpy(), rtol=1e-6, atol=1e-6)


def test_convolution_and_pooling() -> None:
    """
    A 1x1 convolution is a matrix product; a window as large as the image gives its maximum or mean.
    """
    x, w = RNG.standard_normal((2, 3, 6, 6)).astype(np.float32), RNG.standard_normal((5, 3, 1, 1)).astype(np.float32)
    expected = np.einsum("nchw,mc->nmhw", x, w[:, :, 0, 0])

    np.testing.assert_allclose(F.conv2d(t(x), t(w)).numpy(), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(F.conv2d(t(x), t(w), stride=2).numpy(), expected[..., ::2, ::2], rtol=1e-4, atol=1e-5)
    assert F.conv2d(t(x), torch.ones(3, 1, 3, 3), padding="same", groups=3).shape == (2, 3, 6, 6)
    np.testing.assert_array_equal(F.max_pool2d(t(x), 6).numpy()[..., 0, 0], x.max((2, 3)))
    np.testing.assert_allclose(F.adaptive_avg_pool2d(t(x), 1).numpy()[..., 0, 0], x.mean((2, 3)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        F.adaptive_avg_pool2d(t(x), (3, 2)).numpy(), x.reshape(2, 3, 3, 2, 2, 3).mean((3, 5)), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions_and_pools_take_inputs_without_a_batch(rank: int) -> None:
    """
    The result for [C, *S] is that for [1, C, *S] without the first axis.
    """
    x, w = torch.randn(4, *(6,) * rank), torch.randn(4, 4, *(3,) * rank)
    given = {f"conv{rank}d": (w,), f"conv_transpose{rank}d": (w,), f"max_pool{rank}d": (2,), f"avg_pool{rank}d": (2,)}

    for name, args in given.items():
        function = getattr(F, name)
        np.testing.assert_array_equal(function(x, *args).numpy(), function(x[None], *args).numpy()[0], err_msg=name)


def test_arrays_are_converted_without_copies() -> None:
    """
    from_numpy, numpy(), views and DLPack share memory.
    """
    array = np.zeros((2, 3), np.float32)
    tensor = torch.from_numpy(array)
    through = torch.from_dlpack(np.from_dlpack(tensor))
    tensor[0, 1] = 5
    tensor.view(-1)[5] = 7
    tensor.t()[0, 1] = 9

    assert tensor.numpy() is array
    assert array.tolist() == [[0, 5, 0], [9, 0, 7]]
    assert through.tolist() == array.tolist()
    tensor += 1
    assert array[0, 0] == 1


def test_numbers_follow_pytorchs_promotion() -> None:
    """
    Tensors with axes outrank those without, which outrank numbers; a higher category always wins.
    """
    x = torch.ones(2, dtype=torch.float16)

    assert (x + torch.tensor(1.0)).dtype is torch.float16
    assert (x + 1.5).dtype is torch.float16
    assert (torch.ones(2, dtype=torch.int32) + 1).dtype is torch.int32
    assert (torch.ones(2, dtype=torch.int32) + torch.ones(2, dtype=torch.int64)).dtype is torch.int64
    assert (torch.ones(2, dtype=torch.int64) * 1.5).dtype is torch.float32
    assert torch.tensor([1.0, 2.0]).dtype is torch.float32
    assert torch.tensor([True]).sum().dtype is torch.int64


ERRORS = [
    (lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)), "mat1 and mat2 shapes cannot be multiplied"),
    (lambda: torch.mm(torch.ones(3), torch.ones(3)), "self must be a matrix"),
    (lambda: torch.ones(2) + torch.ones(3), "add: .* do not broadcast"),
    (lambda: bool(torch.ones(2)), "Boolean value of Tensor with more than one value is ambiguous"),
    (lambda: torch.ones(2).item(), "cannot be converted to Scalar"),
    (lambda: torch.arange(3).mean(), "could not infer output dtype"),
    (lambda: torch.ones(2, 3).view(4, 2), "invalid for input of size 6"),
    (lambda: torch.ones(2, device="cuda"), "treadle runs on CPUs"),
    (lambda: F.embedding(torch.tensor([7]), torch.ones(3, 2)), "index"),
    (lambda: F.conv_transpose1d(torch.ones(1, 4, 5, 5), torch.ones(4, 2, 3, 3)), "weight must have 3 axes"),
    (lambda: F.conv2d(torch.ones(1, 4, 5, 5), torch.ones(2, 4, 3, 3), padding="odd"), "'same' or 'valid'"),
]


@pytest.mark.parametrize(("program", "text"), ERRORS)
def test_errors_are_pytorchs(program, text: str) -> None:
    """
    RuntimeError, with PyTorch's message where programs may match it.
    """
    with pytest.raises(RuntimeError, match=text):
        program()


def test_invalid_arguments_of_creation_raise_pytorchs_errors() -> None:
    """
    Sizes are not rounded, and a string is no dtype; Python's number types are dtypes.
    """
    for make, kind, words in (
        (lambda: torch.ones(1.5), TypeError, "must be tuple of ints"),
        (lambda: torch.full((2.0,), 1), TypeError, "must be tuple of ints"),
        (
            lambda: torch.full(5, 1.0),
            TypeError,
            r"full\(\): argument 'size' \(position 1\) must be tuple of ints, not int",
        ),
        (lambda: torch.ones(2).new_full(None, 1), TypeError, r"^new_full\(\): .* must be tuple of ints, not NoneType"),
        (lambda: torch.zeros(2, -1), RuntimeError, r"negative dimension -1: \[2, -1\]"),
        (lambda: torch.ones(2, dtype="float32"), TypeError, r"ones\(\): argument 'dtype' must be torch.dtype, not str"),
        (lambda: torch.tensor([1], dtype=np.float32), TypeError, "must be torch.dtype, not type"),
        (lambda: torch.arange(0, 1, 0), RuntimeError, "step must be nonzero"),
        (lambda: torch.linspace(0, 1, -1), RuntimeError, "number of steps must be non-negative"),
    ):
        with pytest.raises(kind, match=words):
            make()
    assert torch.ones(2, dtype=int).dtype is torch.int64
    assert torch.tensor([1], dtype=bool).dtype is torch.bool
    assert torch.full([2], 1, dtype=float).dtype is torch.float64
