"""How far two arrays are apart."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from treadle.compare.difference import difference


def test_errors_are_shares_of_the_largest_magnitude() -> None:
    """
    An error of 0.02 where the largest wanted magnitude is 4 is 0.005. The farthest element is named.
    """
    wanted = np.array([[1.0, -4.0], [0.0, 2.0]], np.float32)
    found = difference(wanted + np.array([[0, 0.01], [0, 0.02]], np.float32), wanted, 1e-4)

    assert found.error == pytest.approx(0.005, rel=1e-4)
    assert found.where == (1, 1)
    assert found.parts


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_one_rounding_agrees_within_a_tolerance(dtype: type) -> None:
    """
    The next number agrees at an epsilon and parts at tolerance 0; equal arrays agree at 0.
    """
    wanted = np.array([1.0, 0.5], dtype)
    got = wanted + np.array([ml_dtypes.finfo(dtype).eps, 0], dtype)

    assert not difference(got, wanted, float(ml_dtypes.finfo(dtype).eps)).parts
    assert difference(got, wanted, 0.0).parts
    assert difference(wanted, wanted, 0.0).error == 0.0


def test_what_is_no_number_must_be_at_the_same_place() -> None:
    """
    NaN agrees with NaN and an infinity with itself; else the error is infinite, and the message names both.
    """
    wanted = np.array([np.nan, np.inf, -np.inf, 1.0], np.float32)

    assert difference(wanted, wanted, 1e-4).error == 0.0
    for at, other in ((0, 1.0), (1, -np.inf), (2, 0.0), (3, np.nan)):
        got = wanted.copy()
        got[at] = other
        found = difference(got, wanted, 1e-4)
        assert found.error == math.inf
        assert found.where == (at,)
        assert " in place of " in found.why
        assert found.parts


@pytest.mark.parametrize(
    ("got", "wanted", "share"),
    [
        (np.array([1, 2, 3, 4]), np.array([1, 2, 3, 5]), 0.25),
        (np.array([True, False]), np.array([True, True]), 0.5),
        (np.array(["a", "b"], object), np.array(["a", "b"], object), 0.0),
        (np.array(["a", "b"], object), np.array(["a", "c"], object), 0.5),
    ],
)
def test_what_is_no_float_is_equal_or_parts(got: np.ndarray, wanted: np.ndarray, share: float) -> None:
    """
    The error is the share of elements that differ; a tolerance is for floats.
    """
    found = difference(got, wanted, 1.0)

    assert found.error == share
    assert found.parts == (share > 0)


def test_other_dtypes_and_shapes_part() -> None:
    """
    Both forms are told.
    """
    assert difference(np.zeros(3, np.float32), np.zeros(3), 1e-4).why == "f32[3] in place of f64[3]"
    assert difference(np.zeros((1, 3)), np.zeros(3), 1e-4).parts


def test_empty_arrays_agree() -> None:
    """
    There is no element to differ.
    """
    assert not difference(np.zeros((0, 2), np.float32), np.zeros((0, 2), np.float32), 1e-4).parts
    assert not difference(np.zeros(0, np.int64), np.zeros(0, np.int64), 1e-4).parts
