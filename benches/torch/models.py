"""Architectures of benches.models as PyTorch modules, with their batch norms."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it


class Bottleneck(nn.Module):
    """1x1, 3x3, 1x1 convolutions and a shortcut."""

    def __init__(self, into: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(into, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, out, 1, bias=False), nn.BatchNorm2d(out)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or into != out:
            self.downsample = nn.Sequential(nn.Conv2d(into, out, 1, stride, bias=False), nn.BatchNorm2d(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return self.relu(y)


class ResNet50(nn.Module):
    """ResNet-50 (He et al. 2015): x f32[N, 3, 224, 224] -> f32[N, 1000]."""

    def __init__(self, *, classes: int = 1000, blocks: tuple[int, ...] = (3, 4, 6, 3)) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        stages, into = [], 64
        for stage, count in enumerate(blocks):
            width = 64 << stage
            for block in range(count):
                stages.append(Bottleneck(into, width, 2 if stage and not block else 1))
                into = 4 * width
        self.layers = nn.Sequential(*stages)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(into, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        return self.fc(torch.flatten(self.avgpool(self.layers(x)), 1))


class EncoderLayer(nn.Module):
    """Attention and a feed-forward network, each with a residual connection and a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.output, self.norm1 = nn.Linear(width, width), nn.LayerNorm(width, eps=1e-12)
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm2, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        q, k, v = (
            layer(x).view(batch, tokens, self.heads, width // self.heads).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = self.norm1(self.dropout(self.output(mixed)) + x)
        return self.norm2(self.dropout(self.outer(F.gelu(self.inner(x)))) + x)


class Bert(nn.Module):
    """A BERT encoder (Devlin et al. 2018): token numbers i64[N, T] -> f32[N, T, width]."""

    def __init__(
        self, *, width: int = 768, layers: int = 12, heads: int = 12, vocabulary: int = 30522, positions: int = 512
    ) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.norm, self.dropout = nn.LayerNorm(width, eps=1e-12), nn.Dropout(0.1)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1])
        x = self.dropout(self.norm(self.words(tokens) + self.positions(places)))
        for layer in self.layers:
            x = layer(x)
        return x


def seeded(make: Callable[[], nn.Module]) -> nn.Module:
    """Makes a module with the same parameters and running statistics in every process."""
    torch.manual_seed(0)
    module = make().eval()
    for part in module.modules():
        if isinstance(part, nn.BatchNorm2d):
            nn.init.normal_(part.running_mean, std=0.1)
            nn.init.uniform_(part.running_var, 0.5, 1.5)
    return module


def resnet50() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return seeded(ResNet50), (torch.randn(1, 3, 224, 224, generator=torch.Generator().manual_seed(0)),)


def bert_base_s128() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    return seeded(Bert), (torch.randint(0, 30522, (1, 128), generator=torch.Generator().manual_seed(0)),)


MODELS: dict[str, Callable[[], tuple[nn.Module, tuple[torch.Tensor, ...]]]] = {
    "resnet50": resnet50,
    "bert_base_s128": bert_base_s128,
}
"""Functions that return a module in evaluation mode and inputs for it, by name."""
