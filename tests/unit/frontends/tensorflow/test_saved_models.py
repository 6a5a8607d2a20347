"""SavedModel folders: signatures, variables, what is refused, and their compiled form on disk."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import treadle
from tests.models.second_process import run_in_process
from tests.unit.cli.test_commands import treadle as command
from tests.unit.frontends.tensorflow.graphs import function_attr
from tests.unit.frontends.tensorflow.saved_models import PRODUCT, SavedWriter, checkpoint, dense, table
from treadle.dtypes import f32, string
from treadle.errors import InputError, ModelError, ModelFormatError, TreadleError, UnsupportedModelError
from treadle.frontends.tensorflow.messages import BundleEntry, BundleHeader
from treadle.ops.evaluate import evaluate

X = np.array([[1, 2], [3, 4], [-1, 0]], np.float32)
Y = X @ dense().values["w"] + dense().values["b"]
INDEX, SHARD = Path("variables", "variables.index"), Path("variables", "variables.data-00000-of-00001")


def test_the_default_signature(tmp_path: Path) -> None:
    """
    Inputs and outputs have the signature's names; one plan serves all batches.
    """
    session = treadle.Session(dense().save(tmp_path / "m"))

    assert [(t.name, t.shape) for t in session.inputs] == [("x", ("?0", 2))]
    for n in (3, 1, 2):
        np.testing.assert_array_equal(session.run({"x": X[:n]})["y"], Y[:n])
    assert (session.compiles, len(session.open_plans())) == (1, 1)


def test_another_signature(tmp_path: Path) -> None:
    """
    Chosen by name; an unknown name is answered by those that there are.
    """
    path = dense().save(tmp_path)
    np.testing.assert_array_equal(treadle.Session(path, signature="square").run({"x": X})["y"], Y**2)

    with pytest.raises(InputError, match=r"no signature 'encode'; choose one of \['serving_default', 'square'\]"):
        treadle.Session(path, signature="encode")
    with pytest.raises(InputError, match="inputs= and outputs= belong to frozen graphs"):
        treadle.Session(path, outputs=["y"])


def test_variables_inside_loops_and_rows_of_variables(tmp_path: Path) -> None:
    """
    A While passes the handle of a variable to its body, which reads it; ResourceGather reads rows.
    """
    made = SavedWriter(np.array([[1, 2], [3, 4]], np.float32), np.array([0.5, 1], np.float32))
    made.writer.function(
        "more",
        {"i": f32, "h": f32, "v": string},
        {"more": "less:z:0"},
        [("three", "Const", [], {"dtype": f32, "value": np.array(3, np.float32)}),
         ("less", "Less", ["i", "three:output:0"], {"T": f32})],
    )  # fmt: skip
    made.writer.function(
        "step",
        {"i": f32, "h": f32, "v": string},
        {"i": "next:z:0", "h": "new:z:0", "v": "same:output:0"},
        [("one", "Const", [], {"dtype": f32, "value": np.array(1, np.float32)}),
         ("next", "AddV2", ["i", "one:output:0"], {"T": f32}),
         ("read", "ReadVariableOp", ["v"], {"dtype": f32}),
         ("new", "AddV2", ["h", "read:value:0"], {"T": f32}),
         ("same", "Identity", ["v"], {"T": string})],
    )  # fmt: skip
    loop = {"T": [f32, f32, string], "cond": function_attr("more"), "body": function_attr("step")}
    made.signature(
        "serving_default",
        [("zero", "Const", [], {"dtype": f32, "value": np.array(0, np.float32)}),
         ("at", "Const", [], {"dtype": f32, "value": np.array([1], np.int32)}),
         ("row", "ResourceGather", ["w", "at:output:0"], {"dtype": f32, "batch_dims": 0}),
         ("start", "Mul", ["x", "row:output:0"], {"T": f32}),
         ("while", "While", ["zero:output:0", "start:z:0", "b"], loop),
         ("result", "Identity", ["while:output:1"], {"T": f32})],
        "result:output:0",
    )  # fmt: skip

    found = treadle.Session(made.save(tmp_path)).run({"x": X})["y"]
    np.testing.assert_array_equal(found, X * made.values["w"][1] + 3 * made.values["b"])


def test_the_compiled_form_is_kept_on_disk(tmp_path: Path) -> None:
    """
    A second process compiles nothing and reads no graph; one after another value was written does not find it.
    """
    made = dense()
    path = made.save(tmp_path / "m")
    found = run_in_process(path, [{"x": X}, {"x": X[:1]}], tmp_path, "signature='square'")
    assert (found.compiles, found.imported) == (0, [])
    np.testing.assert_array_equal(found.outputs[0]["y"], Y**2)

    made.values["b"] = made.values["b"] + 1
    made.save(path)
    np.testing.assert_array_equal(treadle.Session(path, signature="square").run({"x": X})["y"], (Y + 1) ** 2)


def test_links_to_the_files_are_followed(tmp_path: Path) -> None:
    """
    Caches of downloads have folders of links. The compiled form is kept on disk, and belongs to what they point at.
    """
    made = dense()
    paths = [made.save(tmp_path / "a")]
    made.values["b"] = made.values["b"] + 1
    paths.append(made.save(tmp_path / "b"))
    linked = tmp_path / "linked"
    (linked / "variables").mkdir(parents=True)
    for file in (Path("saved_model.pb"), INDEX, SHARD):
        (linked / file).symlink_to(paths[0] / file)
    found = run_in_process(linked, [{"x": X}], tmp_path)
    assert (found.compiles, found.imported) == (0, [])
    np.testing.assert_array_equal(found.outputs[0]["y"], Y)

    session = treadle.Session(linked)
    (linked / SHARD).unlink()
    (linked / SHARD).symlink_to(paths[1] / SHARD)
    np.testing.assert_array_equal(treadle.Session(linked).run({"x": X})["y"], Y + 1)
    with pytest.raises(ModelError, match="was changed after its session was made"):
        session.graph  # noqa: B018


def test_a_link_to_the_folder_that_points_elsewhere_later(tmp_path: Path) -> None:
    """
    Two folders share the file of the graph, as those of two revisions do; their variables differ.
    """
    made = dense()
    paths = [made.save(tmp_path / "a")]
    made.values["b"] = made.values["b"] + 1
    paths.append(made.save(tmp_path / "b"))
    (paths[1] / "saved_model.pb").unlink()
    (paths[1] / "saved_model.pb").hardlink_to(paths[0] / "saved_model.pb")
    linked = tmp_path / "linked"
    linked.symlink_to(paths[0])
    session = treadle.Session(linked)
    linked.unlink()
    linked.symlink_to(paths[1])

    np.testing.assert_array_equal(treadle.Session(linked).run({"x": X})["y"], Y + 1)
    with pytest.raises(ModelError, match="was changed after its session was made"):
        session.graph  # noqa: B018


def test_a_shard_of_more_than_two_gibibytes(tmp_path: Path) -> None:
    """
    It is mapped, so only the values of the variables are read. Here the file has a hole in front of them.
    """
    made = dense()
    path, hole = made.save(tmp_path), (1 << 31) + 4
    entries = {b"": BundleHeader(num_shards=1)}
    with (path / SHARD).open("wb") as shard:
        for name, value in sorted(made.values.items()):
            entry = BundleEntry(dtype=1, size=value.nbytes, offset=hole)
            for size in value.shape:
                entry.shape.dim.add(size=size)
            entries[f"{name}/.ATTRIBUTES/VARIABLE_VALUE".encode()] = entry
            shard.seek(hole)
            hole += shard.write(value.tobytes())
    (path / INDEX).write_bytes(table({key: value.SerializeToString() for key, value in entries.items()}))

    graph = treadle.frontends.load(path).build([(f32, (3, 2))])
    np.testing.assert_array_equal(evaluate(graph, {"x": X})["y"], Y)


def test_the_commands_take_the_folder(tmp_path: Path) -> None:
    """
    `run` and `inspect`, with a signature.
    """
    path = str(dense().save(tmp_path))
    for arguments in (["run", path, "--signature", "square"], ["inspect", path]):
        done = command(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        assert "y" in json.dumps(json.loads(done.stdout)["outputs"])
    assert "choose one of" in command("run", path, "--signature", "z").stderr


def test_assignments_are_refused(tmp_path: Path) -> None:
    """
    Also where no output depends on them: functions run all ops that have effects.
    """
    made = dense()
    made.signature("count", [*PRODUCT, ("more", "AssignAddVariableOp", ["b", "read_b:value:0"], {})], "sum:z:0")
    with pytest.raises(UnsupportedModelError, match=r"'more' \(AssignAddVariableOp\): it assigns a variable"):
        treadle.Session(made.save(tmp_path), signature="count")


def test_tables_are_refused(tmp_path: Path) -> None:
    """
    The error says what to do.
    """
    made = dense()
    made.signature("find", [*PRODUCT, ("find", "LookupTableFindV2", ["w", "x", "sum:z:0"], {})], "find:values:0")
    with pytest.raises(UnsupportedModelError, match="look keys up before the model"):
        treadle.Session(made.save(tmp_path), signature="find")


def test_a_variable_that_nothing_restores(tmp_path: Path) -> None:
    """
    Its value is not in the checkpoint.
    """
    made = dense()
    made.writer.node("VarHandleOp", name="lost", T=None, dtype=f32, shape=())
    lost = made.writer.node("ReadVariableOp", "lost", name="value", T=None, dtype=f32)
    made.meta.signature_def["lost"].outputs["y"].name = lost
    with pytest.raises(ModelError, match="variable 'lost': no part of the graph restores it") as raised:
        treadle.Session(made.save(tmp_path), signature="lost")
    assert "1 reason:" in str(raised.value)


@pytest.mark.parametrize("file", [INDEX, SHARD])
def test_a_missing_file(tmp_path: Path, file: Path) -> None:
    """
    The operating system's reason, and the path.
    """
    path = dense().save(tmp_path)
    (path / file).unlink()
    with pytest.raises(ModelFormatError, match=f"{file.name} cannot be read: No such file"):
        treadle.Session(path)


def test_values_that_do_not_fit(tmp_path: Path) -> None:
    """
    Another shape or type than the variable's, fewer bytes in the shard, no such key.
    """
    made = dense()
    path, key = made.save(tmp_path), "w/.ATTRIBUTES/VARIABLE_VALUE"
    values = {f"{name}/.ATTRIBUTES/VARIABLE_VALUE": value for name, value in made.values.items()}

    (path / SHARD).write_bytes(b"\0" * 20)
    with pytest.raises(ModelError, match="lies at 12 to 36 of shard 0, which has 20 bytes"):
        treadle.Session(path)
    for wrong, message in ((np.zeros((2, 2), np.float32), r"but the checkpoint has f32\[2, 2\]"),
                           (np.zeros((2, 3), np.int32), r"but the checkpoint has i32\[2, 3\]")):  # fmt: skip
        checkpoint(path, {**values, key: wrong})
        with pytest.raises(ModelError, match=message):
            treadle.Session(path)
    checkpoint(path, {name: value for name, value in values.items() if name != key})
    with pytest.raises(ModelError, match=f"the checkpoint has no tensor '{key}'"):
        treadle.Session(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"size": 8}, "needs 24 bytes, but has 8"),
        ({"offset": -4}, "lies at -4"),
        ({"offset": 1 << 62}, "of shard 0"),
        ({"shard_id": 5}, "names shard 5 of 1"),
        ({"dtype": 99}, "element type is 99"),
    ],
)
def test_absurd_entries(tmp_path: Path, change: dict[str, int], message: str) -> None:
    """
    Nothing is read from outside the shard.
    """
    path = dense().save(tmp_path)
    entry = BundleEntry(dtype=1, size=24, offset=12)
    entry.shape.dim.add(size=2)
    entry.shape.dim.add(size=3)
    for field, value in change.items():
        setattr(entry, field, value)
    entries = {b"": BundleHeader(num_shards=1), b"w/.ATTRIBUTES/VARIABLE_VALUE": entry}
    (path / INDEX).write_bytes(table({key: value.SerializeToString() for key, value in entries.items()}))
    with pytest.raises(ModelError, match=message):
        treadle.Session(path)


def test_every_damaged_byte_of_the_index(tmp_path: Path) -> None:
    """
    A typed error, or the same values: no byte of it crashes or is believed.
    """
    path = dense().save(tmp_path)
    whole = (path / INDEX).read_bytes()
    for at in range(len(whole)):
        (path / INDEX).write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            found = treadle.frontends.load(path)
        except TreadleError:
            continue
        graph = found.build([(f32, (3, 2))])
        weights = [value.data for node in graph.nodes for value in node.inputs if value is not None]
        assert any(np.array_equal(array, dense().values["w"]) for array in weights)
    for size in range(0, len(whole), 7):
        (path / INDEX).write_bytes(whole[:size])
        with pytest.raises(ModelError):
            treadle.frontends.load(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"\xff\xff", "saved_model.pb is damaged"), (b"", "no graph with the tag 'serve'")],
)
def test_a_damaged_graph(tmp_path: Path, content: bytes, message: str) -> None:
    """
    Bytes that are no message, and a message without graphs.
    """
    (tmp_path / "saved_model.pb").write_bytes(content)
    with pytest.raises(ModelFormatError, match=message):
        treadle.Session(tmp_path)


def test_a_signature_of_sparse_tensors(tmp_path: Path) -> None:
    """
    It has no name of one tensor.
    """
    made = dense()
    made.meta.signature_def["serving_default"].inputs["x"].ClearField("name")
    with pytest.raises(UnsupportedModelError, match="input 'x' is a sparse or composite tensor"):
        treadle.Session(made.save(tmp_path))


def test_no_signatures(tmp_path: Path) -> None:
    """
    A model that was saved without signatures, and a folder that is no SavedModel.
    """
    made = dense()
    made.message.meta_graphs[0].signature_def.clear()
    with pytest.raises(InputError, match="it has none: save it with signatures="):
        treadle.Session(made.save(tmp_path / "m"))
    (tmp_path / "empty.pb").mkdir()
    with pytest.raises(ModelFormatError, match=r"is a folder without the file saved_model\.pb"):
        treadle.Session(tmp_path / "empty.pb")
