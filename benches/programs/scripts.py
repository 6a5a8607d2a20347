"""The timed scripts, written once for treadle's `torch` and for PyTorch's; each repeats and returns its last result."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Work = Callable[[], list[Any]]

OPS = 100
"""Ops in a chain."""

TIMES = {
    "elementwise": 100,
    "products": 100,
    "eager": 10,
    "fork-8": 200,
    "fork-64": 100,
    "fork-256": 20,
    "fork-1024": 1,
}
"""Runs of a script in one round."""


def sums(torch: Any) -> Callable[[Any, Any], Any]:
    """50 sums and 50 relus in turn, as users write them."""

    def chain(x, y):
        for _ in range(50):
            x = torch.add(x, y)
            x = torch.relu(x)
        return x

    return chain


def products(torch: Any) -> Callable[[Any, Any], Any]:
    """50 products and 50 tanhs."""

    def chain(x, y):
        for _ in range(50):
            x = torch.tanh(torch.mm(x, y))
        return x

    return chain


def scripted(chain: Callable[[Any], Any], torch: Any) -> Callable[[], Any]:
    """A chain over 8 x 8 as a script."""
    return partial(torch.jit.script(chain(torch)), *_matrices(torch, 8))


def eager(chain: Callable[[Any], Any], torch: Any) -> Callable[[], Any]:
    """A chain over 8 x 8 whose ops are called one by one."""
    return partial(chain(torch), *_matrices(torch, 8))


def fork(torch: Any, size: int) -> Callable[[], Any]:
    """The module whose forward forks one product, computes another and waits: two products and a sum."""

    class Products(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w_y, self.w_z = (torch.nn.Parameter(each) for each in _matrices(torch, size))

        def compute_z(self, x):
            return torch.mm(x, self.w_z)

        def forward(self, x):
            future = torch.jit.fork(self.compute_z, x)
            y = torch.mm(x, self.w_y)
            z = torch.jit.wait(future)
            return y + z

    return partial(torch.jit.script(Products()), _matrices(torch, size)[0])


def _matrices(torch: Any, size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(7)
    return tuple(torch.from_numpy(random.random((size, size), np.float32) / size) for _ in range(2))


def repeated(make: Callable[[Any], Callable[[], Any]], times: int, torch: Any, intra: int, inter: int) -> Work:
    """Returns a function that runs a script `times` times, after the runs that compile it."""
    torch.set_num_threads(intra)
    torch.set_num_interop_threads(inter)
    script = make(torch)

    def run() -> list[Any]:
        with torch.no_grad():
            for _ in range(times):
                result = script()
        return [result.numpy()]

    for _ in range(3):
        run()
    return run


SCRIPTS: dict[str, Callable[[Any], Callable[[], Any]]] = {
    "elementwise": partial(scripted, sums),
    "products": partial(scripted, products),
    "eager": partial(eager, sums),
    "fork-8": partial(fork, size=8),
    "fork-64": partial(fork, size=64),
    "fork-256": partial(fork, size=256),
    "fork-1024": partial(fork, size=1024),
}
WORK: dict[str, Callable[[Any, int, int], Work]] = {
    f"script-{name}": partial(repeated, make, TIMES[name]) for name, make in SCRIPTS.items()
}
