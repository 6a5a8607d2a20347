"""Models cut into a message and the raw data of its initialisers."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from tests.models import small
from treadle.frontends.onnx.payloads import SMALLEST, split

LARGE = np.arange(SMALLEST, dtype=np.float32)


def model(*tensors: TensorProto) -> onnx.ModelProto:
    graph = helper.make_graph([], "g", [], [], list(tensors))
    return helper.make_model(graph)


def together(content: bytes) -> onnx.ModelProto:
    """The model put together again from its parts."""
    parts = split(memoryview(content))
    whole = onnx.ModelProto.FromString(bytes(parts.message))
    for tensor, payload in zip(whole.graph.initializer, parts.payloads, strict=False):
        if payload is not None:
            tensor.raw_data = bytes(payload)
    return whole


@pytest.mark.parametrize("name", small.MODELS)
def test_message_and_payloads_are_the_whole_model(name: str) -> None:
    """
    Nothing is lost, and nothing changes its place.
    """
    whole = small.MODELS[name]()

    assert together(whole.SerializeToString()) == whole


def test_large_raw_data_are_left_where_they_are() -> None:
    """
    What is parsed does not grow with the weights; small tensors and those in other fields are parsed.
    """
    large, tiny = numpy_helper.from_array(LARGE, "large"), numpy_helper.from_array(LARGE[:3], "tiny")
    listed = helper.make_tensor("listed", TensorProto.FLOAT, [SMALLEST], LARGE)
    content = model(tiny, large, listed).SerializeToString()

    parts = split(memoryview(content))

    assert [payload is not None for payload in parts.payloads] == [False, True, False]
    assert parts.payloads[1] == LARGE.tobytes()
    assert len(parts.message) < len(content) - LARGE.nbytes


def test_fields_that_come_twice_mean_what_protobuf_says() -> None:
    """
    Graphs that come in pieces are joined; of two raw data the last counts, large or small.
    """
    large = numpy_helper.from_array(LARGE, "large")
    halves = model(large).SerializeToString() + model(numpy_helper.from_array(LARGE[::-1], "other")).SerializeToString()
    assert together(halves) == onnx.ModelProto.FromString(halves)

    for last in (LARGE.tobytes()[::-1], b"abcd"):
        doubled = onnx.ModelProto.FromString(model(large).SerializeToString())
        tensor = large.SerializeToString() + TensorProto(raw_data=last).SerializeToString()
        graph = b"\x2a" + varint(len(tensor)) + tensor
        content = b"\x3a" + varint(len(graph)) + graph
        doubled = together(content)
        assert doubled == onnx.ModelProto.FromString(content)
        assert doubled.graph.initializer[0].raw_data == last


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def test_every_cut_of_a_model_is_left_to_the_parser() -> None:
    """
    A model that ends early is handed over as it is, for the parser to say so.
    """
    content = model(numpy_helper.from_array(LARGE, "large")).SerializeToString()
    for length in (*range(100), *range(100, len(content), 97)):
        parts = split(memoryview(content[:length]))
        try:
            wanted = onnx.ModelProto.FromString(content[:length])
        except DecodeError:
            assert bytes(parts.message) == content[:length]
            continue
        assert together(content[:length]) == wanted


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 300))
def test_bytes_that_are_no_model_never_crash(noise: bytes, at: int) -> None:
    """
    Random bytes, alone or written over a model, give what the parser makes of the whole, or are left to it.
    """
    content = model(numpy_helper.from_array(LARGE, "large")).SerializeToString()
    for damaged in (noise, content[:at] + noise + content[at + len(noise) :]):
        parts = split(memoryview(damaged))
        try:
            wanted = onnx.ModelProto.FromString(damaged)
        except DecodeError:
            with pytest.raises(DecodeError):
                onnx.ModelProto.FromString(bytes(parts.message))
            continue
        assert together(damaged).SerializeToString(deterministic=True) == wanted.SerializeToString(deterministic=True)
