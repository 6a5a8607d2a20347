"""Facts that assume nothing: a question about sizes that no proof settles is answered both ways, in turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from treadle.errors import KernelError, LimitError, ShapeError
from treadle.graph.dim import Atom, DimExpr, hint_of
from treadle.graph.facts import Facts, normal
from treadle.graph.terms import Terms
from treadle.records import dataclass

MOST_CASES = 64
"""The most combinations of answers that are tried."""

MOST_INTEGER = 1 << 63
"""The largest magnitude of an integer."""

MOST_ANSWERS = 1024
"""The most answers that are given in all these cases together."""

T = TypeVar("T")


class UndecidedError(Exception):
    """A computation needs the number that an expression is, or has too many cases. It never reaches the user."""


class _ImpossibleError(Exception):
    """No run gets here with these answers."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """An answer to a question. `is_second` says that the other one was given before."""

    holds: bool
    is_second: bool = False


class CaseAnalysis(Facts):
    """The expressions of a model whose sizes are not known and of which nothing is assumed. It records no guards."""

    def __init__(self) -> None:
        super().__init__()
        self.case = 0
        """A number that changes with each case, and between them."""
        self._script: list[_Answer] = []
        self._given: list[_Answer] | None = None
        self._answers = 0
        self._unnamed = 0
        self._silent = False
        self._broadcasts: dict[frozenset[int], DimExpr] = {}

    def unknown(self) -> DimExpr:
        """Returns a new symbol for a size of which nothing is known."""
        return self.symbol(self._new_name(), self._unnamed + 2, least=0)

    def unknown_integer(self) -> DimExpr:
        """Returns a new symbol for an integer of which nothing is known."""
        return self.symbol(self._new_name(), self._unnamed + 2, least=-MOST_INTEGER, most=MOST_INTEGER)

    def _new_name(self) -> str:
        while (name := f"?{self._unnamed}") in self.symbols:
            self._unnamed += 1
        return name

    @contextmanager
    def without_questions(self) -> Iterator[None]:
        """Raise UndecidedError in the block where a question has no certain answer, in place of trying both."""
        before, self._silent = self._silent, True
        try:
            yield
        finally:
            self._silent = before

    def settled(self, size: int) -> int:
        """Returns the number that `size` can only be, in this case; `size` itself if it may be several."""
        if not isinstance(size, DimExpr):
            return size
        base, factor, constant = normal(size)
        least, most = self._bounds(base)
        return int(factor * least + constant) if least == most else size

    def results(self, compute: Callable[[], T], most: int = MOST_CASES) -> list[T]:
        """Returns the results of `compute` for all combinations of answers to its open questions that fit together.

        Args:
            compute: Computes with expressions of these facts. It is called once for each combination.
            most: The most combinations that are tried.

        Raises:
            ShapeError, LimitError, KernelError: `compute` raises one for every combination. It is that of the first
                one, which has the answers for the sample sizes.
            UndecidedError: `compute` needs a number, or there are more than `most` combinations or
                `MOST_ANSWERS` answers.
        """
        found: list[T] = []
        errors: list[Exception] = []
        self._script = []
        self._answers = 0
        for _ in range(most):
            self._given = []
            self.case += 1
            try:
                found.append(compute())
            except (ShapeError, LimitError, KernelError) as error:
                errors.append(error)
            except _ImpossibleError:
                pass
            finally:
                self._script, self._given = self._given, None
                self.case += 1
                self._assumed.clear()
                if self._learned:
                    self._learned.clear()
                    self._forget()
            while self._script and self._script[-1].is_second:
                self._script.pop()
            if not self._script:
                if errors and not found:
                    raise errors[0]
                return found
            self._script[-1] = _Answer(not self._script[-1].holds, is_second=True)
        raise UndecidedError

    def divide(self, left: int, right: int) -> int:
        """Returns left // right. No run computes what a division by 0 would give."""
        if isinstance(right, DimExpr) and right == 0:
            raise _ImpossibleError
        return super().divide(left, right)

    def is_less(self, left: float, right: float, *, or_equal: bool) -> bool:
        """Whether one real expression is less than another, in this case."""
        key = ("less_equal" if or_equal else "less", left, right)
        if key not in self._assumed:
            a, b = hint_of(left), hint_of(right)
            self._assumed[key] = self._answer(a <= b if or_equal else a < b)
        return self._assumed[key]

    def broadcast(self, left: int, right: int) -> int | None:
        """Returns the size to which two broadcast: the one that cannot be 1, else a symbol; None if they do not fit."""
        if self._can_be(left, 1) and self._can_be(right, 1):
            key = frozenset((left, right))
            if key not in self._broadcasts:
                self._broadcasts[key] = self.unknown()
            return self._broadcasts[key]
        if self._can_be(left, 1) or self._can_be(right, 1):
            return right if self._can_be(left, 1) else left
        if not self._can_be(left, right):
            return None
        return left if isinstance(right, DimExpr) else right

    def _can_be(self, left: int, right: int) -> bool:
        """Whether two sizes may be equal in this case."""
        try:
            with self.without_questions():
                return self.is_zero(self.add(left, right, -1))
        except UndecidedError:
            return True

    def pin(self, value: int) -> int:  # noqa: ARG002 - as in Facts
        """Raises UndecidedError."""
        raise UndecidedError

    def _assume(self, key: tuple[Any, ...], op: str, value: int) -> bool:
        if key not in self._assumed:
            self._assumed[key] = holds = self._answer(hint_of(value) < 0 if op == "negative" else hint_of(value) == 0)
            kind, base, limit = key
            self._learn(kind, base, limit, holds=holds)
        return self._assumed[key]

    def _answer(self, first: bool) -> bool:
        """Return the answer to a question in this case; `first`, that for the sample sizes, in the first case."""
        if self._given is None or self._silent or self._answers == MOST_ANSWERS:
            raise UndecidedError
        self._answers += 1
        place = len(self._given)
        self._given.append(self._script[place] if place < len(self._script) else _Answer(first))
        return self._given[-1].holds

    def _narrow(self, base: Terms[Atom], least: float, most: float) -> None:
        """Keep the bounds of expressions, which outlive the case."""

    def _size(self, terms: Terms[Atom]) -> int:
        try:
            return super()._size(terms)
        except LimitError:
            raise UndecidedError from None
