"""Each operator of ONNX Runtime has a rule, or is refused with a reason."""

from __future__ import annotations

import pytest
from onnx import TensorProto, helper

import treadle
from treadle.errors import UnsupportedModelError
from treadle.frontends.onnx.microsoft import IN_STANDARD_DOMAIN, SIGNATURES
from treadle.frontends.onnx.microsoft_refused import REFUSED
from treadle.frontends.onnx.microsoft_table import RULES, SEARCHES


def test_each_rule_has_a_signature_and_no_refusal() -> None:
    assert {*RULES, *SEARCHES} == set(SIGNATURES)
    assert not {*RULES, *SEARCHES} & set(REFUSED)


def test_no_operator_of_onnxruntime_is_forgotten() -> None:
    """Of the version whose operators are listed."""
    runtime = pytest.importorskip("onnxruntime")
    if not runtime.__version__.startswith("1.32."):
        pytest.skip(f"the operators of onnxruntime 1.32 are listed, {runtime.__version__} is installed")
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    theirs = {schema.name for schema in get_all_operator_schema() if schema.domain == "com.microsoft"}
    assert {*RULES, *SEARCHES, *REFUSED} == theirs | IN_STANDARD_DOMAIN


def test_a_refusal_says_why() -> None:
    node = helper.make_node("MoE", ["x"], ["y"], name="experts", domain="com.microsoft")
    takes, gives = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(helper.make_graph([node], "g", [takes], [gives]), opset_imports=imports, ir_version=8)
    with pytest.raises(
        UnsupportedModelError, match=r"'experts' \(MoE.*does not compute this operator: it chooses experts"
    ):
        treadle.Session(made.SerializeToString())
