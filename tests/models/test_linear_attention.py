"""LinearAttention, CausalConvWithState and FlexAttention: by kernels only, beside the onnx package and ONNX Runtime."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.models.contrib import Array, OneNode, close, some
from treadle.errors import ModelError, UnsupportedModelError

NEWEST = max(schema.since_version for schema in defs.get_all_schemas_with_history() if schema.domain == "")
STANDARD = pytest.mark.skipif(NEWEST < 27, reason="the onnx package does not know the operator")
KEYS = some(2, 5, 4, 8) / np.linalg.norm(some(2, 5, 4, 8), axis=-1, keepdims=True)
DECAY = {"head": -np.abs(some(2, 5, 4, seed=1)), "key": -np.abs(some(2, 5, 32, seed=2))}
RATE = 1 / (1 + np.exp(some(2, 5, 4, seed=3)))
STATE = some(2, 4, 8, 6, seed=4)


def attention(rule: str, decay: Array | None, rate: Array | None, past: Array | None, **more: Any) -> OneNode:
    operands = {
        "q": some(2, 5, 32, seed=5),
        "k": KEYS.reshape(2, 5, 32),
        "v": some(2, 5, 24, seed=6),
        "past": past,
        "decay": decay,
        "beta": rate,
    }
    attributes = {"q_num_heads": 4, "kv_num_heads": 4, "update_rule": rule} | more
    return OneNode("LinearAttention", operands, outputs=("y", "present"), attributes=attributes)


def of_standard(node: OneNode, domain: str = "", version: int = 0) -> OneNode:
    """The node in a domain of the onnx package, in its newest version."""
    return OneNode(
        node.op, node.operands, node.constants, node.outputs, node.attributes, domain, version or max(NEWEST, 27)
    )


def by_reference(node: OneNode) -> list[Array]:
    return list(ReferenceEvaluator(onnx.load_from_string(node.model(is_open=False))).run(None, node.feeds()))


RULES = {
    "linear": attention("linear", None, None, None, scale=0.5),
    "gated": attention("gated", DECAY["head"], None, STATE),
    "gated by key": attention("gated", DECAY["key"], None, None),
    "delta": attention("delta", None, RATE, STATE),
    "gated delta": attention("gated_delta", DECAY["head"], RATE, STATE),
    "gated delta by key, one rate": attention("gated_delta", DECAY["key"], RATE[..., :1], None),
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("is_open", [False, True])
def test_each_rule_of_linear_attention_agrees_with_onnxruntime(rule: str, is_open: bool) -> None:
    node = RULES[rule]
    found = node.run(is_open=is_open)

    close(found, list(node.run_by_onnxruntime().values()), rtol=1e-4, atol=1e-4)


@STANDARD
@pytest.mark.parametrize("rule", RULES)
def test_each_rule_of_linear_attention_agrees_with_the_onnx_package(rule: str) -> None:
    node = of_standard(RULES[rule])

    close(node.run(), by_reference(node), rtol=1e-4, atol=1e-4)


@STANDARD
def test_halves_are_attended_to_in_f32_and_states_keep_their_type() -> None:
    node = attention("gated_delta", DECAY["head"], RATE, STATE)
    halves = {name: None if x is None else x.astype(np.float16) for name, x in node.operands.items() if name != "past"}
    node = of_standard(OneNode(node.op, node.operands | halves, outputs=node.outputs, attributes=node.attributes))
    found = node.run()

    assert [array.dtype for array in found.values()] == [np.float16, np.float32]
    close(found, by_reference(node), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("heads", [(8, 2), (2, 4)])
def test_heads_share_states(heads: tuple[int, int]) -> None:
    """Several heads of queries read one state, or one reads several."""
    queries, states = heads
    operands = {
        "q": some(2, 3, 8 * queries),
        "k": some(2, 3, 8 * states) / 3,
        "v": some(2, 3, 4 * states, seed=1),
        "past": None,
        "decay": -np.abs(some(2, 3, states)),
        "beta": 1 / (1 + np.exp(some(2, 3, states, seed=2))),
    }
    attributes = {"q_num_heads": queries, "kv_num_heads": states}
    node = OneNode("LinearAttention", operands, outputs=("y", "present"), attributes=attributes)

    close(node.run(), list(node.run_by_onnxruntime().values()), rtol=1e-4, atol=1e-4)


def test_states_carry_on_where_a_run_ended() -> None:
    """Tokens one by one give what all at once give."""
    node = RULES["gated delta"]
    session = treadle.Session(node.model(is_open=True))
    feeds = node.feeds()
    whole = session.run(feeds)
    parts, past = [], feeds["past"]
    for token in range(5):
        one = {name: x if name == "past" else x[:, token : token + 1] for name, x in feeds.items()}
        found = session.run({**one, "past": past})
        parts.append(found["y"])
        past = found["present"]

    np.testing.assert_array_equal(np.concatenate(parts, axis=1), whole["y"])
    np.testing.assert_array_equal(past, whole["present"])


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (attention("gated", None, None, None), "'update_rule' 'gated' needs input 'decay'"),
        (attention("linear", None, RATE, None), "'update_rule' 'linear' has no input 'beta'"),
        (attention("fast", None, None, None), "'update_rule' must be one of linear, gated"),
        (attention("linear", None, None, None, q_num_heads=3), "must be a multiple of the other, got 3, 4"),
        (attention("linear", None, None, None, q_num_heads=0), "must be 1 or more, got 0 and 4"),
        (attention("linear", None, None, None, state_window=2), "'state_window' must be 0"),
        (attention("gated", DECAY["head"][..., :3], None, None), "factor must be"),
        (attention("linear", None, None, STATE[:, :3]), "state must be"),
    ],
)
def test_attentions_of_another_form_are_refused(node: OneNode, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        node.run()


def test_gates_of_linear_attention_agree_with_their_formula() -> None:
    a, bias, scale, b = some(2, 5, 4), some(4, seed=1), -np.abs(some(4, seed=2)), some(2, 5, 4, seed=3)
    node = OneNode("LinearAttentionGate", {"a": a, "bias": bias, "scale": scale, "b": b}, outputs=("decay", "beta"))

    close(node.run(), [scale * np.log1p(np.exp(a + bias)), 1 / (1 + np.exp(-b))])
    with pytest.raises(ModelError, match="its input 'b'"):
        OneNode("LinearAttentionGate", {"a": a, "bias": bias, "scale": scale}, outputs=("decay", "beta")).run()


def causal(kernel: int, activation: str, *, past: bool, bias: bool, **more: Any) -> OneNode:
    kept = (kernel - 1) * more.get("dilation", 1)
    operands = {
        "x": some(2, 6, 9),
        "w": some(6, 1, kernel, seed=1),
        "b": some(6, seed=2) if bias else None,
        "past": some(2, 6, kept, seed=3) if past else None,
    }
    outputs = ("y", "present")
    held = frozenset({"w", "b"} if bias else {"w"})
    return OneNode("CausalConvWithState", operands, held, outputs, {"activation": activation} | more)


CAUSAL = {
    "plain": causal(4, "none", past=False, bias=False),
    "after a state": causal(4, "silu", past=True, bias=True),
    "longer than x": causal(12, "swish", past=True, bias=True),
    "one tap": causal(1, "silu", past=False, bias=True),
}


@pytest.mark.parametrize("case", CAUSAL)
@pytest.mark.parametrize("is_open", [False, True])
def test_causal_convolutions_agree_with_onnxruntime(case: str, is_open: bool) -> None:
    node = CAUSAL[case]

    close(node.run(is_open=is_open), list(node.run_by_onnxruntime().values()))


def test_causal_convolutions_may_be_dilated() -> None:
    node = causal(3, "silu", past=True, bias=True, dilation=2)

    close(node.run(), list(node.run_by_onnxruntime().values()))


@pytest.mark.parametrize("past", [False, True])
def test_channels_of_causal_convolutions_may_come_last(past: bool) -> None:
    node = causal(4, "none", past=past, bias=True)
    turned = {
        name: x if x is None or x.ndim < 3 or name == "w" else x.swapaxes(1, 2) for name, x in node.operands.items()
    }
    last = OneNode(node.op, turned, node.constants, node.outputs, {**node.attributes, "channels_last": 1})

    close(last.run(), [x.swapaxes(1, 2) for x in node.run().values()], rtol=0, atol=0)
    close(last.run(), list(last.run_by_onnxruntime().values()))


@STANDARD
@pytest.mark.parametrize("case", CAUSAL)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_causal_convolutions_agree_with_the_onnx_package(case: str, dtype: Any) -> None:
    node = CAUSAL[case]
    operands = {name: None if x is None else x.astype(dtype) for name, x in node.operands.items()}
    node = of_standard(OneNode(node.op, operands, node.constants, node.outputs, node.attributes))
    tolerance = 5e-3 if dtype == np.float16 else 1e-5

    close(node.run(), by_reference(node), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("node", "message"),
    [
        (causal(4, "none", past=False, bias=False, state_window=2), "'state_window' must be 0"),
        (causal(4, "none", past=False, bias=False, ndim=2), "'ndim' must be 1"),
        (causal(4, "relu", past=False, bias=False), "'activation' must be one of none"),
        (causal(4, "none", past=False, bias=False, dilation=0), "'dilation' must be 1 or more"),
    ],
)
def test_causal_convolutions_of_another_form_are_refused(node: OneNode, message: str) -> None:
    with pytest.raises((ModelError, UnsupportedModelError), match=message):
        node.run()


def modifier(name: str, nodes: list[onnx.NodeProto], **held: Array) -> onnx.GraphProto:
    """A graph from `x` to `y`, with these constants."""
    ports = [helper.make_tensor_value_info(port, TensorProto.FLOAT, [None] * 4) for port in "xy"]
    constants = [onnx.numpy_helper.from_array(value, key) for key, value in held.items()]
    return helper.make_graph(nodes, name, ports[:1], ports[1:], constants)


CAPPED = modifier(
    "capped",
    [
        helper.make_node("Div", ["x", "cap"], ["part"]),
        helper.make_node("Tanh", ["part"], ["bent"]),
        helper.make_node("Mul", ["bent", "cap"], ["y"]),
    ],
    cap=np.float32(5),
)
MASKED = modifier(
    "masked",
    [helper.make_node("Where", ["allowed", "x", "never"], ["y"])],
    allowed=np.tri(5, 7, 2, dtype=bool),
    never=np.float32(-np.inf),
)
HALVED = modifier("halved", [helper.make_node("Mul", ["x", "half"], ["y"])], half=np.float32(0.5))
FLEXIBLE: dict[str, dict[str, Any]] = {
    "plain": {},
    "scaled": {"scale": 0.3},
    "capped": {"score_mod": CAPPED},
    "masked, halved": {"score_mod": MASKED, "prob_mod": HALVED},
}


@pytest.mark.skipif(not defs.has("FlexAttention", "ai.onnx.preview"), reason="the onnx package has no FlexAttention")
@pytest.mark.parametrize("case", FLEXIBLE)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("heads", [4, 2])
def test_flexible_attention_agrees_with_the_onnx_package(case: str, dtype: Any, heads: int) -> None:
    """Its modifiers become part of the graph."""
    operands = {"q": some(2, 4, 5, 8), "k": some(2, heads, 7, 8, seed=1), "v": some(2, heads, 7, 6, seed=2)}
    operands = {name: x.astype(dtype) for name, x in operands.items()}
    node = helper.make_node("FlexAttention", list(operands), ["y"], domain="ai.onnx.preview", **FLEXIBLE[case])
    takes = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for name, x in operands.items()
    ]
    graph = helper.make_graph([node], "g", takes, [onnx.ValueInfoProto(name="y")])
    domains = [helper.make_opsetid("", 23), helper.make_opsetid("ai.onnx.preview", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=10)
    session = treadle.Session(model.SerializeToString())
    found = session.run(operands)
    tolerance = 3e-3 if dtype == np.float16 else 1e-5

    close(found, ReferenceEvaluator(model).run(None, operands), rtol=tolerance, atol=tolerance)
    assert [call.op for plan in session.plans() for call in plan.calls if call.function is not None] == []
