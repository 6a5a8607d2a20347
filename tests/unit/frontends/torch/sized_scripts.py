"""Functions for torch.jit.script that read sizes which depend on data. Each takes one float tensor of two axes."""

from __future__ import annotations

import torch
from torch import Tensor


def slices_by_a_count(x: Tensor) -> tuple[Tensor, int]:
    found = x.nonzero()
    return x[: found.size(0) // 8].sum(), found.size(0)


def numbers_the_chosen(x: Tensor) -> tuple[Tensor, Tensor]:
    chosen = x[x > 0]
    return torch.arange(chosen.numel()), chosen.view(-1, 1) * 2


def rows_of_two(x: Tensor) -> Tensor:
    chosen = torch.cat([x[x > 0], -x[x > 0]])
    return chosen.view(-1, 2) @ torch.ones(2, 3)


def a_loop_over_the_chosen(x: Tensor) -> Tensor:
    chosen = x[x > -9]
    out: list[Tensor] = []
    for i in range(chosen.size(0)):
        out.append(chosen[i] * i)  # noqa: PERF401 - scripts have no other form of such a loop
    return torch.stack(out)


def joins_parts(x: Tensor) -> Tensor:
    parts: list[Tensor] = []
    for i in range(x.size(0)):
        row = x[i]
        parts.append(row[row > 0])
    return torch.cat(parts)


def sizes_from_elements(x: Tensor) -> tuple[Tensor, Tensor]:
    n = int(x.abs().sum()) % 5
    return torch.arange(n), torch.zeros(n, 2) + x[0, 0]


def grows_by_the_iteration(x: Tensor) -> Tensor:
    y = x
    for i in range(int(x.abs().sum()) % 5):
        y = torch.cat([y, x[:i]])
    return y


def repeats_rows(x: Tensor) -> tuple[Tensor, int]:
    rows = torch.repeat_interleave(x, (x[:, 0].abs() * 3).long(), 0)
    return rows, rows.size(0)


def what_there_is(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    found, inverse, counts = torch.unique((x * 3).round(), return_inverse=True, return_counts=True)
    return found * 2, inverse, counts


def what_there_is_of_halves(x: Tensor) -> tuple[Tensor, Tensor]:
    return torch.unique((x * 3).round().half()), torch.unique(x > 0)


def runs_of_signs(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return torch.unique_consecutive(x > 0, return_inverse=True, return_counts=True)


def writes_in_place(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    out = torch.zeros(60)
    chosen = x[x > 0]
    out[: chosen.size(0)] = chosen
    y = x.clone()
    first = y[0]
    first[:2] = chosen.sum()
    y.add_(chosen.size(0))
    return out, y, first


def returns_early(x: Tensor) -> Tensor:
    chosen = x[x > 0]
    if chosen.numel() == 0:
        return torch.zeros(1, 3)
    return chosen.unsqueeze(1).expand(-1, 3)


def doubles(x: Tensor) -> tuple[Tensor, int]:
    while bool(x.abs().sum() < 50):
        x = torch.cat([x, x.abs() + 1])
    return x * 2, x.size(0)


def collects(x: Tensor) -> tuple[Tensor, int]:
    parts: list[Tensor] = []
    while bool(x.abs().sum() > 1):
        x = x / 2
        parts.append(x)
    return torch.stack(parts), len(parts)


def finds_again(x: Tensor) -> tuple[Tensor, int]:
    rows = x[x.sum(1) > -9]
    weights = torch.softmax(rows @ rows.t(), dim=-1)
    best = rows[weights.argmax(-1)]
    some = best[best > 0.5]
    return some.reshape(-1), some.numel() + best.size(0)


def joins_what_data_count(x: Tensor) -> tuple[Tensor, int]:
    parts: list[Tensor] = []
    for i in range(int(x.abs().sum()) % 4 + 1):
        row = x[i % 3]
        parts.append(row[row > i * 0.1])
    return torch.cat(parts), len(parts)


def joins_rows_of_the_chosen(x: Tensor) -> Tensor:
    rows = x[x.sum(1) > 0]
    parts: list[Tensor] = []
    for i in range(rows.size(0)):
        row = rows[i]
        parts.append(row[row > 0])
    if len(parts) > 0:
        return torch.cat(parts)
    return torch.zeros(2)


def keeps_the_first(x: Tensor) -> Tensor:
    found = torch.zeros(0, x.size(1))
    for i in range(int(x.abs().sum()) % 4 + 1):
        found = torch.cat([found, x[x[:, i % 2] > 0]])
    if found.size(0) > 3:
        found = found[:3]
    return found


def the_best_of_the_chosen(x: Tensor) -> tuple[Tensor, Tensor]:
    chosen = x[x > 0]
    return torch.topk(chosen, min(chosen.size(0), 4))


def appends_after_a_size(x: Tensor) -> Tensor:
    """The body of the loop reads a size before it appends."""
    parts: list[Tensor] = []
    for i in range(int(x.abs().sum()) % 3 + 1):
        row = x[i]
        some = row[row > -0.5]
        parts.append(some[: some.size(0) // 2].sum())
    return torch.stack(parts)


def thins_out(x: Tensor) -> Tensor:
    chosen = x[x > 0]
    while chosen.size(0) > 3:
        chosen = chosen[chosen > chosen.mean()]
    return chosen * 2


def not_overlapping(x: Tensor) -> tuple[Tensor, Tensor]:
    """The suppression of overlapping boxes as programs write it in PyTorch."""
    boxes = torch.cat([x[:, :2], x[:, :2] + x[:, 2:4].abs() + 0.1], 1)
    is_good = x[:, 4] > -1.0
    boxes, scores = boxes[is_good], x[is_good][:, 4]
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    keep: list[Tensor] = []
    order = scores.argsort(descending=True)
    while order.numel() > 0:
        i = order[0]
        keep.append(i)
        rest = order[1:]
        low = torch.maximum(boxes[i, :2], boxes[rest, :2])
        high = torch.minimum(boxes[i, 2:], boxes[rest, 2:])
        sides = (high - low).clamp(min=0)
        shared = sides[:, 0] * sides[:, 1]
        order = rest[shared / (area[i] + area[rest] - shared) <= 0.3]
    kept = torch.stack(keep)
    return boxes[kept], kept


def in_a_fork(x: Tensor) -> tuple[Tensor, int]:
    future = torch.jit.fork(thins_out, x)
    other = x[x < 0]
    other = other[: other.size(0) // 2]
    return torch.jit.wait(future), other.size(0)


def takes_a_side(x: Tensor) -> Tensor:
    chosen = x[x > -0.5]
    count = chosen.size(0)
    if bool(x.sum() > 0):
        y = torch.softmax(chosen[: count // 2], 0) * count
    else:
        y = torch.cumsum(chosen, 0)
        y = y[: chosen.size(0) - 1]
    return y


def sums_parts(x: Tensor) -> Tensor:
    """Each iteration of the loop, of as many as data say, finds sizes and keeps those of what it carries."""
    chosen = x[x > -0.5]
    count = chosen.size(0)
    total = torch.zeros(2)
    for i in range(count):
        some = chosen[chosen > chosen[i]]
        total = total + torch.stack([some[: some.size(0) // 2].sum(), torch.ones(count).sum()])
    return total


def endless(x: Tensor) -> Tensor:
    """Each iteration finds the positive elements, of which there are always as many."""
    y = x.reshape(-1)
    while bool(y.sum() < 1e30):
        y = y[y > 0]
        y = torch.cat([y, -y[: y.size(0) // 2]])
    return y


def distinct(x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, int]:
    rounded = (x * 2).to(torch.int64)
    found, at = torch.unique(rounded, return_inverse=True)
    return found, at, found[at] - rounded, torch.unique(x > 0), found.numel()


def gains_axes(x: Tensor) -> Tensor:
    chosen = x[x > -1]
    while chosen.dim() < 3 or (float(chosen.sum()) > 0.0 and float(chosen.sum()) < 40.0):
        chosen = torch.stack([chosen, chosen])
    return chosen * 2


def unfit(x: Tensor) -> Tensor:
    return x[x > 0].view(-1, 7)


ALL = [
    a_loop_over_the_chosen,
    appends_after_a_size,
    collects,
    distinct,
    doubles,
    finds_again,
    grows_by_the_iteration,
    in_a_fork,
    joins_parts,
    joins_rows_of_the_chosen,
    joins_what_data_count,
    keeps_the_first,
    not_overlapping,
    numbers_the_chosen,
    repeats_rows,
    returns_early,
    rows_of_two,
    runs_of_signs,
    sizes_from_elements,
    slices_by_a_count,
    sums_parts,
    takes_a_side,
    the_best_of_the_chosen,
    thins_out,
    what_there_is,
    what_there_is_of_halves,
    writes_in_place,
]
