"""Cases of inverse."""

import numpy as np

from tests.ops.case import Case, floats


def _case(name: str, *shape: int, dtype: type = np.float32, near: float = 0.0) -> Case:
    x = floats("inverse", *shape, dtype=dtype) + dtype(near) * np.eye(shape[-1], dtype=dtype)
    return Case(f"inverse/{name}", "inverse", {}, (x,))


_ZEROS_ON_THE_DIAGONAL = np.roll(np.diag(np.arange(1, 8, dtype=np.float32)), 3, axis=1)

CASES = [
    _case("one_number", 1, 1, near=2),
    _case("cameras", 5, 3, 4, 4, near=3),
    _case("a_vector_wide", 2, 16, 16, near=6),
    _case("between_vectors", 2, 21, 21, near=8),
    _case("blocks_of_vectors", 135, 135, near=24),
    _case("f64", 3, 70, 70, dtype=np.float64, near=4),
    _case("none", 0, 3, 3),
    _case("no_rows", 2, 0, 0),
    Case("inverse/needs_pivots", "inverse", {}, (_ZEROS_ON_THE_DIAGONAL,)),
]
