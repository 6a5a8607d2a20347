"""Modules that PyTorch scripts and stores in files; TorchScript reads their source from this file."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Tied(nn.Module):
    """Two layers with one weight, buffers, an attribute that is a tensor, others that are not, and two methods."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("shift", torch.arange(4.0))
        self.register_buffer("hidden", torch.ones(4), persistent=False)
        self.scale = 3
        self.names = ["a", "b"]
        self.bare = torch.full((1,), 0.5)

    def forward(self, x: torch.Tensor, times: int = 2, rest: torch.Tensor | None = None) -> torch.Tensor:
        for _ in range(times):
            x = torch.tanh(self.second(self.first(x))) + self.shift * self.hidden
        if rest is not None:
            x = x - rest
        return x * self.scale + self.bare

    @torch.jit.export
    def halved(self, x: torch.Tensor, by: float = 2.0) -> tuple[torch.Tensor, int]:
        return self.first(x) / by, len(self.names)


class Counting(nn.Module):
    """Writes into a buffer and into its argument in each call."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("calls", torch.zeros([], dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen[1:] += x.sum()
        self.calls.add_(1)
        x.mul_(2)
        return x + self.seen * self.calls


class Normed(nn.Module):
    """Layers that act differently while they are trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Dropout(0.5))
        self.layers[1].running_mean.uniform_(-1, 1)
        self.layers[1].running_var.uniform_(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).flatten(1)


class Parts(NamedTuple):
    total: torch.Tensor
    pair: tuple[int, torch.Tensor]


class Structured(nn.Module):
    """Returns what Python has: a named tuple, numbers, a list, a dictionary, None and its own argument."""

    def forward(
        self, x: torch.Tensor, sizes: list[int], more: dict[str, torch.Tensor]
    ) -> tuple[Parts, dict[str, list[torch.Tensor]], float, bool, str, torch.Tensor | None, torch.Tensor]:
        rows = [x * size for size in sizes]
        found = torch.jit.annotate(dict[str, list[torch.Tensor]], {"rows": rows, "more": [more["y"]]})
        steps = 0
        while float(x.sum()) * 2**steps < 100:
            steps += 1
        return Parts(x.sum(0), (steps, x)), found, float(x.sum()), bool(x.sum() > 0), "text", None, x


class Found(nn.Module):
    """Finds rows: how many depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        rows = x[x[:, 0] > 0]
        if rows.size(0) > 2:
            rows = self.layer(rows)
        return rows, rows.size(0)


class Forks(nn.Module):
    """Forks a submodule in a loop whose end depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.abs().max() > 0.01):
            future = torch.jit.fork(self.layer, x)
            x = torch.tanh(torch.jit.wait(future)) / 4
        return x


class Raising(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) > 2:
            raise ValueError("two rows at most")
        return x + 1


class Unknown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.digamma(x) * self.weight


class Setting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count
