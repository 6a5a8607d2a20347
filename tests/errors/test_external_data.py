"""What loading says to models whose tensors are in files that may not be read, word for word."""

import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from treadle.errors import ModelError
from treadle.frontends.onnx import load


def faults(model):
    """The sentences of the error that loading `model` raises, without the heading."""
    with pytest.raises(ModelError) as caught:
        load(model)
    assert type(caught.value) is ModelError
    return str(caught.value).splitlines()[1:]


@pytest.fixture
def folder(tmp_path):
    """A folder with the file `w.bin` of an f32[4]; `secret`, of the same, lies beside the folder."""
    home = tmp_path / "model"
    home.mkdir()
    numbers = np.arange(4, dtype=np.float32)
    (home / "w.bin").write_bytes(numbers.tobytes())
    (tmp_path / "secret").write_bytes(numbers.tobytes())
    return home


def write(folder, **entries):
    """The path of a model whose `w` has external data by these entries."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    model = parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Add(x, w) }'
    )
    model.graph.initializer.append(tensor)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder / "m.onnx"


def test_data_beside_the_model_is_read(folder):
    graph = load(write(folder, location="w.bin"))
    (constant,) = graph.constants()
    assert constant.data.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("location", ["../secret", "a/../../secret", "/etc/passwd", "..", "", "a\\b"])
def test_a_path_that_leads_out_is_refused(folder, location):
    assert faults(write(folder, location=location)) == [
        (
            f"  - initialiser 'w': its data is in the file {location!r}; "
            "wanted a path inside the model's folder, without `..` or `\\`"
        )
    ]


@pytest.mark.parametrize("location", ["link", "linked/secret"])
def test_a_symbolic_link_is_refused_in_every_component(folder, location):
    (folder / "link").symlink_to(folder.parent / "secret")
    (folder / "linked").symlink_to(folder.parent)
    (fault,) = faults(write(folder, location=location))
    assert "cannot be opened" in fault
    assert "wanted a file in the model's folder, with no symbolic link on the way" in fault


def test_a_hard_link_is_refused(folder):
    (folder / "hard").hardlink_to(folder.parent / "secret")
    assert faults(write(folder, location="hard")) == [
        "  - initialiser 'w': its data is in 'hard', which has 2 hard links; wanted one"
    ]


def test_a_name_too_long_for_the_system(folder):
    location = "x" * 5000
    assert faults(write(folder, location=location)) == [
        (
            f"  - initialiser 'w': its data is in {location!r}, which cannot be opened (File name too long); "
            "wanted a file in the model's folder, with no symbolic link on the way"
        )
    ]


def test_a_pipe_is_refused_at_once(folder):
    os.mkfifo(folder / "pipe")
    assert faults(write(folder, location="pipe")) == [
        "  - initialiser 'w': its data is in 'pipe', which is no regular file"
    ]


def test_data_past_the_end_is_refused(folder):
    assert faults(write(folder, location="w.bin", offset=4)) == [
        "  - initialiser 'w': its data is bytes 4 to 20 of 'w.bin', which has 16 bytes"
    ]


def test_a_length_that_is_not_the_tensors_is_refused(folder):
    assert faults(write(folder, location="w.bin", length=8)) == [
        "  - initialiser 'w': its shape and type need 16 bytes of external data, but `length` is 8"
    ]


def test_a_model_from_bytes_may_read_no_file(folder):
    content = write(folder, location="w.bin").read_bytes()
    assert faults(content) == [
        (
            "  - initialiser 'w': its data is in the file 'w.bin', which a model that was not loaded from a path "
            "may not read; pass the path of the model instead"
        )
    ]


def test_a_tensor_in_an_attribute_is_held_to_the_same_rules(folder):
    model = onnx.load(write(folder, location="../secret"), load_external_data=False)
    tensor = model.graph.initializer.pop()
    model.graph.node.insert(0, helper.make_node("Constant", [], ["w"], name="stored"))
    model.graph.node[0].attribute.append(onnx.AttributeProto(name="value", type="TENSOR", t=tensor))
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    assert faults(folder / "m.onnx") == [
        (
            "  - node 'stored' (Constant): attribute 'value': its data is in the file '../secret'; "
            "wanted a path inside the model's folder, without `..` or `\\`"
        )
    ]
