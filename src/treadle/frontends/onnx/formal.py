"""Formal operands and results of operators, as their schemas declare them."""

from treadle.records import dataclass


@dataclass(frozen=True, slots=True)
class Formal:
    """A formal operand or result: its name, its types (`tensor(float)`, ...), and the type variable it shares."""

    name: str
    variable: str
    types: frozenset[str]
    optional: bool
    variadic: bool
    homogeneous: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """An operator's schema as plain Python data, because reading schemas is slow."""

    name: str
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    min_inputs: int
    max_inputs: int
    min_outputs: int
    max_outputs: int
    attributes: dict[str, int]
    required: frozenset[str]
    deprecated: bool
    since: int

    def input(self, index: int) -> Formal:
        """The formal operand at `index`; the last one repeats if it is variadic."""
        return self.inputs[min(index, len(self.inputs) - 1)]

    def output(self, index: int) -> Formal:
        """The formal result at `index`; the last one repeats if it is variadic."""
        return self.outputs[min(index, len(self.outputs) - 1)]
