"""The command line as a user meets it: arguments, stdout, stderr and an exit code."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from tests.models import small
from tests.unit.cli.command import treadle, treadle_process

import treadle.compat.tensorflow as tf
from treadle.cli.main import main
from treadle.tracing.typical import typical


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("models") / "small.onnx"
    onnx.save(small.convolutional(), path)
    return str(path)


def test_run_reports_outputs_latency_and_workers(model: str) -> None:
    """
    The text names the output, the percentiles, the slowest ops and each worker's line.
    """
    done = treadle_process("run", model, "--runs", "5", "--intra", "2", "--inter", "2")

    assert done.returncode == 0, done.stderr
    for text in (
        "latency over 5 runs",
        "median of 5 traced",
        "p50",
        "p99",
        "runs/s",
        "peak memory",
        "worker 0",
        "[1, 10]",
    ):
        assert text in done.stdout
    assert done.stderr == ""


def test_run_and_inspect_take_a_precision(model: str) -> None:
    """
    --precision bf16 runs; another word is a mistake in usage.
    """
    assert treadle("run", model, "--runs", "2", "--precision", "bf16").returncode == 0
    assert treadle("inspect", model, "--precision", "bf16").returncode == 0
    assert treadle("run", model, "--precision", "f8").returncode == 2


def test_run_prints_only_json(model: str) -> None:
    """
    With --json stdout is one JSON document.
    """
    done = treadle("run", model, "--runs", "3", "--dim", "n=4", "--json")
    report = json.loads(done.stdout)

    assert report["outputs"]["y"]["shape"] == [4, 10]
    assert report["latency_ns"]["runs"] == 3
    assert report["latency_ns"]["min"] <= report["latency_ns"]["p50"] <= report["latency_ns"]["p99"]
    assert report["traced_runs"] == 3
    assert report["top_ops"]


class Uneven:
    """A session whose runs last as long as they are told to, in ns of a clock of their own, and record that."""

    def __init__(self, durations: list[int]) -> None:
        self.now, self.durations, self.recorded = 0, durations, []

    def perf_counter_ns(self) -> int:
        return self.now

    def run(self, _: object) -> None:
        self.now += self.durations[len(self.recorded)]
        self.recorded.append(self.durations[len(self.recorded)])

    @contextmanager
    def record(self) -> Iterator[SimpleNamespace]:
        recording = SimpleNamespace(events=[])
        yield recording
        recording.events.append(self.recorded[-1])


@pytest.mark.parametrize(("durations", "shown"), [([7], 7), ([9, 4], 4), ([5, 90, 3, 80, 6], 6)])
def test_the_shown_run_is_that_of_median_duration(
    monkeypatch: pytest.MonkeyPatch, durations: list[int], shown: int
) -> None:
    """
    Any single traced run may contain an op that waited for a CPU.
    """
    session = Uneven(durations)
    module = sys.modules[typical.__module__]
    monkeypatch.setattr(module, "time", session)
    monkeypatch.setattr(module, "record", session.record)

    assert typical(lambda: session.run({}), len(durations)) == [shown]


def test_run_takes_inputs_from_files_and_writes_a_trace(model: str, tmp_path: Path) -> None:
    """
    --input feeds a .npy file, --trace writes a timeline.
    """
    np.save(tmp_path / "x.npy", np.zeros((1, 3, 19, 19), np.float32))
    trace = tmp_path / "trace.json"

    done = treadle("run", model, "--input", f"x={tmp_path / 'x.npy'}", "--runs", "1", "--trace", str(trace))

    assert done.returncode == 0, done.stderr
    assert json.loads(trace.read_text())["traceEvents"]


def test_an_input_is_generated_with_the_given_dtype_and_shape(model: str) -> None:
    """
    run and inspect then accept models that declare no shapes; an unknown element type is an error that names it.
    """
    run = treadle("run", model, "--input", "x=f32[1,3,19,19]", "--runs", "1")
    inspect = treadle("inspect", model, "--input", "x=float32[1, 3, 19, 19]")
    wrong = treadle("inspect", model, "--input", "x=f33[1]")

    assert run.returncode == 0, run.stderr
    assert inspect.returncode == 0, inspect.stderr
    assert wrong.returncode == 1
    assert "no element type 'f33'; wanted one of f64, f32" in wrong.stderr


def test_tune_says_which_limits_to_set_and_why(model: str) -> None:
    """
    It prints a line for each pair of limits, the choice, its reason, whether outputs are the same, and no stderr.
    """
    done = treadle("tune", model, "--seconds", "0.2")
    cpus = len(os.sched_getaffinity(0))

    assert done.returncode == 0, done.stderr
    for text in ("intra_op", "over automatic", "automatic", "choice: ", "Outputs are the same at every setting"):
        assert text in done.stdout
    assert "gain" in done.stdout or cpus == 1
    assert done.stderr == ""


def test_tune_prints_only_json(model: str) -> None:
    """
    Each pair with its times, the automatic one last, and with --clients the throughput of several clients.
    """
    done = treadle("tune", model, "--seconds", "0.2", "--dim", "n=4", "--clients", "--json")
    report = json.loads(done.stdout)

    assert report["inputs"] == {"x": "float32[4, 3, 19, 19]"}
    assert [row["automatic"] for row in report["settings"]][-1:] == [True]
    assert report["settings"][-1]["over_automatic"] == 1
    assert {"intra_op", "inter_op"} == set(report["choice"])
    assert report["same_outputs"] is True
    assert [each["clients"] for each in report["clients"]][:2] == [1, 2]


def test_a_run_accepts_what_tune_saves(model: str, tmp_path: Path) -> None:
    """
    The report says where the limits came from. Another model is an error.
    """
    file, other = tmp_path / "small.json", tmp_path / "other.onnx"
    onnx.save(small.add(), other)

    tuned = treadle("tune", model, "--seconds", "0.1", "--save", str(file))
    done = treadle("run", model, "--settings", str(file), "--runs", "2")
    refused = treadle("run", str(other), "--settings", str(file))

    assert f"settings={str(file)!r}" in tuned.stderr
    assert json.loads(file.read_text())["model"]["name"] == "small.onnx"
    assert done.returncode == 0, done.stderr
    assert f"Session(settings={str(file)!r})" in done.stdout
    assert refused.returncode == 1
    assert "SettingsFileError: settings" in refused.stderr


def test_tune_writes_no_file_where_it_fails(model: str, tmp_path: Path) -> None:
    """
    An impossible path is an error before anything is measured.
    """
    failed = treadle("tune", str(tmp_path / "none.onnx"), "--save", str(tmp_path / "none.json"))
    impossible = treadle("tune", model, "--save", str(tmp_path / "no" / "folder.json"))

    assert (failed.returncode, impossible.returncode) == (1, 1)
    assert list(tmp_path.iterdir()) == []
    assert "No such file" in impossible.stderr


def test_no_command_overwrites_its_inputs(model: str, tmp_path: Path) -> None:
    """
    The model (under any name), an input or a settings file stays as it is. An empty path is an error.
    """
    link, array, settings = tmp_path / "link.onnx", tmp_path / "x.npy", tmp_path / "settings.json"
    link.symlink_to(model)
    array.write_bytes(b"an array")
    settings.write_text("settings")
    before = Path(model).read_bytes()

    for arguments in (
        ["tune", model, "--save", model],
        ["tune", model, "--save", str(link)],
        ["tune", model, "--input", f"x={array}", "--save", str(array)],
        ["run", model, "--trace", str(link)],
        ["run", model, "--settings", str(settings), "--trace", str(settings)],
    ):
        refused = treadle(*arguments)
        assert refused.returncode == 2
        assert "is read by this command; give another path" in refused.stderr
    assert Path(model).read_bytes() == before
    assert (array.read_bytes(), settings.read_text()) == (b"an array", "settings")
    assert treadle("tune", model, "--seconds", "0.1", "--save", "").returncode == 1


def test_tune_saves_which_part_of_the_model_it_measured(tmp_path: Path) -> None:
    """
    The file records the tensors of --from and --to and the shapes of the inputs.
    """
    graph, model, file = tf.Graph(), tmp_path / "graph.pb", tmp_path / "part.json"
    with graph.as_default():
        tf.nn.relu(tf.placeholder(tf.float32, [2], name="x"), name="y")
    model.write_bytes(graph.as_graph_def().SerializeToString())

    done = treadle("tune", str(model), "--seconds", "0.1", "--to", "y", "--save", str(file))

    assert done.returncode == 0, done.stderr
    measured = json.loads(file.read_text())["measured"]
    assert measured["to"] == ["y"]
    assert "from" not in measured


def test_inspect_says_how_each_op_runs(model: str) -> None:
    """
    Every step is a native kernel or the reference; memory and FLOPs are estimated.
    """
    report = json.loads(treadle("inspect", model, "--dim", "n=1", "--json").stdout)

    assert all(step["native"] for step in report["steps"])
    assert report["flops"] > 0
    assert report["arena_bytes"] > 0
    shown = treadle("inspect", model)
    assert shown.returncode == 0
    assert "x     float32  [" in shown.stdout
    assert "'" not in shown.stdout


def test_threads_shows_each_value_with_its_source() -> None:
    """
    Each setting names its source.
    """
    environment = {**os.environ, "TREADLE_INTRA_OP_THREADS": "3", "OMP_NUM_THREADS": "7"}
    report = json.loads(treadle_process("threads", "--json", env=environment).stdout)

    assert report["intra_op"] == {"value": 3, "source": "TREADLE_INTRA_OP_THREADS"}
    assert report["cpu"]["isa"] in ("avx512", "avx2", "generic")
    assert [pool["name"] for pool in report["pools"]] == ["main"]
    assert "TREADLE_INTRA_OP_THREADS" in treadle_process("threads", env=environment).stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["run", "absent.onnx"], 1, "absent.onnx"),
        (["run", "MODEL", "--input", "z=x.npy"], 1, "no such input"),
        (["run", "MODEL", "--input", "x=absent.npy"], 1, "cannot read"),
        (["run", "MODEL", "--input", "x"], 2, "NAME=VALUE"),
        (["run", "MODEL", "--dim", "n=x"], 2, "wanted a size"),
        (["run", "MODEL", "--runs", "0"], 2, "--runs"),
        (["run", "MODEL", "--runs", "1", "--seconds", "1"], 2, "not both"),
        (["run", "MODEL", "--seconds", "nan"], 2, "--seconds"),
        (["run", "MODEL", "--seconds", "inf"], 2, "--seconds"),
        (["run", "MODEL", "--settings", "nope.json"], 1, "settings 'nope.json' cannot be read: No such file"),
        (["tune"], 2, "MODEL"),
        (["tune", "nope.onnx"], 1, "nope.onnx"),
        (["tune", "MODEL", "--seconds", "0"], 2, "--seconds"),
        (["tune", "MODEL", "--seconds", "nan"], 2, "--seconds"),
        (["compare", "MODEL", "--tolerance", "nan"], 2, "--tolerance"),
        (["compare", "MODEL", "--tolerance", "-1"], 2, "--tolerance"),
        (["tune", "MODEL", "--input", "z=f32[1]"], 1, "no such input"),
        (["run", "MODEL", "--dim", "n=1", "--dim", "n=2"], 2, "given twice"),
        (["run", "MODEL", "--dim", "n=99999999999999999999"], 1, "input 'x' cannot be made up"),
        (["run", "MODEL", "--dim", "n=900000000"], 1, "input 'x' cannot be made up"),
        (["run", "MODEL", "--dim", f"n={'9' * 5000}"], 2, "wanted a size"),
        (["run", "MODEL", "--input", f"x=f32[{'9' * 5000}]"], 1, "wanted sizes of up to 100 digits"),
        (["run", "MODEL", "--input", "x=/dev/zero"], 1, "no regular file"),
        (["run", "MODEL", "--trace", "/absent/run.json"], 1, "/absent/run.json"),
        (["run", "MODEL", "--intra", "-1"], 1, "ThreadSettingError"),
        (["run"], 2, "MODEL"),
        (["dance"], 2, "dance"),
        (["inspect", "absent.onnx"], 1, "absent.onnx"),
    ],
)
def test_wrong_use_has_its_exit_code_and_reason(model: str, arguments: list[str], code: int, said: str) -> None:
    """
    1 for what failed, 2 for wrong usage; the reason is on stderr and stdout is empty.
    """
    done = treadle(*(model if argument == "MODEL" else argument for argument in arguments))

    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_an_empty_input_file_is_an_error_and_not_an_interruption(model: str, tmp_path: Path) -> None:
    """
    NumPy raises EOFError, which click would take for the end of a terminal's input.
    """
    (tmp_path / "empty.npy").touch()
    done = treadle("run", model, "--input", f"x={tmp_path / 'empty.npy'}")

    assert done.returncode == 1
    assert "as a .npy file" in done.stderr


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_nothing_is_written_to_a_closed_stdout(
    model: str, form: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    As with `treadle threads >&-`, where Python has None in place of stdout.
    """
    closed = treadle_process("threads", *form, preexec_fn=lambda: os.close(1), pass_fds=())

    assert (closed.returncode, closed.stderr) == (0, "")
    monkeypatch.setattr(sys, "stdout", None)
    for arguments in (["inspect", model], ["run", model, "--runs", "1"]):
        assert main([*arguments, *form]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [(["run", "MODEL", "--runs", "1", "--json"], 0), (["run", "absent.onnx"], 1), (["run"], 2)],
    ids=["good", "failed", "misused"],
)
def test_with_a_closed_stderr_stdout_has_only_data(model: str, arguments: list[str], code: int) -> None:
    """
    As with `treadle run MODEL 2>&-`: only the exit code reports an error.
    """
    given = [model if argument == "MODEL" else argument for argument in arguments]
    closed = treadle_process(*given, preexec_fn=lambda: os.close(2), pass_fds=())

    assert closed.returncode == code
    assert json.loads(closed.stdout)["outputs"] if code == 0 else not closed.stdout


def test_json_has_null_for_nan_and_infinity(tmp_path: Path) -> None:
    """
    Every JSON reader accepts the document.
    """
    onnx.save(small.add(), tmp_path / "add.onnx")
    np.save(tmp_path / "a.npy", np.array([[np.nan, 1, 2], [3, 4, np.inf]], np.float32))

    done = treadle("run", str(tmp_path / "add.onnx"), "--input", f"a={tmp_path / 'a.npy'}", "--runs", "1", "--json")
    report = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))

    assert report["outputs"]["y"]["min"] is None


def test_a_reader_that_closes_its_pipe_causes_no_traceback(model: str) -> None:
    """
    `treadle inspect --json MODEL | head` says nothing of a broken pipe.
    """
    command = [sys.executable, "-m", "treadle", "inspect", "--json", model]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        stderr = process.stderr.read()

    assert stderr == ""


def test_the_list_of_commands_has_whole_sentences() -> None:
    """
    No summary is truncated.
    """
    assert "..." not in treadle("--help").stdout.split("Commands:")[1]


@pytest.mark.parametrize("name", ["run", "tune"])
def test_interrupting_a_command_exits_with_130(model: str, name: str) -> None:
    """
    Ctrl-C ends the command quickly and without a traceback.
    """
    command = [sys.executable, "-m", "treadle", name, model, "--seconds", "600"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            wait_until_busy(process.pid)
            process.send_signal(signal.SIGINT)
            stdout, stderr = process.communicate(timeout=60)
        finally:
            process.kill()

    assert process.returncode == 130
    assert stdout == ""
    assert "Traceback" not in stderr


def wait_until_busy(pid: int) -> None:
    """Wait until the process has used three seconds of CPU time: it is past loading and runs the model."""
    for _ in range(600):
        user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
        if int(user) + int(system) > 3 * os.sysconf("SC_CLK_TCK"):
            return
        time.sleep(0.1)
    raise AssertionError("the command did not get going in a minute")


def test_a_run_that_fails_leaves_no_trace_file(tmp_path: Path) -> None:
    """
    An older trace stays as it was, with its date.
    """
    new, old = tmp_path / "new.json", tmp_path / "old.json"
    old.write_text("old")
    os.utime(old, (1, 1))

    for path in (new, old):
        assert treadle("run", str(tmp_path / "nope.onnx"), "--trace", str(path)).returncode

    assert not new.exists()
    assert (old.read_text(), old.stat().st_mtime) == ("old", 1)


def test_an_automatic_limit_is_reported_as_its_number(model: str) -> None:
    """
    Also if the process has another limit.
    """
    asked = ("run", model, "--intra", "0", "--runs", "1", "--json")
    limited, automatic = (
        treadle_process(*asked, env={**os.environ, "TREADLE_INTRA_OP_THREADS": number}) for number in ("1", "0")
    )

    assert json.loads(limited.stdout)["threads"] == json.loads(automatic.stdout)["threads"]


def test_compare_agrees_with_the_reference(model: str) -> None:
    """
    All values of a small model, and its outputs; the exit code is 0.
    """
    done = treadle("compare", model, "--dim", "n=2")
    report = json.loads(treadle("compare", model, "--dim", "n=2", "--json").stdout)

    assert done.returncode == 0, done.stderr
    assert "All values agree." in done.stdout
    assert report["parts"] is False
    assert report["first"] is None
    assert [each["value"] for each in report["outputs"]] == ["y"]
    assert len(report["values"]) >= 5


def test_compare_names_the_first_node_that_parts(model: str) -> None:
    """
    No error is allowed, so the first node that rounds otherwise than NumPy parts, and the exit code is 1.
    """
    done = treadle("compare", model, "--tolerance", "0")
    report = json.loads(treadle("compare", model, "--tolerance", "0", "--json").stdout)

    assert done.returncode == 1, done.stderr
    assert report["first"]["op"] == "conv"
    assert f"The first node whose values part is {report['first']['node']!r} (conv)" in done.stdout


def test_compare_runs_onnxruntime_where_it_is_installed(model: str) -> None:
    """
    It agrees; without it the message says what to install. A model of another kind is refused before it is read.
    """
    done = treadle("compare", model, "--against", "onnxruntime")
    refused = treadle("compare", "model.pb", "--against", "onnxruntime")

    if importlib.util.find_spec("onnxruntime") is None:
        assert done.returncode == 1
        assert "pip install onnxruntime" in done.stderr
    else:
        assert done.returncode == 0, done.stderr
    assert refused.returncode == 1
    assert "wanted an ONNX file, got 'model.pb'" in refused.stderr
