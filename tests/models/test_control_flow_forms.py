"""Forms of control flow that exporters and users write: the results of ONNX Runtime, without Python steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import parser

import treadle
from treadle.errors import KernelError

Array = np.ndarray[Any, Any]

MODELS = {
    "two scan inputs in opposite directions": """<ir_version: 9, opset_import: ["":18]>
g (float[4] h0, float[T,4] a, float[T,4] b) => (float[4] h, float[T,4] y) {
  h, y = Scan <num_scan_inputs=2, scan_input_directions=[1,0], scan_output_directions=[1],
    body = s (float[4] p, float[4] x, float[4] z) => (float[4] q, float[4] o) {
    t = Mul(x, z)  u = Add(p, t)  q = Tanh(u)  o = Identity(q) } > (h0, a, b) }""",
    "a loop that ends by a size that it finds": """<ir_version: 9, opset_import: ["":18]>
g (int64 n, float[N] x) => (float[K] y, int64 c) {
  t = Constant<value = bool {1}>()  z = Constant<value_int=0>()
  y, c = Loop(n, t, x, z) <body = b (int64 i, bool k, float[A] v, int64 m) => (bool ko, float[B] vo, int64 mo) {
    half = Constant<value_float=0.9>()  w = Mul(v, half)  lim = Constant<value_float=0.05>()
    big = Greater(w, lim)  vo = Compress(w, big)
    s = Size(vo)  zero = Constant<value_int=0>()  ko = Greater(s, zero)  one = Constant<value_int=1>()
     mo = Add(m, one) }> }""",
    "loops 3 deep that read numbers of iterations around them": """<ir_version: 9, opset_import: ["":18]>
g (int64 n, float[N] x) => (float[N] y) {
  t = Constant<value = bool {1}>()
  two = Constant<value_float=2.0>()
  y = Loop(n, t, x) <body = b (int64 i, bool k, float[N] v) => (bool ko, float[N] vo) {
    ko = Identity(k)  fi = Cast<to=1>(i)  inner = Constant<value_int=3>()
    w = Loop(inner, k, v) <body = b2 (int64 i2, bool k2, float[N] v2) => (bool k2o, float[N] v2o) {
      k2o = Identity(k2) one = Constant<value_int=1>()
      z = Loop(one, k2, v2) <body = b3 (int64 i3, bool k3, float[N] v3) => (bool k3o, float[N] v3o) {
        k3o = Identity(k3) a = Add(v3, fi) c = Add(i2, i3) fc = Cast<to=1>(c) d = Add(a, fc) e = Mul(d, two)
    v3o = Tanh(e) }>
      v2o = Identity(z) }>
    vo = Identity(w) }> }""",
    "a beam search": """<ir_version: 9, opset_import: ["":18]>
g (int64 n, float[16,16] w) => (int64[4,T] seq, float[4] score) {
  t = Constant<value = bool {1}>()
  s0 = Constant<value_floats=[0.0,-1.0,-2.0,-3.0]>()
  shape = Constant<value_ints=[4,1]>()
  q0 = ConstantOfShape<value = int64[1] {0}>(shape)
  seq, score = Loop(n, t, q0, s0) <body = b (int64 i, bool k, int64[4,L] q, float[4] s)
    => (bool ko, int64[4,L2] qo, float[4] so) {
    ko = Identity(k) m1 = Constant<value_ints=[-1]>() big = Constant<value_ints=[9999999]>()
    ax1 = Constant<value_ints=[1]>()
    last = Slice(q, m1, big, ax1) l1 = Squeeze(last, ax1)
    logits = Gather<axis=0>(w, l1) lp = LogSoftmax<axis=1>(logits)
    su = Unsqueeze(s, ax1) all = Add(lp, su) flat = Reshape(all, m1)
    four = Constant<value_ints=[4]>() so, idx = TopK(flat, four)
    sixteen = Constant<value_int=16>() beam = Div(idx, sixteen) tok = Mod(idx, sixteen)
    kept = Gather<axis=0>(q, beam) tu = Unsqueeze(tok, ax1) qo = Concat<axis=1>(kept, tu) }> }""",
    "a greedy transducer": """<ir_version: 9, opset_import: ["":18]>
g (float[T,8] enc, float[8,8] w, float[8,9] o) => (int64[U] tokens) {
  tr = Constant<value = bool {1}>() z = Constant<value_ints=[0]>() tok0 = ConstantOfShape<value = int64[1] {0}>(z)
  hs = Constant<value_ints=[8]>() h0 = ConstantOfShape(hs) sh = Shape(enc) zi = Constant<value_int=0>()
    n = Gather<axis=0>(sh, zi)
  h, tokens = Loop(n, tr, h0, tok0) <body = b (int64 i, bool k, float[8] h1, int64[L] tk)
    => (bool ko, float[8] h2, int64[L2] tko) {
    ko = Identity(k) f = Gather<axis=0>(enc, i)
    m = Constant<value_int=3>()
    hx, tx = Loop(m, k, h1, tk) <body = b2 (int64 j, bool kk, float[8] hh, int64[P] tt)
    => (bool kko, float[8] hho, int64[Q] tto) {
      s = Add(f, hh) lg = MatMul(s, o) a = ArgMax<axis=0, keepdims=1>(lg) eight = Constant<value_ints=[8]>()
    isb = Equal(a, eight) nb = Not(isb) ax = Constant<value_ints=[0]>() go = Squeeze(nb, ax)
      hho, tto = If(go) <then_branch = y () => (float[8] ha, int64[R] ta) { u = MatMul(hh, w) v = Add(u, f)
    ha = Tanh(v) ta = Concat<axis=0>(tt, a) }, else_branch = nn () => (float[8] hb, int64[S] tb)
    { hb = Identity(hh) tb = Identity(tt) }>
      kko = Identity(go) }>
    h2 = Identity(hx) tko = Identity(tx) }> }""",
}
"""Models by what they are, in ONNX's text form."""


def inputs(name: str, size: int) -> dict[str, Array]:
    """Returns the inputs of a model: of so many rows or iterations."""
    rng = np.random.default_rng(size)

    def random(*shape: int) -> Array:
        return rng.standard_normal(shape).astype(np.float32)

    makers: dict[str, Callable[[], dict[str, Array]]] = {
        "two scan inputs in opposite directions": lambda: {"h0": random(4), "a": random(size, 4), "b": random(size, 4)},
        "a loop that ends by a size that it finds": lambda: {"n": np.array(1 << 40), "x": np.abs(random(size))},
        "loops 3 deep that read numbers of iterations around them": lambda: {"n": np.array(size), "x": random(8)},
        "a beam search": lambda: {"n": np.array(size), "w": random(16, 16)},
        "a greedy transducer": lambda: {"enc": random(size, 8), "w": random(8, 8) / 3, "o": random(8, 9)},
    }
    return makers[name]()


@pytest.mark.parametrize("name", MODELS)
def test_results_are_those_of_onnxruntime(name: str) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model = parser.parse_model(MODELS[name]).SerializeToString()
    session, peer = treadle.Session(model), onnxruntime.InferenceSession(model)
    for size in (3, 8, 50):
        feeds = inputs(name, size)
        for one, other in zip(session.run(feeds).values(), peer.run(None, feeds), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
            assert one.shape == other.shape
    assert [call.node for plan in session.plans() for call in plan.calls if call.function is not None] == []


def test_items_that_change_their_shape_cannot_be_stacked() -> None:
    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["":18]>
g (int64 n, float[N] x) => (y) {
  t = Constant<value = bool {1}>()
  y = Loop(n, t) <body = b (int64 i, bool k) => (bool ko, float[A] o) {
    ko = Identity(k) z = Constant<value_ints=[0]>() one = Constant<value_int=1>() e = Add(i, one)
    ax = Constant<value_ints=[0]>() eu = Unsqueeze(e, ax) o = Slice(x, z, eu) }> }"""
    )
    session = treadle.Session(model.SerializeToString())
    x = np.arange(9, dtype=np.float32)
    np.testing.assert_array_equal(session.run({"n": np.array(1), "x": x})["y"], [[0]])
    with pytest.raises(KernelError, match=r"Loop.*an item that the loop has to stack has another shape"):
        session.run({"n": np.array(2), "x": x})
