"""Modules to be compiled."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """A convolution, a batch norm and an activation in place, with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.relu = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
        self.register_buffer("shift", torch.arange(8.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.relu(self.bn(self.conv(x))).mean((2, 3)) + self.shift


class Returns(nn.Module):
    """Returns its argument, a view of it, a size, a buffer, nothing, and something computed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.ones(2))

    def forward(self, x: torch.Tensor) -> dict[str, object]:
        return {"same": x, "view": x.view(-1), "size": x.shape[0], "kept": self.kept, "none": None, "sum": x.sum()}


class Unsupported(nn.Module):
    """Has an op without a rule."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nanmedian(x + 1) * 2


class WritesInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2


class Stack(nn.Module):
    """Layers of one class, with a break of the graph between them: they share the captured code."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.one(layer, x)
        return x

    def one(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return torch.relu(layer(x))
