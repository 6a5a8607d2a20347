"""The node test cases that the onnx package brings, and those of them that treadle does not run, with the reason."""

import warnings
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from treadle.compat.onnx_backend import at_known_version
from treadle.errors import TreadleError
from treadle.frontends.onnx import load
from treadle.graph.formed_model import FormedModel, ObjectInput
from treadle.ops.evaluate import evaluate

NOT_RUN = Path(__file__).with_name("node_cases_not_run.txt")

TOLERANCE = {"float16": (4e-3, 1e-3), "bfloat16": (2e-2, 1e-2)}
"""Relative and absolute tolerance where the case's own are finer than half precision is."""


@cache
def cases():
    """Name -> case, of every case the installed onnx package has."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case import node

        return {case.name: case for case in node.collect_testcases(None)}


def not_run():
    """Name -> reason, of the cases listed as not run."""
    found, reason = {}, ""
    for line in NOT_RUN.read_text().splitlines():
        if line.startswith("# "):
            reason = line[2:]
        elif line:
            found[line] = reason
    return found


def array(item):
    return numpy_helper.to_array(item) if isinstance(item, onnx.TensorProto) else np.asarray(item)


def given(item):
    """What a run takes for `item`: an array, a list of them, or None."""
    if item is None:
        return None
    return [given(each) for each in item] if isinstance(item, list) else array(item)


def result(item):
    """What a run has to return for `item`: an array, or a list of them."""
    if isinstance(item, onnx.SequenceProto):
        return [result(each) for each in numpy_helper.to_list(item)]
    return [result(each) for each in item] if isinstance(item, list) else array(item)


def complaint(case):
    """None if treadle gives what the case wants, else what differs or which error came."""
    try:
        model = load(at_known_version(case.model).SerializeToString())
        for inputs, wanted in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            feeds = {name: given(item) for name, item in zip(names, inputs, strict=False)}
            graph, feeds = formed(model, feeds) if isinstance(model, FormedModel) else (model, feeds)
            found = evaluate(graph, feeds)
            made = [each for each in graph.results if not isinstance(each, str)]
            found.update((each.name, each.make([found[read] for read in each.reads])) for each in made)
            for value, item in zip(case.model.graph.output, wanted, strict=True):
                compare(found[value.name], result(item), case)
    except (TreadleError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def formed(model, feeds):
    """The graph of `model` for the forms of `feeds`, and its inputs."""
    forms, arrays = [], []
    for each in model.inputs:
        if isinstance(each, ObjectInput):
            form, parts = each.take(feeds[each.name])
            forms.append(form)
            arrays += parts
        else:
            arrays.append(feeds[each.name])
    graph = model.build(forms)
    return graph, {value.name: part for value, part in zip(graph.inputs, arrays, strict=True)}


def compare(found, wanted, case):
    """Raise AssertionError unless `found` has the shape, dtype and (nearly) the elements of `wanted`."""
    if isinstance(wanted, list):
        assert isinstance(found, list)
        for each, other in zip(found, wanted, strict=True):
            compare(each, other, case)
        return
    assert found.shape == wanted.shape
    if wanted.dtype.kind in "OUS":
        assert found.astype(str).tolist() == wanted.astype(str).tolist()
        return
    assert found.dtype == wanted.dtype
    relative, absolute = TOLERANCE.get(wanted.dtype.name, (case.rtol, case.atol))
    if wanted.dtype.kind == "V" or wanted.dtype.name in ("bfloat16", "int4", "uint4", "int2", "uint2"):  # of ml_dtypes
        found, wanted = found.astype(np.float32), wanted.astype(np.float32)
    np.testing.assert_allclose(found, wanted, rtol=max(relative, case.rtol), atol=max(absolute, case.atol))
