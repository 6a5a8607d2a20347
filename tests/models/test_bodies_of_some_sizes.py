"""Bodies that do not fit all sizes that data may tell: those of sample sizes, or of iterations that no run makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import treadle
from tests.models.expected import expected_results
from treadle import driver
from treadle.errors import RunError

POOLS = {threads: treadle.Pool(intra_op=threads, inter_op=threads) for threads in (1, 2)}

KEPT = """
<ir_version: 8, opset_import: ["" : 17]>
kept (float[length] x) => (float[iterations] products, float[size] last)
{
  zero = Constant<value = float {0.0}>()
  first = Constant<value = int64[1] {0}>()
  one = Constant<value = int64[1] {1}>()
  end = Constant<value = int64[1] {1000000}>()
  mask = Greater(x, zero)
  kept = Compress(x, mask)
  size = Shape(kept)
  limit = Sub(size, one)
  yes = Constant<value = bool {1}>()
  begin = Slice(kept, first, one)
  last, products = Loop(limit, yes, begin)
    <body = step (int64 i, bool on, float[n] head) => (bool again, float[m] longer, float product)
    {
      again = Identity(on)
      more = Constant<value = float[1] {2.0}>()
      longer = Concat<axis = 0>(head, more)
      used = Shape(longer)
      tail = Slice(kept, used, end)
      whole = Concat<axis = 0>(longer, tail)
      product = MatMul(whole, kept)
    }>
}
"""
"""Its body fits as long as `head` is shorter than `kept`, which holds in all iterations that are made."""

TWICE = """
<ir_version: 8, opset_import: ["" : 17]>
twice (float[length] x) => (float[few] y, int64[1] count)
{
  zero = Constant<value = float {0.0}>()
  ten = Constant<value = float {10.0}>()
  positive = Greater(x, zero)
  some = Compress(x, positive)
  grown = Mul(some, ten)
  small = Less(grown, ten)
  y = Compress(grown, small)
  count = Shape(some)
}
"""
"""Sizes that depend on data follow sizes that depend on data."""

DECODER = """
<ir_version: 8, opset_import: ["" : 17]>
decoder (float[frames, width] frames_, float[width, labels] weights) => (int64[count] tokens)
{
  zero = Constant<value = int64 {0}>()
  none = Constant<value = int64[1] {0}>()
  sizes = Shape(frames_)
  limit = Gather(sizes, zero)
  yes = Constant<value = bool {1}>()
  begin = ConstantOfShape<value = int64[1] {0}>(none)
  tokens = Loop(limit, yes, begin)
    <body = frame (int64 i, bool on, int64[n] before) => (bool again, int64[m] after)
    {
      again = Identity(on)
      first = Gather(frames_, i)
      most = Constant<value = int64 {3}>()
      go = Constant<value = bool {1}>()
      after, last = Loop(most, go, before, first)
        <body = token (int64 j, bool on_, int64[p] found, float[width] state)
          => (bool more, int64[q] longer, float[width] next)
        {
          scores = MatMul(state, weights)
          best = ArgMax<axis = 0, keepdims = 1>(scores)
          blank = Constant<value = int64[1] {0}>()
          is_blank = Equal(best, blank)
          is_token = Not(is_blank)
          more = Squeeze(is_token)
          longer = If(more)
            <then_branch = appends () => (int64[r] one) { one = Concat<axis = 0>(found, best) },
             else_branch = keeps () => (int64[s] same) { same = Identity(found) }>
          turned = Neg(state)
          factor = Constant<value = float {0.7}>()
          next = Mul(turned, factor)
        }>
    }>
}
"""
"""As RNN-T decoders do: for each frame a loop that ends at the first blank; a branch in it appends. The shape that
Squeeze without axes is given is known, so it keeps ranks."""


def positive(count: int) -> dict[str, Any]:
    """Returns an x with so many positive elements."""
    x = np.linspace(0.05, 1.5, count, dtype=np.float32)
    return {"x": np.concatenate([[-1.0], x, [-2.0]]).astype(np.float32)}


def assert_agrees(session: treadle.Session, model: onnx.ModelProto, feeds: Mapping[str, Any]) -> None:
    found = {threads: session.run(feeds, pool=pool) for threads, pool in POOLS.items()}
    for (name, result), wanted in zip(found[1].items(), expected_results(model, feeds), strict=True):
        assert (result.shape, result.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(result, wanted, rtol=1e-5)
        assert found[2][name].tobytes() == result.tobytes()


def python_steps(session: treadle.Session) -> list[str]:
    return [call.node for plan in session.plans() for call in plan.calls if call.function is not None]


@pytest.mark.parametrize("counts", [(4, 1, 2, 7), (1, 2, 7), (2, 1, 7)])
def test_a_loop_without_iterations_need_not_fit(counts: tuple[int, ...]) -> None:
    """A body that does not fit the sizes of a run is planned without them, and runs natively for others."""
    model = onnx.parser.parse_model(KEPT)
    session = treadle.Session(model)
    for count in counts:
        assert_agrees(session, model, positive(count))
    assert python_steps(session) == []


def test_a_loop_in_a_loop_whose_branch_appends() -> None:
    model = onnx.parser.parse_model(DECODER)
    session = treadle.Session(model)
    rng = np.random.default_rng(4)
    for frames in (6, 11, 1):
        made = {"frames_": rng.standard_normal((frames, 4)), "weights": rng.standard_normal((4, 3))}
        assert_agrees(session, model, {name: array.astype(np.float32) for name, array in made.items()})
    assert python_steps(session) == []


def test_an_iteration_that_does_not_fit_fails() -> None:
    text = KEPT.replace("limit = Sub(size, one)", "limit = Identity(size)")
    session = treadle.Session(onnx.parser.parse_model(text))
    with pytest.raises(RunError, match="inner sizes differ"):
        session.run(positive(3))


def test_what_cannot_be_planned_behind_sizes_runs_in_stages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph in front is planned because sample sizes are; for the sizes of the run, nothing is joined."""
    join, calls = driver.join_stages, []

    def once(*arguments: Any) -> Any:
        calls.append(arguments)
        return join(*arguments) if len(calls) == 1 else None

    monkeypatch.setattr(driver, "join_stages", once)
    model = onnx.parser.parse_model(TWICE)
    session = treadle.Session(model)
    for count in (4, 7, 1):
        assert_agrees(session, model, positive(count))
    assert len(calls) > 1
    session.trim()
    assert_agrees(session, model, positive(4))
