"""What an op must provide: a shape rule and a NumPy reference."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treadle.dtypes import DType
from treadle.graph.shape import StaticShape
from treadle.records import dataclass

Attrs = dict[str, Any]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Info:
    """What is known of a tensor before it exists.

    `shape` is None where it depends on data. `value` is the array where it is known already: of Python objects where
    some of its integers are expressions of sizes.
    """

    dtype: DType
    shape: StaticShape | None
    value: Array | None = None


Infer = Callable[[Attrs, Sequence[Info | None], int], list[Info]]
"""(attributes, operands, number of outputs) -> what is known of each output.

Raises ShapeError, without the node's name (the caller adds it), if the operands do not fit the op.
"""

Evaluate = Callable[[Attrs, Sequence[Array | None]], list[Array]]
"""(attributes, operands) -> results: the op's meaning in NumPy, slow and obvious."""


@dataclass(frozen=True, slots=True)
class OpDef:
    """One core op. `min_inputs` to `max_inputs` operands are taken (None: any number).

    `evaluate` is None only for ops that exist in memory alone (`reorder`) or carry their own
    function (`call`).
    """

    name: str
    infer: Infer
    evaluate: Evaluate | None
    min_inputs: int = 1
    max_inputs: int | None = 1
    folds: bool = True
    """Whether compiling may evaluate it: it surely ends soon."""
