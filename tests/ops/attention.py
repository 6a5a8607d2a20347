"""Cases of attention: odd sizes, every layout that passes absorb, masks of every shape, shared heads."""

import numpy as np

from tests.ops.case import Case, OnnxCall, floats
from treadle import dtypes
from treadle.graph.expr import Expr, Step

_F32 = dtypes.f32
_HEADS = (0, 2, 1, 3)
_SCALE = (Step("const", (), _F32, 0.25), Step("mul", (0, 1), _F32))
_SCALED = Expr((_F32,), _SCALE, (2,))
_MASKED = Expr((_F32, _F32), (_SCALE[0], Step("mul", (0, 2), _F32), Step("add", (3, 1), _F32)), (4,))
_CHOSEN = Expr(
    (_F32, dtypes.boolean), (Step("const", (), _F32, float("-inf")), Step("where", (1, 0, 2), _F32)), (3,)
)  # fmt: skip

_SHAPES = {
    "one_key": ((3, 16, 8), (3, 1, 8), (3, 1, 8)),
    "tiles": ((2, 32, 16), (2, 48, 16), (2, 48, 32)),
    "odd": ((2, 3, 37, 11), (2, 3, 41, 11), (2, 3, 41, 13)),
    "many_keys": ((16, 8), (700, 8), (700, 5)),
    "few_queries": ((4, 5, 8), (4, 33, 8), (4, 33, 8)),
    "shared_keys": ((2, 3, 19, 8), (2, 1, 23, 8), (2, 1, 23, 8)),
    "shared_queries": ((1, 3, 19, 8), (2, 3, 23, 8), (2, 3, 23, 8)),
    "depth_one": ((2, 16, 1), (2, 9, 1), (2, 9, 1)),
    "no_queries": ((2, 0, 4), (2, 5, 4), (2, 5, 3)),
    "no_batch": ((0, 7, 4), (0, 5, 4), (0, 5, 3)),
}


def _plain(name: str, q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...]) -> Case:
    operands = (floats("q", *q), floats("k", *k), floats("v", *v))
    return Case(f"attention/{name}", "attention", {}, operands)


def _by_heads(name: str, attrs: dict[str, object], *extra: np.ndarray, constant: bool = False) -> Case:
    """q [2, 21, 4, 12], k and v [2, 35, 4, 12], to be permuted by heads."""
    operands = (floats("hq", 2, 21, 4, 12), floats("hk", 2, 35, 4, 12), floats("hv", 2, 35, 4, 12), *extra)
    perms = {"q_perm": _HEADS, "k_perm": _HEADS, "v_perm": _HEADS, "out_perm": _HEADS}
    return Case(f"attention/{name}", "attention", {**perms, **attrs}, operands, frozenset({3} if constant else ()))


def _masked(name: str, *shape: int) -> list[Case]:
    mask = floats(name, *shape) * 3
    return [
        _by_heads(f"mask_{name}", {"epilogue": _MASKED}, mask),
        _by_heads(f"mask_{name}_constant", {"epilogue": _MASKED}, mask, constant=True),
    ]


def _special() -> list[Case]:
    causal = np.tril(np.ones((1, 1, 21, 35), bool))
    padding = np.zeros((2, 1, 1, 35), np.float32)
    padding[1, ..., 20:] = -np.inf
    unattended = padding.copy()
    unattended[0] = -np.inf
    nothing = causal.copy()
    nothing[..., 3, :] = False
    q = floats("nan", 2, 16, 8)
    q[0, 2, 3] = np.nan
    large = (floats("lq", 2, 24, 8) * 200, floats("lk", 2, 33, 8) * 200, floats("lv", 2, 33, 8))
    f64 = tuple(floats(name, 3, 19, 9, dtype=np.float64) for name in "qkv")
    return [
        _by_heads("causal", {"epilogue": _CHOSEN}, causal, constant=True),
        _by_heads("causal_given", {"epilogue": _CHOSEN}, causal),
        _by_heads("padding", {"epilogue": _MASKED}, padding),
        _by_heads("row_without_keys", {"epilogue": _CHOSEN}, nothing, constant=True),
        _by_heads("safe_row_without_keys", {"epilogue": _CHOSEN, "safe": True}, nothing, constant=True),
        _by_heads("safe_padding", {"epilogue": _MASKED, "safe": True}, unattended),
        Case("attention/nan", "attention", {}, (q, floats("nk", 2, 19, 8), floats("nv", 2, 19, 8))),
        Case("attention/large_scores", "attention", {}, large),
        Case("attention/float64", "attention", {}, f64),
    ]


def _layouts() -> list[Case]:
    q, k, v = floats("tq", 2, 8, 21), floats("tk", 2, 8, 35), floats("tv", 2, 12, 35)
    attrs = {"q_perm": (0, 2, 1), "k_perm": (0, 2, 1), "v_perm": (0, 2, 1), "epilogue": _SCALED}
    spread = floats("sq", 8, 21, 3), floats("sk", 8, 35, 3), floats("sv", 12, 35, 3)
    return [
        Case("attention/transposed_operands", "attention", attrs, (q, k, v)),
        Case("attention/strided_operands", "attention", {f"{name}_perm": (2, 1, 0) for name in "qkv"}, spread),
    ]


def _shared_heads() -> list[Case]:
    """Two heads of keys and values for four or six of queries."""
    q, k, v = floats("gq", 2, 21, 4, 12), floats("gk", 2, 35, 2, 12), floats("gv", 2, 35, 2, 12)
    attrs = {**{f"{name}_perm": _HEADS for name in "qkv"}, "out_perm": _HEADS, "repeats": 2}
    masks = {"rows": (2, 1, 1, 35), "heads": (1, 4, 21, 1), "every": (2, 4, 21, 35)}
    plain = (floats("pq", 6, 17, 8), floats("pk", 2, 19, 8), floats("pv", 2, 19, 5))
    return [
        Case("attention/repeated", "attention", {"repeats": 3, "epilogue": _SCALED}, plain),
        Case("attention/repeated_by_heads", "attention", attrs, (q, k, v)),
        *(
            Case(
                f"attention/repeated_{name}{'_constant' if constant else ''}",
                "attention",
                {**attrs, "epilogue": _MASKED},
                (q, k, v, floats(name, *shape)),
                frozenset({3} if constant else ()),
            )
            for name, shape in masks.items()
            for constant in (False, True)
        ),
    ]


def _with_sinks() -> list[Case]:
    """One more key, whose score is given for each head, for all, and for each head of a group."""
    q, k, v = floats("sinkq", 2, 4, 21, 12), floats("sinkk", 2, 2, 35, 12), floats("sinkv", 2, 2, 35, 12)
    sinks = floats("sinks", 4, 1, 1) * 20
    wide = (q, np.repeat(k, 2, axis=1), np.repeat(v, 2, axis=1))
    causal = np.tril(np.ones((1, 1, 21, 35), bool))
    one = floats("one_sink", 1, 1, 1, 1)
    return [
        Case("attention/sinks", "attention", {"sink": True}, (*wide, sinks)),
        Case("attention/one_sink", "attention", {"sink": True, "epilogue": _CHOSEN}, (*wide, causal, one)),
        Case(
            "attention/shared_sinks", "attention", {"sink": True, "repeats": 2, "epilogue": _SCALED}, (q, k, v, sinks)
        ),
    ]


def _as_onnx() -> Case:
    x = tuple(floats(f"onnx{name}", 2, 3, 18, 16) for name in "qkv")
    return Case("attention/onnx", "attention", {"epilogue": _SCALED}, x, onnx=OnnxCall("Attention", {"scale": 0.25}))


CASES = [
    *(_plain(name, *shapes) for name, shapes in _SHAPES.items()),
    _by_heads("heads", {}),
    _by_heads("scaled", {"epilogue": _SCALED}),
    *_masked("keys", 2, 1, 1, 35),
    *_masked("queries", 1, 1, 21, 1),
    *_masked("both", 1, 1, 21, 35),
    *_masked("every", 2, 4, 21, 35),
    *_masked("flat", 35),
    *_masked("number"),
    *_layouts(),
    *_special(),
    *_shared_heads(),
    *_with_sinks(),
    _as_onnx(),
]
