"""Conditions of exported programs are computed as PyTorch computes them, and never run as code."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (scripts/test_torch installs and uses it)")

from treadle.errors import ShapeError
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.conditions import Conditions
from treadle.graph.facts import Facts

PATHS = {"['x']": "x", "['y'][0]": "y_0"}
SHAPES = {"x": (6, 4), "y_0": (3,)}


@pytest.mark.parametrize(
    "text",
    [
        "L['x'].size()[0] == 2*L['y'][0].size()[0]",
        "math.trunc(0.5*torch.sym_float(L['x'].size()[0])) == 3 and not L['x'].size()[1] < 4",
        "4 <= Max(L['x'].size()[0] % 4, L['x'].size()[1]) <= 9",
        "(L['x'].size()[0] // 4 if L['x'].size()[1] > 1 else -1) != 0",
    ],
)
def test_conditions_that_hold(text: str) -> None:
    """
    Relations, arithmetic and PyTorch's functions.
    """
    Conditions([text], PATHS).check(SHAPES)
    with pytest.raises(ShapeError, match="except where not"):
        Conditions([f"not ({text})"], PATHS).check(SHAPES)


def test_conditions_about_broadcasting_are_no_conditions() -> None:
    """
    PyTorch's exporter takes every size to be neither 0 nor 1; a program runs for these all the same.
    """
    Conditions(["L['x'].size()[0] // 6 != 1", "1 != L['x'].size()[1] - 3"], PATHS).check(SHAPES)


def test_unknown_sizes_are_assumed() -> None:
    """
    What no proof settles becomes a guard of the plan.
    """
    facts = Facts()
    size = facts.symbol("n", 6)
    Conditions(["L['x'].size()[0] % 3 == 0", "L['x'].size()[0] >= 1"], PATHS).check({"x": (size, 4)})

    assert [str(guard) for guard in facts.guards] == ["n == 3*(n//3)"]


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "L['x'].size().__class__",
        "L['z'].size()[0] == 1",
        "L['x'].size()[7] == 1",
        "[1 for _ in L]",
        "2 ** 10 ** 9 == L['x'].size()[0]",
        "2" + " ** 64" * 3 + " == 1",
        "(" * 900 + "9" + "**64)" * 900 + " > 1",
        "2.0 ** 64 ** 2 > 1",
        "L['x'].size()[0] // 0 == 1",
        "L['x'].size()[0] ** -1 % 0.0 == 1",
        "(-8) ** 0.5 < 1",
        "not " * 1000 + "True",
        "L['x'].size",
        "'x' == 2",
        "((" * 1000,
        "1" + "+1" * 5000,
    ],
)
def test_other_code_is_refused(text: str) -> None:
    """
    Nothing of it is run.
    """
    with pytest.raises(Unsupported):
        Conditions([text], PATHS).check(SHAPES)
