"""What is known and assumed of the sizes of one model: canonical forms, bounds, guards."""

from __future__ import annotations

import math
from typing import Any

from treadle.errors import LimitError
from treadle.graph import terms as polynomials
from treadle.graph.dim import Atom, DimExpr, RealExpr, hint_of
from treadle.graph.guard import REAL_OPS, ROUNDINGS, Guard
from treadle.graph.reals import fraction_of
from treadle.graph.terms import Terms, bounds_of, common_number, common_product, constant_of, divided, ordered, split

MOST_TERMS = 256
"""A sum of more terms is refused: products of long sums grow without bound."""

MOST_ELEMENTS = 1 << 40
"""The upper bound of a symbol: no tensor has more elements along an axis."""


class Facts:
    """The expressions of one model and what was assumed of them. Implements `dim.Rules`.

    Every decision that no proof settles is taken as it is for the sample sizes (`hint`) and recorded in `guards`; one
    that implies an older guard replaces it. `decisions` are all of them, in the order in which they were taken.
    """

    def __init__(self) -> None:
        self.symbols: dict[str, DimExpr] = {}
        self.guards: list[Guard] = []
        self.decisions: list[Guard] = []
        self._expressions: dict[Terms[Atom], DimExpr] = {}
        self._atoms: dict[tuple[Any, ...], Atom] = {}
        self._reals: dict[tuple[Any, ...], RealExpr] = {}
        self._assumed: dict[tuple[Any, ...], bool] = {}
        self._learned: dict[Terms[Atom], tuple[float, float]] = {}
        self._limits: dict[tuple[Terms[Atom], bool], Guard] = {}
        self._sums: dict[tuple[int, int, int], int] = {}
        self._products: dict[tuple[int, int], int] = {}
        self._quotients: dict[tuple[int, int], int] = {}
        self._extremes: dict[tuple[str, tuple[int, ...]], int] = {}
        self._rests: dict[Terms[Atom], int | None] = {}
        self._refined: dict[Terms[Atom], tuple[float, float]] = {}

    def symbol(self, name: str, hint: int, *, least: float = 1, most: float = MOST_ELEMENTS) -> DimExpr:
        """Returns the symbol `name`, new or as it was made: a size from `least` to `most`.

        Args:
            name: Its name in the model.
            hint: The sample size by which decisions are taken.
            least: Its lower bound. A plan is valid only for sizes that are not below it.
            most: Its upper bound. A plan is valid only for sizes that are not above it.
        """
        if name not in self.symbols:
            atom = self._atom("symbol", (name,), hint, least, most)
            atom.symbol = self.symbols[name] = self._single(atom)
        return self.symbols[name]

    def add(self, left: int, right: int, times: int = 1) -> int:
        """Returns left + times * right."""
        key = left, right, times
        found = self._sums.get(key)
        if found is None:
            found = self._sums[key] = self._size(polynomials.added(_terms(left), _terms(right), times))
        return found

    def multiply(self, left: int, right: int) -> int:
        """Returns left * right."""
        key = left, right
        found = self._products.get(key)
        if found is None:
            found = self._products[key] = self._size(polynomials.multiplied(_terms(left), _terms(right)))
        return found

    def divide(self, left: int, right: int) -> int:
        """Returns left // right, with Python's rounding. Raises ZeroDivisionError if `right` is 0."""
        if not isinstance(right, DimExpr) and right == 0:
            raise ZeroDivisionError(f"{left} is divided by 0")
        if right == 0:
            raise ZeroDivisionError(f"{left} is divided by {right}, which is 0 for the sample sizes")
        key = left, right
        found = self._quotients.get(key)
        if found is None:
            found = self._quotients[key] = self._divided(_terms(left), _terms(right))
        return found

    def _divided(self, terms: Terms[Atom], divisor: Terms[Atom]) -> int:
        if divisor[0][1] < 0:
            terms, divisor = polynomials.added((), terms, -1), polynomials.added((), divisor, -1)
        if len(divisor) == 1 and not divisor[0][0]:
            return self._divide_by_number(terms, divisor[0][1])
        return self._divide_by_expression(terms, divisor)

    def _divide_by_number(self, terms: Terms[Atom], number: int) -> int:
        """floor((number * q + r) / number) = q + floor(r / number)."""
        if number == 1:
            return self._size(terms)
        quotient, rest = {}, {}
        for product, times in terms:
            quotient[product] = times // number if times > 0 or not product else -(-times // number)
            rest[product] = times - number * quotient[product]
        return self._quotient(ordered(quotient), ordered(rest), (((), number),))

    def _divide_by_expression(self, terms: Terms[Atom], divisor: Terms[Atom]) -> int:
        both = (*terms, *divisor)
        shared, number = common_product(both), common_number(both)
        least = min((atom.least for atom in shared), default=1)
        if least < 1:
            shared = ()
        if shared or number > 1:
            terms, divisor = divided(terms, shared, number), divided(divisor, shared, number)
            if len(divisor) == 1 and not divisor[0][0]:
                return self._divide_by_number(terms, divisor[0][1])
        quotient, rest = split(terms, divisor)
        if not rest:
            return self._size(quotient)
        return self._quotient(quotient, rest, divisor)

    def _quotient(self, quotient: Terms[Atom], rest: Terms[Atom], divisor: Terms[Atom]) -> int:
        """quotient + floor(rest / divisor)."""
        number = divisor[0][1] if len(divisor) == 1 and not divisor[0][0] else None
        least, most = bounds_of(rest)
        if number is None:
            below, _ = bounds_of(polynomials.added(divisor, rest, -1))
            if least >= 0 and below >= 1:
                return self._size(quotient)
        elif least >= 0 and most < number:
            return self._size(quotient)
        if rest[0][1] < 0 and bounds_of(divisor)[0] >= 1:  # floor(r / d) = -ceil(-r / d) = -floor((-r + d - 1) / d)
            turned = polynomials.added(polynomials.added(divisor, (((), -1),)), rest, -1)
            exact, left = split(turned, divisor)
            inner = self._floor(turned, divisor, number) if left else self._size(exact)
            return self.add(self._size(quotient), inner, -1)
        return self.add(self._size(quotient), self._floor(rest, divisor, number))

    def _floor(self, terms: Terms[Atom], divisor: Terms[Atom], number: int | None) -> int:
        if number is not None:
            constant = constant_of(terms)
            inner = polynomials.without_constant(terms)
            shared = math.gcd(common_number(inner), number)
            if shared > 1:  # floor((g x + c) / (g d)) = floor((x + floor(c / g)) / d)
                terms = polynomials.added(divided(inner, (), shared), (((), constant // shared),))
                number //= shared
                divisor = (((), number),)
                if number == 1:
                    return self._size(terms)
                if any(abs(times) >= number for _, times in terms):
                    return self._divide_by_number(terms, number)
            flat = _nested(terms)
            if flat is not None:  # floor((floor(x / a) + c) / b) = floor((x + a c) / (a b))
                inside, by, plus = flat
                return self.divide(self.add(inside, by * plus), by * number)
        low, high = bounds_of(terms)
        by = self._size(divisor)
        numerator = self._size(terms)
        least: float = -math.inf
        most: float = math.inf
        if not isinstance(by, DimExpr):
            least = low // by if math.isfinite(low) else low
            most = high // by if math.isfinite(high) else high
        elif low >= 0 and by.least >= 1:
            beyond, _ = bounds_of(polynomials.added(terms, divisor, -1))
            least, most = int(beyond >= 0), high
        if not isinstance(numerator, DimExpr) and not isinstance(by, DimExpr):
            return numerator // by
        hint = _hint(numerator) // (_hint(by) or 1)  # 0: in a case that differs from the sample sizes
        return self._single(self._atom("floordiv", (numerator, by), hint, least, most))

    def extreme(self, op: str, sizes: tuple[int, ...]) -> int:
        """Returns the smallest (`op` "min") or largest ("max") of `sizes`. Nothing is assumed."""
        key = op, sizes
        found = self._extremes.get(key)
        if found is None:
            found = self._extremes[key] = self._extreme(op, sizes)
        return found

    def _extreme(self, op: str, sizes: tuple[int, ...]) -> int:
        nested = [(size, _only_atom(size)) for size in sizes]
        flat = [atom.args if atom is not None and atom.op == op else (size,) for size, atom in nested]
        candidates: list[int] = list(dict.fromkeys(size for group in flat for size in group))
        kept: list[int] = []
        for place, size in enumerate(candidates):
            if any(self._precedes(op, other, size) for other in candidates[:place]):
                continue
            kept = [other for other in kept if not self._precedes(op, size, other)]
            kept.append(size)
        if len(kept) == 1:
            return kept[0]
        kept.sort(key=lambda size: [[atom.serial for atom in product] + [number] for product, number in _terms(size)])
        lows, highs = [_least(size) for size in kept], [_most(size) for size in kept]
        choose = min if op == "min" else max
        atom = self._atom(op, tuple(kept), choose(map(_hint, kept)), choose(lows), choose(highs))
        return self._single(atom)

    def _precedes(self, op: str, left: int, right: int) -> bool:
        difference = self.add(right, left, -1) if op == "min" else self.add(left, right, -1)
        return self._least(difference) >= 0

    def real(self, op: str, *args: float) -> float:
        """Returns the real expression of `op`, a name in REAL_OPS."""
        if op == "div" and isinstance(args[0], DimExpr):
            quotient = self._exact_quotient(args[0], args[1])
            if quotient is not None:
                return quotient
        operands = tuple(arg if isinstance(arg, DimExpr | RealExpr) else float(arg) for arg in args)
        key = (op, *operands)
        if key not in self._reals:
            self._reals[key] = RealExpr(self, op, operands, float(REAL_OPS[op](*map(hint_of, operands))))
        return self._reals[key]

    def _exact_quotient(self, size: DimExpr, divisor: float) -> float | None:
        """The quotient of two sizes of which one is a multiple of the other; None if it is not."""
        if isinstance(divisor, float | RealExpr) or divisor == 0:
            return None
        quotient, rest = split(size.terms, _terms(divisor))
        if rest:
            return None
        exact = self._size(quotient)
        return exact if isinstance(exact, DimExpr) else float(exact)

    def rounded(self, op: str, value: float) -> int:
        """Returns `value` rounded by `op` ("floor", "ceil" or "round")."""
        fraction = fraction_of(value)
        if fraction is not None and op != "round":
            size, divisor = fraction
            return self.divide(size, divisor) if op == "floor" else -self.divide(-size, divisor)
        sample = hint_of(value)
        hint = ROUNDINGS[op](sample) if math.isfinite(sample) else 0  # no plan is bound where it is infinite
        return self._single(self._atom(op, (value,), hint, -math.inf, math.inf))

    def call(self, op: str, args: tuple[Any, ...], hint: int, least: float) -> int:
        """Returns what the native function `op` gives for `args` at binding: `hint` for the sample sizes."""
        return self._single(self._atom(op, args, hint, least, math.inf))

    def is_zero(self, value: int) -> bool:
        """Whether `value` is 0: proved, or assumed by a guard."""
        if not isinstance(value, DimExpr):
            return value == 0
        if value.least > 0 or value.most < 0:
            return False
        base, factor, constant = normal(value)
        least, most = self._bounds(base)
        wanted = -(constant // factor)
        if constant % factor or not least <= wanted <= most:
            return False
        if least == most:
            return True
        rest = self._chosen(base) if wanted == 0 else None
        if rest is not None:
            return not self.is_negative(rest)
        return self._assume(("zero", base, wanted), "zero", self.add(self._size(base), wanted, -1))

    def is_known_zero(self, value: int) -> bool:
        """Whether `value` is proved to be 0, or was assumed to be."""
        if not isinstance(value, DimExpr):
            return value == 0
        if value.least > 0 or value.most < 0:
            return False
        base, factor, constant = normal(value)
        return constant % factor == 0 and self._bounds(base) == (-(constant // factor),) * 2

    def is_negative(self, value: int) -> bool:
        """Whether `value` is below 0: proved, or assumed by a guard."""
        if not isinstance(value, DimExpr):
            return value < 0
        if value.least >= 0 or value.most < 0:
            return value.most < 0
        # factor * base + constant < 0: base < limit, or not, if the factor is negative
        base, factor, constant = normal(value)
        limit = -(constant // factor) if factor > 0 else constant // -factor + 1
        return self._is_below(base, limit) == (factor > 0)

    def _is_below(self, base: Terms[Atom], limit: int) -> bool:
        least, most = self._bounds(base)
        if most < limit or least >= limit:
            return most < limit
        atom = _single_atom(base)
        if atom is not None and atom.op == "floordiv" and not isinstance(atom.args[1], DimExpr):
            # floor(x / d) < limit if x < limit * d: learned of x, this settles questions about other quotients of x.
            return self.is_negative(self.add(atom.args[0], limit * atom.args[1], -1))
        return self._assume(("below", base, limit), "negative", self.add(self._size(base), limit, -1))

    def is_less(self, left: float, right: float, *, or_equal: bool) -> bool:
        """Whether one real expression is less than another: assumed by a guard."""
        op = "less_equal" if or_equal else "less"
        key = (op, left, right)
        if key not in self._assumed:
            a, b = hint_of(left), hint_of(right)
            self._assumed[key] = holds = a <= b if or_equal else a < b
            guard = Guard(op, left, right, holds)
            self.guards.append(guard)
            self.decisions.append(guard)
        return self._assumed[key]

    def broadcast(self, left: int, right: int) -> int | None:  # noqa: ARG002 - as in dim.Rules
        """Returns None: which of two sizes is 1 is assumed, by a guard."""
        return None

    def pin(self, value: int) -> int:
        """Returns the number that `value` is for the sample sizes, and assumes that it is."""
        assert isinstance(value, DimExpr)
        if not self.is_zero(self.add(value, value.hint, -1)):
            raise AssertionError(f"{value} is not its own sample")
        return value.hint

    def _bounds(self, base: Terms[Atom]) -> tuple[float, float]:
        least, most = self._refined_bounds(base)
        learned = self._learned.get(base)
        if learned is not None:
            least, most = max(least, learned[0]), min(most, learned[1])
        rest = self._chosen(base)
        return (0, 0) if rest is not None and self._least(rest) >= 0 else (least, most)

    def _least(self, size: int) -> float:
        if not isinstance(size, DimExpr):
            return size
        base, factor, constant = normal(size)
        least, most = self._bounds(base)
        return factor * (least if factor > 0 else most) + constant

    def _assume(self, key: tuple[Any, ...], op: str, value: int) -> bool:
        if key not in self._assumed:
            kind, base, limit = key
            hint = _hint(value)
            self._assumed[key] = holds = hint == 0 if op == "zero" else hint < 0
            guard = Guard(op, value, 0, holds)
            self.decisions.append(guard)
            weaker = self._limits.get((base, holds)) if kind == "below" else None
            if kind == "below":
                self._limits[base, holds] = guard
            if weaker is None:
                self.guards.append(guard)
            else:  # guards behind it may divide by what it keeps from being 0
                self.guards[next(i for i, each in enumerate(self.guards) if each is weaker)] = guard
            self._learn(kind, base, limit, holds=holds)
        return self._assumed[key]

    def _learn(self, kind: str, base: Terms[Atom], limit: int, *, holds: bool) -> None:
        """Note that `base` is ("zero") or is below ("below") `limit`, or that it is not."""
        least, most = self._bounds(base)
        if kind == "zero" and holds:
            least = most = limit
        elif kind == "zero":
            least, most = least + (least == limit), most - (most == limit)
        elif holds:
            most = limit - 1
        else:
            least = limit
        self._learned[base] = least, most
        self._forget()
        self._narrow(base, least, most)

    def _forget(self) -> None:
        """Compute again what bounds decide: more or less is known of them."""
        self._quotients.clear()
        self._extremes.clear()

    def _narrow(self, base: Terms[Atom], least: float, most: float) -> None:
        """Give these bounds to expressions that are made of `base` from now on."""
        atom = _single_atom(base)
        if atom is not None:
            size = self._single(atom)
            atom.least, atom.most = size.least, size.most = least, most
            self._refined.clear()

    def _chosen(self, base: Terms[Atom]) -> int | None:
        if base not in self._rests:
            self._rests[base] = _chosen(base)
        return self._rests[base]

    def _refined_bounds(self, terms: Terms[Atom]) -> tuple[float, float]:
        if terms not in self._refined:
            self._refined[terms] = _refined_bounds(terms)
        return self._refined[terms]

    def _atom(self, op: str, args: tuple[Any, ...], hint: int, least: float, most: float) -> Atom:
        key = (op, *args)
        if key not in self._atoms:
            self._atoms[key] = Atom(len(self._atoms), op, args, hint, least, most)
        return self._atoms[key]

    def _single(self, atom: Atom) -> DimExpr:
        size = self._size((((atom,), 1),))
        assert isinstance(size, DimExpr)
        return size

    def _size(self, terms: Terms[Atom]) -> int:
        if not terms:
            return 0
        if len(terms) == 1 and not terms[0][0]:
            return terms[0][1]
        if terms not in self._expressions:
            if len(terms) > MOST_TERMS:
                raise LimitError(f"a size is a sum of {len(terms)} terms; at most {MOST_TERMS} are allowed")
            hint = sum(number * math.prod(atom.hint for atom in product) for product, number in terms)
            self._expressions[terms] = DimExpr(self, terms, hint, self._refined_bounds(terms))
        return self._expressions[terms]


def _terms(size: int) -> Terms[Atom]:
    if isinstance(size, DimExpr):
        return size.terms
    number = int(size)
    return (((), number),) if number else ()


def _hint(size: int) -> int:
    return size.hint if isinstance(size, DimExpr) else size


def _least(size: int) -> float:
    return size.least if isinstance(size, DimExpr) else size


def _most(size: int) -> float:
    return size.most if isinstance(size, DimExpr) else size


def _only_atom(size: int) -> Atom | None:
    return _single_atom(size.terms) if isinstance(size, DimExpr) else None


def _single_atom(terms: Terms[Atom]) -> Atom | None:
    if len(terms) == 1 and terms[0][1] == 1 and len(terms[0][0]) == 1:
        return terms[0][0][0]
    return None


def _chosen(base: Terms[Atom]) -> int | None:
    """y - x if the sum is x - min(x, y), x - y if it is x - max(x, y), or the opposite sum; else None."""
    for product, number in base:
        atom = product[0] if len(product) == 1 and abs(number) == 1 else None
        if atom is None or atom.op not in ("min", "max") or len(atom.args) != 2:
            continue
        rest = polynomials.added((), polynomials.added(base, ((product, number),), -1), -number)
        for size, other in (atom.args, atom.args[::-1]):
            if _terms(size) == rest:
                found: int = other - size if atom.op == "min" else size - other
                return found
    return None


def _refined_bounds(terms: Terms[Atom]) -> tuple[float, float]:
    """Bounds of the sum: also those that follow from what minima, maxima and quotients in it are made of."""
    least, most = bounds_of(terms)
    for product, number in terms:
        if len(product) != 1 or len(terms) == 1 or product[0].op not in ("min", "max", "floordiv"):
            continue
        atom = product[0]
        rest = polynomials.added(terms, ((product, number),), -1)
        if atom.op != "floordiv":
            found = [bounds_of(polynomials.added(rest, _terms(arg), number)) for arg in atom.args]
            if (atom.op == "min") == (number < 0):
                least = max(least, *(low for low, _ in found))
            else:
                most = min(most, *(high for _, high in found))
        elif not isinstance(atom.args[1], DimExpr):  # x - d + 1 <= d * floor(x / d) <= x
            by = atom.args[1]
            largest = polynomials.added(polynomials.added((), rest, by), _terms(atom.args[0]), number)
            smallest = polynomials.added(largest, (((), by - 1),), -number)
            low, high = (smallest, largest) if number > 0 else (largest, smallest)
            least = max(least, _divided_bound(bounds_of(low)[0], by, up=True))
            most = min(most, _divided_bound(bounds_of(high)[1], by, up=False))
    return least, most


def _divided_bound(bound: float, by: int, *, up: bool) -> float:
    if math.isinf(bound):
        return bound
    return -(-bound // by) if up else bound // by


def _nested(terms: Terms[Atom]) -> tuple[int, int, int] | None:
    """(x, a, c) if `terms` are floor(x / a) + c for a number a."""
    inner = polynomials.without_constant(terms)
    if len(inner) != 1 or inner[0][1] != 1 or len(inner[0][0]) != 1:
        return None
    atom = inner[0][0][0]
    if atom.op != "floordiv" or isinstance(atom.args[1], DimExpr):
        return None
    return atom.args[0], atom.args[1], constant_of(terms)


def normal(size: DimExpr) -> tuple[Terms[Atom], int, int]:
    """Returns (base, factor, constant): size = factor * base + constant, where base's first coefficient is positive."""
    if size.normal is None:
        inner = polynomials.without_constant(size.terms)
        factor = common_number(inner) * (1 if inner[0][1] > 0 else -1)
        base = inner if factor == 1 else tuple((product, number // factor) for product, number in inner)
        size.normal = base, factor, constant_of(size.terms)
    return size.normal
