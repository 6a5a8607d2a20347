"""Buffers that an IO binding gives both as an input and as an output: decoders write new keys and values into them."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import pytest

import treadle.compat.onnxruntime as own
from tests.compat.onnxruntime import models
from tests.models.contrib import Array, OneNode
from tests.models.test_grouped_attention import case, check
from treadle.compile import written_forms

ROOM = 40
CASES = {
    "prompt": case([5, 3], 5, ROOM, do_rotary=1),
    "next_token": case([6, 3], 1, ROOM, do_rotary=1),
    "window": case([9], 4, ROOM, local_window_size=3, softcap=2.0),
    "smooth": case([21, 9], 1, ROOM, smooth_softmax=1),
}


def bound(ort: ModuleType, node: OneNode, caches: dict[str, Array], *, is_open: bool) -> tuple[Any, Any]:
    """A session of `node`, and a binding of its caches to `caches`, before and after."""
    session = ort.InferenceSession(node.model(is_open=is_open), providers=["CPUExecutionProvider"])
    return session, binding_of(session, node, caches)


def binding_of(session: Any, node: OneNode, caches: dict[str, Array]) -> Any:
    """A binding of the caches of `node` to `caches`, before and after."""
    binding = session.io_binding()
    for name, array in node.feeds().items():
        if name not in caches:
            binding.bind_cpu_input(name, array)
    for before, after in (("past_k", "all_k"), ("past_v", "all_v")):
        cache = caches[before]
        where = ("cpu", 0, cache.dtype, cache.shape, cache.ctypes.data)
        binding.bind_input(before, *where)
        binding.bind_output(after, *where)
    binding.bind_output("y")
    return binding


def with_rubbish(node: OneNode) -> dict[str, Array]:
    """The caches of `node`, in which nothing but the tokens before the step has a value."""
    caches = {name: np.full_like(node.operands[name], np.nan) for name in ("past_k", "past_v")}
    tokens = 1 if node.operands["q"].ndim < 3 else node.operands["q"].shape[1]
    for name, cache in caches.items():
        for text, last in enumerate(node.operands["lengths"]):
            before = max(int(last) + 1 - tokens, 0)
            cache[text, :, :before] = node.operands[name][text, :, :before]
    return caches


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_open", [False, True])
def test_new_keys_are_written_into_the_buffer(ort: ModuleType, name: str, is_open: bool) -> None:
    """What the buffer holds behind the tokens is neither read nor written."""
    node, caches = CASES[name], with_rubbish(CASES[name])
    session, binding = bound(ort, node, caches, is_open=is_open)
    session.run_with_iobinding(binding)
    *kept, y = (value.numpy() for value in binding.get_outputs())

    check(
        node,
        {"all_k": caches["past_k"], "all_v": caches["past_v"], "y": y},
        node.attributes.get("local_window_size", -1),
    )
    assert [array.ctypes.data for array in kept] == [cache.ctypes.data for cache in caches.values()]
    last = max(int(node.operands["lengths"].max()) + 1, node.operands["q"].shape[1])
    assert all(np.isnan(cache[:, :, last:]).all() for cache in caches.values())
    if ort is own:
        (form,) = written_forms(session._sess)._forms.values()
        (plan,) = form.plans.all()
        assert plan.executable.given


def test_steps_go_on_in_one_buffer() -> None:
    """A prompt and two tokens in the buffers give what they give in arrays that runs return."""
    caches = with_rubbish(case([5, 5], 5, ROOM, do_rotary=1))
    arrays = {name: np.nan_to_num(cache) for name, cache in caches.items()}
    for lengths, tokens in ([5, 5], 5), ([6, 6], 1), ([7, 7], 1):
        step = case(lengths, tokens, ROOM, seed=lengths[0], do_rotary=1)
        session, binding = bound(own, step, caches, is_open=True)
        session.run_with_iobinding(binding)
        feeds = {**step.feeds(), **arrays}
        y, arrays["past_k"], arrays["past_v"] = session.run(["y", "all_k", "all_v"], feeds)
        np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), y)
        for name, cache in caches.items():
            np.testing.assert_array_equal(cache[:, :, : lengths[0]], arrays[name][:, :, : lengths[0]])


def test_what_is_shared_may_change_between_runs() -> None:
    """A step whose values go elsewhere, in a binding of steps that shared both buffers, with one plan for all sizes."""
    node = case([6, 3, 9], 1, ROOM, do_rotary=1)
    caches = {name: np.nan_to_num(cache) for name, cache in with_rubbish(node).items()}
    model = onnx.load_from_string(node.model(is_open=True))
    for value in model.graph.input:
        if value.name in caches:
            value.type.tensor_type.shape.dim[1].dim_value = caches[value.name].shape[1]
    session = own.InferenceSession(model.SerializeToString())
    binding = binding_of(session, node, caches)
    for _ in range(3):  # the first step finds the plan, which is the binding's own in the others
        session.run_with_iobinding(binding)
    (form,) = written_forms(session._sess)._forms.values()
    checked = form.checked({**node.feeds(), **caches})
    assert binding.own.bind(form.plans.rebinds, checked.signature, checked.sizes, ("y", "all_k", "all_v"))
    values = np.zeros_like(caches["past_v"])
    binding.bind_output("all_v", "cpu", 0, values.dtype, values.shape, values.ctypes.data)
    feeds = {**node.feeds(), **{name: cache.copy() for name, cache in caches.items()}}
    wanted_keys, wanted_values = session.run(["all_k", "all_v"], feeds)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(values, wanted_values)
    np.testing.assert_array_equal(caches["past_k"], wanted_keys)


def test_a_step_that_does_not_fit_the_buffer_is_an_error(ort: ModuleType) -> None:
    node = case([12], 1, 12)
    operands = {**node.operands, "lengths": np.array([12], np.int32), "total": np.array(13, np.int32)}
    session, binding = bound(ort, replace(node, operands=operands), with_rubbish(node), is_open=False)
    with pytest.raises(RuntimeError):
        session.run_with_iobinding(binding)


def test_memory_with_other_readers_gets_copies() -> None:
    """Keys and values in one buffer, or in memory that overlaps, are those of the run's beginning."""
    node = CASES["next_token"]
    memory = np.concatenate([np.nan_to_num(cache) for cache in with_rubbish(node).values()])
    one = {"past_k": memory[:2], "past_v": memory[1:3]}
    session, binding = bound(own, node, one, is_open=False)
    assert binding.shared == {}
    wanted = session.run(["y"], {**node.feeds(), **{name: each.copy() for name, each in one.items()}})[0]
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(binding.get_outputs()[-1].numpy(), wanted)


def test_outputs_that_are_computed_anew_may_have_the_memory_of_an_input(ort: ModuleType) -> None:
    session = ort.InferenceSession(models.two_outputs(), providers=["CPUExecutionProvider"])
    binding, memory = session.io_binding(), np.arange(10).reshape(2, 5)
    binding.bind_cpu_input("x", np.ones((2, 3), np.float32))
    binding.bind_input("i", "cpu", 0, np.int64, [2, 5], memory.ctypes.data)
    binding.bind_output("j", "cpu", 0, np.int64, [2, 5], memory.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(memory, 2 * np.arange(10).reshape(2, 5))
