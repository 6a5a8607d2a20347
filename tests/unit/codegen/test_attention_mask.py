"""Keys that a mask hides from all queries of a block are not multiplied; which epilogues are known to hide keys."""

import numpy as np
import pytest
from tests.kernel_runner import run_graph
from tests.ops.case import Case, floats, graph_of

from treadle.dtypes import boolean, f32
from treadle.graph.expr import Expr, Step
from treadle.passes.lower.attention_mask import can_hide
from treadle.plan.target import Target

_LOWEST = float(np.finfo(np.float32).min)
_ADDED = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))
_PICKED = Expr((f32, boolean), (Step("const", (), f32, _LOWEST), Step("where", (1, 0, 2), f32)), (3,))
_CAPPED = Expr((f32, f32), (Step("tanh", (0,), f32), Step("add", (2, 1), f32)), (3,))
_GROWING = Expr((f32, f32), (Step("exp", (0,), f32), Step("add", (2, 1), f32)), (3,))


def _attention(
    mask: np.ndarray, k: np.ndarray, v: np.ndarray, target: Target, epilogue: Expr = _ADDED, queries: int = 37
) -> np.ndarray:
    operands = (floats("q", 2, queries, 16), k, v, mask)
    graph, inputs = graph_of(Case("attention/mask", "attention", {"epilogue": epilogue}, operands))
    return run_graph(graph, inputs, target=target)[graph.outputs[0].name]


def _keys_and_values(keys: int) -> tuple[np.ndarray, np.ndarray]:
    return floats("k", 2, keys, 16), floats("v", 2, keys, 24)


_SEEN_BY = [(1, 1), (5, 37), (8, 1), (17, 37), (40, 1), (1, 37), (5, 1), (8, 37), (17, 1), (40, 37)]
"""Numbers of keys that are seen, and of queries. Each takes kernels of its own."""


@pytest.mark.parametrize("keys", [40, 67])
@pytest.mark.parametrize(
    ("seen", "queries", "epilogue"),
    [(*each, (_ADDED, _PICKED)[number // 5]) for number, each in enumerate(_SEEN_BY)],
    ids=[f"{seen}-{queries}-{('added', 'picked')[number // 5]}" for number, (seen, queries) in enumerate(_SEEN_BY)],
)
def test_hidden_keys_are_not_multiplied(seen: int, keys: int, queries: int, epilogue: Expr, target: Target) -> None:
    """
    The result is that of the visible keys alone, to the bit, even where hidden ones are NaN.
    """
    k, v = _keys_and_values(keys)
    k[:, seen:], v[:, seen:] = np.nan, np.nan
    visible = np.arange(keys) < seen
    mask = visible if epilogue is _PICKED else np.where(visible, 0, np.float32(_LOWEST))
    found = _attention(np.broadcast_to(mask, (2, 1, keys)).copy(), k, v, target, epilogue, queries)
    alone = np.ones((2, 1, seen), bool) if epilogue is _PICKED else np.zeros((2, 1, seen), np.float32)
    wanted = _attention(alone, k[:, :seen].copy(), v[:, :seen].copy(), target, epilogue, queries)

    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("queries", [96, 93])
@pytest.mark.parametrize("epilogue", [_ADDED, _PICKED], ids=["added", "picked"])
def test_blocks_of_queries_read_the_keys_that_they_see(epilogue: Expr, queries: int, target: Target) -> None:
    """
    Under a causal mask the first queries do not read the last keys.
    """
    k, v = _keys_and_values(96)
    visible = np.tri(queries, 96, dtype=bool)[None]
    mask = visible if epilogue is _PICKED else np.where(visible, 0, np.float32(-np.inf))
    wanted = _attention(mask, k, v, target, epilogue, queries)
    k[:, 64:], v[:, 64:] = np.nan, np.nan
    found = _attention(mask, k, v, target, epilogue, queries)

    assert not np.isnan(wanted).any()
    np.testing.assert_array_equal(found[:, :32], wanted[:, :32])
    assert np.isnan(found[:, 64:]).all()


def test_a_query_that_sees_no_key_weights_all_keys_the_same(target: Target) -> None:
    """
    The lowest number hides nothing from a query where it is added to all scores, also of keys that others do not see.
    """
    k, v = _keys_and_values(40)
    mask = np.full((2, 37, 40), _LOWEST, np.float32)
    mask[:, :, :9] = 0
    mask[:, 5] = mask[1] = _LOWEST
    found = _attention(mask, k, v, target)

    blind = (
        np.concatenate([found[0, 5:6], found[1]]),
        np.concatenate([v[0].mean(0)[None], np.tile(v[1].mean(0), (37, 1))]),
    )
    np.testing.assert_allclose(*blind, rtol=1e-4, atol=1e-5)
    single = _attention(mask[:, :1].copy(), k, v, target, queries=1)
    np.testing.assert_allclose(single[1, 0], v[1].mean(0), rtol=1e-4, atol=1e-5)
    k[0, 16:], v[0, 16:] = 0, 0
    np.testing.assert_array_equal(_attention(mask, k, v, target)[0, 6:], found[0, 6:])


def test_heads_that_share_keys_multiply_what_one_of_them_sees(target: Target) -> None:
    """
    Single queries of a group see different keys: each gets the bits that it gets without the others.
    """
    q, (k, v) = floats("q", 2, 4, 1, 16), (each[:, None] for each in _keys_and_values(67))
    mask = np.where(np.arange(67) < np.array([[[[3]], [[20]], [[0]], [[41]]]]), 0, np.float32(_LOWEST))
    mask = np.broadcast_to(mask, (2, 4, 1, 67)).copy()

    def run(heads: slice, keys: int) -> np.ndarray:
        operands = (q[:, heads].copy(), k[:, :, :keys].copy(), v[:, :, :keys].copy(), mask[:, heads, :, :keys].copy())
        attrs = {"epilogue": _ADDED, **({"repeats": 4} if operands[0].shape[1] == 4 else {})}
        graph, inputs = graph_of(Case("attention/group", "attention", attrs, operands))
        return run_graph(graph, inputs, target=target)[graph.outputs[0].name]

    together = run(slice(4), 67)
    for head, keys in ((0, 3), (1, 20), (2, 67), (3, 41)):
        np.testing.assert_array_equal(together[:, head], run(slice(head, head + 1), keys)[:, 0])


def test_masks_that_are_not_as_low_hide_nothing(target: Target) -> None:
    """
    A score may outweigh -10000: such keys are multiplied.
    """
    k, v = _keys_and_values(40)
    mask = np.zeros((2, 1, 40), np.float32)
    mask[:, :, 20:] = -10000
    k[:, 39] *= 1e6
    weights = floats("q", 2, 37, 16).astype(np.float64) @ k.astype(np.float64).swapaxes(1, 2) + mask
    weights = np.exp(weights - weights.max(axis=2, keepdims=True))
    wanted = weights / weights.sum(axis=2, keepdims=True) @ v

    assert weights[..., 39].max() == 1
    np.testing.assert_allclose(_attention(mask, k, v, target), wanted, rtol=1e-3, atol=1e-4)


def test_only_sums_scales_caps_and_choices_hide_keys() -> None:
    """
    The kernel looks at the epilogue of 0, which says nothing of other functions of the score.
    """
    scale = Step("const", (), f32, 0.125)
    masked = Expr((f32, f32), (scale, Step("mul", (0, 2), f32), Step("add", (3, 1), f32)), (4,))
    divided = Expr((f32, f32), (scale, Step("div", (0, 2), f32), Step("sub", (3, 1), f32)), (4,))
    enlarged = Expr(
        (f32, f32), (Step("const", (), f32, 1e30), Step("mul", (0, 2), f32), Step("add", (3, 1), f32)), (4,)
    )
    inverse = Expr((f32, f32), (Step("div", (1, 0), f32),), (2,))
    product = Expr((f32, f32), (Step("mul", (0, 1), f32),), (2,))
    choice_by_score = Expr((f32, f32), (Step("greater", (0, 1), boolean), Step("where", (2, 0, 1), f32)), (3,))

    assert all(map(can_hide, (_ADDED, _PICKED, _CAPPED, masked, divided)))
    assert not any(map(can_hide, (None, _GROWING, enlarged, inverse, product, choice_by_score)))
