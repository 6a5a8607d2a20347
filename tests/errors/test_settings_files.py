"""Files of tuned settings: what sessions take from them, and what they say to those that do not fit."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import treadle
import treadle.compat.tensorflow as tf
from tests.models import small
from treadle.codegen.target import detect
from treadle.errors import InputError, ModelFormatError, SettingsFileError, ThreadSettingError
from treadle.frontends.model_source import file_digest
from treadle.runtime.threads import process
from treadle.runtime.tuned import Tuned, machine, read_tuned, write_tuned


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(small.add(), tmp_path / "add.onnx")
    return tmp_path / "add.onnx"


@pytest.fixture
def file(tmp_path: Path, model: Path) -> Path:
    path = tmp_path / "add.json"
    here = machine(detect().isa, process.topology())
    write_tuned(path, Tuned(1, 0, model.name, file_digest(model) or "", here, "Because.", {"median_ms": {"1, 1": 2.5}}))
    return path


def changed(file: Path, name: str, value: object) -> Path:
    """The file with another value under the name; None takes it out."""
    content = json.loads(file.read_text())
    *way, last = name.split(".")
    part = content
    for step in way:
        part = part[step]
    part[last] = value
    if value is None:
        del part[last]
    file.write_text(json.dumps(content))
    return file


def test_a_session_has_the_limits_of_its_file(model: Path, file: Path) -> None:
    """
    And says where they came from; bytes of the model are the model too.
    """
    for given in (model, str(model), model.read_bytes()):
        limits = treadle.Session(given, settings=file).get()

        assert (limits.intra_op, limits.intra_source) == (1, f"Session(settings={str(file)!r})")
        assert limits.inter_op == process.topology().available
        assert limits.inter_source.startswith(f"automatic (Session(settings={str(file)!r})): ")


def test_numbers_in_the_call_go_first(model: Path, file: Path) -> None:
    """
    Each for itself; and later ones from set().
    """
    session = treadle.Session(model, settings=str(file), intra_op=3)
    assert (session.get().intra_op, session.get().intra_source) == (3, "Session(intra_op=3)")
    assert "settings=" in session.get().inter_source

    session.set(inter_op=5)
    assert session.get().inter_op == 5


def test_what_is_written_is_read_again(file: Path) -> None:
    """
    The file is short, and ends as text files do.
    """
    first = read_tuned(file)
    text = file.read_text()
    write_tuned(file, first)

    assert file.read_text() == text
    assert text.endswith("}\n")
    assert len(text) < 1000


def test_a_disk_that_is_full_leaves_the_file_as_it_was(file: Path) -> None:
    """
    And nothing beside it.
    """
    first, text = read_tuned(file), file.read_text()
    beside = sorted(file.parent.iterdir())
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(text) - 1, most))
    try:
        with pytest.raises(OSError, match="too large"):
            write_tuned(file, first)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))

    assert file.read_text() == text
    assert sorted(file.parent.iterdir()) == beside


def test_a_link_stays_a_link(file: Path, tmp_path: Path) -> None:
    """
    What it leads to is written.
    """
    link = tmp_path / "link.json"
    link.symlink_to(file)
    text = file.read_text()
    write_tuned(link, replace(read_tuned(file), why="Another."))

    assert link.is_symlink()
    assert file.read_text() == text.replace("Because.", "Another.")


def test_a_changed_model_is_another_model(model: Path, file: Path) -> None:
    """
    The message has both hashes, and what to do.
    """
    onnx.save(small.branches(), model)

    with pytest.raises(SettingsFileError) as caught:
        treadle.Session(model, settings=file)

    wanted, came = read_tuned(file).digest, file_digest(model)
    assert (
        f"{str(file)!r} are of another model: wanted 'add.onnx' with SHA-256 {wanted!r}, got one with {came!r}; "
        in str(caught.value)
    )
    assert "treadle tune MODEL --save FILE" in str(caught.value)
    assert isinstance(caught.value, ThreadSettingError)


def test_a_model_without_a_file_has_no_settings(file: Path) -> None:
    """
    What it is written to may have other bytes.
    """
    with pytest.raises(SettingsFileError, match="wanted a model given as a file or its bytes, got one that has none"):
        treadle.Session(small.add(), settings=file)


def test_a_model_that_cannot_be_read_is_told_of_first(tmp_path: Path, file: Path) -> None:
    """
    As without settings.
    """
    with pytest.raises(ModelFormatError, match="cannot be read"):
        treadle.Session(tmp_path / "none.onnx", settings=file)


@pytest.mark.parametrize(("name", "value"), [("name", "Another CPU"), ("isa", "avx9"), ("available", 4096)])
def test_settings_of_another_machine_are_refused(model: Path, file: Path, name: str, value: object) -> None:
    """
    Another processor, other instructions, or other CPUs available.
    """
    with pytest.raises(
        SettingsFileError, match=rf"another machine: wanted cpu\.{name} {value!r}, got .*on this machine"
    ):
        treadle.Session(model, settings=changed(file, f"cpu.{name}", value))


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("format", "treadle-settings-9", "format: wanted 'treadle-settings-1', got 'treadle-settings-9'"),
        ("format", None, "format: wanted a text, got nothing"),
        ("intra_op", None, "intra_op: wanted an int, got nothing"),
        ("intra_op", "2", "intra_op: wanted an int, got '2'"),
        ("intra_op", True, "intra_op: wanted an int, got True"),
        ("inter_op", -1, "an int in 0..4096 (0 = automatic), got -1"),
        ("model", 5, "model.name: wanted a text, got nothing"),
        ("model.sha256", 5, "model.sha256: wanted a text, got 5"),
        ("cpu.available", 2.0, "cpu.available: wanted an int, got 2.0"),
        ("measured", [], "measured: wanted an object, got []"),
    ],
)
def test_a_part_that_cannot_be_is_named(model: Path, file: Path, name: str, value: object, said: str) -> None:
    """
    With the file, what was wanted, and what came.
    """
    with pytest.raises(SettingsFileError) as caught:
        treadle.Session(model, settings=changed(file, name, value))

    assert said in str(caught.value)
    assert repr(str(file)) in str(caught.value)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 10**5, b"1" * 10**4, b'{"format": 1e999}']
)
def test_what_is_no_such_file_is_refused(model: Path, file: Path, content: bytes) -> None:
    """
    Damaged, or something else.
    """
    file.write_bytes(content)

    with pytest.raises(SettingsFileError, match=r"add\.json"):
        treadle.Session(model, settings=file)


@pytest.mark.parametrize("name", ["model.name", "model.sha256", "cpu.name", "cpu.available", "inter_op", "format"])
def test_messages_show_little_of_a_part_and_no_control_characters(model: Path, file: Path, name: str) -> None:
    """
    A file from somebody else neither fills a log nor drives a terminal.
    """
    of_this_machine = file.read_text()
    number = name in ("cpu.available", "inter_op")
    for value in (10**4000,) if number else ("\x1b[2J\n\ud800", "x" * 900_000):
        file.write_text(of_this_machine)
        changed(file, name, value)
        if name == "model.name":
            changed(file, "model.sha256", "of another")
        with pytest.raises(SettingsFileError) as caught:
            treadle.Session(model, settings=file)

        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 600 + len(str(file))


def test_what_cannot_be_read_is_refused(model: Path, tmp_path: Path) -> None:
    """
    Nothing waits for the writer of a pipe, and no more is read than such a file can have.
    """
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b" " * (2 << 20))

    for name, said in (
        ("none", "No such file"),
        (".", "directory"),
        ("pipe", "regular file"),
        ("large", "regular"),
        ("\0", "null"),
    ):
        with pytest.raises(SettingsFileError, match=said):
            treadle.Session(model, settings=tmp_path / name)
    for wrong in (5, {"intra_op": 1}, [0] * 10**5):
        with pytest.raises(SettingsFileError, match="wanted a path or None"):
            treadle.Session(model, settings=wrong)  # type: ignore[arg-type]
    assert not issubclass(SettingsFileError, InputError)


def test_models_of_other_kinds_have_settings_by_their_bytes_too(tmp_path: Path, file: Path) -> None:
    """
    A frozen TensorFlow graph, given by its path or its bytes, whole or in part.
    """
    graph = tf.Graph()
    with graph.as_default():
        tf.nn.relu(tf.placeholder(tf.float32, [2], name="x"), name="y")
    model = tmp_path / "graph.pb"
    model.write_bytes(graph.as_graph_def().SerializeToString())
    changed(file, "model.sha256", file_digest(model))

    for given in (model, model.read_bytes()):
        assert treadle.Session(given, settings=file).get().intra_op == 1
    assert treadle.Session(model, settings=file, outputs=["y"]).get().intra_op == 1
    model.write_bytes(model.read_bytes() + b"\x12\x00")
    with pytest.raises(SettingsFileError, match="another model"):
        treadle.Session(model, settings=file)
