"""Operands at the ends of what functions of both facades take, and what these give there."""

from __future__ import annotations

import math

import numpy as np

INFINITE_ROWS = np.float32([[-np.inf] * 3, [np.inf, 1, -np.inf], [np.inf] * 3, [-np.inf, 2, 2], [np.nan, np.inf, 0]])
LOG_SUM_EXP_OF_ROWS = np.float32([-np.inf, np.inf, np.inf, 2 + np.log(2), np.nan])

ERFC_OPERANDS = np.array([0, -0.4, 0.4999, 0.5, 3, 6, 10, 26, 26.9, 40, np.inf, -3, -np.inf, np.nan])
ERFC = [math.erfc(number) for number in ERFC_OPERANDS]
