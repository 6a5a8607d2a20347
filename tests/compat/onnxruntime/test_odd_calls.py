"""Wrong and odd calls end as with onnxruntime, beside it where it is installed: same values, same classes of errors."""

from __future__ import annotations

import queue
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

from tests.compat.onnxruntime import models

X = np.arange(6, dtype=np.float32).reshape(2, 3)
Call = Callable[[ModuleType], Any]


def session_of(ort: ModuleType, kind: int = models.FLOAT, *shape: Any) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    return ort.InferenceSession(models.same(kind, shape or ["n", 3]), options, providers=["CPUExecutionProvider"])


def run(given: Any, kind: int = models.FLOAT, *shape: Any) -> Call:
    return lambda ort: session_of(ort, kind, *shape).run(None, {"a": given})[0].tolist()


def outputs(names: Any) -> Call:
    return lambda ort: [each.tolist() for each in session_of(ort).run(names, {"a": X})]


def option(owner: str, name: str, value: Any) -> Call:
    def call(ort: ModuleType) -> Any:
        options = getattr(ort, owner)()
        setattr(options, name, value)
        return getattr(options, name)

    return call


def cancelled(ort: ModuleType) -> Any:
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.set_load_cancellation_flag(True)
    return ort.InferenceSession(models.same(models.FLOAT, [1]), options)


def with_another_session(ort: ModuleType) -> Any:
    binding = session_of(ort).io_binding()
    return session_of(ort).run_with_iobinding(binding)


def version(ort: ModuleType) -> Any:
    model = onnx.ModelProto.FromString(models.same(models.FLOAT, [1]))
    model.ClearField("model_version")
    return ort.InferenceSession(model.SerializeToString()).get_modelmeta().version


def arena(ort: ModuleType) -> Any:
    made = [ort.OrtArenaCfg(5, 0, 1, 2), ort.OrtArenaCfg({"max_mem": 7})]
    return [(each.max_mem, each.arena_extend_strategy, each.max_dead_bytes_per_chunk) for each in made]


def copied(ort: ModuleType) -> Any:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    return ort.copy_tensors([value], [value])


def made_again(ort: ModuleType) -> Any:
    """Runs of a subclass whose run() is another one, by the other methods."""

    class Doubled(ort.InferenceSession):  # type: ignore[misc]
        def run(self, names: Any, feeds: Any, run_options: Any = None) -> Any:
            return [2 * each for each in super().run(names, feeds, run_options)]

    session = Doubled(models.same(models.FLOAT, ["n", 3]), providers=["CPUExecutionProvider"])
    found: queue.Queue[Any] = queue.Queue()
    session.run_async(None, {"a": X}, lambda results, *_: found.put(results), None)
    values = session.run_with_ort_values(None, {"a": ort.OrtValue.ortvalue_from_numpy(X)})
    results = [*session.run(None, {"a": X}), *found.get(timeout=60), *(each.numpy() for each in values)]
    return [each.tolist() for each in results]


def options_that_change_later(ort: ModuleType) -> Any:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    session = ort.InferenceSession(models.same(models.FLOAT, [1]), options, providers=["CPUExecutionProvider"])
    options.intra_op_num_threads = 1
    kept = session.get_session_options()
    return kept.intra_op_num_threads, kept.get_session_config_entry("session.intra_op.allow_spinning")


SAME: dict[str, Call] = {
    "a masked array": run(np.ma.masked_array(X, X > 2)),
    "names as a tuple": outputs(("s",)),
    "names as an array": outputs(np.array(["s"])),
    "names as bytes": outputs([b"s"]),
    "names as a set": outputs({"s"}),
    "names as keys": outputs({"s": 1}.keys()),
    "no names": outputs([]),
    "no name": outputs(""),
    "a name twice": outputs(["s", "s"]),
    "options that are empty": lambda ort: ort.InferenceSession(models.same(models.FLOAT, [1]), {}).get_providers()[-1],
    "a model without a version": version,
    "providers that are known": lambda ort: ort.get_all_providers(),
    "settings of an arena": arena,
    "a device": lambda ort: [ort.OrtDevice.make(name, 1).device_type() for name in ("cpu", "cuda", "npu")],
    "a vendor": lambda ort: ort.OrtDevice.make("cann", 0).device_vendor_id(),
    "options of devices": lambda ort: session_of(ort).set_ep_dynamic_options({"a": "b"}),
    "a logger": lambda ort: ort.set_default_logger_callback(None),
    "another run": made_again,
    "options that change later": options_that_change_later,
}

WRONG: dict[str, tuple[Call, str]] = {
    "nothing": (run(None), "Fail"),
    "an array of structures": (run(np.zeros((2, 3), [("a", "f4")])), "InvalidArgument"),
    "another dtype in another byte order": (run(X.astype(">f8")), "InvalidArgument"),
    "a list of bfloat16": (run([1.0], onnx.TensorProto.BFLOAT16, "n"), "RuntimeError"),
    "names as a mapping": (outputs({"s": 1}), "TypeError"),
    "a name": (outputs("s"), "TypeError"),
    "a text for a flag": (option("RunOptions", "terminate", "x"), "TypeError"),
    "a provider nobody knows": (lambda ort: session_of(ort).set_providers(["Foo"]), "RuntimeError"),
    "a fraction for a severity": (lambda ort: ort.set_default_logger_severity(1.5), "TypeError"),
    "a text for a verbosity": (lambda ort: ort.set_default_logger_verbosity("a"), "TypeError"),
    "a text for a seed": (lambda ort: ort.set_seed("a"), "TypeError"),
    "a device nobody knows": (lambda ort: ort.OrtDevice.make("foo", 0), "Exception"),
    "a fraction for a device": (lambda ort: ort.OrtDevice.make("cpu", 0.5), "TypeError"),
    "values of strings": (lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([1], np.str_), "RuntimeError"),
    "values of no type": (lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([1], "foo"), "RuntimeError"),
    "a fraction for a size": (lambda ort: ort.OrtValue.ortvalue_from_shape_and_type([1.5], np.float32), "TypeError"),
    "a setting no arena has": (lambda ort: ort.OrtArenaCfg({"nothing": 1}), "RuntimeError"),
    "the binding of another session": (with_another_session, "ValueError"),
    "a load that is cancelled": (cancelled, "ModelLoadCanceled"),
    "no options of devices": (lambda ort: session_of(ort).set_ep_dynamic_options({}), "RuntimeError"),
    "copies between devices": (copied, "RuntimeError"),
    "no copies": (lambda ort: ort.copy_tensors([], []), "RuntimeError"),
    "no policy": (lambda ort: ort.SessionOptions().set_provider_selection_policy(1), "TypeError"),
    "a plug-in": (lambda ort: ort.register_execution_provider_library("x", "/nothing.so"), "Fail"),
    "no plug-in": (lambda ort: ort.unregister_execution_provider_library("x"), "Fail"),
}


@pytest.mark.parametrize("call", SAME)
def test_odd_calls_give_the_same(call: str) -> None:
    import treadle.compat.onnxruntime as own

    found = SAME[call](own)
    assert found == SAME[call](pytest.importorskip("onnxruntime"))


@pytest.mark.filterwarnings("ignore:set_seed", "ignore:Specified provider")
@pytest.mark.parametrize("call", WRONG)
def test_wrong_calls_raise_the_same(ort: ModuleType, call: str) -> None:
    made, kind = WRONG[call]
    with pytest.raises(Exception) as caught:
        made(ort)
    assert type(caught.value).__name__ == kind
