"""GreedySearch of com.microsoft: the most probable token of each step."""

from __future__ import annotations

import onnx
from onnx import TensorProto

from treadle.frontends.onnx.generation.nodes import Nodes
from treadle.frontends.onnx.generation.search import search_of
from treadle.frontends.onnx.generation.single_beam import Choice, single_beam

_INPUTS = (
    "input_ids", "max_length", "min_length", "repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask",
)  # fmt: skip


class _Best(Choice):
    def formals(self, w: Nodes) -> list[onnx.ValueInfoProto]:  # noqa: ARG002
        return []

    def token(self, w: Nodes, scores: str, carried: list[str]) -> tuple[str, list[str]]:
        return w.cast(w.add("ArgMax", scores, axis=1, keepdims=1), TensorProto.INT32), carried


def greedy_search(proto: onnx.NodeProto, name: str, version: int) -> tuple[list[onnx.NodeProto], list[str]]:
    """Return nodes that compute what the GreedySearch `proto` gives, and the names of its results.

    They are of operator set `version` of ai.onnx. Raises Fault for a decoder of another form, Unsupported for another
    kind of model.
    """
    w = Nodes(name)
    return single_beam(w, name, search_of(w, proto, _INPUTS, version), _Best(), [])
