"""Casts of strings, and text made of numbers."""

import numpy as np

from treadle import dtypes
from treadle.ops.cast import cast_array


def test_numbers_become_text_and_text_numbers():
    """Strings hold numbers as ONNX writes them."""
    numbers = np.array([1.5, np.inf, -np.inf, np.nan], np.float32)
    words = cast_array(numbers, dtypes.string)
    assert words.tolist() == ["1.5", "INF", "-INF", "NaN"]
    np.testing.assert_array_equal(cast_array(words, dtypes.f32), numbers)
    assert cast_array(np.array(["3.7", "-2"], object), dtypes.i64).tolist() == [3, -2]


def test_the_same_dtype_is_the_same_array():
    """Nothing is copied where nothing changes."""
    x = np.ones(3)
    assert cast_array(x, dtypes.f64) is x
