"""What is no tensor where PyTorch wants one: TypeError, as in PyTorch, outside scripts, in them and in traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import treadle.compat.torch as torch

UNARY = [
    "relu", "neg", "abs", "sqrt", "exp", "log", "sin", "tanh", "sigmoid", "erf", "isnan", "logical_not", "floor",
    "round", "square", "sum", "mean", "max", "argmax", "softmax", "sort", "cumsum", "permute", "count_nonzero",
]  # fmt: skip
BINARY = [
    "fmod", "maximum", "minimum", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "hypot", "matmul",
    "mm",
]  # fmt: skip
NUMBER_FIRST = ["add", "sub", "mul", "div", "floor_divide", "pow", "remainder"]
REST = {"softmax": (0,), "cumsum": (0,), "permute": ((0,),)}


def peers() -> list[Any]:
    try:
        import torch as peer
    except ImportError:
        return [torch]
    return [torch, peer]


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("value", [3, 2.5, None, "a", [1.0], np.ones(2)], ids=repr)
def test_the_operand_must_be_a_tensor(name: str, value: Any) -> None:
    for library in peers():
        for _ in range(2):
            with pytest.raises(TypeError):
                getattr(library, name)(value, *REST.get(name, ()))


def test_the_name_of_the_function_is_no_tensor_either() -> None:
    for library in peers():
        with pytest.raises(TypeError, match="must be Tensor, not str"):
            library.abs("abs")


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("value", [3, 2.5, None, "a"], ids=repr)
def test_the_first_of_two_operands_must_be_a_tensor(name: str, value: Any) -> None:
    for library in peers():
        with pytest.raises(TypeError):
            getattr(library, name)(value, library.ones(2))


@pytest.mark.parametrize("name", NUMBER_FIRST)
def test_arithmetic_takes_numbers_but_nothing_else(name: str) -> None:
    for library in peers():
        function = getattr(library, name)
        assert function(3, library.ones(2)).tolist() == function(library.full((2,), 3.0), library.ones(2)).tolist()
        for value in (None, "a", [1.0]):
            for operands in ((value, library.ones(2)), (library.ones(2), value)):
                with pytest.raises(TypeError):
                    function(*operands)


def test_scripts_and_traces_refuse_them_too() -> None:
    @torch.jit.script
    def call(x: Any, y: Any) -> Any:
        return torch.relu(y) + x

    with pytest.raises(TypeError, match=r"relu\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        call(torch.ones(2), 3)
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        torch.jit.trace(lambda x: torch.relu(3) + x, torch.ones(2))


def test_operators_take_arrays_on_both_sides() -> None:
    x = torch.tensor([1.0, 2.0])
    array = np.array([3.0, 5.0], np.float32)
    assert (x - array).tolist() == [-2, -3]
    assert (x < array).tolist() == [True, True]


def test_nan_to_num_may_be_told_its_default() -> None:
    x = [float("nan"), float("inf"), 1.0]
    for library in peers():
        assert library.nan_to_num(library.tensor(x), None, 7.0).tolist() == [0, 7, 1]


ODD_CREATIONS: dict[str, tuple[type[Exception], Callable[[Any], Any]]] = {
    "a size of text": (TypeError, lambda t: t.zeros("a")),
    "sizes of text": (TypeError, lambda t: t.ones((2, "a"))),
    "None as a size": (TypeError, lambda t: t.full((2, None), 1.0)),
    "an end of text": (TypeError, lambda t: t.arange("a")),
    "a start of None": (TypeError, lambda t: t.arange(None, 3)),
    "a step of text": (TypeError, lambda t: t.arange(0, 3, "a")),
    "a filling of text": (TypeError, lambda t: t.full((2,), "a")),
    "a filling of None": (TypeError, lambda t: t.full((2,), None)),
    "rows of two lengths": (ValueError, lambda t: t.tensor([[1], [1, 2]])),
}


@pytest.mark.parametrize("name", ODD_CREATIONS)
def test_creations_raise_what_pytorch_raises(name: str) -> None:
    kind, make = ODD_CREATIONS[name]
    for library in peers():
        with pytest.raises(kind) as caught:
            make(library)
        assert "int()" not in str(caught.value)
        assert "convert" not in str(caught.value)
