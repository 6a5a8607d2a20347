"""Templates whose steps are Python functions, which are made for the sizes of a binding."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
from tests.unit.runtime.template_builder import Builder, Factory, chain, floats

from treadle import _native


@pytest.fixture
def team():
    team = _native.Team("test", 2, 2)
    yield team
    team.close()


def with_function(make: Any) -> tuple[Builder, Factory]:
    """x (s0) -> times 2 in the arena -> what Python makes of it for (s0, 3) -> the output."""
    b, factory = chain(), Factory(make)
    (rows,) = b.symbols
    b.steps[1] = (factory, [(2, 0), (1, 0)], [rows, 3], 1, 1000.0, {})
    return b, factory


def test_python_steps_get_the_sizes_of_their_binding(team):
    def make(rows: int, factor: int) -> Any:
        def step(addresses: tuple[int, ...]) -> None:
            target, source = (floats(address, rows) for address in addresses)
            for i in range(rows):
                target[i] = factor * source[i]

        return step

    b, factory = with_function(make)
    template = b.build()
    for rows in (5, 1, 400, 5):
        x = np.arange(rows, dtype=np.float32).reshape(rows, 1)
        (y,) = template.bind((rows,)).run([x], team)
        np.testing.assert_array_equal(y, 6 * x)

    assert factory.sizes == [(5, 3), (1, 3), (400, 3)]


def test_an_error_of_a_python_step_reaches_the_caller(team):
    def make(*_: int) -> Any:
        def step(_: tuple[int, ...]) -> None:
            raise LookupError("nothing there")

        return step

    executable = with_function(make)[0].build().bind((4,))
    for _ in range(2):
        with pytest.raises(LookupError, match="nothing there"):
            executable.run([np.zeros((4, 1), np.float32)], team)


def test_a_template_whose_python_step_refers_to_it_is_collected():
    class Owner:
        def __init__(self) -> None:
            self.template = with_function(lambda *_: lambda _: self)[0].build()
            self.executables = [self.template.bind((rows,)) for rows in (3, 4)]

    alive = weakref.ref(Owner())
    gc.collect()

    assert alive() is None


def test_a_binding_needs_a_function_for_each_step_without_a_kernel():
    native = with_function(lambda *_: print)[0].build()._native
    sizes = native.evaluate((4,))
    with pytest.raises(ValueError, match="hosts: wanted one for each step without a kernel = 1, got 0"):
        native.bind(sizes)
    with pytest.raises(ValueError, match="step: wanted a number below 2, got 2"):
        native.args(sizes, 2)
