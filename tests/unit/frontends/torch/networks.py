"""Small networks modelled on well-known ones."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - PyTorch's own name for it
from torch import nn


class Shuffled(nn.Module):
    """MobileNetV3 and ShuffleNet: squeeze and excitation, shuffled channels, resizing."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.bn, self.act = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Hardswish(inplace=True)
        self.pool, self.down, self.grow = nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)
        self.depthwise, self.dropout = nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Dropout2d(0.2)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.act(self.bn(self.conv(x)))
        x = x * F.hardsigmoid(self.grow(F.relu(self.down(self.pool(x)))))
        a, b = x.chunk(2, dim=1)
        x = torch.cat((a, self.depthwise(b)), 1)
        n, c, h, w = x.shape
        x = self.up(self.dropout(x.view(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, -1, h, w)))
        return F.avg_pool2d(F.relu6(x), 2), F.interpolate(x, size=(5, 7), mode="nearest")


class Decoder(nn.Module):
    """Llama: rotary positions, grouped heads, RMS norms, a gated feed-forward part."""

    def __init__(self, width: int = 16, heads: int = 4, groups: int = 2, vocabulary: int = 50) -> None:
        super().__init__()
        self.heads, self.groups, self.size = heads, groups, width // heads
        self.words, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary, bias=False)
        self.scale = nn.Parameter(torch.ones(width))
        self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.k, self.v = (nn.Linear(width, groups * self.size, bias=False) for _ in range(2))
        self.gate, self.up = nn.Linear(width, 32, bias=False), nn.Linear(width, 32, bias=False)
        self.down = nn.Linear(32, width, bias=False)
        self.register_buffer("turns", 1.0 / (10000 ** (torch.arange(0, self.size, 2).float() / self.size)))

    def norm(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        return self.scale * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)

    def turned(self, x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        return x * angle.cos() + torch.cat((-x[..., half:], x[..., :half]), -1) * angle.sin()

    def shared(self, x: torch.Tensor) -> torch.Tensor:
        b, groups, t, size = x.shape
        wide = x[:, :, None].expand(b, groups, self.heads // self.groups, t, size)
        return wide.reshape(b, self.heads, t, size)

    def forward(self, tokens: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        b, t = tokens.shape
        x = self.words(tokens)
        angle = torch.outer(torch.arange(t).float(), self.turns)
        angle = torch.cat((angle, angle), -1)
        y = self.norm(x)
        q = self.turned(self.q(y).view(b, t, self.heads, self.size).transpose(1, 2), angle)
        k = self.turned(self.k(y).view(b, t, self.groups, self.size).transpose(1, 2), angle)
        v = self.v(y).view(b, t, self.groups, self.size).transpose(1, 2)
        mask = torch.full((t, t), float("-inf")).triu(1)
        scores = q @ self.shared(k).transpose(2, 3) / math.sqrt(self.size) + mask
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(q.dtype)
        x = x + self.o((weights @ self.shared(v)).transpose(1, 2).contiguous().view(b, t, -1))
        y = self.norm(x)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return self.head(x), x[:, -1].argmax(-1)


class Patches(nn.Module):
    """A vision transformer: patches as tokens, one projection for queries, keys and values."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, 16, 4, 4), nn.LayerNorm(16)
        self.first, self.places = nn.Parameter(torch.zeros(1, 1, 16)), nn.Parameter(torch.randn(1, 17, 16))
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b = x.shape[0]
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(b, -1, -1), x), 1) + self.places
        q, k, v = self.qkv(self.norm(x)).reshape(b, 17, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, 17, 16))
        return x.masked_fill(x.abs() < 0.1, 5.0)


class Dense(nn.Module):
    """DenseNet and U-Net: concatenation of all earlier results, in-place writes, upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv2d(3 + 4 * i, 4, 3, padding=1) for i in range(3)])
        self.norm, self.up, self.act = nn.GroupNorm(5, 15), nn.ConvTranspose2d(15, 4, 2, 2), nn.PReLU(4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        parts = [x]
        for layer in self.layers:
            parts.append(F.gelu(layer(torch.cat(parts, 1)), approximate="tanh"))
        x = self.act(self.up(F.max_pool2d(self.norm(torch.cat(parts, 1)), 2)))
        x[:, 0] = 0
        return F.pad(x, (1, 1, 2, 0)).std((2, 3)), F.normalize(x.flatten(1), dim=-1)
