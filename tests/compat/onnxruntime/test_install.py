"""install(), `python -m treadle.ort`, and models that onnxruntime itself runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models
from treadle.compat.onnxruntime import peer
from treadle.compat.onnxruntime.capi import onnxruntime_pybind11_state as state

PROGRAM = """
import sys
import numpy as np
import onnxruntime as ort
from onnxruntime import InferenceSession
from onnxruntime.capi import _pybind_state
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
session = InferenceSession(sys.argv[1])
try:
    session.run(["nothing"], {"x": np.ones((2, 3), np.float32), "i": np.ones((2, 1), np.int64)})
except InvalidArgument:
    print(session.run(["y"], {"x": np.ones((2, 3), np.float32), "i": np.ones((2, 1), np.int64)})[0].tolist())
print(ort.get_build_info().split()[0], session.runs_on, __name__, _pybind_state.SessionOptions is ort.SessionOptions)
"""

ANSWER = "[[12.0, 15.0, 18.0, 21.0], [12.0, 15.0, 18.0, 21.0]]\ntreadle treadle __main__ True\n"


def run(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model and a program."""
    (tmp_path / "model.onnx").write_bytes(models.two_outputs())
    (tmp_path / "program.py").write_text(PROGRAM)
    return tmp_path


@pytest.mark.parametrize("way", [["program.py"], ["--strict", "program.py"], ["-m", "program"]])
def test_an_unchanged_program_runs_on_treadle(folder: Path, way: list[str]) -> None:
    done = run("-m", "treadle.ort", *way, "model.onnx", folder=folder)
    assert (done.returncode, done.stdout) == (0, ANSWER), done.stderr


def test_packages_find_the_module_without_importing_it(folder: Path) -> None:
    """
    As transformers does, which asks for the specification of the module.
    """
    lines = ("from importlib.util import find_spec", "print(*(find_spec(name).name for name in NAMES))")
    names = ("onnxruntime", "onnxruntime.capi", "onnxruntime.capi._pybind_state")
    (folder / "finds.py").write_text("\n".join((f"NAMES = {names}", *lines)))
    done = run("-m", "treadle.ort", "finds.py", folder=folder)
    assert (done.returncode, done.stdout.split()) == (0, list(names)), done.stderr


def test_wrong_calls_of_the_program(tmp_path: Path) -> None:
    assert "python -m treadle.ort" in run("-m", "treadle.ort", folder=tmp_path).stderr
    done = run("-m", "treadle.ort", "nothing.py", folder=tmp_path)
    assert (done.returncode, done.stderr) == (2, "treadle.ort: there is no program 'nothing.py'\n")


def test_install_serves_later_imports_until_uninstall(folder: Path) -> None:
    program = """
import sys, warnings
warnings.simplefilter("error")
import treadle.compat.onnxruntime as own
done = own.install()
assert done.kept == () and "onnxruntime.capi._pybind_state" in done.served
import onnxruntime
assert onnxruntime.InferenceSession is own.InferenceSession and onnxruntime.__version__ == own.__version__
assert own.install(strict=True) == done
own.uninstall()
assert "onnxruntime" not in sys.modules and "onnxruntime.capi" not in sys.modules
"""
    done = run("-c", program, folder=folder)
    assert done.returncode == 0, done.stderr


def test_modules_that_are_imported_anew_or_reloaded_are_treadles(folder: Path) -> None:
    program = """
import importlib, sys
import treadle.compat.onnxruntime as own
own.install()
import onnxruntime
assert importlib.reload(onnxruntime) is onnxruntime
for name in [name for name in sys.modules if name.split(".")[0] == "onnxruntime"]:
    del sys.modules[name]
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument, SessionOptions
import onnxruntime
assert onnxruntime.InferenceSession is own.InferenceSession and SessionOptions is own.SessionOptions
assert importlib.import_module("onnxruntime.capi").onnxruntime_pybind11_state.InvalidArgument is InvalidArgument
own.uninstall()
assert not [each for each in sys.meta_path if type(each).__module__.startswith("treadle")]
"""
    done = run("-c", program, folder=folder)
    assert done.returncode == 0, done.stderr


def test_other_modules_of_onnxruntime_are_its_own(folder: Path) -> None:
    """
    Quantization tools import what packs weights from `capi`, programs ask how the package was built.
    """
    if peer.load() is None:
        pytest.skip("onnxruntime is not installed")
    program = """
import treadle.compat.onnxruntime as own
own.install()
import onnxruntime
from onnxruntime.capi.build_and_package_info import package_name
from onnxruntime.capi._pybind_state import quantize_matmul_4bits, quantize_matmul_bnb4
import onnxruntime.backend
session = onnxruntime.backend.prepare("model.onnx", "CPU")._session
assert package_name == "onnxruntime" and session.runs_on == "treadle"
"""
    done = run("-c", program, folder=folder)
    assert done.returncode == 0, done.stderr


def test_install_names_modules_that_came_before(folder: Path) -> None:
    if peer.load() is None:
        pytest.skip("onnxruntime is not installed")
    (folder / "early.py").write_text("from onnxruntime import InferenceSession\n")
    program = """
import warnings, early
import treadle.compat.onnxruntime as own
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    done = own.install()
assert done.kept == ("early",), done
assert "early" in str(told[0].message)
import onnxruntime
assert onnxruntime.InferenceSession is own.InferenceSession is not early.InferenceSession
import onnxruntime.tools
own.uninstall()
import onnxruntime
assert onnxruntime.InferenceSession is early.InferenceSession
"""
    done = run("-c", program, folder=folder)
    assert done.returncode == 0, done.stderr


def test_strict_sessions_refuse_what_treadle_cannot_run() -> None:
    with pytest.raises(state.NotImplemented, match=r"version 6 of domain ai\.onnx"):
        own.InferenceSession(models.old(), strict=True)
    session = own.InferenceSession(models.overridable(), strict=True)
    with pytest.raises(state.NotImplemented, match="overrides the initialiser 'b'"):
        session.run(None, {"a": np.ones(2, np.float32), "b": np.zeros(2, np.float32)})
    assert session.run(None, {"a": np.ones(2, np.float32)})[0].tolist() == [2, 3]


def test_other_models_run_on_the_peer_and_say_so() -> None:
    if peer.load() is None:
        pytest.skip("onnxruntime is not installed")
    with pytest.warns(own.PeerWarning, match="runs on onnxruntime itself"):
        session = own.InferenceSession(models.old())
    assert session.runs_on == "onnxruntime"
    assert [array.tolist() for array in session.run(None, {"a": np.ones(2, np.float32)})] == [[1, 1]]
    assert session.get_outputs()[0].type == "tensor(float)"
    assert session.get_modelmeta().producer_name == "tests"
    with pytest.raises(state.InvalidArgument, match="Invalid rank for input: a"):
        session.run(None, {"a": np.ones((1, 2), np.float32)})
    options = own.RunOptions()
    options.terminate = True
    with pytest.raises(state.Fail, match="terminate flag"):
        session.run(None, {"a": np.ones(2, np.float32)}, options)


def test_overridden_initialisers_run_on_the_peer() -> None:
    if peer.load() is None:
        pytest.skip("onnxruntime is not installed")
    session = own.InferenceSession(models.overridable())
    assert [one.name for one in session.get_inputs()] == ["a"]
    assert [one.name for one in session.get_overridable_initializers()] == ["b"]
    with pytest.warns(own.PeerWarning, match="overrides the initialiser 'b'"):
        results = session.run(None, {"a": np.ones(2, np.float32), "b": np.zeros(2, np.float32)})
    assert results[0].tolist() == [1, 1]
