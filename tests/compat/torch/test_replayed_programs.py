"""Random programs: each call gives the results of the same Python code op by op, replayed or not."""

from __future__ import annotations

import numpy as np
import pytest

import treadle.compat.torch as torch

STEPS = (
    "add", "relu", "product", "softmax", "scale", "write", "write row", "fill", "view", "transpose", "fork",
    "two forks",
    "sum", "condition", "cat", "clone", "alias", "zeros", "write argument",
)  # fmt: skip


def body(x, w, number: int):
    return torch.mm(x, w) * number


def program(x, w, steps: list[str]):
    seen = [x]
    y = x + 0
    for at, step in enumerate(steps):
        if step == "add":
            y = y + seen[at % len(seen)]
        elif step == "relu":
            y = torch.relu(y)
        elif step == "product":
            y = torch.mm(y, w)
        elif step == "softmax":
            y = torch.softmax(y, 1)
        elif step == "scale":
            y = y * (at + 0.5)
        elif step == "write":
            y += 1
        elif step == "write row":
            y[at % 4] = w[0] * 2
        elif step == "fill":
            y[1:3].fill_(at)
        elif step == "view":
            y = y.view(2, 8).view(4, 4)
        elif step == "transpose":
            y = y.t()
        elif step == "fork":
            future = torch.jit.fork(body, y, w, at)
            y = torch.tanh(y) + torch.jit.wait(future)
        elif step == "two forks":
            futures = [torch.jit.fork(body, y, w, k) for k in range(2)]
            y = sum([torch.jit.wait(each) for each in futures], y) / 4
        elif step == "sum":
            y = y - y.sum(0)
        elif step == "condition":
            y = y * 2 if y.mean() > 0 else y - 1
        elif step == "cat":
            y = torch.cat([y, seen[0]], 0)[2:6]
        elif step == "clone":
            seen.append(y.clone())
        elif step == "alias":
            seen.append(y)
        elif step == "zeros":
            out = torch.zeros(4, 4)
            out[:2] += y[:2]
            y = y + out
        elif step == "write argument":
            x[at % 4] += 0.5
        y = torch.clamp(y, -100, 100).contiguous()
    return y, seen


@pytest.mark.parametrize("seed", range(24))
def test_every_call_of_a_random_program_agrees_with_eager(seed: int) -> None:
    """
    Results and written arguments agree with the function outside scripts, bit by bit from call to call.
    """
    random = np.random.default_rng(seed)
    steps = [str(step) for step in random.choice(STEPS, 7)]
    script = torch.jit.script(program)
    for _ in range(2):
        first, w = (random.standard_normal((4, 4)).astype(np.float32) for _ in range(2))
        wanted_x = torch.from_numpy(first.copy())
        expected, wanted_seen = program(wanted_x, torch.from_numpy(w), steps)
        results = []
        for _ in range(4):
            x = torch.from_numpy(first.copy())
            y, seen = script(x, torch.from_numpy(w), steps)
            results.append([y.numpy().tobytes(), x.numpy().tobytes(), *(each.numpy().tobytes() for each in seen)])
            np.testing.assert_allclose(y.numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(x.numpy(), wanted_x.numpy(), rtol=1e-5)
            assert seen[0] is x
            for one, other in zip(seen, wanted_seen, strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-4)
        assert all(each == results[0] for each in results)
