"""Cases of gather_reduce: bags of rows, weighted and not, of every shape of indices."""

import numpy as np

from tests.ops.case import Case, floats, integers

_TABLE = floats("bag_table", 40, 24)


def _bags(
    name: str, x: np.ndarray, indices: np.ndarray, axes: tuple[int, ...], *weights: np.ndarray, how: str = "sum"
) -> Case:
    attrs = {"how": f"reduce_{how}", "axes": axes, "keepdims": name.endswith("kept")}
    return Case(f"gather_reduce/{name}", "gather_reduce", attrs, (x, indices, *weights))


def _numbers(*shape: int, dtype: type = np.int64) -> np.ndarray:
    return integers("bags", -40, 40, *shape, dtype=dtype)


CASES = [
    *(_bags(how, _TABLE, _numbers(5, 7), (1,), how=how) for how in ("sum", "mean", "max", "min", "prod")),
    _bags("one_bag", _TABLE, _numbers(9), (0,)),
    _bags("all_axes", _TABLE, _numbers(3, 4), (0, 1), how="mean"),
    _bags("first_axis", _TABLE, _numbers(6, 5), (0,), how="max"),
    _bags("middle_axis_kept", _TABLE, _numbers(3, 6, 2), (1,)),
    _bags("axes_apart", _TABLE, _numbers(3, 4, 2), (0, 2)),
    _bags("narrow_rows", floats("narrow", 40, 3), _numbers(5, 6, dtype=np.int32), (1,), how="mean"),
    _bags("wide_rows", floats("wide", 40, 2, 301), _numbers(3, 5), (1,)),
    _bags("single_elements", floats("thin", 40), _numbers(5, 6), (1,)),
    _bags("long_bags", _TABLE, _numbers(3, 333), (1,)),
    _bags("few_long_bags", floats("long", 40, 200), _numbers(1, 9000), (1,), how="mean"),
    _bags("table_beyond_caches", floats("large", 9000, 80), integers("far", -9000, 9000, 90, 20), (1,)),
    _bags("weighted", _TABLE, _numbers(5, 7), (1,), floats("bag_weights", 5, 7)),
    _bags("weighted_column", _TABLE, _numbers(5, 7), (1,), floats("bag_column", 5, 7, 1), how="max"),
    _bags("weighted_int64", integers("whole", 0, 99, 40, 6), _numbers(5, 7), (1,), integers("times", -9, 9, 5, 7)),
    _bags("float64", floats("double", 40, 9, dtype=np.float64), _numbers(5, 70), (1,)),
    _bags("float16", floats("half", 40, 16, dtype=np.float16), _numbers(5, 7), (1,), how="max"),
    _bags("int8_indices", _TABLE, _numbers(5, 7).astype(np.int8), (1,)),
    _bags("uint8", integers("bytes", 0, 99, 40, 11, dtype=np.uint8), _numbers(5, 7), (1,), how="max"),
    _bags("empty_bags", _TABLE, _numbers(5, 0), (1,)),
    _bags("no_bags", _TABLE, _numbers(0, 5), (1,)),
]
