"""Questions about sizes are answered both ways, and nothing is assumed."""

from __future__ import annotations

import pytest

from treadle.errors import ShapeError
from treadle.graph.case_analysis import MOST_ANSWERS, MOST_CASES, CaseAnalysis, UndecidedError
from treadle.graph.dim import DimExpr
from treadle.graph.shape import StaticShape, broadcast


def test_proved_questions_have_one_case() -> None:
    """What follows from bounds and canonical forms is not asked."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    assert facts.results(lambda: (n >= 0, n + n == 2 * n, n + 1 != 0)) == [(True, True, True)]


def test_an_open_question_has_two_cases() -> None:
    """Also where the sample size answers it; no answer contradicts the ones before."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    assert sorted(facts.results(lambda: "some" if n > 3 else "few")) == ["few", "some"]
    assert sorted(facts.results(lambda: (n > 3, n > 5, n == 4))) == [
        (False, False, False),
        (True, False, False),
        (True, False, True),
        (True, True, False),
    ]


def test_a_case_leaves_nothing_behind() -> None:
    """No guards, no bounds, and expressions that are made in a case are good for all."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    before = facts.results(lambda: [n + 1 if n == 7 else (n + 8) // 2, n == 7])
    assert facts.results(lambda: [n + 1 if n == 7 else (n + 8) // 2, n == 7]) == before
    assert facts.guards == []
    assert (n.least, sorted(facts.results(lambda: n > 0))) == (0, [False, True])


def test_cases_that_fail_do_not_count_while_one_fits() -> None:
    """Shapes that broadcast in some cases do so in every run that succeeds; others never do."""
    facts = CaseAnalysis()
    n, m = facts.symbol("n", 7, least=0), facts.symbol("m", 8, least=0)

    def shapes(left: StaticShape, right: StaticShape) -> list[StaticShape]:
        return facts.results(lambda: broadcast(left, right))

    assert shapes((n, 3), (5, 3)) == [(5, 3), (5, 3)]
    assert len(shapes((n,), (m,))) == 3
    with pytest.raises(ShapeError, match="do not broadcast: 3 and 4"):
        shapes((n, 3), (m, 4))


def test_a_division_tells_that_its_divisor_is_not_0() -> None:
    """The case in which it is 0 is left out."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    assert facts.results(lambda: (2 * n // n, n == 0)) == [(2, False)]


def test_a_number_that_must_be_known_cannot_be_had() -> None:
    """Neither the sample size nor any other number stands for an expression."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)
    for compute in (lambda: int(n), lambda: [0] * n, lambda: list(range(n)), lambda: float(n / 3)):
        with pytest.raises(UndecidedError):
            facts.results(compute)
    with pytest.raises(UndecidedError):
        bool(n == 7)


def test_cases_are_limited() -> None:
    """As many questions as a model likes do not take exponential time."""
    facts = CaseAnalysis()
    symbols = [facts.symbol(f"n{i}", 7, least=0) for i in range(40)]
    asked = []

    def ask() -> None:
        asked.append(1)
        assert all(symbol == 7 or True for symbol in symbols)

    with pytest.raises(UndecidedError):
        facts.results(ask)
    assert len(asked) == MOST_ANSWERS // len(symbols) + 1
    asked.clear()
    symbols = symbols[:10]
    with pytest.raises(UndecidedError):
        facts.results(ask)
    assert len(asked) == MOST_CASES


def test_unknown_sizes_are_distinct() -> None:
    """Also from symbols of the model."""
    facts = CaseAnalysis()
    sizes: list[DimExpr] = [facts.symbol("unknown0", 7, least=0), facts.unknown(), facts.unknown()]
    assert len(set(map(str, sizes))) == 3


def test_what_a_case_settles_is_known_as_a_number_in_it() -> None:
    """Behind the case the size is open again."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)

    def compute() -> tuple[bool, int, int]:
        holds = n == 4
        return holds, facts.settled(n), facts.settled(2 * n + 1)

    (first, *rest), other = facts.results(compute)
    assert (first, rest) == (True, [4, 9])
    assert other[1] is n
    assert facts.settled(n) is n


def test_a_block_without_questions_tries_no_cases() -> None:
    """What is certain is answered there."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=2)

    def compute() -> tuple[bool, bool]:
        with facts.without_questions():
            certain = n >= 1
            try:
                return certain, n == 3
            except UndecidedError:
                return certain, False

    assert facts.results(compute) == [(True, False)]


def test_an_integer_of_which_nothing_is_known_may_be_negative() -> None:
    """A size may not."""
    facts = CaseAnalysis()
    number, size = facts.unknown_integer(), facts.unknown()
    assert facts.results(lambda: number < 0) == [True, False]
    assert facts.results(lambda: size < 0) == [False]
