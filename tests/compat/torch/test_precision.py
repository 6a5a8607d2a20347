"""Functions that are nearly linear at 0 keep the digits of small numbers."""

from collections.abc import Callable

import numpy as np
import pytest

import treadle.compat.torch as torch
import treadle.compat.torch.nn.functional as F  # noqa: N812
from tests.compat.edges import ERFC, ERFC_OPERANDS, INFINITE_ROWS, LOG_SUM_EXP_OF_ROWS

SMALL = np.array([0, -0.0, 1e-10, -1e-10, 1e-40, -3e-5, 2e-3, -0.25], np.float32)
WIDE = SMALL.astype(np.float64)
EDGES = np.array([-1, -2, np.inf, -np.inf, np.nan, 3e38], np.float32)


@pytest.mark.parametrize(
    ("function", "truth"),
    [
        (torch.log1p, np.log1p(WIDE)),
        (torch.expm1, np.expm1(WIDE)),
        (torch.asinh, np.arcsinh(WIDE)),
        (torch.atanh, np.arctanh(WIDE)),
        (F.elu, np.where(WIDE > 0, WIDE, np.expm1(WIDE))),
        (F.celu, np.where(WIDE > 0, WIDE, np.expm1(WIDE))),
    ],
)
def test_small_numbers_keep_their_digits(function: Callable[..., torch.Tensor], truth: np.ndarray) -> None:
    """
    1e-10 and 1e-40 lose nothing, and -0 stays -0.
    """
    found = function(torch.from_numpy(SMALL)).numpy()

    np.testing.assert_array_max_ulp(found, truth.astype(np.float32), 2)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(truth))


def test_log1p_and_expm1_at_the_edges() -> None:
    """
    log1p is -inf at -1 and NaN below; expm1 is -1 at -inf.
    """
    x = torch.from_numpy(EDGES)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(torch.log1p(x).numpy(), np.log1p(EDGES), rtol=3e-7)
        np.testing.assert_allclose(torch.expm1(x).numpy(), np.expm1(EDGES), rtol=3e-7)


def test_logaddexp_is_precise_near_zero_and_takes_infinities() -> None:
    """
    log(1 + exp(-20)) keeps all its digits; of equal infinities, the result is that infinity.
    """
    x, y = np.float32([0, -0.5, np.inf, -np.inf, -np.inf]), np.float32([-20, -30, np.inf, -np.inf, 2])

    found = torch.logaddexp(torch.from_numpy(x), torch.from_numpy(y)).numpy()

    np.testing.assert_allclose(found, np.logaddexp(x.astype(np.float64), y), rtol=3e-7)


@pytest.mark.parametrize("keepdim", [False, True])
def test_logsumexp_takes_infinities(keepdim: bool) -> None:
    """
    It is -inf if all elements are -inf, +inf if one is +inf; NaN stays NaN.
    """
    expected = LOG_SUM_EXP_OF_ROWS

    found = torch.logsumexp(torch.from_numpy(INFINITE_ROWS), 1, keepdim).numpy()

    np.testing.assert_allclose(found, expected[:, None] if keepdim else expected, rtol=3e-7)


def test_erfc_keeps_its_digits_where_erf_is_one() -> None:
    """
    At 6 it is 2e-17; it becomes 0 only where float64 underflows.
    """
    np.testing.assert_allclose(torch.erfc(torch.from_numpy(ERFC_OPERANDS)).numpy(), ERFC, rtol=1e-15, atol=1e-323)
