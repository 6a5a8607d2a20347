"""Cases of linear_attention."""

import numpy as np

from tests.ops.case import Case, floats


def _case(
    name: str,
    tokens: int = 5,
    heads: int = 4,
    shared: int = 4,
    key: int = 8,
    value: int = 6,
    *,
    state: bool = False,
    factors: int = 0,
    rates: int = 0,
) -> Case:
    """`factors` and `rates` are numbers of a token: 0 where there are none."""
    k = floats(f"{name} k", 2, tokens, shared, key)
    k /= np.linalg.norm(k, axis=-1, keepdims=True)
    inputs = (
        floats(f"{name} q", 2, tokens, heads * key) / np.float32(4),
        k.reshape(2, tokens, shared * key),
        floats(f"{name} v", 2, tokens, shared * value),
        floats(f"{name} state", 2, shared, key, value) if state else None,
        np.exp(-np.abs(floats(f"{name} factor", 2, tokens, factors))) if factors else None,
        1 / (1 + np.exp(floats(f"{name} rate", 2, tokens, rates))) if rates else None,
    )
    attrs = {"heads": heads, "shared": shared}
    return Case(f"linear_attention/{name}", "linear_attention", attrs, inputs, outputs=2)


CASES = [
    _case("linear"),
    _case("linear_after_a_state", state=True),
    _case("gated_by_head", factors=4, state=True),
    _case("gated_by_key", factors=4 * 8),
    _case("delta", rates=4),
    _case("delta_with_one_rate", rates=1, state=True),
    _case("gated_delta", factors=4, rates=4, state=True),
    _case("gated_delta_by_key", factors=4 * 8, rates=4),
    _case("one_token", tokens=1, factors=4, rates=4, state=True, key=16, value=32),
    _case("no_token", tokens=0, factors=4, rates=4, state=True),
    _case("queries_share", heads=6, shared=2, factors=2, rates=2),
    _case("keys_share", heads=2, shared=6, factors=6, rates=6, state=True),
    _case("wide_values", heads=2, shared=2, key=5, value=85, factors=2, rates=2, state=True),
    _case("long", tokens=70, heads=2, shared=1, key=32, value=16, factors=1, rates=1),
]
