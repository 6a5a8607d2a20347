"""Operators that run by reference: every integer among their attributes has a bound."""

from __future__ import annotations

import onnx.defs
import pytest
from onnx import NodeProto, TensorProto, helper

import treadle
from treadle.errors import LimitError
from treadle.frontends.onnx.attribute_bounds import BOUNDS, check_attributes
from treadle.frontends.onnx.importer import RULES_OF

DOMAINS = ("", "ai.onnx.ml")
INTEGERS = [
    (schema.domain, schema.name, name)
    for schema in onnx.defs.get_all_schemas_with_history()
    for name, attribute in schema.attributes.items()
    if schema.domain in DOMAINS
    and attribute.type in (onnx.defs.OpSchema.AttrType.INT, onnx.defs.OpSchema.AttrType.INTS)
]
"""Domain, operator and attribute, in any version of the operator."""

OUTSIDE = [
    (op, name, number)
    for op, bounds in BOUNDS.items()
    for name, bound in bounds.items()
    for number in (bound.least - 1, bound.most + 1)
    if -(2**63) <= number < 2**63
]


def node(op: str, inputs: int = 3, **attributes: object) -> NodeProto:
    domain = "" if onnx.defs.has(op) else "ai.onnx.ml"
    return helper.make_node(op, ["x"] * inputs, ["y"], "n", domain=domain, **attributes)


def test_every_integer_attribute_of_operators_without_a_rule_has_a_bound() -> None:
    """
    A release of the onnx package with a new operator adds one here, or a rule.
    """
    deprecated = {schema.name for schema in onnx.defs.get_all_schemas() if schema.deprecated}
    missing = {
        f"{op}.{name}"
        for domain, op, name in INTEGERS
        if op not in RULES_OF[domain] and op not in deprecated and name not in BOUNDS.get(op, {})
    }
    assert sorted(missing) == []


@pytest.mark.parametrize(("op", "name", "number"), OUTSIDE)
def test_numbers_outside_their_bound_are_refused(op: str, name: str, number: int) -> None:
    """
    One, and one of several; the error names node and attribute.
    """
    for value in (number, [1, number]):
        with pytest.raises(LimitError, match=f"^node 'n' .*: {name} must be from .*, got {number}$"):
            check_attributes(node(op, **{name: value}), "n")


@pytest.mark.parametrize("count", [4, 2**40])
def test_a_scan_slices_no_more_inputs_than_it_has(count: int) -> None:
    """
    Of more it would make a list of as many.
    """
    body = helper.make_graph(
        [helper.make_node("Identity", ["a"], ["b"])],
        "body",
        [helper.make_tensor_value_info("a", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("b", TensorProto.FLOAT, [2])],
    )
    scan = helper.make_node("Scan", ["x", "x", "x"], ["y"], "n", body=body, num_scan_inputs=count)
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 2]) for name in "xy")
    model = helper.make_model(helper.make_graph([scan], "g", [x], [y]), opset_imports=[helper.make_opsetid("", 17)])
    with pytest.raises(LimitError, match="num_scan_inputs must be from 1 to 3"):
        treadle.Session(model.SerializeToString())


def test_counts_of_terms_begin_within_their_list() -> None:
    """
    The pool of a TfIdfVectorizer has as many entries.
    """
    check_attributes(node("TfIdfVectorizer", ngram_counts=[0, 2], pool_int64s=[3, 4]), "n")
    with pytest.raises(LimitError, match="ngram_counts must be from 0 to 2, got 3"):
        check_attributes(node("TfIdfVectorizer", ngram_counts=[0, 3], pool_int64s=[3, 4]), "n")
