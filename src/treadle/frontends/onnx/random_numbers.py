"""Random numbers of ONNX models. A model from disk that has them draws them without the `onnx` package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

OPERATORS = frozenset({"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})
"""The operators of ai.onnx that `RandomNumbers` computes."""


class RandomNumbers:
    """Draws numbers as the `onnx` package's reference implementation does, with its numbers if the node has a seed.

    Args:
        operator: One of `OPERATORS`.
        attributes: Those of the node.
        dtype: The dtype of the result.
    """

    storable = True
    detachable = True
    """It depends on nothing but the model, and can be pickled: it may be part of an artifact."""

    def __init__(self, operator: str, attributes: Mapping[str, Any], dtype: np.dtype[Any]) -> None:
        self._is_normal = operator.startswith("RandomNormal")
        if self._is_normal:
            self._scale, self._offset = attributes.get("scale", 1.0), attributes.get("mean", 0.0)
        else:
            low = attributes.get("low", 0.0)
            self._scale, self._offset = attributes.get("high", 1.0) - low, low
        seed = attributes.get("seed", float("nan"))
        self._seed = None if isnan(seed) else int(seed)
        self._shape: tuple[int, ...] | None = None if operator.endswith("Like") else tuple(attributes["shape"])
        self._dtype = dtype

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """Draw numbers; `arrays` has the operand whose shape they take, if there is one."""
        shape = arrays[0].shape if self._shape is None else self._shape
        state = np.random.RandomState(self._seed)
        drawn = state.standard_normal(shape) if self._is_normal else state.random_sample(shape)
        numbers: Array = np.asarray(drawn).astype(self._dtype)
        numbers *= self._dtype.type(self._scale)
        numbers += self._dtype.type(self._offset)
        return [numbers]
