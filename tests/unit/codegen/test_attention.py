"""The attention kernel in every chunk order, and how its blocks are chosen."""

from dataclasses import replace

import numpy as np
import pytest
from tests.kernel_runner import lower_graph, run_graph
from tests.open_sizes import OpenSizes
from tests.ops.attention import CASES
from tests.ops.case import Case, floats, graph_of

from treadle.codegen.jit import compile_kernel
from treadle.codegen.target import detect
from treadle.dtypes import boolean, f32
from treadle.graph.expr import Expr, Step
from treadle.graph.graph import Graph
from treadle.passes.base import PassContext
from treadle.passes.lower.attention_tiles import choose_tiles
from treadle.passes.pipeline import infer
from treadle.plan.kernels.attention import AttentionSpec
from treadle.plan.target import Target


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_chunks_may_run_in_any_order(case, target: Target) -> None:
    """
    Chunks write disjoint memory, stay inside their scratch and outputs, and give the same bits in both orders.
    """
    graph, inputs = graph_of(case)
    forward, backward = (run_graph(graph_of(case)[0], inputs, target=target, reverse_chunks=r) for r in (False, True))

    for value in graph.outputs:
        assert forward[value.name].tobytes() == backward[value.name].tobytes()
        assert forward[value.name].dtype == np.dtype(value.known_dtype.numpy)


def _first_query(case: Case) -> tuple[Case, int]:
    """`case` with its first query alone, and the axis of queries of its result."""
    rank = len(case.inputs[0].shape)
    axis = case.attrs.get("q_perm", range(rank))[rank - 2]
    q = case.inputs[0].take([0], axis=axis)
    masks = [mask[..., :1, :] if mask.ndim > 1 else mask for mask in case.inputs[3:]]  # and sinks
    return replace(case, inputs=(q, *case.inputs[1:3], *masks)), case.attrs.get("out_perm", range(rank))[rank - 2]


@pytest.mark.parametrize(
    "case", [case for case in CASES if "no_" not in case.id and case.onnx is None], ids=lambda case: case.id
)
def test_a_single_query_has_the_bits_of_many(case: Case, target: Target) -> None:
    """
    One query, for which keys and columns fill the lanes, gets the bits that it has as the first of several.
    """
    single, axis = _first_query(case)
    (graph, inputs), (whole, every) = graph_of(single), graph_of(case)
    found = run_graph(graph, inputs, target=target)[graph.outputs[0].name]
    wanted = run_graph(whole, every, target=target)[whole.outputs[0].name].take([0], axis=axis)

    np.testing.assert_array_equal(found, wanted)


def _query_forms(queries: int | str, keys: int | str, target: Target, *, v_perm: tuple[int, ...] = (0, 1, 2)) -> str:
    graph = Graph("attention")
    shapes = (2, queries, 24), (2, keys, 24), tuple((2, keys, 20)[axis] for axis in v_perm)
    operands = [graph.input(name, f32, shape) for name, shape in zip("qkv", shapes, strict=True)]
    graph.outputs = [graph.add("attention", operands, {"v_perm": v_perm}, name="y").output]
    if isinstance(queries, str) or isinstance(keys, str):
        calls = OpenSizes(graph, n=16, m=24).calls
    else:
        infer(graph, PassContext(target))
        calls = lower_graph(graph, target)[0]
    (spec,) = (call.spec for call in calls)
    assert isinstance(spec, AttentionSpec)
    return spec.single_query


def test_where_a_single_query_fills_no_lanes(target: Target) -> None:
    """
    The form for one query is for those that may be one, and for values whose rows are contiguous.
    """
    assert _query_forms(1, 24, target) == "always"
    assert _query_forms(2, 24, target) == "never"
    assert _query_forms(1, 24, target, v_perm=(0, 2, 1)) == "never"
    assert _query_forms("n", "m", target) == "sometimes"
    assert _query_forms("n", "n", target) == "never"


def test_long_keys_and_values_are_read_from_packed_rows(target: Target) -> None:
    """
    Where the rows of a head span more than L2, they are copied one after another first. The bits stay the same.
    """
    perms = {f"{name}_perm": (0, 2, 1, 3) for name in ("q", "k", "v", "out")}
    operands = (floats("q", 2, 1001, 2, 8), floats("k", 1, 801, 2, 8), floats("v", 2, 801, 2, 8))
    case = Case("attention/long", "attention", perms, operands)
    small, large = (replace(target, l2=size) for size in (1 << 14, 1 << 30))
    families = [
        [call.spec.family if call.spec else None for call in lower_graph(graph_of(case)[0], each)[0]]
        for each in (small, large)
    ]
    graph, inputs = graph_of(case)
    name = graph.outputs[0].name
    packed, direct = (run_graph(graph_of(case)[0], inputs, target=each)[name] for each in (small, large))

    assert families == [["copy_rows", "copy_rows", "attention"], ["attention"]]
    assert packed.tobytes() == direct.tobytes()
    q, k, v = (operand.swapaxes(1, 2).astype(np.float64) for operand in operands)
    weights = np.exp(q @ k.swapaxes(2, 3))
    wanted = (weights / weights.sum(axis=3, keepdims=True)) @ v
    np.testing.assert_allclose(packed, wanted.swapaxes(1, 2), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("repeats", [1, 4])
@pytest.mark.parametrize(
    ("sample", "packed"), [({"b": 2, "n": 16, "m": 24}, 0), ({"b": 2, "n": 2000, "m": 90000}, 2)], ids=["small", "long"]
)
def test_open_sizes_get_the_bits_of_numbers(sample: dict[str, int], packed: int, repeats: int) -> None:
    """
    Attention that is lowered once gives, for any number of queries and keys, the bits of a lowering for them. Long
    samples let it copy keys and values to packed rows, whatever the sizes of a run.
    """
    heads = 8 // repeats
    shared = {"repeats": repeats} if repeats > 1 else {}
    perms = {f"{name}_perm": (0, 2, 1, 3) for name in ("q", "k", "v", "out")}
    bias = Expr((f32, f32), (Step("add", (0, 1), f32),), (2,))

    def graph(b: int | str, n: int | str, m: int | str) -> Graph:
        made = Graph("attention")
        shapes = {"q": (b, n, 8, 24), "k": (b, m, heads, 24), "v": (b, m, heads, 20), "bias": (b, 1, n, m)}
        operands = [made.input(name, f32, shape) for name, shape in shapes.items()]
        made.outputs = [made.add("attention", operands, {**perms, **shared, "epilogue": bias}, name="y").output]
        return made

    sizes = [(1, 1, 1), (3, 5, 7), (1, 16, 100), (2, 33, 12), (1, 47, 31), (1, 2, 301)]
    sizes += [(1, n, m) for n in (3, 18) for m in (2, 4, 5, 6, 8, 9, 13, 17, 18, 19)]
    for b, n, m in sizes:
        opened = OpenSizes(graph("b", "n", "m"), **sample)
        assert opened.families.count("attention") == 1
        assert len(opened.families) == 2 + packed
        assert not opened.facts.guards
        shapes = {"q": (b, n, 8, 24), "k": (b, m, heads, 24), "v": (b, m, heads, 20), "bias": (b, 1, n, m)}
        inputs = {name: floats(name, *shape) for name, shape in shapes.items()}
        found = opened.run(inputs, b=b, n=n, m=m)[0]
        static = graph(b, n, m)
        infer(static, PassContext(detect()))
        wanted = run_graph(static, inputs, target=detect())["y"]
        np.testing.assert_array_equal(found, wanted, err_msg=f"{b}, {n}, {m}")


def test_open_numbers_of_adjacent_queries_get_the_bits_of_numbers() -> None:
    """
    Where the elements of neighbouring queries are neighbours in memory, each block copies whole and partial vectors of
    an open number of them.
    """
    perms = {"q_perm": (0, 1, 3, 2), "epilogue": Expr((f32,), (), (0,))}

    def graph(n: int | str) -> Graph:
        made = Graph("attention")
        shapes = {"q": (1, 2, 24, n), "k": (1, 2, 31, 24), "v": (1, 2, 31, 20)}
        operands = [made.input(name, f32, shape) for name, shape in shapes.items()]
        made.outputs = [made.add("attention", operands, perms, name="y").output]
        return made

    opened = OpenSizes(graph("n"), n=48)
    (spec,) = (call.spec for call in opened.calls if isinstance(call.spec, AttentionSpec))
    assert spec.q_source == "rows"
    for n in (1, 15, 16, 33, 64):
        inputs = {"q": floats("q", 1, 2, 24, n), "k": floats("k", 1, 2, 31, 24), "v": floats("v", 1, 2, 31, 20)}
        found = OpenSizes(graph("n"), n=48).run(inputs, n=n)[0]
        static = graph(n)
        infer(static, PassContext(detect()))
        np.testing.assert_array_equal(found, run_graph(static, inputs, target=detect())["y"], err_msg=str(n))


def test_masks_of_bytes_are_read_in_one_place() -> None:
    """
    Where each lane of a partial vector of bytes is loaded behind a branch, code of this kind exists once for a product,
    not for each row: a mask of bytes needs hardly more code than one of numbers.
    """
    steps = (Step("const", (), f32, -1e9), Step("where", (1, 0, 2), f32)), (Step("add", (0, 1), f32),)
    sizes = []
    for dtype, chosen in zip((boolean, f32), steps, strict=True):
        graph = Graph("masked")
        q, k, v = (graph.input(name, f32, (1, 37, 32)) for name in "qkv")
        mask = graph.input("mask", dtype, (1, 37, 37))
        epilogue = Expr((f32, dtype), chosen, (1 + len(chosen),))
        graph.outputs = [graph.add("attention", [q, k, v, mask], {"epilogue": epilogue}).output]
        infer(graph, PassContext(detect()))
        (spec,) = (call.spec for call in lower_graph(graph, detect())[0] if isinstance(call.spec, AttentionSpec))
        sizes.append(len(compile_kernel(spec, detect())))

    assert sizes[0] < 1.2 * sizes[1]


@pytest.mark.parametrize("queries", [1, 15, 16, 17, 100, 512])
@pytest.mark.parametrize("keys", [1, 9, 77, 20_000])
def test_blocks_cover_all_rows(queries: int, keys: int) -> None:
    """
    Register blocks cover keys and width exactly; long rows of scores are kept to one vector of queries.
    """
    tiles = choose_tiles(queries, keys, 64, 24, lanes=16, registers=32, cache=1 << 18)

    for rows, tile in ((keys, tiles.keys), (24, tiles.width)):
        small = tile.blocks - tile.large_blocks
        assert tile.large_blocks * tile.heights[0] + small * tile.heights[-1] == rows
    assert tiles.vectors * 16 < queries + 16
    assert keys < 20_000 or tiles.vectors == 1
