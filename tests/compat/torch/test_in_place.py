"""Writes into tensors give PyTorch's results, eagerly and in scripts, through views and aliases."""

import numpy as np
import pytest

import treadle.compat.torch as torch
from treadle.compat.torch import nn


def a() -> torch.Tensor:
    return torch.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))


def alias(x):
    y = x * 2
    z = y
    y += 1
    return z


def view(x):
    y = x * 2
    row = y[0]
    row += 100
    return y, row


def base(x):
    y = x.clone()
    flat = y.view(-1)
    y.mul_(3)
    part = flat[:3]
    y[0, 0] = 100.0
    return y, flat, part


def transposed(x):
    y = x.clone()
    y.t()[0] = 9.0
    y.transpose(0, 1)[1:3, 0].zero_()
    return y


def steps(x):
    out = torch.zeros(3, 4)
    state = torch.zeros(4)
    for k in range(x.size(0)):
        state = state * 0.5 + x[k]
        out[k] = state
    out[:, ::2] = -1
    return out


def masks(x):
    y = x.clone()
    y[y > 6] = 0.0
    y[torch.tensor([0, 2]), torch.tensor([1, 1])] = torch.tensor([70.0, 80.0])
    y[:, torch.tensor([True, False, False, True])] += 0.5
    y.masked_fill_(y == 1, 5)
    return y


def asked(x):
    y = x.clone()
    row = y[1]
    if y.sum() > 0:
        y += 1
    row *= 2
    return y, row


@pytest.mark.parametrize("program", [alias, view, base, transposed, steps, masks, asked], ids=lambda f: f.__name__)
def test_a_script_writes_as_eager_code_does(program):
    """
    Graphs only compute new values; all tensors that share the memory see the new elements.
    """
    plain, scripted, traced = program(a()), torch.jit.script(program)(a()), torch.jit.trace(program, (a(),))(a())
    for result in (scripted, traced):
        pairs = zip(plain, result, strict=True) if isinstance(plain, tuple) else [(plain, result)]
        for want, got in pairs:
            np.testing.assert_array_equal(got.numpy(), want.numpy())


def test_eager_code_writes_as_numpy_does():
    """
    The same lines on arrays give the same elements.
    """
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    want = array.copy()
    want.T[0] = 9
    want.T[1:3, 0] = 0
    np.testing.assert_array_equal(transposed(a()).numpy(), want)


def test_a_script_writes_into_its_argument():
    """
    The caller's array has the new elements when the call returns.
    """

    def program(x):
        x.add_(1)
        x[0] *= 10
        return x.sum()

    array = np.ones((2, 2), np.float32)
    total = torch.jit.script(program)(torch.from_numpy(array))
    np.testing.assert_array_equal(array, [[20, 20], [2, 2]])
    assert total.item() == 44


def test_arguments_that_share_memory_see_each_others_writes():
    """
    One argument is a view of the other before the call.
    """

    def program(x, row):
        x *= 2
        y = row + 1
        row.fill_(7)
        return y, x + 0

    x = torch.ones(2, 3)
    y, z = torch.jit.script(program)(x, x[0])
    np.testing.assert_array_equal(y.numpy(), [3, 3, 3])
    np.testing.assert_array_equal(z.numpy(), [[7, 7, 7], [2, 2, 2]])


def test_a_scripted_module_keeps_state_in_its_buffers():
    """
    Each call adds to the same memory, replays included.
    """

    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", torch.zeros(2))

        def forward(self, x):
            self.seen += 1
            self.seen[0].add_(x.sum())
            return self.seen * 1

    module = torch.jit.script(Counter().eval())
    memory = module.seen.numpy()
    for calls in (1, 2, 3):
        result = module(torch.ones(2))
        np.testing.assert_array_equal(result.numpy(), [3 * calls, calls])
        np.testing.assert_array_equal(memory, [3 * calls, calls])


def test_a_returned_view_shares_the_memory_of_the_argument():
    """
    As in PyTorch: a write to one is visible in the other.
    """
    x = torch.zeros(2, 3)
    flat = torch.jit.script(lambda_view)(x)
    flat[4] = 5
    assert x[1, 1].item() == 5


def lambda_view(x):
    return x.view(-1)


def test_in_place_methods_write_and_return_the_tensor():
    """
    Through views of an array too; the result is the tensor itself.
    """
    array = np.full((2, 2), -2.0, np.float32)
    x = torch.from_numpy(array)
    assert x.abs_().mul_(3).sub_(1).clamp_(max=4) is x
    x[1].copy_(torch.tensor([1, 2]))
    np.testing.assert_array_equal(array, [[4, 4], [1, 2]])


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda x: x.add_(1.5), "result type Float can't be cast to the desired output type Long"),
        (lambda x: x.mul_(torch.ones(2, 3).long()), "output with shape [3] doesn't match the broadcast shape [2, 3]"),
        (lambda x: x.copy_(torch.ones(2)), "The expanded size of the tensor (3) must match the existing size (2)"),
        (lambda x: x.expand(2, 3).add_(1), "more than one element of the written-to tensor refers to a single memory"),
    ],
)
@pytest.mark.parametrize("scripted", [False, True])
def test_invalid_writes_raise_as_in_pytorch(write, message, scripted):
    """
    With the same message, eagerly and in a script.
    """
    with pytest.raises(RuntimeError) as caught:
        torch.jit.script(_writes)(torch.tensor([1, 2, 3]), write) if scripted else write(torch.tensor([1, 2, 3]))
    assert message in str(caught.value)


def _writes(x, write):
    return write(x)
