"""Tokenizer (com.microsoft): texts taken apart by regular expressions, as ONNX Runtime does."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import treadle
from treadle.errors import ModelError

TEXTS = ["Hello World", "I love  computer!", ""]


def model(rank: int, **attributes: Any) -> bytes:
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#"} | attributes
    node = helper.make_node("Tokenizer", ["x"], ["y"], domain="com.microsoft", **given)
    takes = [helper.make_tensor_value_info("x", onnx.TensorProto.STRING, ["n", "c"][:rank])]
    graph = helper.make_graph([node], "g", takes, [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("com.microsoft", 1), helper.make_opsetid("", 17)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "words": (TEXTS, {"separators": [" "]}, [["Hello", "World", "#"], ["I", "love", "computer!"], ["#"] * 3]),
    "marked": (TEXTS[:1] + TEXTS[2:], {"separators": [" "], "mark": 1},
               [["\x02", "Hello", "World", "\x03"], ["\x02", "\x03", "#", "#"]]),
    "short_ones_left_out": (TEXTS, {"separators": [" ", "o"], "mincharnum": 2},
                            [["Hell", "rld"], ["ve", "mputer!"], ["#", "#"]]),
    "matches": (TEXTS, {"tokenexp": "[a-z]*", "mincharnum": 2}, [["ello", "orld"], ["love", "computer"], ["#", "#"]]),
    "characters": (["ü b", "c"], {"separators": [""]}, [["ü", " ", "b"], ["c", "#", "#"]]),
    "any_character": (["ab"], {"tokenexp": "."}, [["a", "b"]]),
    "the_longest_match": (["abcd"], {"separators": ["b|bc"]}, [["a", "d"]]),
    "a_matrix": ([["a b", "c"]], {"separators": [" "]}, [[["a", "b"], ["c", "#"]]]),
    "no_tokens": (["", ""], {"separators": [" "], "mark": 1}, [[], []]),
    "no_texts": (np.zeros((0, 2), object), {"separators": [" "]}, np.zeros((0, 0, 0)).tolist()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_texts_become_tokens(name: str) -> None:
    texts, attributes, wanted = CASES[name]
    x = np.array(texts, object)
    content = model(x.ndim, **attributes)
    found = treadle.Session(content).run({"x": x})["y"]

    assert found.tolist() == wanted
    runtime = pytest.importorskip("onnxruntime")
    (theirs,) = runtime.InferenceSession(content, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    assert found.tolist() == theirs.tolist()
    assert found.shape == theirs.shape


@pytest.mark.parametrize(
    ("attributes", "says"),
    [
        ({}, "it needs one of the attributes 'separators' and 'tokenexp'"),
        ({"separators": [" "], "mincharnum": 0}, "'mincharnum' must be 1 or more, got 0"),
        ({"separators": [""], "mincharnum": 2}, "'mincharnum' must be 1 for single characters, got 2"),
        ({"tokenexp": "("}, "the regular expression '\\(' is none of RE2"),
        ({"separators": ["x*"]}, "the separator 'x\\*' matches empty texts"),
    ],
)
def test_what_takes_no_text_apart_is_refused(attributes: dict[str, Any], says: str) -> None:
    with pytest.raises(ModelError, match=says):
        treadle.Session(model(1, **attributes))
