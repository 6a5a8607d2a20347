"""Modules to be scripted; TorchScript reads their source from a file."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn


class Forked(nn.Module):
    """Two products, one of them in a fork."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.w_y = nn.Parameter(torch.randn(width, width) / width)
        self.w_z = nn.Parameter(torch.randn(width, width) / width)

    def compute_z(self, x: torch.Tensor) -> torch.Tensor:
        return torch.mm(x, self.w_z)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        future = torch.jit.fork(self.compute_z, x)
        y = torch.mm(x, self.w_y)
        return y + torch.jit.wait(future)


class Suppressed(nn.Module):
    """Selects boxes by score, reading and writing each at an index that a tensor holds."""

    def forward(self, scores: torch.Tensor, overlap: torch.Tensor) -> torch.Tensor:
        order = scores.argsort(descending=True)
        keep, gone = torch.zeros_like(scores), torch.zeros_like(scores)
        for step in range(scores.shape[0]):
            at = int(order[step])
            keep[at] = 1 - gone[at]
            gone = torch.maximum(gone, (overlap[at] > 0.5) * keep[at])
        return keep


class ForkedList(nn.Module):
    """Forks that wait for forks, and futures in a list."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def inner(self, x: torch.Tensor) -> torch.Tensor:
        deeper = torch.jit.fork(self.twice, x)
        return x + torch.jit.wait(deeper)

    def twice(self, x: torch.Tensor) -> torch.Tensor:
        return 2 * x

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        futures = torch.jit.annotate(list[torch.jit.Future[torch.Tensor]], [])
        for layer in self.layers:
            futures.append(torch.jit.fork(self.inner, layer(x)))
        for future in futures:
            x = x + torch.jit.wait(future)
        return x


class OnPython(nn.Module):
    """Branches and loops over Python values and shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 3
        self.layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU())

    def forward(self, x: torch.Tensor, times: int = 2, shift: torch.Tensor | None = None) -> torch.Tensor:
        if x.dim() == 1:
            x = x.unsqueeze(0)
        for i in range(times):
            x = self.layers(x) + i * self.scale
        count = 0
        while count < x.size(0):
            count += 2
        if shift is not None:
            x = x + shift
        return x.view(x.size(0), -1, 2) * count


class OnData(nn.Module):
    """A branch and loops whose conditions depend on data."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int]:
        y = self.layer(x)
        if x.sum() > 0:
            y = x * 2
        steps = 0
        while float(y.abs().max()) > 1.0:
            y = y / 2
            steps += 1
        for i in range(int(x[0, 0].item())):
            y = y + i
        return y, x, steps


class Searching(nn.Module):
    """A loop with a branch in it; data decide about both, and every iteration keeps all shapes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, float]:
        steps, total = 0, 0.0
        while bool(x.abs().max() > 0.01) and steps < 20:
            x = torch.tanh(self.layer(x)) / 2 if bool(x.sum() > 0) else -x / 4
            total += float(x.sum())
            steps += 1
        return x, steps, total


class Growing(nn.Module):
    """A loop and a branch whose results have sizes that data decide about."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x[:1] if bool(x[0] > 2) else x * 2
        while bool(x.sum() < 10):
            x = torch.cat([x, x])
        return x, y


class Chosen(nn.Module):
    """A branch on one side of which data decide about the size, which what follows does not ask for."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if bool(x.sum() > 0):
            y = torch.relu(x[x > 1]) * 2
            z = x.sum()
        else:
            y = x
            z = x.max()
        return torch.exp(-y), z


class Halved(nn.Module):
    """A branch whose sides give sizes that are known, but not the same; inside another one."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if bool(x.sum() > 0):
            y = y[: x.shape[0] // 2] if bool(x[-1] > 3) else torch.cat([y, y])
        return torch.tanh(y)


class Recurrent(nn.Module):
    """A recurrent network that collects its states: along a new axis, joined, and their number and last one."""

    def __init__(self) -> None:
        super().__init__()
        self.from_item, self.from_state = nn.Linear(3, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, int]:
        state = torch.zeros(2, 4)
        states: list[torch.Tensor] = []
        for step in range(x.size(0)):
            state = torch.tanh(self.from_item(x[step]) + self.from_state(state))
            if step % 3 == 2:
                state = -state
            states.append(state * step)
        return torch.stack(states, 1), torch.cat(states, -1), states[-1], state, len(states)


class Unrolled(nn.Module):
    """Long loops that cannot be loops of the native core: each says why."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor]:
        parts = [x]
        count = 0
        for step in range(300):
            parts.append(parts[-1] * 0.99)  # reads what it appended
            count += step  # carries a number, which sizes may be made of
        wide = x
        for _ in range(400):
            wide = torch.cat([wide, x[:1]])  # changes its shape
        nested = [parts]
        for _ in range(400):
            parts.append(x)  # another list holds this one  # noqa: PERF401
        y = torch.zeros(count % 5 + 1)
        for step in range(400):
            y = y + torch.ones(step % 2 + 1)[:1].sum()  # sizes are made of its number
        return torch.stack(nested[0]).sum(0) + y.sum(), len(parts) + count, wide


class NestedLists(nn.Module):
    """Nested loops that fill a list of the outer one, and a list of lists."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, torch.Tensor, int, torch.Tensor]:
        parts: list[torch.Tensor] = []
        rows: list[list[torch.Tensor]] = []
        for step in range(x.size(0)):
            row: list[torch.Tensor] = []
            y = x[step]
            for _ in range(3):
                y = torch.tanh(y * 1.1)
                parts.append(y)
                row.append(y + step)
            rows.append(row)
        last: list[torch.Tensor] = rows[-1]
        return torch.stack(parts), len(rows), parts[4] + parts[-1], len(last), rows[2][1]


class LongInside(nn.Module):
    """A loop in a loop, which alone fills the list: long together."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for _ in range(40):
            for step in range(60):
                x = x * 0.999 + step
                parts.append(x)
        return torch.stack(parts)


class ReadLists(nn.Module):
    """Long loops whose iterations read, cut or share lists, each of which PyTorch sees whole."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int, torch.Tensor]:
        counted: list[torch.Tensor] = []
        for _ in range(260):
            counted.append(x + len(counted))
        first: list[torch.Tensor] = []
        for _ in range(260):
            first.append(x)
            x = x + first[0] * 0.01
        cut: list[torch.Tensor] = []
        for step in range(260):
            cut.append(x * step)
            if len(cut) > 2:
                x = x + cut.pop(0) * 1e-4
        shared: list[list[torch.Tensor]] = []
        row: list[torch.Tensor] = []
        for _ in range(260):
            shared.append(row)
            row.append(x)
        y = x
        for step in range(260):
            y = y + counted[step] - first[259 - step]
        return torch.stack(counted), torch.stack(first), torch.stack(cut), len(shared[0]), y


class ChangedRow(nn.Module):
    """Changes a list of a list that a loop has filled."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int, int]:
        rows: list[list[torch.Tensor]] = []
        for _ in range(400):
            x = x * 0.99
            rows.append([x, -x])
        row = rows[1]
        row.append(x)
        return torch.stack(rows[1]), len(rows[1]), len(rows[2])


class WritesEntry(nn.Module):
    """Writes into an entry of a list that a loop has filled."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        for step in range(600):
            parts.append(x + step)  # noqa: PERF401
        parts[1].add_(1)
        return torch.stack(parts)


class WritesListed(nn.Module):
    """Writes into a tensor that is in a list."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        state = x
        for _ in range(600):
            state = state + 1
            parts.append(state)
        state += 1
        return torch.stack(parts)


class Results(NamedTuple):
    total: torch.Tensor
    parts: tuple[torch.Tensor, torch.Tensor]


class Structured(nn.Module):
    """Returns a named tuple and reads a dictionary."""

    def forward(self, x: torch.Tensor) -> Results:
        table = {"one": x, "two": x * 2}
        return Results(table["one"] + table["two"], (x, -x))


class Wrong(nn.Module):
    """Uses unsupported ops in three places."""

    def there(self, x: torch.Tensor) -> torch.Tensor:
        return torch.digamma(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        future = torch.jit.fork(self.there, x)
        if x.sum() > 0:
            x = torch.igamma(x, x)
        return torch.nanmedian(x) + torch.jit.wait(future)


class Raising(nn.Module):
    """Refuses some shapes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.size(0) > 2:
            raise ValueError("two rows at most")
        return x + 1


class WritesInput(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x


class Listed(nn.Module):
    """Takes a list and a number, which examples define."""

    def forward(self, xs: list[torch.Tensor], factor: float) -> torch.Tensor:
        return torch.stack(xs).sum(0) * factor


class Misfit(nn.Module):
    """A convolution whose weights expect more channels than the input has."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv1d(x, torch.zeros(4, 5, 3))
