"""A small encoder-decoder model of T5's kind with random weights, in a BeamSearch of com.microsoft."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from tests.models.beam_search import FORMS
from tests.models.greedy_search import DEPTH, END, HEADS, HIDDEN, INT32, PAD, VOCABULARY
from tests.models.small import FLOAT, Array, ModelWriter

FIRST = 2
_OPTIONS = ("repetition_penalty", "vocab_mask", "prefix_vocab_mask", "attention_mask")


def _info(name: str, kind: int, *shape: object) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, list(shape))


def _caches(prefix: str, of: str, length: object) -> list[onnx.ValueInfoProto]:
    return [_info(f"{prefix}_{each}_{of}_0", FLOAT, "batch", HEADS, length, DEPTH) for each in ("key", "value")]


def _heads(w: ModelWriter, x: str, name: str = "") -> str:
    split = w.op("Reshape", w.op("MatMul", x, w.random(HIDDEN, HIDDEN)), w.constant(np.array([0, 0, HEADS, DEPTH])))
    w.op("Transpose", split, perm=[0, 2, 1, 3])
    w.nodes[-1].output[0] = name or w.nodes[-1].output[0]
    return str(w.nodes[-1].output[0])


def _attended(w: ModelWriter, x: str, keys: str, values: str, mask: str = "") -> str:
    scores = w.op("MatMul", _heads(w, x), w.op("Transpose", keys, perm=[0, 1, 3, 2]))
    if mask:
        seen = w.op("Unsqueeze", w.op("Cast", mask, to=FLOAT), w.constant(np.array([1, 2])))
        hidden = w.op("Mul", w.op("Sub", seen, w.constant(np.float32(1))), w.constant(np.float32(1e4)))
        scores = w.op("Add", scores, hidden)
    mixed = w.op("Transpose", w.op("MatMul", w.op("Softmax", scores, axis=-1), values), perm=[0, 2, 1, 3])
    return w.op("Add", x, w.op("Reshape", mixed, w.constant(np.array([0, 0, HIDDEN]))))


def _decoded(w: ModelWriter, ids: str, cross: tuple[str, str], past: tuple[str, str] | None = None) -> None:
    """A layer of attention to the ids so far and to the encoder's, which makes logits and presents."""
    x = w.op("Gather", w.random(VOCABULARY, HIDDEN), ids)
    own = []
    for number, each in enumerate(("key", "value")):
        name = f"present_{each}_self_0"
        if past is None:
            _heads(w, x, name)
        else:
            w.op("Concat", past[number], _heads(w, x), axis=2)
            w.nodes[-1].output[0] = name
        own.append(name)
    x = _attended(w, _attended(w, x, *own), *cross, "encoder_attention_mask")
    head = w.constant(3 * w.rng.standard_normal((HIDDEN, VOCABULARY)).astype(np.float32))
    w.op("MatMul", w.op("Tanh", x), head)
    w.nodes[-1].output[0] = "logits"


def encoder(seed: int, *, runs_first: bool) -> onnx.GraphProto:
    """Return the encoder: ids, mask -> keys and values; if it `runs_first`, the decoder's first run, too."""
    w = ModelWriter(seed)
    w.op("Tanh", w.op("MatMul", w.op("Gather", w.random(VOCABULARY, HIDDEN), "encoder_input_ids"), w.random(HIDDEN, 8)))
    w.nodes[-1].output[0] = "encoder_hidden_states"
    cross = tuple(_heads(w, "encoder_hidden_states", f"present_{each}_cross_0") for each in ("key", "value"))
    inputs = [_info(f"encoder_{name}", INT32, "batch", "length") for name in ("input_ids", "attention_mask")]
    outputs = _caches("present", "cross", "length")
    if runs_first:
        w.rng = np.random.default_rng(seed + 1)
        _decoded(w, "decoder_input_ids", (cross[0], cross[1]))
        inputs.append(_info("decoder_input_ids", INT32, "batch", 1))
        logits = _info("logits", FLOAT, "batch", 1, VOCABULARY)
        states = _info("encoder_hidden_states", FLOAT, "batch", "length", HIDDEN)
        outputs = [logits, states, *_caches("present", "self", 1), *outputs]
    return helper.make_graph(w.nodes, "encoder", inputs, outputs, w.weights)


def decoder(seed: int, *, reads_states: bool, new: object) -> onnx.GraphProto:
    """Return the decoder of the encoder of the same seed, which reads `new` ids."""
    w = ModelWriter()
    w.rng = np.random.default_rng(seed + 1)
    pasts = [*_caches("past", "self", "past"), *_caches("past", "cross", "length")]
    names = [past.name for past in pasts]
    _decoded(w, "input_ids", (names[2], names[3]), (names[0], names[1]))
    inputs = [_info("input_ids", INT32, "batch", new), _info("encoder_attention_mask", INT32, "batch", "length")]
    if reads_states:
        inputs.append(_info("encoder_hidden_states", FLOAT, "batch", "length", HIDDEN))
    outputs = [_info("logits", FLOAT, "batch", new, VOCABULARY), *_caches("present", "self", "total")]
    return helper.make_graph(w.nodes, "decoder", [*inputs, *pasts], outputs, w.weights)


def translating(
    seed: int,
    options: tuple[str, ...] = (),
    *,
    runs_first: bool = True,
    reads_states: bool = False,
    new: object = 1,
    **attributes: int,
) -> onnx.ModelProto:
    """Return a model of sequences, their scores, and those of all steps, with these optional inputs."""
    names = [name if name not in _OPTIONS or name in options else "" for name in FORMS]
    outputs = {
        "sequences": (INT32, ["batch", "returned", "max_length"]),
        "sequences_scores": (FLOAT, ["batch", "returned"]),
        "scores": (FLOAT, ["steps", "batch", "beams", VOCABULARY]),
    }
    node = helper.make_node(
        "BeamSearch", names, list(outputs), name="search", domain="com.microsoft",
        encoder=encoder(seed, runs_first=runs_first), decoder=decoder(seed, reads_states=reads_states, new=new),
        **{"eos_token_id": END, "pad_token_id": PAD, "model_type": 1, "decoder_start_token_id": FIRST, **attributes},
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "translating",
        [helper.make_tensor_value_info(name, *FORMS[name]) for name in names if name],
        [helper.make_tensor_value_info(name, *form) for name, form in outputs.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def translating_feeds(model: onnx.ModelProto, **numbers: float) -> dict[str, Array]:
    """Return two texts, of which one is padded on both sides and within, and all other inputs of `model`."""
    rng = np.random.default_rng(4)
    ids = rng.integers(4, VOCABULARY, (2, 6)).astype(np.int32)
    ids[0, [0, 3, 5]] = PAD
    known = {"max_length": 9, "min_length": 0, "num_beams": 3, "num_return_sequences": 3, "length_penalty": 1.0}
    known |= {"repetition_penalty": 1.4, **numbers}
    given: dict[str, Array] = {
        "input_ids": ids,
        "vocab_mask": (rng.random(VOCABULARY) < 0.7).astype(np.int32),
        "prefix_vocab_mask": (rng.random((2, VOCABULARY)) < 0.5).astype(np.int32),
        "attention_mask": (ids != PAD).astype(np.int32),
    }
    for name, number in known.items():
        given[name] = np.array([number], np.int32 if FORMS[name][0] == INT32 else np.float32)
    return {value.name: given[value.name] for value in model.graph.input}
