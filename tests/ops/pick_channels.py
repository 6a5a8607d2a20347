"""Cases of pick_channels."""

import numpy as np

from tests.ops.case import Case, floats, integers


def _case(name: str, picks: tuple[tuple[int, int], ...], *arrays: np.ndarray) -> Case:
    return Case(f"pick_channels/{name}", "pick_channels", {"picks": picks}, arrays)


CASES = [
    _case("one_operand", ((0, 2), (0, 0), (0, 2)), floats("a", 2, 3, 4, 5)),
    _case("interleaved", ((0, 0), (1, 0), (0, 1), (1, 1)), floats("a", 1, 2, 3, 3), floats("b", 1, 2, 3, 3)),
    _case("operands_of_different_channels", ((1, 4), (0, 0)), floats("a", 2, 1, 7), floats("b", 2, 5, 7)),
    _case("int64", ((0, 1),), integers("a", 0, 9, 3, 2)),
]
