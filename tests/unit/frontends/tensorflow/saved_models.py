"""Writes SavedModel folders for tests as TensorFlow does, without TensorFlow."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import f32, from_numpy, string
from treadle.frontends.tensorflow.messages import BundleEntry, BundleHeader, SavedModel
from treadle.frontends.tensorflow.tensors import NUMBERS, shape_message


def checksum(content: bytes) -> int:
    """The CRC-32C of `content`, bit by bit, as tables store it."""
    rest = 0xFFFFFFFF
    for byte in content:
        rest ^= byte
        for _ in range(8):
            rest = rest >> 1 ^ (0x82F63B78 if rest & 1 else 0)
    rest ^= 0xFFFFFFFF
    return ((rest >> 15 | rest << 17) + 0xA282EAD8) & 0xFFFFFFFF


def varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def block(entries: Mapping[bytes, bytes]) -> bytes:
    """A block of a table, in which keys share their first bytes, with what stands behind it."""
    content, before = b"", b""
    for key, value in entries.items():
        shared = next((n for n in range(len(before)) if key[: n + 1] != before[: n + 1]), len(before))
        content += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        before = key
    content += struct.pack("<II", 0, 1)
    return content + b"\0" + struct.pack("<I", checksum(content + b"\0"))


def table(entries: Mapping[bytes, bytes]) -> bytes:
    """A sorted table with one block of data."""
    data, nothing = block(entries), block({})
    first = varint(0) + varint(len(data) - 5)
    index = block({max(entries): first})
    second = varint(len(data)) + varint(len(nothing) - 5)
    third = varint(len(data) + len(nothing)) + varint(len(index) - 5)
    return data + nothing + index + (second + third).ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def checkpoint(folder: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write `arrays` by key as the checkpoint of the SavedModel in `folder`."""
    entries, content = {b"": BundleHeader(num_shards=1).SerializeToString()}, b""
    for key in sorted(arrays):
        array = arrays[key]
        entries[key.encode()] = BundleEntry(
            dtype=NUMBERS[from_numpy(array.dtype)], shape=shape_message(array.shape), offset=len(content),
            size=array.nbytes,
        ).SerializeToString()  # fmt: skip
        content += array.tobytes()
    (folder / "variables").mkdir(parents=True, exist_ok=True)
    (folder / "variables" / "variables.index").write_bytes(table(entries))
    (folder / "variables" / "variables.data-00000-of-00001").write_bytes(content)


class SavedWriter:
    """A SavedModel with a function for each signature, which all take the variables `w` and `b`."""

    def __init__(self, w: np.ndarray, b: np.ndarray) -> None:
        self.values = {"w": w, "b": b}
        self.writer = Writer()
        self.message = SavedModel(saved_model_schema_version=1)
        self.meta = self.message.meta_graphs.add()
        self.meta.meta_info_def.tags.append("serve")
        for name, value in self.values.items():
            self.writer.node("VarHandleOp", name=name, T=None, dtype=f32, shape=value.shape, shared_name=name)
        self.writer.node("Placeholder", name="saver_filename", T=None, dtype=string, shape=())
        self._restore()

    def _restore(self) -> None:
        """The function that assigns the checkpoint's tensors to variables, and its call."""
        keys = np.array([f"{name}/.ATTRIBUTES/VARIABLE_VALUE" for name in self.values], object)
        nodes = [
            ("keys", "Const", [], {"dtype": string, "value": keys}),
            ("slices", "Const", [], {"dtype": string, "value": np.array([""] * len(keys), object)}),
            ("restore", "RestoreV2", ["file", "keys:output:0", "slices:output:0"], {"dtypes": [f32] * len(keys)}),
        ]
        for index, name in enumerate(self.values):
            nodes.append((f"copy_{name}", "Identity", [f"restore:tensors:{index}"], {"T": f32}))
            nodes.append((f"assign_{name}", "AssignVariableOp", [name, f"copy_{name}:output:0"], {"dtype": f32}))
        nodes.append(("done", "Identity", ["file"], {"T": string}))
        arguments = {"file": string, **dict.fromkeys(self.values, string)}
        self.writer.function("restore", arguments, {"file": "done:output:0"}, nodes)
        self.writer.node(
            "StatefulPartitionedCall",
            "saver_filename",
            *self.values,
            name="restore",
            T=None,
            f=function_attr("restore"),
        )

    def signature(self, name: str, nodes: list[tuple], result: str) -> None:
        """Add a signature of x f32[None, 2] to y, the tensor `result` of `nodes`, which may read `x`, `w` and `b`."""
        x = self.writer.input(f"{name}_x", (None, 2))
        self.writer.function(f"call_{name}", {"x": f32, "w": string, "b": string}, {"y": result}, nodes)
        call = self.writer.node(
            "StatefulPartitionedCall", x, "w", "b", name=f"call_{name}", T=None, f=function_attr(f"call_{name}")
        )
        signature = self.meta.signature_def[name]
        signature.inputs["x"].name = f"{x}:0"
        signature.outputs["y"].name = f"{call}:0"

    def save(self, folder: Path) -> Path:
        self.meta.graph_def.CopyFrom(self.writer.graph)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "saved_model.pb").write_bytes(self.message.SerializeToString())
        checkpoint(folder, {f"{name}/.ATTRIBUTES/VARIABLE_VALUE": value for name, value in self.values.items()})
        return folder


def read(name: str) -> tuple:
    """A node of a function that reads the variable `name`."""
    return (f"read_{name}", "ReadVariableOp", [name], {"dtype": f32})


PRODUCT = [
    read("w"),
    read("b"),
    ("product", "MatMul", ["x", "read_w:value:0"], {"T": f32}),
    ("sum", "AddV2", ["product:product:0", "read_b:value:0"], {"T": f32}),
]
"""x @ w + b, the tensor sum:z:0."""


def dense() -> SavedWriter:
    """x @ w + b as serving_default, and (x @ w + b) ** 2 as `square`."""
    made = SavedWriter(np.array([[1, 2, 3], [4, 5, 6]], np.float32), np.array([10, 20, 30], np.float32))
    made.signature("serving_default", PRODUCT, "sum:z:0")
    made.signature("square", [*PRODUCT, ("square", "Square", ["sum:z:0"], {"T": f32})], "square:y:0")
    return made
