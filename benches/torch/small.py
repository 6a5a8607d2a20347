"""Modules whose calls take microseconds, so that overhead is most of their time."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it


class Perceptron(nn.Module):
    """Three linear layers: f32[N, 64] -> f32[N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(F.relu(self.second(F.relu(self.first(x)))))


class Convolutions(nn.Module):
    """Two convolutions, a pooling and a linear layer: f32[N, 3, 32, 32] -> f32[N, 10]."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, stride=2, padding=1)
        self.last = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.max_pool2d(F.relu(self.first(x)), 2)
        return self.last(F.relu(self.second(x)).mean((2, 3)))


class Chain(nn.Module):
    """Ten elementwise ops, one after the other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(x * 2.0 + 1.0) - 0.5
        y = torch.tanh(y * x + x) * 0.5
        return torch.abs(y) + x


class Attention(nn.Module):
    """Self-attention of four heads, added and normalised: f32[N, T, 64] -> the same."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.mixed, self.out, self.norm = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        heads = self.mixed(x).view(batch, tokens, 3, self.heads, width // self.heads)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).reshape(batch, tokens, width)
        return self.norm(x + self.out(y))


class Cell(nn.Module):
    """A step of an LSTM: (f32[N, 64], hidden, cell) -> (hidden, cell)."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(64, 64)

    def forward(self, x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, cell = self.cell(x, (hidden, cell))
        return hidden, cell


def _of(make: Callable[[], nn.Module], *shapes: tuple[int, ...]) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    torch.manual_seed(0)
    return make().eval(), tuple(torch.randn(shape) for shape in shapes)


SMALL: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "perceptron_1": lambda: _of(Perceptron, (1, 64)),
    "perceptron_32": lambda: _of(Perceptron, (32, 64)),
    "convolutions": lambda: _of(Convolutions, (1, 3, 32, 32)),
    "chain_1000": lambda: _of(Chain, (1000,)),
    "chain_100000": lambda: _of(Chain, (100_000,)),
    "attention": lambda: _of(Attention, (1, 16, 64)),
    "lstm_cell": lambda: _of(Cell, (1, 64), (1, 64), (1, 64)),
}
"""Functions that return a module in evaluation mode and inputs for it, by name."""
