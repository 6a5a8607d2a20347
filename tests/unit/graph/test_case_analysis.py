"""Questions about sizes are answered both ways, and nothing is assumed."""

from __future__ import annotations

from functools import partial

import pytest

from treadle.errors import ShapeError
from treadle.graph.case_analysis import MOST_ANSWERS, MOST_CASES, CaseAnalysis, UndecidedError
from treadle.graph.dim import DimExpr, minimum
from treadle.graph.facts import Facts
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


def test_what_follows_from_a_case_is_not_taken_for_another() -> None:
    """Extremes and quotients are simplified by what a case has answered, and only there."""
    facts = CaseAnalysis()
    n, m = facts.symbol("n", 7, least=0), facts.symbol("m", 2, least=0)

    def compute() -> tuple[bool, object]:
        few = n < 5
        return few, minimum(n, 5) if m > 3 else minimum(5, n)

    assert {(few, str(size)) for few, size in facts.results(compute)} == {(True, "n"), (False, "5")}
    assert str(minimum(n, 5)) == str(minimum(5, n)) == "min(n, 5)"


def test_what_is_assumed_later_simplifies_what_was_computed_before() -> None:
    """Results that are kept do not hide what a guard has taught."""
    facts = Facts()
    n = facts.symbol("n", 7, least=0)
    assert str(minimum(n, 50)) == "min(n, 50)"
    assert n < 20
    assert minimum(n, 50) is n


def test_cases_that_fail_do_not_count_while_one_fits() -> None:
    """What fits in some cases does so in every run that succeeds; what never does raises."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)

    def kind(most: int) -> str:
        if n > most:
            raise ShapeError("too many")
        return "some" if n > 2 else "few"

    assert sorted(facts.results(lambda: kind(4))) == ["few", "some"]
    with pytest.raises(ShapeError, match="too many"):
        facts.results(lambda: kind(-1))


@pytest.mark.parametrize("most", [3, 30])
def test_an_error_is_that_of_the_sample_sizes(most: int) -> None:
    """Not one of a case that they are not in."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)

    def fail() -> None:
        raise ShapeError("many" if n > most else "few")

    with pytest.raises(ShapeError, match="many" if most == 3 else "few"):
        facts.results(fail)


def test_shapes_broadcast_without_questions() -> None:
    """To the size that cannot be 1, or to a symbol, the same one each time; what cannot fit raises."""
    facts = CaseAnalysis()
    n, m = facts.symbol("n", 7, least=0), facts.symbol("m", 8, least=0)

    def broadcast_once(*shapes: StaticShape) -> StaticShape:
        (found,) = facts.results(lambda: broadcast(*shapes))
        return found

    assert broadcast_once((n, 3), (5, 3)) == (5, 3)
    assert broadcast_once((n, 1, n), (n, m, 1)) == (n, m, n)
    assert broadcast_once((n + 2,), (m,))[0] is n + 2
    assert broadcast_once((n + 2,), (5,)) == (5,)
    assert broadcast_once((n,), (0,)) == (0,)
    (both,) = broadcast_once((n,), (m,))
    assert both is broadcast_once((m,), (n,))[0]
    assert both not in {n, m}
    for left, right in (((n, 3), (m, 4)), ((n + 2,), (n + 3,)), ((n + 6,), (5,))):
        with pytest.raises(ShapeError, match="do not broadcast"):
            facts.results(partial(broadcast, left, right))


def test_as_many_axes_broadcast_as_there_are() -> None:
    """Their answers do not multiply."""
    facts = CaseAnalysis()
    left, right = (tuple(facts.unknown() for _ in range(12)) for _ in range(2))
    assert len(facts.results(lambda: broadcast(left, right))) == 1


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
    sizes: list[DimExpr] = [facts.symbol("?0", 7, least=0), facts.unknown(), facts.unknown()]
    assert len(set(map(str, sizes))) == 3


def test_what_a_case_settles_is_known_as_a_number_in_it() -> None:
    """Behind the case the size is open again."""
    facts = CaseAnalysis()
    n = facts.symbol("n", 7, least=0)

    def compute() -> tuple[bool, int, int]:
        holds = n == 4
        return holds, facts.settled(n), facts.settled(2 * n + 1)

    other, (first, *rest) = facts.results(compute)
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
    assert facts.results(lambda: number < 0) == [False, True]
    assert facts.results(lambda: size < 0) == [False]
