"""The NumPy references agree with the `onnx` package's, or with a formula in float64."""

from collections import Counter

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from tests.ops.case import Case, graph_of
from tests.ops.formulas import FORMULAS
from tests.ops.suite import CASE_OPS, CASES, cases_of, named
from treadle import dtypes
from treadle.graph.verify import verify
from treadle.ops.evaluate import evaluate
from treadle.ops.table import OPS, arity

_OPSET = 23


def run_onnx(case: Case) -> list[np.ndarray]:
    """The case's results by the `onnx` package."""
    assert case.onnx is not None
    operands = case.inputs if case.onnx.inputs is None else case.onnx.inputs
    names = ["" if array is None else f"x{index}" for index, array in enumerate(operands)]
    while names and not names[-1]:
        names.pop()
    attrs = {k: onnx.numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in case.onnx.attrs.items()}
    results = [f"y{index}" for index in range(case.outputs)]
    node = onnx.helper.make_node(case.onnx.op, names, results, **attrs)
    inputs = [
        onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in zip(names, operands, strict=False)
        if array is not None
    ]
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in results]
    graph = onnx.helper.make_graph([node], "case", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", _OPSET)])
    given = {name: array for name, array in zip(names, operands, strict=False) if array is not None}
    with np.errstate(all="ignore"):
        return list(ReferenceEvaluator(model).run(None, given))


def expected(case: Case) -> list[np.ndarray]:
    """The case's results, independently of treadle."""
    if case.onnx is not None:
        return run_onnx(case)
    with np.errstate(all="ignore"):
        found = FORMULAS[case.op](case)
    return found if isinstance(found, list) else [found]


def assert_close(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal, or in floating point within a few units in the last place of the largest element."""
    assert found.shape == wanted.shape
    if found.dtype.kind not in "fV":
        np.testing.assert_array_equal(found, wanted)
        return
    found, wanted = found.astype(np.float64), np.asarray(wanted).astype(np.float64)
    finite = np.abs(wanted[np.isfinite(wanted)])
    largest = min(finite.max(initial=0.0), 1e3)
    np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-6 * largest)


@pytest.mark.parametrize("op", CASE_OPS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the other reference divides by zero
def test_reference_is_right(op: str) -> None:
    """Each case gives the results that are expected, with the dtypes and shapes that were inferred."""
    for case in cases_of(op):
        with named(case):
            graph, inputs = graph_of(case)
            verify(graph, arity, typed=True)
            found = evaluate(graph, inputs)
            for value, wanted in zip(graph.outputs, expected(case), strict=True):
                got = found[value.name]
                assert dtypes.from_numpy(got.dtype) == value.dtype
                assert got.shape == value.shape
                assert_close(got, wanted)


def test_every_op_has_cases():
    """No core op is without a case, save those that have no meaning, or no static shape, of their own."""
    assert set(OPS) - {case.op for case in CASES} == {"call", "reorder", "counted", "data_stage", "deferred", "sizes"}


def test_case_names_are_unique():
    """A case is found by its name."""
    doubled = [name for name, count in Counter(case.id for case in CASES).items() if count > 1]
    assert not doubled
