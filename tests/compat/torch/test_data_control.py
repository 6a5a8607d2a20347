"""Scripts whose control flow depends on tensor elements. Each call evaluates the conditions again, as in PyTorch.

The expected numbers are those of PyTorch 2.13.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch


def plain(result: Any) -> Any:
    """Returns `result` with lists in place of tensors and tuples."""
    if isinstance(result, list | tuple):
        return [plain(each) for each in result]
    return np.round(result.numpy().astype(np.float64), 4).tolist() if isinstance(result, torch.Tensor) else result


@torch.jit.script
def returns_early(x):
    if bool(x.sum() > 0):
        return x * 2
    return x - 1


@torch.jit.script
def doubles(x):
    while bool(x.sum() < 10):
        x = x * 2
    return x


@torch.jit.script
def lists_in_lists(x, n: int):
    out = []
    for i in range(n):
        row = []
        for j in range(i + 1):
            row.append(x * j)  # noqa: PERF401 - as such programs are written
        out.append(torch.stack(row).sum())
    return torch.stack(out), len(out)


@torch.jit.script
def chosen_rows(x):
    ys = [torch.relu(row) for row in x]
    total = torch.zeros(x.shape[1])
    for y in ys:
        if bool(y.sum() > 1):
            total = total + y
    return total, len(ys)


@torch.jit.script
def counts_to_an_element(x):
    acc = x
    for i in range(int(x[0].item())):
        acc = acc + i
    return acc


@torch.jit.script
def list_in_a_branch(x):
    out = []
    if bool(x.sum() > 0):
        out.append(x)
        out.append(x + 1)
    else:
        out.append(-x)
    return torch.cat(out), len(out)


@torch.jit.script
def as_many_as_found(x, y):
    places = x.nonzero()
    for i in range(places.shape[0]):
        y = y + places[i, 0]
    return y, places.shape[0]


@torch.jit.script
def sums_until(x):
    s = 0.0
    for v in x:
        f = float(v)
        if f > 0:
            s += f
        else:
            s -= 1.0
        if s > 3.0:
            break
    return s


class Halves(torch.nn.Module):
    """Divides x by its largest element if that is over 1.

    Then it halves x, at most 3 times, while the sum of squares is over 0.5.
    """

    def forward(self, x):
        y = x / x.max() if x.max() > 1 else x
        k = 0
        while k < 3 and bool((y * y).sum() > 0.5):
            y = y * 0.5
            k += 1
        return y, k


CASES = {
    "returns early": (returns_early, [([1, 2], [2, 4]), ([-1, -2], [-2, -3]), ([3, 2], [6, 4])]),
    "while": (doubles, [([1, 2], [4, 8]), ([4, 2], [8, 4]), ([0.125, 2], [1, 16])]),
    "list of a comprehension": (
        chosen_rows, [([[1, 2], [-1, -2]], [[1, 2], 2]), ([[-1, -2], [3, 0], [1, 1]], [[4, 1], 3])]
    ),
    "for to an element": (counts_to_an_element, [([3, 2], [6, 5]), ([1, 2], [1, 2]), ([5, 2], [15, 12])]),
    "list in a branch": (
        list_in_a_branch, [([3, 2], [[3, 2, 4, 3], 2]), ([-1, -2], [[1, 2], 1]), ([1, 0], [[1, 0, 2, 1], 2])]
    ),
    "break": (sums_until, [([3, 0, -1], 1), ([1, 4, 9], 5), ([0, 0, 0], -3)]),
    "module": (
        torch.jit.script(Halves()),
        [([3, 2], [[0.5, 0.3333], 1]), ([0.125, 0.25], [[0.125, 0.25], 0]), ([0.875, 0.875], [[0.4375, 0.4375], 1])],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_script_decides_by_elements(name: str) -> None:
    """The cases are called twice, so that calls are recorded and replayed."""
    script, calls = CASES[name]
    for given, wanted in calls * 2:
        assert plain(script(torch.tensor(given, dtype=torch.float32))) == wanted


def test_lists_in_lists_are_made_anew() -> None:
    x = torch.tensor([1.0, 2.0])
    for n, wanted in ((1, [[0], 1]), (3, [[0, 3, 9], 3]), (2, [[0, 3], 2])) * 2:
        assert plain(lists_in_lists(x, n)) == wanted


def test_a_loop_over_what_is_found() -> None:
    for given, wanted in (([3.0, 0.0], [[1], 1]), ([1.0, 2.0], [[2], 2]), ([0.0, 0.0], [[1], 0])) * 2:
        assert plain(as_many_as_found(torch.tensor(given), torch.tensor([1.0]))) == wanted
