"""Providers of matrix products: treadle's kernels or a library.

OpenBLAS is always tested, MKL and oneDNN where installed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.models import small
from tests.single_node import SingleNode

import treadle
from treadle.dtypes import f32
from treadle.errors import KnobError, ProviderError
from treadle.graph.expr import Expr, Step
from treadle.runtime import libraries, providers

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).resolve().parents[3]
LIBRARIES = ["openblas", "mkl", "onednn"]
PLAIN = {"transpose_a": False, "transpose_b": False}
EPILOGUE = Expr((f32, f32), (Step("add", (0, 1), f32), Step("tanh", (2,), f32)), (3,))


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    """A provider whose library is installed; the package of OpenBLAS is one of those that tests need."""
    name = str(request.param)
    if name != "openblas" and not libraries.is_available(name):
        pytest.skip(f"{name} is not installed: {libraries.INSTALL[name]}")
    return name


@pytest.fixture(autouse=True)
def _as_the_environment_has_it() -> Any:
    yield
    treadle.threads.set_matmul_provider(None)


def numbers(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def families(session: treadle.Session) -> list[str]:
    return [call.spec.family for plan in session.plans() for call in plan.calls if call.spec is not None]


def process(body: str, **environment: str) -> str:
    """Runs `body` in a new process and returns its output; fails if the process ends with an error."""
    result = subprocess.run(
        [sys.executable, "-c", body], cwd=ROOT, timeout=100, check=False, env=os.environ | environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    return result.stdout


CASES: dict[str, tuple[list[tuple[int, ...]], dict[str, Any]]] = {
    "plain": ([(37, 29), (29, 43)], {}),
    "a transposed": ([(29, 37), (29, 43)], {"transpose_a": True}),
    "b transposed": ([(37, 29), (43, 29)], {"transpose_b": True}),
    "both transposed": ([(29, 37), (43, 29)], {"transpose_a": True, "transpose_b": True}),
    "many chunks": ([(300, 200), (200, 500)], {}),
    "many chunks, b transposed": ([(300, 200), (500, 200)], {"transpose_b": True}),
    "batch": ([(5, 17, 30), (5, 30, 21)], {}),
    "batch of many chunks": ([(70, 40, 60), (70, 60, 50)], {}),
    "large batch members": ([(3, 200, 200), (3, 200, 200)], {}),
    "a repeats": ([(17, 30), (4, 3, 30, 21)], {}),
    "b repeats": ([(4, 3, 17, 30), (30, 21)], {}),
    "batch broadcasts": ([(4, 1, 17, 30), (3, 30, 21)], {}),
    "heads": ([(2, 16, 3, 8), (2, 16, 3, 8)], {"a_perm": (0, 2, 1, 3), "b_perm": (0, 2, 3, 1)}),
    "heads back": ([(2, 3, 16, 16), (2, 16, 3, 8)], {"b_perm": (0, 2, 1, 3), "out_perm": (0, 2, 1, 3)}),
    "result transposed": ([(37, 29), (29, 43)], {"out_perm": (1, 0)}),
    "depth 1": ([(37, 1), (1, 43)], {}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("case", CASES)
def test_products_are_right(library: str, case: str, dtype: Any) -> None:
    """
    Batched, broadcast, transposed and permuted, in one chunk and in many; the
    plan calls the library for every dtype that it has.
    """
    shapes, attrs = CASES[case]
    node = SingleNode("matmul", [numbers(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)], PLAIN | attrs)
    session = treadle.Session(node.graph, matmul_provider=library)
    (found,) = session.run(node.given).values()
    exact = SingleNode("matmul", [array.astype(np.float64) for array in node.arrays], PLAIN | attrs).expected()[0]

    assert found.dtype == dtype
    np.testing.assert_allclose(
        found, exact, rtol=0, atol=np.abs(exact).max() * (3e-6 if dtype == np.float32 else 1e-14)
    )
    taken = dtype == np.float32 or library != "onednn"
    assert ("library_gemm" in families(session)) is taken


@pytest.mark.parametrize("bias", [(43,), (37, 1), (37, 43), ()])
def test_an_epilogue_is_applied_to_the_librarys_product(library: str, bias: tuple[int, ...]) -> None:
    """
    Operands of rows, columns, both and neither.
    """
    node = SingleNode("matmul", [numbers(37, 29), numbers(29, 43), numbers(*bias)], PLAIN | {"epilogue": EPILOGUE})
    session = treadle.Session(node.graph, matmul_provider=library)
    (found,) = session.run(node.given).values()

    np.testing.assert_allclose(found, node.expected()[0], rtol=0, atol=1e-5)
    assert [name.split("_")[0] for name in families(session)] == ["library", "elementwise"]


def misaligned(array: Array, elements: int) -> Array:
    """A copy that begins so many elements after a cache line."""
    memory = np.empty(array.nbytes + 256, np.uint8)
    start = -memory.ctypes.data % 64 + elements * array.itemsize
    view = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shapes", [[(5, 7), (7, 9)], [(130, 64), (64, 100)], [(300, 257), (257, 301)], [(6, 64, 65), (6, 65, 66)]], ids=str
)
def test_results_are_bitwise_the_same_at_every_setting_and_alignment(
    library: str, shapes: list[tuple[int, ...]], dtype: Any
) -> None:
    """
    1 to 4 workers, and arrays that begin anywhere.
    """
    node = SingleNode("matmul", [numbers(*s, seed=i, dtype=dtype) for i, s in enumerate(shapes)], PLAIN)
    session = treadle.Session(node.graph, matmul_provider=library)
    found = set()
    for workers in (1, 2, 4):
        for first, second in ((0, 0), (1, 0), (0, 1), (3, 5), (8, 2), (7, 15)):
            a, b = (misaligned(array, by) for array, by in zip(node.arrays, (first, second), strict=True))
            feed = dict(zip(node.given, (a, b), strict=True))
            found.add(next(iter(session.run(feed, intra_op=workers, inter_op=workers).values())).tobytes())

    assert len(found) == 1


COUNT = """
import os, sys, threading, time
import numpy as np, treadle
from tests.models import small
def tasks(): return set(os.listdir("/proc/self/task"))
model = small.branches(width=512)
inputs = small.inputs_for(model)
treadle.Session(model).run(inputs)  # NumPy's threads, and treadle's own, are there
before = tasks()
treadle.threads.set_matmul_provider(sys.argv[1])
session = treadle.Session(model)
assert any(call.spec and call.spec.family == "library_gemm" for plan in session.plans() for call in plan.calls)
def client():
    for _ in range(5): session.run(inputs)
clients = [threading.Thread(target=client) for _ in range(3)]
for each in clients: each.start()
for each in clients: each.join()
def name(task):
    try: return open(f"/proc/self/task/{task}/comm").read().strip()
    except FileNotFoundError: return "treadle-gone"
def others(): return [task for task in tasks() - before if not name(task).startswith("treadle-")]
end = time.monotonic() + 5  # threads that were joined are listed a moment longer
while others() and time.monotonic() < end: time.sleep(0.01)
print(len(others()))
"""


def test_no_thread_of_the_library_appears(library: str) -> None:
    """
    Counted through /proc, in a process that sees several CPUs: loading and calling it starts none, in any thread.
    """
    command = [sys.executable, "-c", COUNT, library]
    done = subprocess.run(
        command, cwd=ROOT, timeout=100, check=False, env=os.environ | {"TREADLE_INTRA_OP_THREADS": "3"},
        capture_output=True, text=True,
    )  # fmt: skip

    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_environment_and_the_callers_settings_are_unchanged(library: str) -> None:
    """
    No variable changes, the caller keeps its CPUs and the number of OpenMP's threads that it has.
    """
    body = f"""
import ctypes, os, numpy as np, treadle
from tests.models import small
try: openmp = ctypes.CDLL("libgomp.so.1"); openmp.omp_set_num_threads(7)
except OSError: openmp = None
before = dict(os.environ), os.sched_getaffinity(0)
model = small.branches(width=64)
treadle.Session(model, matmul_provider={library!r}).run(small.inputs_for(model))
assert before == (dict(os.environ), os.sched_getaffinity(0))
assert openmp is None or openmp.omp_get_max_threads() == 7
"""
    process(body)


@pytest.mark.parametrize("backend", ["openmp", "tbb"])
def test_results_are_the_same_on_every_backend(library: str, backend: str) -> None:
    """
    A library called from the threads of another runtime computes the same bits.
    """
    body = f"""
import hashlib, treadle
from tests.models import small
model = small.branches(width=300)
outputs = treadle.Session(model, matmul_provider={library!r}).run(small.inputs_for(model))
print(hashlib.sha256(b"".join(array.tobytes() for array in outputs.values())).hexdigest())
"""
    native = process(body, TREADLE_PARALLEL_BACKEND="native", TREADLE_INTRA_OP_THREADS="2")

    assert process(body, TREADLE_PARALLEL_BACKEND=backend, TREADLE_INTRA_OP_THREADS="3") == native


def test_a_forked_child_can_use_the_library(library: str) -> None:
    """
    A session of the parent runs in the child, with the same result.
    """
    body = f"""
import os, treadle
from tests.models import small
model = small.branches(width=300)
inputs = small.inputs_for(model)
session = treadle.Session(model, matmul_provider={library!r})
wanted = session.run(inputs)["y"].tobytes()
child = os.fork()
if child == 0:
    os._exit(0 if session.run(inputs)["y"].tobytes() == wanted else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    process(body)


def test_the_nearest_level_decides() -> None:
    """
    Session before set_matmul_provider() before TREADLE_MATMUL_PROVIDER before treadle's kernels.
    """
    body = """
import treadle
from tests.models import small
def fact(): found = treadle.threads.info()["matmul_provider"]; return found["value"], found["source"]
def used(**how):
    session = treadle.Session(small.branches(), **how)
    return any(call.spec and call.spec.family == "library_gemm" for plan in session.plans() for call in plan.calls)
print(fact(), used(), used(matmul_provider="treadle"))
treadle.threads.set_matmul_provider("treadle")
print(fact(), used(), used(matmul_provider="openblas"))
treadle.threads.set_matmul_provider(None)
print(fact())
"""
    assert process(body, TREADLE_MATMUL_PROVIDER="openblas").splitlines() == [
        "('openblas', 'TREADLE_MATMUL_PROVIDER') True False",
        "('treadle', \"set_matmul_provider('treadle')\") False True",
        "('openblas', 'TREADLE_MATMUL_PROVIDER')",
    ]
    assert process(body, TREADLE_MATMUL_PROVIDER="").splitlines()[0] == "('treadle', 'default') False False"


def test_a_session_keeps_the_provider_it_was_made_with() -> None:
    """
    Plans for later shapes use the same provider.
    """
    model = dynamic()
    session = treadle.Session(model)
    treadle.threads.set_matmul_provider("openblas")
    later = treadle.Session(model)
    treadle.threads.set_matmul_provider(None)
    for rows in (4, 9):
        for each in (session, later):
            each.run({"x": numbers(rows, 32)})

    assert "library_gemm" not in families(session)
    assert families(later).count("library_gemm") == 2
    assert "gemm" not in families(later)


def dynamic() -> Any:
    """x [n, 32] times a constant: n is known when arrays come."""
    w = small.ModelWriter()
    w.op("MatMul", "x", w.random(32, 16))
    w.nodes[-1].output[0] = "y"
    return w.model({"x": (small.FLOAT, ["n", 32])}, {"y": (small.FLOAT, ["n", 16])})


def test_info_and_the_command_report_the_provider(library: str) -> None:
    """
    Name, version, path and why; the path is a file of the library.
    """
    treadle.threads.set_matmul_provider(library)
    facts = treadle.threads.info()["matmul_provider"]
    told = json.loads(
        process("from treadle.cli.main import main; main(['threads', '--json'])", TREADLE_MATMUL_PROVIDER=library)
    )
    text = process("from treadle.cli.main import main; main(['threads'])", TREADLE_MATMUL_PROVIDER=library)

    assert facts["value"] == library
    assert facts["source"] == f"set_matmul_provider({library!r})"
    assert Path(facts["path"]).is_file()
    assert any(char.isdigit() for char in facts["version"])
    assert "one thread: " in facts["why"]
    assert library in facts["loaded"]
    assert told["matmul_provider"] | {"loaded": 0} == facts | {"source": "TREADLE_MATMUL_PROVIDER", "loaded": 0}
    assert facts["path"] in text


def test_without_a_choice_treadle_multiplies_and_loads_nothing() -> None:
    """
    The default is treadle's kernels.
    """
    found = json.loads(process("from treadle.cli.main import main; main(['threads', '--json'])"))["matmul_provider"]

    assert (found["value"], found["source"], found["path"], found["loaded"]) == ("treadle", "default", None, [])
    assert found["version"] == treadle.__version__


@pytest.mark.parametrize("name", ["gcd", "", "MKL", 3])
def test_unknown_providers_are_refused(name: Any) -> None:
    """
    The error lists the known ones; nothing changes.
    """
    with pytest.raises(
        ProviderError, match=r"set_matmul_provider\(.*\): wanted one of treadle, openblas, mkl, onednn, got"
    ):
        treadle.threads.set_matmul_provider(name)
    with pytest.raises(ProviderError, match=r"from Session\(matmul_provider=.*\): wanted one of treadle, openblas"):
        treadle.Session(small.branches(), matmul_provider=name)
    assert providers.current().name == "treadle"


def test_a_variable_that_names_no_provider_is_refused_by_the_first_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    It is not ignored, there and by info().
    """
    monkeypatch.setenv("TREADLE_MATMUL_PROVIDER", "atlas")
    with pytest.raises(
        KnobError, match="TREADLE_MATMUL_PROVIDER: wanted treadle, openblas, mkl or onednn, got 'atlas'"
    ):
        treadle.Session(small.branches())
    with pytest.raises(KnobError, match="TREADLE_MATMUL_PROVIDER"):
        treadle.threads.info()


@pytest.mark.parametrize(
    ("name", "how"),
    [
        ("openblas", "pip install scipy-openblas32"),
        ("mkl", "pip install mkl"),
        ("onednn", "pip install onednn-cpu-gomp"),
    ],
)
def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, name: str, how: str) -> None:
    """
    The error also lists what was tried; the choice stays the same.
    """
    monkeypatch.setattr(libraries, "_loaded", {})
    monkeypatch.setitem(libraries.PACKAGES, name, ("no-such-package",))
    monkeypatch.setitem(libraries.FILES, name, ("libnothing.so.1",))
    with pytest.raises(ProviderError, match=f"provider '{name}': no library .* install one: `{how}`.*no-such-package"):
        treadle.threads.set_matmul_provider(name)
    assert providers.current().name == "treadle"


def test_a_file_that_is_no_such_library_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    Not a library at all, and one without the function.
    """
    (tmp_path / "libbroken.so").write_text("nothing")
    monkeypatch.setattr(libraries, "_loaded", {})
    monkeypatch.setitem(libraries.PACKAGES, "openblas", ())
    monkeypatch.setitem(libraries.FILES, "openblas", (str(tmp_path / "libbroken.so"), "libc.so.6"))
    with pytest.raises(ProviderError, match=r"libbroken.so: .*; the system: it has no cblas_sgemm"):
        treadle.threads.set_matmul_provider("openblas")


def test_a_product_that_a_library_does_not_take_runs_on_treadles_kernels(tmp_path: Path) -> None:
    """
    Integers, products with a vector: treadle's kernels, with a note; the others by the library.
    """
    import onnx

    w = small.ModelWriter()
    w.op("MatMul", "x", "x"), w.op("MatMul", "v", "x"), w.op("MatMul", "i", "i")
    for node, name in zip(w.nodes, ("y", "u", "j"), strict=True):
        node.output[0] = name
    forms = {"x": (small.FLOAT, [64, 64]), "v": (small.FLOAT, [1, 64]), "i": (onnx.TensorProto.INT32, [8, 8])}
    model = w.model(forms, {"y": (small.FLOAT, None), "u": (small.FLOAT, None), "j": (onnx.TensorProto.INT32, None)})
    onnx.save(model, tmp_path / "m.onnx")
    arguments = ["inspect", str(tmp_path / "m.onnx")]
    report = json.loads(
        process(
            f"from treadle.cli.main import main; main({[*arguments, '--json']})", TREADLE_MATMUL_PROVIDER="openblas"
        )
    )
    text = process(f"from treadle.cli.main import main; main({arguments})", TREADLE_MATMUL_PROVIDER="openblas")

    steps = {step["node"]: step for step in report["steps"]}
    assert [steps[node.name]["runs_as"] for node in w.nodes] == ["openblas gemm", "gemm", "gemm"]
    assert steps[w.nodes[0].name]["note"] == ""
    assert steps[w.nodes[1].name]["note"] == "not openblas: a product with a vector is bound by memory"
    assert steps[w.nodes[2].name]["note"] == "not openblas: it multiplies f32 and f64, this is i32 by i32"
    assert "1 step not openblas: a product with a vector is bound by memory" in text
