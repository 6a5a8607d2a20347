"""Losses that programs compute in evaluation: perplexity, reconstruction errors, distances of embeddings."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it

from tests.unit.frontends.torch.op_cases import Case, ints, seeded

LOGITS, TOKENS, SHARE = (
    seeded(2, 7, 10),
    ints(2, 7, high=10),
    torch.rand(10, generator=torch.Generator().manual_seed(3)),
)
X, Y = seeded(3, 4), seeded(3, 4).sigmoid()


def shifted(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Returns the perplexity of a language model, as programs compute it."""
    return torch.exp(F.cross_entropy(logits[..., :-1, :].reshape(-1, 10), tokens[..., 1:].reshape(-1)))


def entropies(logits: torch.Tensor, tokens: torch.Tensor) -> tuple[torch.Tensor, ...]:
    flat, targets = logits.view(-1, 10), tokens.view(-1)
    return (
        F.cross_entropy(flat, torch.where(targets == 3, -100, targets)),
        F.cross_entropy(flat, targets, ignore_index=2, reduction="sum"),
        F.cross_entropy(logits.transpose(1, 2), tokens, reduction="none"),
        F.cross_entropy(flat, targets, weight=SHARE, label_smoothing=0.1),
        F.cross_entropy(flat, flat.softmax(-1)),
        F.nll_loss(flat.log_softmax(-1), targets),
        F.cross_entropy(1000 * flat, targets),
    )


def errors(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        F.mse_loss(x, y), F.mse_loss(x, y, reduction="none"), F.l1_loss(x, y), F.smooth_l1_loss(x, y),
        F.huber_loss(x, y),
        F.binary_cross_entropy(y, y.flip(0)), F.binary_cross_entropy_with_logits(x, y),
        F.kl_div(x.log_softmax(-1), y, reduction="batchmean"), F.cosine_similarity(x, y), F.pairwise_distance(x, y),
        F.triplet_margin_loss(x, y, x.flip(0)), F.cosine_embedding_loss(x, y, torch.ones(3)),
    )  # fmt: skip


def put(x: torch.Tensor, i: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Writes as a key-value cache is written."""
    cache = x.clone()
    cache[:, i] = y
    return cache


def put_at(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> tuple[torch.Tensor, ...]:
    inner, unique_outputs, grid = x.clone(), x.clone(), x.clone()
    inner[:, i, j] = x[:, i, j] * 2
    unique_outputs[i, :, j] = x[:, :, 0] + 1
    grid[:, i[:, None], j] = 7.0
    return inner, unique_outputs, grid


CASES: dict[str, Case] = {
    "perplexity": (shifted, (LOGITS, TOKENS)),
    "cross_entropies": (entropies, (LOGITS, TOKENS)),
    "errors": (errors, (X, Y)),
    "named_results": (lambda x: (*torch.std_mean(x, 1), *torch.aminmax(x)), (X,)),
    "write_along_an_inner_axis": (
        lambda x, i, y: put(x, i, y) + x.index_copy(1, i, y) + x.index_fill(1, i, 2.0),
        (X, torch.tensor([3, 0]), seeded(3, 2)),
    ),
    "write_by_inner_axes": (put_at, (seeded(2, 3, 4), torch.tensor([0, 1]), torch.tensor([2, 1]))),
    "overlapping_patches_summed": (
        lambda x: F.fold(F.unfold(x, 3, padding=1), (6, 6), 3, padding=1), (seeded(1, 2, 6, 6),)
    ),
}  # fmt: skip
