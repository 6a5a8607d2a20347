"""Kinds of models whose sizes are open in several ways: one plan, with nothing compiled after loading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch installs and uses it)")

import torch.nn.functional as F  # noqa: E402, N812 - PyTorch's own name for it
from torch import nn  # noqa: E402 - after the skip
from torch.export import Dim  # noqa: E402 - after the skip

import treadle  # noqa: E402
from tests.unit.frontends.torch.running import assert_same, run  # noqa: E402 - after the skip

BATCH, LENGTH = Dim("batch", max=16), Dim("length", min=2, max=400)
HEIGHT, WIDTH = Dim("height", min=32, max=512), Dim("width", min=32, max=512)


class VisionTransformer(nn.Module):
    """Positions of any image are interpolated; a token of its own stands in front."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 16, 16)
        self.positions = nn.Parameter(torch.randn(1, 32, 6, 6))
        self.token = nn.Parameter(torch.randn(1, 1, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x)
        x = x + F.interpolate(self.positions, size=(x.shape[2], x.shape[3]), mode="bilinear")
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x.flatten(2).transpose(1, 2)], 1)
        return self.head(self.layer(x)[:, 0])


class SkipConnections(nn.Module):
    """What is pooled is enlarged to the size of the image that it was made of, also an odd one."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.deep = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.down(x).relu()
        deep = self.up(self.deep(F.max_pool2d(wide, 2)).relu())
        return self.last(torch.cat([F.interpolate(deep, size=(wide.shape[2], wide.shape[3])), wide], 1))


class Experts(nn.Module):
    """The two likeliest of four experts answer for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.gate = nn.Embedding(50, 16), nn.Linear(16, 4)
        self.into, self.out = nn.Parameter(torch.randn(4, 16, 32)), nn.Parameter(torch.randn(4, 32, 16))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        shares, experts = self.gate(x).softmax(-1).topk(2, -1)
        gates = torch.zeros_like(self.gate(x)).scatter(-1, experts, shares / shares.sum(-1, keepdim=True))
        found = torch.einsum("btef,efd->bted", F.silu(torch.einsum("btd,edf->btef", x, self.into)), self.out)
        return (found * gates[..., None]).sum(2)


class States(nn.Module):
    """A state space model: each token adds to states that fade from token to token."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.steps = nn.Embedding(50, 8), nn.Linear(8, 8)
        self.window, self.fading = nn.Conv1d(8, 8, 4, padding=3, groups=8), nn.Parameter(torch.randn(8))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.table(tokens)
        length = x.shape[1]
        x = self.window(x.transpose(1, 2))[:, :, :length].transpose(1, 2)
        fades = torch.cumsum(-F.softplus(self.steps(x)) * self.fading.exp(), 1)
        weights = torch.exp((fades[:, :, None] - fades[:, None]).clamp(max=0))
        before = torch.tril(torch.ones(length, length))[None, :, :, None]
        return (weights * before * x[:, None]).sum(2)


IMAGES = [(2, 64, 96), (1, 48, 80), (3, 101, 57)]
TEXTS = [(2, 12), (1, 7), (5, 90)]

MODELS: dict[str, tuple[Callable[[], Any], Callable[..., Any], dict[int, Any], Sequence[tuple[int, ...]]]] = {
    "vision transformer": (VisionTransformer, lambda *s: torch.randn(s[0], 3, *s[1:]), {2: HEIGHT, 3: WIDTH}, IMAGES),
    "skip connections": (SkipConnections, lambda *s: torch.randn(s[0], 3, *s[1:]), {2: HEIGHT, 3: WIDTH}, IMAGES),
    "experts": (Experts, lambda *s: torch.randint(0, 50, s), {1: LENGTH}, TEXTS),
    "states": (States, lambda *s: torch.randint(0, 50, s), {1: LENGTH}, TEXTS),
}


@pytest.mark.parametrize("name", MODELS)
def test_one_plan_serves_all_sizes(name: str) -> None:
    """
    Results are those of eager PyTorch.
    """
    make, made, dims, sizes = MODELS[name]
    torch.manual_seed(0)
    module = make().eval()
    session = treadle.Session(module, (made(*sizes[0]),), dynamic_shapes=({0: BATCH, **dims},))
    loaded = session.compiles
    for each in sizes:
        x = made(*each)
        assert_same(run(session, (x,)), module(x), 1e-4)
    assert session.compiles == loaded
    assert len(session.open_plans()) == 1
