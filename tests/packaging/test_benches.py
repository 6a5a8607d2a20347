"""Declarations of benchmarks name what exists, and models with open dimensions compute what their graphs say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from benches.calibrate.measure import text_of
from benches.harness.inputs import random_inputs
from benches.harness.outputs import relative_error
from benches.loading.compare import fix, milliseconds, ratios, sizes_of
from benches.loading.graphs import GRAPHS
from benches.micro.kernel_timer import KernelTimer
from benches.models import open_sizes, text_images
from benches.models.build import GROUPS
from benches.optimisations.table import OPTIMISATIONS, PACKAGE, Optimisation
from benches.rivals.compare import wrong_rivals
from benches.shapes.compare import summary
from benches.shapes.requests import KINDS, Kind
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import treadle
from tests.assembly import loops_of
from tests.packaging.sources import ROOT
from treadle.codegen import target as targets
from treadle.dtypes import f32
from treadle.optimisations import OPTIMISATIONS as SWITCHES
from treadle.plan.machine import FIGURES, machine_model, parse


@pytest.mark.parametrize("one", OPTIMISATIONS, ids=lambda one: one.name)
def test_an_optimisation_has_switches_files_and_models(one: Optimisation) -> None:
    """
    A renamed file would silently lower the lines of code that an optimisation must pay for.
    """
    names = one.without()["TREADLE_DISABLE"]
    files = [path for path in PACKAGE.rglob("*.py") if re.search(one.files, path.relative_to(PACKAGE).as_posix())]

    assert set(names.split(",")) <= SWITCHES.keys()
    assert len(files) >= len(one.files.split("|"))
    assert all(any(model in group for group in GROUPS.values()) for model in one.models)


def test_scripts_bench_names_every_benchmark() -> None:
    """
    Every folder of benches with a command can be started by its name, or stands in the guides.
    """
    script = "".join((ROOT / "scripts" / name).read_text(encoding="utf-8") for name in ("bench", "test_packages"))
    commands = {path.parent.name for path in (ROOT / "benches").glob("*/compare.py")}

    assert commands - set(re.findall(r"\w+", script)) == {"backends"}


def test_calibrate_writes_files_that_are_read() -> None:
    """
    Figures keep four digits.
    """
    model = machine_model("zen3")
    figures = {name: getattr(model, name) * 1.00001 for name in FIGURES}

    assert parse(text_of(figures, "avx2", "AMD Zen 3", "a test").encode(), "zen3.toml") == model


@pytest.mark.skipif(targets.best_isa() == "generic", reason="fused multiply-adds are calls")
def test_all_sums_that_are_timed_are_computed() -> None:
    """
    LLVM leaves out sums that nobody can read; the time of the others would count for all.
    """
    target = targets.detect()
    spec, _ = KernelTimer(target).fma_kernel(f32, 8)
    (loop,) = loops_of(spec, target)

    assert len({line.split("%")[-1] for line in loop if "vfmadd" in line}) == 8


def agree(path: Path, session: treadle.Session, inputs: dict[str, Any]) -> list[Any]:
    """Runs a model; returns its outputs, which are those of ONNX's reference."""
    wanted = ReferenceEvaluator(str(path)).run(None, inputs)
    found = list(session.run(inputs).values())
    assert [each.shape for each in found] == [each.shape for each in wanted]
    assert relative_error(found, wanted) <= 1e-5
    return found


def test_loads_are_compared_with_those_of_fixed_sizes(tmp_path: Path) -> None:
    """
    The copy of a model has numbers for all sizes; times are medians of import and load.
    """
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, "length"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3, "length"])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "open")
    fix(str(tmp_path / "open"), tmp_path / "fixed", sizes_of("batch=2"))
    session = treadle.Session(tmp_path / "fixed")
    rounds = [{"import_seconds": 0.5, "load_seconds": seconds} for seconds in (0.1, 0.3, 0.2)]

    assert [tuple(value.shape) for value in session.inputs] == [(2, 3, 64)]
    assert milliseconds({"forms": {"open": {"first": rounds}}}, "open", "first") == pytest.approx(700)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_many_ops_compute_what_they_say(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(GRAPHS[name](12))
    agree(path, treadle.Session(path), {"v0": np.linspace(-1, 1, 16, dtype=np.float32).reshape(4, 4)})


def test_ratios_of_loads_without_imports_are_of_the_least_times() -> None:
    def loads(*seconds: float) -> list[dict[str, float]]:
        return [{"import_cpu_seconds": 9.0, "load_cpu_seconds": each} for each in seconds]

    forms = {
        "open": {"first": loads(2.6, 3.0), "later": loads(0.3, 0.2)},
        "fixed": {"first": loads(2.5, 2.0), "later": loads(0.2)},
    }
    assert ratios({"forms": forms}, "first") == pytest.approx([1.3])
    assert ratios({"forms": forms}, "later") == pytest.approx([1.0])


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("encoder", [(1, 5), (3, 17), (2, 40)]),
        ("detector", [(64, 64), (65, 99), (110, 71)]),
        ("mobile_detector", [(64, 64), (96, 160), (32, 32)]),
        ("recogniser", [(32, 40), (48, 101), (40, 64)]),
    ],
)
def test_models_of_requests_agree_with_the_reference(kind: str, sizes: list[tuple[int, int]], tmp_path: Path) -> None:
    """
    One plan serves requests of several sizes.
    """
    path = tmp_path / "model.onnx"
    if kind == "encoder":
        open_sizes.encoder("small", path, width=32, layers=2, heads=4, vocabulary=30522)
    elif kind == "mobile_detector":
        blocks = [(3, 8, 8, False, "Relu", 2), (5, 16, 8, True, "HardSwish", 2), (5, 16, 8, True, "HardSwish", 1)]
        text_images.mobile_detector("small", path, blocks=blocks, neck=6)
    elif kind == "recogniser":
        text_images.recogniser("small", path, channels=(4, 6, 8, 10), hidden=6, classes=11)
    else:
        open_sizes.detector("small", path, channels=(4, 6, 8))
    session = treadle.Session(path)

    for number, each in enumerate(sizes):
        agree(path, session, KINDS[kind].feed(number, each))
    assert len(session.open_plans()) == 1
    assert session.why_per_size() is None


def test_the_decoder_agrees_with_the_reference(tmp_path: Path) -> None:
    """
    A generation starts with a past of no tokens; what a run returns is the past of the next one.
    """
    path = tmp_path / "model.onnx"
    open_sizes.decoder("small", path, width=32, layers=2, heads=4, vocabulary=100)
    session = treadle.Session(path)
    names = open_sizes.past_names(2)
    inputs = {"input_ids": np.arange(12)[None], **{name: np.zeros((1, 4, 0, 8), np.float32) for name in names}}

    for _ in range(4):
        logits, *present = agree(path, session, inputs)
        inputs = {"input_ids": logits[:, -1:].argmax(-1), **dict(zip(names, present, strict=True))}
    assert present[0].shape == (1, 4, 15, 8)


def test_rivals_that_misread_a_model_are_not_counted() -> None:
    """
    An engine that computes something else may be fast; treadle's own error is judged elsewhere.
    """
    errors = {"treadle": 1.0, "onnxruntime": 0.0, "mnn": 3e-4, "ncnn": 0.17, "openvino": float("nan"), "jax": None}

    assert wrong_rivals(errors) == ["ncnn", "openvino"]


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.model)
def test_requests_differ_in_size(kind: Kind) -> None:
    """
    The first run of a request is the first one of its sizes.
    """
    sizes = kind.sizes(512)

    warm_ups = {kind.warm_up(turn) for turn in range(20)}
    assert len(warm_ups) == 20
    assert len({*sizes, *warm_ups}) == 532
    assert all(low <= size <= high for pair in sizes for size, (low, high) in zip(pair, kind.bounds, strict=True))
    assert kind.model in GROUPS["open"]


def test_a_summary_compares_first_runs_with_later_ones() -> None:
    """
    Ratios are those of single requests; growth is that of memory since the request after which it should not grow.
    """
    requests = [{"first_ns": 200 + i, "later_ns": 100, "megabytes": 100 + (i >= 50)} for i in range(60)]

    found = summary({"requests": requests})
    assert found["median"] == pytest.approx(2.295)
    assert (found["total"], found["steady"]) == (200 * 60 + 59 * 30, 6000)
    assert found["growth"] == pytest.approx(1.01)


def test_inputs_have_the_given_sizes_and_masks_hide_nothing(tmp_path: Path) -> None:
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["b", "s"]) for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, ["b", "s"])
    graph = helper.make_graph([helper.make_node("Mul", ["input_ids", "attention_mask"], ["y"])], "g", inputs, [output])
    path = tmp_path / "open.onnx"
    onnx.save(helper.make_model(graph), path)
    found = random_inputs(str(path), {"s": 7})
    assert {name: array.shape for name, array in found.items()} == {"input_ids": (1, 7), "attention_mask": (1, 7)}
    assert (found["attention_mask"] == 1).all()
