"""fork and wait: concurrent on the team, in every form that TorchScript programs use them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

import treadle
import treadle.compat.torch as torch
from treadle.tracing.record import record


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    with treadle.threads.limit(intra_op=treadle.threads.get().intra_op, inter_op=treadle.threads.get().inter_op):
        before = treadle.threads.get()
        yield
        treadle.threads.set(intra_op=before.intra_op, inter_op=before.inter_op)


class Products(torch.nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.w_y = torch.nn.Parameter(torch.rand(size, size))
        self.w_z = torch.nn.Parameter(torch.rand(size, size))

    def compute_z(self, x):
        return torch.mm(x, self.w_z)

    def forward(self, x):
        fut = torch.jit._fork(self.compute_z, x)
        y = torch.mm(x, self.w_y)
        z = torch.jit._wait(fut)
        return y + z


def close(found: torch.Tensor, expected: np.ndarray) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def test_the_module_that_forks_a_product_and_waits_for_it() -> None:
    """
    The program of PyTorch's page on CPU threading, with one import changed.
    """
    module = torch.jit.script(Products(16))
    x = torch.rand(16, 16)

    close(module(x), x.numpy() @ module.w_y.numpy() + x.numpy() @ module.w_z.numpy())


def test_a_forked_body_and_the_main_body_overlap() -> None:
    """
    With intra_op 1 and inter_op 2, both products are in flight at the same time, on two workers.
    """
    torch.set_num_threads(1)
    torch.set_num_interop_threads(2)
    module = torch.jit.script(Products(768))
    x = torch.rand(768, 768)
    module(x)

    def overlap() -> int:
        with record() as recording:
            module(x)
        forked = [event for event in recording.events if event.node.startswith("compute_z/mm")]
        main = [event for event in recording.events if event.node == "Products/mm"]
        assert forked
        assert main
        pairs = [(a, b) for a in forked for b in main if a.worker != b.worker]
        return max((min(a.end, b.end) - max(a.start, b.start) for a, b in pairs), default=0)

    while overlap() <= 0:  # on a busy machine the worker may come too late to some
        pass


def test_a_parameter_that_changes_between_calls_is_read_again() -> None:
    """
    Parameters are not constants of the compiled code.
    """
    module = torch.jit.script(Products(4))
    x = torch.rand(4, 4)
    module(x)
    module.w_y = torch.nn.Parameter(torch.zeros(4, 4))

    close(module(x), x.numpy() @ module.w_z.numpy())


def test_a_frozen_module_keeps_its_parameters() -> None:
    """
    Later changes of the module do not affect its frozen copy.
    """
    module = torch.jit.script(Products(4)).eval()
    frozen = torch.jit.freeze(module)
    x = torch.rand(4, 4)
    expected = module(x).numpy()
    module.w_y.zero_()

    close(frozen(x), expected)


def twice(x):
    return x * 2


def nested(x):
    inner = torch.jit.fork(twice, x)
    outer = torch.jit.fork(twice, x + 1)
    return torch.jit.wait(inner) + torch.jit.wait(outer)


def test_forks_nest() -> None:
    """
    A forked body may itself fork.
    """

    @torch.jit.script
    def program(x):
        futures = [torch.jit.fork(nested, x * k) for k in range(4)]
        return torch.stack([torch.jit.wait(future) for future in futures])

    x = np.arange(6, dtype=np.float32)

    close(program(torch.from_numpy(x)), np.stack([4 * x * k + 2 for k in range(4)]))


def until(x, limit: float):
    while x.sum() < limit:
        x = x * 2
    return x


def test_forks_that_read_tensors_advance_together() -> None:
    """
    Each run computes the next step of every body that waits for a value: as many runs as the longest body has.
    """

    @torch.jit.script
    def program(x):
        futures: list[torch.jit.Future] = []
        for limit in (1.0, 10.0, 100.0, 1000.0):
            futures.append(torch.jit.fork(until, x, limit))  # noqa: PERF401 - as such programs are written
        total = torch.zeros(2)
        for future in futures:
            total = total + future.wait()
        return total

    x = np.ones(2, np.float32)
    with record() as recording:
        found = program(torch.from_numpy(x))

    close(found, x * (1 + 8 + 64 + 512))
    assert len({event.run for event in recording.events}) <= 12


def passes_on(future):
    return torch.jit.wait(future) + 1


def test_a_future_may_be_waited_for_in_another_fork() -> None:
    """
    Waiting suspends a body; the body that it waits for continues.
    """

    @torch.jit.script
    def program(x):
        first = torch.jit.fork(until, x, 50.0)
        second = torch.jit.fork(passes_on, first)
        third = torch.jit.fork(passes_on, second)
        return third.wait(), second.wait(), first.wait()

    found = program(torch.ones(2))

    assert [each.tolist() for each in found] == [[34.0, 34.0], [33.0, 33.0], [32.0, 32.0]]


def fails(x):
    if x.sum() > 0:
        raise ValueError("too much")
    return x


def test_wait_raises_the_exception_of_the_fork() -> None:
    """
    The exception of a forked body is raised by `wait`, and not before.
    """

    @torch.jit.script
    def program(x):
        future = torch.jit.fork(fails, x)
        y = x + 1
        return y + torch.jit.wait(future)

    with pytest.raises(ValueError, match="too much"):
        program(torch.ones(2))
    assert program(-torch.ones(2)).tolist() == [-1.0, -1.0]


def test_outside_scripts_fork_calls_at_once() -> None:
    """
    The future is done: it has the result or the exception.
    """
    good, bad = torch.jit.fork(twice, torch.ones(2)), torch.jit.fork(fails, torch.ones(2))

    assert good.done()
    assert torch.jit.wait(good).tolist() == [2.0, 2.0]
    with pytest.raises(ValueError, match="too much"):
        bad.wait()


def test_wait_refuses_other_objects_than_futures() -> None:
    """
    Raises TypeError.
    """
    with pytest.raises(TypeError, match="takes a Future"):
        torch.jit.wait(3)


def test_several_threads_run_one_script_concurrently() -> None:
    """
    Each call has its own tasks; all runs share the process's one team.
    """
    module = torch.jit.script(Products(64))
    inputs = [torch.rand(64, 64) for _ in range(4)]
    expected = [x.numpy() @ module.w_y.numpy() + x.numpy() @ module.w_z.numpy() for x in inputs]
    found: dict[int, np.ndarray] = {}

    def client(index: int) -> None:
        for _ in range(20):
            found[index] = module(inputs[index]).numpy()

    clients = [threading.Thread(target=client, args=(index,)) for index in range(4)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()

    for index, each in enumerate(expected):
        np.testing.assert_allclose(found[index], each, rtol=1e-4)


def tree(x, depth: int):
    if depth == 0:
        return torch.mm(x, x)
    left = torch.jit.fork(tree, x, depth - 1)
    right = torch.jit.fork(tree, x * 0.5, depth - 1)
    return torch.jit.wait(left) + torch.jit.wait(right)


def test_deeply_nested_forks_from_several_threads_while_settings_change() -> None:
    """
    No call hangs, and all results are bitwise the same, at every number of threads.
    """
    program = torch.jit.script(tree)
    x = torch.rand(8, 8)
    expected = program(x, 5).numpy()
    found: list[bool] = []

    def client() -> None:
        found.extend(np.array_equal(program(x, 5).numpy(), expected) for _ in range(3))

    clients = [threading.Thread(target=client) for _ in range(4)]
    for each in clients:
        each.start()
    number = 0
    while any(each.is_alive() for each in clients):
        torch.set_num_threads(1 + number % 2)
        torch.set_num_interop_threads(1 + number // 2 % 2)
        number += 1
        clients[number % 4].join(0.002)

    assert found == [True] * 12


def chain(x, depth: int):
    if depth == 0:
        return torch.mm(x, x)
    future = torch.jit.fork(chain, x, depth - 1)
    return torch.jit.wait(future) + x


@pytest.mark.parametrize("make", [torch.jit.script, lambda f: torch.jit.trace(lambda x: f(x, 1000), torch.ones(2, 2))])
def test_a_chain_of_forks_may_be_deeper_than_pythons_stack(make) -> None:
    """
    Each fork begins inside the one before it.
    """
    program, x = make(chain), torch.ones(2, 2)
    for _ in range(3):
        found = program(x, 1000) if make is torch.jit.script else program(x)
        assert (found.numpy() == 1002).all()


def test_an_error_in_the_depth_of_forks_is_raised_by_the_outermost_wait() -> None:
    @torch.jit.script
    def failing(x, depth: int):
        if depth == 0:
            raise ValueError("too deep")
        return torch.jit.wait(torch.jit.fork(failing, x, depth - 1))

    with pytest.raises(ValueError, match="too deep"):
        failing(torch.ones(1), 200)
