"""Scalar programs: what an elementwise chain or a fused epilogue does to each element.

An Expr is straight-line code over scalars. Values are numbered: first the operands, then the result
of each step. The same record is the body of an `elementwise` node (operands broadcast to the node's
output shape) and the epilogue of a producing op (operand 0 is the producer's result, the rest are extra
inputs of the node that broadcast to its output shape).
"""

from treadle.dtypes import DType
from treadle.records import dataclass

Number = float | int | bool


@dataclass(frozen=True, slots=True)
class Step:
    """One scalar operation: `op` applied to the values numbered `args`, giving a `dtype`.

    `op` is a name of `ops.elementwise.SCALAR_OPS`, or `const` (no args, result `value`), or `cast`; in kernel specs
    also `given` (no args): the scalar argument number `value` of the call.
    """

    op: str
    args: tuple[int, ...]
    dtype: DType
    value: Number | None = None


@dataclass(frozen=True, slots=True)
class Expr:
    """A scalar program: operand dtypes, steps, and the numbers of the values it returns."""

    operands: tuple[DType, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def dtype(self, number: int) -> DType:
        """The dtype of the value `number`."""
        if number < len(self.operands):
            return self.operands[number]
        return self.steps[number - len(self.operands)].dtype

    def __str__(self) -> str:
        operands = ", ".join(f"v{i}: {dtype}" for i, dtype in enumerate(self.operands))
        first = len(self.operands)
        steps = [
            f"v{first + i}: {step.dtype} = "
            + (repr(step.value) if step.op == "const" else f"{step.op}({', '.join(f'v{a}' for a in step.args)})")
            for i, step in enumerate(self.steps)
        ]
        return f"({operands}) {{ {'; '.join([*steps, 'return ' + ', '.join(f'v{r}' for r in self.results)])} }}"


def compose(producer: Expr, consumer: Expr, at: int) -> Expr:
    """`consumer` with its operand number `at` replaced by `producer`'s (single) result.

    The operands of the composition are the producer's, then the consumer's without number `at`.
    """
    shift = len(producer.operands)
    rest = [i for i in range(len(consumer.operands)) if i != at]
    operands = producer.operands + tuple(consumer.operands[i] for i in rest)
    grown = len(rest)
    number: dict[int, int] = {old: shift + new for new, old in enumerate(rest)}

    def of_producer(value: int) -> int:
        return value if value < shift else value + grown

    number[at] = of_producer(producer.results[0])
    first = len(operands) + len(producer.steps)
    for i in range(len(consumer.steps)):
        number[len(consumer.operands) + i] = first + i
    steps = tuple(Step(s.op, tuple(of_producer(a) for a in s.args), s.dtype, s.value) for s in producer.steps) + tuple(
        Step(s.op, tuple(number[a] for a in s.args), s.dtype, s.value) for s in consumer.steps
    )
    return Expr(operands, steps, tuple(number[r] for r in consumer.results))


def cast_result(expr: Expr, index: int, dtype: DType) -> Expr:
    """`expr` with its result `index` cast to `dtype`."""
    step = Step("cast", (expr.results[index],), dtype)
    results = list(expr.results)
    results[index] = len(expr.operands) + len(expr.steps)
    return Expr(expr.operands, (*expr.steps, step), tuple(results))


def cast_operand(expr: Expr, index: int, dtype: DType) -> Expr:
    """`expr` for an operand `index` that comes as `dtype`, cast to what it was before anything reads it."""
    first = len(expr.operands)

    def number(old: int) -> int:
        return first if old == index else old + (old >= first)

    operands = (*expr.operands[:index], dtype, *expr.operands[index + 1 :])
    cast = Step("cast", (index,), expr.operands[index])
    steps = tuple(Step(s.op, tuple(number(a) for a in s.args), s.dtype, s.value) for s in expr.steps)
    return Expr(operands, (cast, *steps), tuple(number(r) for r in expr.results))
