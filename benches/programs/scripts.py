"""Scripts that are timed, written once for whichever `torch` is given: each runs often and returns its last result."""

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
"""How often one round runs a script."""


def elementwise(torch: Any) -> tuple[Any, int]:
    """A script of 50 sums and 50 relus of 8 x 8, and how many ops it has."""

    def chain(x, y):  # type: ignore[no-untyped-def]
        for _ in range(50):
            x = torch.add(x, y)
            x = torch.relu(x)
        return x

    return partial(torch.jit.script(chain), *_matrices(torch, 8)), OPS


def products(torch: Any) -> tuple[Any, int]:
    """A script of 50 products and 50 tanhs of 8 x 8."""

    def chain(x, y):  # type: ignore[no-untyped-def]
        for _ in range(50):
            x = torch.mm(x, y)
            x = torch.tanh(x)
        return x

    return partial(torch.jit.script(chain), *_matrices(torch, 8)), OPS


def eager(torch: Any) -> tuple[Any, int]:
    """The sums and relus called one by one."""
    x, y = _matrices(torch, 8)

    def chain() -> Any:
        z = x
        for _ in range(50):
            z = torch.add(z, y)
            z = torch.relu(z)
        return z

    return chain, OPS


def fork(torch: Any, size: int) -> tuple[Any, int]:
    """The module whose forward forks one product, computes another and waits: two products and a sum."""

    class Products(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.w_y, self.w_z = (torch.nn.Parameter(each) for each in _matrices(torch, size))

        def compute_z(self, x):  # type: ignore[no-untyped-def]
            return torch.mm(x, self.w_z)

        def forward(self, x):  # type: ignore[no-untyped-def]
            future = torch.jit.fork(self.compute_z, x)
            y = torch.mm(x, self.w_y)
            z = torch.jit.wait(future)
            return y + z

    return partial(torch.jit.script(Products()), _matrices(torch, size)[0]), 3


def _matrices(torch: Any, size: int) -> tuple[Any, Any]:
    random = np.random.default_rng(7)
    return tuple(torch.from_numpy(random.random((size, size), np.float32) / size) for _ in range(2))  # type: ignore[return-value]


def repeated(make: Callable[[Any], tuple[Any, int]], times: int, torch: Any, intra: int, inter: int) -> Work:
    """What runs a script `times` times; it has run often enough to be compiled."""
    torch.set_num_threads(intra)
    torch.set_num_interop_threads(inter)
    script, _ = make(torch)

    def run() -> list[Any]:
        with torch.no_grad():
            for _ in range(times):
                result = script()
        return [result.numpy()]

    for _ in range(3):
        run()
    return run


SCRIPTS: dict[str, Callable[[Any], tuple[Any, int]]] = {
    "elementwise": elementwise,
    "products": products,
    "eager": eager,
    "fork-8": partial(fork, size=8),
    "fork-64": partial(fork, size=64),
    "fork-256": partial(fork, size=256),
    "fork-1024": partial(fork, size=1024),
}
WORK: dict[str, Callable[[Any, int, int], Work]] = {
    f"script-{name}": partial(repeated, make, TIMES[name]) for name, make in SCRIPTS.items()
}
