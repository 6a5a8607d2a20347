"""Cases of search_sorted."""

import numpy as np

from tests.ops.case import Case, floats, integers


def _case(name: str, sequence: np.ndarray, values: np.ndarray, *, right: bool = False) -> Case:
    return Case(f"search_sorted/{name}", "search_sorted", {"right": right}, (np.sort(sequence), values))


CASES = [
    _case("one_sequence", floats("sequence", 37), floats("values", 5, 9)),
    _case("rows", floats("sequence", 4, 16), floats("values", 4, 7)),
    _case("equal_left", integers("sequence", 0, 9, 40), integers("values", -2, 12, 3, 8)),
    _case("equal_right", integers("sequence", 0, 9, 40), integers("values", -2, 12, 3, 8), right=True),
    _case("batches", integers("sequence", 0, 9, 2, 3, 5), integers("values", -2, 12, 2, 3, 8), right=True),
    _case("bytes", integers("sequence", 0, 255, 9, dtype=np.uint8), integers("values", 0, 255, 8, dtype=np.uint8)),
    _case("nothing_to_search", floats("sequence", 0), floats("values", 5)),
    _case("one_element", floats("sequence", 3, 1), floats("values", 3, 2)),
    _case("single_value", floats("sequence", 6), np.array(0.25, np.float32)),
]
