"""Every rule of the PyTorch front end agrees with PyTorch, in exported programs and in TorchScript."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch installs and uses it)")

import treadle  # noqa: E402
from tests.unit.frontends.torch import complex_cases, loss_cases, matrix_cases, op_cases  # noqa: E402 - after the skip
from tests.unit.frontends.torch.running import Module, assert_same, run, traced  # noqa: E402
from treadle.frontends.torch.rules.complex import RULES as COMPLEX  # noqa: E402
from treadle.frontends.torch.table import RULES, VIEW_WRITES  # noqa: E402

CASES = {**op_cases.CASES, **complex_cases.CASES, **loss_cases.CASES, **matrix_cases.CASES}


@pytest.mark.parametrize("name", CASES)
def test_exported(name: str) -> None:
    """
    Each case as a module for torch.export.
    """
    function, args = CASES[name]
    session = treadle.Session(Module(function).eval(), example_inputs=args)

    assert_same(run(session, args), function(*args))


@pytest.mark.parametrize("name", CASES)
def test_traced(name: str) -> None:
    """
    Each case as a trace, whose graph is TorchScript.
    """
    function, args = CASES[name]
    session = treadle.Session(traced(function, args))

    assert_same(run(session, args), function(*args))


def test_adaptive_pools_tell_where_their_maxima_are() -> None:
    """
    Where output sizes divide those of the input.
    """
    args = (matrix_cases.MAXIMA,)

    def pooled(x):
        return torch.nn.functional.adaptive_max_pool2d(x, (4, 3), return_indices=True)

    session = treadle.Session(Module(pooled).eval(), example_inputs=args)
    assert_same(run(session, args), pooled(*args))


@pytest.mark.parametrize("function", [torch.nn.functional.hardsigmoid, torch.nn.functional.hardswish])
def test_activations_of_floats_refuse_integers_as_eager_does(function) -> None:
    """
    Integers would truncate the constants of the formula.
    """
    with pytest.raises(treadle.errors.ModelError, match="takes floating point numbers"):
        treadle.Session(Module(function).eval(), example_inputs=(torch.tensor([-3, 0, 4]),))


def test_every_line_of_the_table_is_an_aten_op() -> None:
    """
    A misspelt name would never match.
    """
    known = {schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()}
    names = {key.partition(".")[0] for key in (*RULES, *VIEW_WRITES, *COMPLEX)}

    assert names <= known
