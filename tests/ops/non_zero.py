"""Cases of non_zero."""

import numpy as np

from tests.ops.case import Case, floats, integers


def _case(name: str, x: np.ndarray) -> Case:
    return Case(f"non_zero/{name}", "non_zero", {}, (x,), outputs=2)


CASES = [
    _case("vector", integers("nz", 0, 3, 41)),
    _case("bools", floats("nz", 7, 9) > 0.5),
    _case("cube", np.maximum(floats("nz", 3, 5, 7), 0)),
    _case("several_chunks", integers("nz", 0, 2, 300, 1001, dtype=np.uint8)),
    _case("nothing", np.zeros((4, 5), np.int32)),
    _case("everything", np.ones((4, 5), np.float32)),
    _case("nan_and_negative_zero", np.array([np.nan, -0.0, 0.0, np.inf], np.float64)),
    _case("half_floats", np.array([1, -0.0, 0, 2], np.float16)),
    _case("scalar", np.array(3.0, np.float32)),
    _case("no_elements", np.zeros((0, 3), np.float32)),
]
