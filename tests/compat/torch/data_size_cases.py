"""Functions whose sizes depend on data, as source for treadle's facade and for PyTorch."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np

SOURCE = """
def masked(x, n):
    y = x[x > 0]
    return y, y.sum(), torch.cat([y, y * 2.0])

def places(x, n):
    found = torch.nonzero(x > 0.5)
    return found, x[found[:, 0]] + 1.0

def selected(x, n):
    y = torch.masked_select(x, x < 0.25)
    return y.view(-1, 1) * 2.0, y.reshape(1, -1), y.mean()

def chosen_rows(x, n):
    m = x.view(-1, 4)
    rows = m[m[:, 0] > 0]
    return torch.matmul(rows, rows.transpose(0, 1)), torch.softmax(rows, 1), rows.size(0)

def two_axes(x, n):
    m = x.view(-1, 4)
    y = m[m > 0.25]
    return y, y.numel() + 1

def sized(x, n):
    y = x[x > 0]
    count = y.shape[0]
    return torch.zeros(count, 3) + 1.0, torch.ones(count * 2), y / count, torch.arange(count)

def counted(x, n):
    count = int((x > 0).sum()) + int(n)
    return torch.arange(count) * 2, torch.arange(1, count + 1).sum(), torch.full((count, 2), 0.5)

def items(x, n):
    k = n.item()
    values, at = torch.topk(x, k)
    return values + 1.0, at, x[:k] * 2.0, x[k:].sum()

def reshaped(x, n):
    y = x[x > -10.0]
    k = n.item()
    return y.view(k, -1) * 2.0, y.view(-1, 2).sum(1), y.unsqueeze(0)

def sliced(x, n):
    y = x[x > 0]
    return y[1:] - y[:-1], y[-1], y[::2], y[None, :], y[0]

def two_masks(x, n):
    y = x[x > -1.0]
    z = y[y < 0.5]
    return z, y.shape[0] - z.shape[0], torch.sort(z)[0]

def unique_numbers(x, n):
    y = torch.unique((x * 3.0).to(torch.int64))
    return y, y.size(0), y * 2

def combined(x, n):
    y = x[x > 0]
    m = y.unsqueeze(1) + y.unsqueeze(0)
    return m, m.sum(0), torch.where(y > 0.5, y, -y), y.std()

def written(x, n):
    y = x[x > 0]
    y += 1.0
    z = y * 2.0
    z[0] = 0.0
    return y, z
"""


def functions(torch: Any) -> dict[str, Callable[..., Any]]:
    """Return the functions, by name, for this module `torch`."""
    name = f"<data sizes of {torch.__name__}>"
    linecache.cache[name] = (len(SOURCE), None, SOURCE.splitlines(keepends=True), name)
    space: dict[str, Any] = {"torch": torch, "__name__": "data_sizes"}
    exec(compile(SOURCE, name, "exec"), space)
    return {name: each for name, each in space.items() if callable(each) and not name.startswith("_")}


NAMES = tuple(line[4 : line.index("(")] for line in SOURCE.splitlines() if line.startswith("def "))


def operands(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return operands of the functions; with each seed their results have other sizes."""
    random = np.random.default_rng(seed)
    x = random.uniform(-2, 2, 24).astype(np.float32)
    x[:3] = np.array((1.0, 1.25, 1.5)) + seed % 3 / 16
    return x, np.array((1, 2, 3, 4, 6)[seed % 5], np.int64)
