"""All op cases: those of the module in this folder that has the stem of the op's module in `treadle.ops`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module

import numpy as np

from tests.ops import quantized
from tests.ops.case import Case
from treadle.ops.table import OPS

WITHOUT_CASES = {"call", "counted", "data_stage", "deferred", "reorder", "sizes"}
"""Stems that have tests of their own: `call` runs any function, the others give shapes, layouts or expressions that
cases cannot hold."""

STEMS = sorted({definition.infer.__module__.rpartition(".")[2] for definition in OPS.values()} - WITHOUT_CASES)

CASES: list[Case] = [case for stem in STEMS for case in import_module(f"tests.ops.{stem}").CASES]
CASES += quantized.CASES
"""Cases of several ops that only quantized models combine."""

CASE_OPS = sorted({case.op for case in CASES})
"""The ops of CASES. Tests take one op with all of its cases: pytest needs several ms for a test."""


def cases_of(op: str) -> list[Case]:
    """The cases of `op`."""
    return [case for case in CASES if case.op == op]


@contextmanager
def named(case: Case, *details: object) -> Iterator[None]:
    """An error inside names the case, and `details`."""
    try:
        yield
    except BaseException as error:
        error.add_note(" ".join(["in the case", case.id, *map(str, details)]))
        raise


COUNTED = {"non_zero": 1, "non_max_suppression": 0}
"""Ops that find a number of elements, with the axis along which they find them."""


def defined(case: Case, outputs: list[np.ndarray]) -> list[np.ndarray]:
    """The outputs without memory that the op leaves as it was."""
    if case.op not in COUNTED:
        return outputs
    return [*OPS["counted"].evaluate({"axis": COUNTED[case.op]}, outputs), outputs[1]]
