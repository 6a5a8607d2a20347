"""Bodies of TensorFlow's files: While, If, Case, lists of tensors and the frames and switches of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import treadle
from tests.bodies.kinds import OTHER, SIZE, STEP, WIDE, Array, Kind, Run, given, products, transposes, weights
from tests.unit.frontends.tensorflow.graphs import Writer, function_attr
from treadle.dtypes import boolean, f32, i32, i64, string

Nodes = list[tuple[Any, ...]]
Inner = Callable[[str], tuple[Nodes, str]]
"""(name of a value) -> nodes of a function that compute with it, and the name of their result."""
NAMES = {"n": i32, "once": i32, "yes": boolean, "side": i32, "x": f32}
"""What each body is given, beside the counter of a loop."""


def constant(name: str, value: Any) -> tuple[Any, ...]:
    array = np.asarray(value)
    return (name, "Const", [], {"dtype": f32 if array.dtype == np.float32 else i32, "value": array})


ONE, ZERO = constant("one", np.int32(1)), constant("zero", np.int32(0))
AXIS = constant("axis", np.array([1], np.int32))


def product(x: str) -> tuple[Nodes, str]:
    """Returns the nodes of an iteration's product, and the name of their result."""
    return [
        constant("weights", weights()),
        (STEP, "MatMul", [x, "weights:output:0"], {"T": f32, "transpose_a": False, "transpose_b": False}),
        ("y", "Tanh", [f"{STEP}:product:0"], {"T": f32}),
    ], "y:y:0"


def found(x: str) -> tuple[Nodes, str]:
    """Returns the nodes that choose the rows with sums that are not huge: all of them."""
    return [
        constant("huge", np.float32(1e30)),
        ("sums", "Sum", [x, "axis:output:0"], {"T": f32, "Tidx": i32, "keep_dims": False}),
        ("mask", "Less", ["sums:output:0", "huge:output:0"], {"T": f32}),
        ("where", "Where", ["mask:z:0"], {"T": boolean}),
        ("places", "Squeeze", ["where:index:0"], {"T": i64, "squeeze_dims": [1]}),
        ("rows", "GatherV2", [x, "places:output:0", "zero:output:0"], {"Tparams": f32, "Tindices": i64, "Taxis": i32}),
    ], "rows:output:0"


def product_of_found(x: str) -> tuple[Nodes, str]:
    rows, y = found(x)
    nodes, result = product(y)
    return rows + nodes, result


def turned(x: str) -> tuple[Nodes, str]:
    return [
        constant("order", np.array([1, 0], np.int32)),
        constant("half", np.float32(1.5)),
        ("turned", "Transpose", [x, "order:output:0"], {"T": f32, "Tperm": i32}),
        (STEP, "Mul", ["turned:y:0", "half:output:0"], {"T": f32}),
        ("y", "Tanh", [f"{STEP}:z:0"], {"T": f32}),
    ], "y:y:0"


def function_nodes(nodes: Nodes) -> Nodes:
    return [ONE, ZERO, AXIS, *nodes]


def loop(w: Writer, level: int, inner: Inner, *, limit: str = "once", op: str = "While") -> Inner:
    """A While that runs `inner` as often as `limit` says."""
    names = {"i": i32, **NAMES}
    w.function(f"test{level}", names, {"go": "less:z:0"}, [("less", "Less", ["i", limit], {"T": i32})])
    nodes, result = inner("x")
    count = ("next", "AddV2", ["i", "one:output:0"], {"T": i32})
    results = {"next": "next:z:0", **{f"same_{name}": name for name in NAMES if name != "x"}, "y": result}
    w.function(f"step{level}", names, results, function_nodes([count, *nodes]))
    attrs = {"T": list(names.values()), "cond": function_attr(f"test{level}"), "body": function_attr(f"step{level}")}
    outside = [name for name in NAMES if name != "x"]
    return lambda x: ([("loop", op, ["zero:output:0", *outside, x], attrs)], f"loop:output:{len(NAMES)}")


def branch(w: Writer, level: int, inner: Inner, *, finds: bool = False, case: bool = False) -> Inner:
    """An If or a Case that takes `inner`. If it `finds` sizes, its sides give results of different ones."""
    nodes, result = inner("x")
    if finds:
        before, some = found("x")
        nodes, result = inner(some)
        nodes = [*before, *nodes]
    twice = ("ConcatV2", ["x", "x", "zero:output:0"], {"T": f32, "N": 2, "Tidx": i32})
    other = twice if finds else ("Neg", ["x"], {"T": f32})
    w.function(f"then{level}", NAMES, {"y": result}, function_nodes(nodes))
    no = f"{OTHER}:output:0" if finds else f"{OTHER}:y:0"
    w.function(f"else{level}", NAMES, {"y": no}, function_nodes([(OTHER, *other)]))
    outside = [name for name in NAMES if name != "x"]
    attrs: dict[str, Any] = {"Tin": list(NAMES.values()), "Tout": [f32]}
    if case:
        sides = function_attr("").__class__()
        for name in (f"else{level}", f"then{level}", f"else{level}"):
            sides.list.func.add().name = name
        return lambda x: ([("case", "Case", ["side", *outside, x], {**attrs, "branches": sides})], "case:output:0")
    sides = {"then_branch": function_attr(f"then{level}"), "else_branch": function_attr(f"else{level}")}
    return lambda x: ([("if", "If", ["yes", *outside, x], {**attrs, "Tcond": boolean, **sides})], "if:output:0")


ITEM = {"element_dtype": f32}
LIST = {**ITEM, "shape_type": i32}
SHAPE = constant("shape", np.array([SIZE, SIZE], np.int32))


def as_list(x: str) -> Nodes:
    """The nodes that make a list of one item, x."""
    return [
        SHAPE,
        ("expanded", "ExpandDims", [x, "zero:output:0"], {"T": f32, "Tdim": i32}),
        ("items", "TensorListFromTensor", ["expanded:output:0", "shape:output:0"], LIST),
    ]


def from_list(handle: str) -> Nodes:
    """The nodes that take the only item out of a list, as `y`."""
    return [
        ("stack", "TensorListStack", [handle, "shape:output:0"], {"element_dtype": f32, "num_elements": -1}),
        ("y", "Squeeze", ["stack:tensor:0"], {"T": f32, "squeeze_dims": [0]}),
    ]


def mapped(w: Writer, level: int, inner: Inner) -> Inner:
    """What tf.map_fn makes: a loop over the items of a list that fills another one."""
    names = {"i": i32, **NAMES, "rows": string, "out": string}
    nodes, result = inner("item:item:0")
    w.function(f"test{level}", names, {"go": "less:z:0"}, [("less", "Less", ["i", "once"], {"T": i32})])
    results = {
        "next": "next:z:0", **{f"same_{name}": name for name in NAMES}, "same_rows": "rows", "y": "set:output_handle:0"
    }  # fmt: skip
    w.function(f"step{level}", names, results, function_nodes([
        SHAPE,
        ("next", "AddV2", ["i", "one:output:0"], {"T": i32}),
        ("item", "TensorListGetItem", ["rows", "i", "shape:output:0"], ITEM),
        *nodes,
        ("set", "TensorListSetItem", ["out", "i", result], ITEM),
    ]))  # fmt: skip
    attrs = {"T": list(names.values()), "cond": function_attr(f"test{level}"), "body": function_attr(f"step{level}")}
    return lambda x: ([
        *as_list(x),
        ("reserved", "TensorListReserve", ["shape:output:0", "once"], LIST),
        ("loop", "StatelessWhile", ["zero:output:0", *[n for n in NAMES if n != "x"], x, "items:output_handle:0",
                                    "reserved:handle:0"], attrs),
        *from_list(f"loop:output:{len(NAMES) + 2}"),
    ], "y:output:0")  # fmt: skip


def replacing(w: Writer, take: tuple[Any, ...], item: str, put: Callable[[str], tuple[Any, ...]]) -> Inner:
    """A loop over a list of one item: `take` reads it as `item`, and what `put` gives writes the product."""
    names = {"i": i32, "n": i32, "items": string}
    nodes, result = product(item)
    w.function("test1", names, {"go": "less:z:0"}, [("less", "Less", ["i", "n"], {"T": i32})])
    w.function("step1", names, {"next": "next:z:0", "same": "n", "y": "put:output_handle:0"}, function_nodes([
        SHAPE, ("next", "AddV2", ["i", "one:output:0"], {"T": i32}), take, *nodes, put(result),
    ]))  # fmt: skip
    attrs = {"T": list(names.values()), "cond": function_attr("test1"), "body": function_attr("step1")}
    return lambda x: ([
        *as_list(x),
        ("loop", "While", ["zero:output:0", "n", "items:output_handle:0"], attrs),
        *from_list("loop:output:2"),
    ], "y:output:0")  # fmt: skip


def rewriting(w: Writer) -> Inner:
    """A loop that reads and writes the same item of a list."""
    take = ("item", "TensorListGetItem", ["items", "zero:output:0", "shape:output:0"], ITEM)
    put = "put", "TensorListSetItem"
    return replacing(w, take, "item:item:0", lambda y: (*put, ["items", "zero:output:0", y], ITEM))


def swapping(w: Writer) -> Inner:
    """A loop that pops an item from a list and pushes its product."""
    take = ("pop", "TensorListPopBack", ["items", "shape:output:0"], ITEM)
    put = "put", "TensorListPushBack"
    return replacing(w, take, "pop:tensor:0", lambda y: (*put, ["pop:output_handle:0", y], ITEM))


def filling(w: Writer) -> Inner:
    """A loop that writes rows into a list whose items differ in size, and computes a product."""
    names = {"i": i32, "n": i32, "items": string, "x": f32}
    nodes, result = product("x")
    w.function("test1", names, {"go": "less:z:0"}, [("less", "Less", ["i", "n"], {"T": i32})])
    w.function("step1", names, {"next": "next:z:0", "same": "n", "made": "push:output_handle:0", "y": result},
               function_nodes([
        constant("three", np.int32(3)),
        ("next", "AddV2", ["i", "one:output:0"], {"T": i32}),
        ("rest", "FloorMod", ["i", "three:output:0"], {"T": i32}),
        ("count", "AddV2", ["rest:z:0", "one:output:0"], {"T": i32}),
        ("ids", "Range", ["zero:output:0", "count:z:0", "one:output:0"], {"Tidx": i32}),
        ("rows", "GatherV2", ["x", "ids:output:0", "zero:output:0"], {"Tparams": f32, "Tindices": i32, "Taxis": i32}),
        ("push", "TensorListPushBack", ["items", "rows:output:0"], ITEM),
        *nodes,
    ]))  # fmt: skip
    attrs = {"T": list(names.values()), "cond": function_attr("test1"), "body": function_attr("step1")}
    return lambda x: ([
        constant("unknown", np.array([-1, SIZE], np.int32)), constant("many", np.int32(-1)),
        ("empty", "EmptyTensorList", ["unknown:output:0", "many:output:0"], LIST),
        ("loop", "While", ["zero:output:0", "n", "empty:handle:0", x], attrs),
    ], "loop:output:3")  # fmt: skip


def then_turned(inner: Inner) -> Inner:
    """`inner`, whose result is transposed."""

    def nodes_of(x: str) -> tuple[Nodes, str]:
        nodes, result = inner(x)
        order = constant("order", np.array([1, 0], np.int32))
        return [*nodes, order, ("back", "Transpose", [result, "order:output:0"], {"T": f32, "Tperm": i32})], "back:y:0"

    return nodes_of


Wrap = Callable[[Writer, int, Inner], Inner]
Innermost = Callable[[Writer], Inner]


def counted(step: Inner, w: Writer) -> Inner:
    return loop(w, 1, step, limit="n")


def loop_that_finds(w: Writer, level: int, inner: Inner) -> Inner:
    def nodes_of(x: str) -> tuple[Nodes, str]:
        before, some = found(x)
        nodes, result = inner(some)
        return [*before, *nodes], result

    return loop(w, level, nodes_of)


def program(
    wrap: Wrap, innermost: Innermost, depth: int, *, own: int = 1, shape: tuple[int | None, ...] = (SIZE, SIZE),
    rows: int = SIZE,
) -> Run:  # fmt: skip
    """Returns a program of `depth` bodies around `innermost`, which itself is one of them if `own` is 1."""
    w = Writer()
    inner = innermost(w)
    for level in range(2, 2 + depth - own):
        inner = wrap(w, level, inner)
    nodes, result = inner("x")
    w.function("main", NAMES, {"y": result}, function_nodes(nodes))
    operands = [w.input(name, shape if name == "x" else (), str(dtype)) for name, dtype in NAMES.items()]
    attrs = {"Tin": list(NAMES.values()), "Tout": [f32], "f": function_attr("main")}
    w.node("PartitionedCall", *operands, T=None, name="y", **attrs)
    return partial(run_session, treadle.Session(w.bytes(), outputs=["y"]), given()[:rows])


def run_session(session: treadle.Session, x: Array, count: int, **options: Any) -> list[Array]:
    feeds = {
        "x": x,
        "n": np.array(min(count, np.iinfo(np.int32).max), np.int32),
        "once": np.array(1, np.int32),
        "yes": np.array(True),
        "side": np.array(1, np.int32),
    }
    names = {port.name for port in session.inputs}
    return list(session.run({name: value for name, value in feeds.items() if name in names}, **options).values())


Held = dict[str, str]
"""The values inside a frame or behind a switch, by what they are."""
DTYPES = {"x": f32, "weights": f32, "yes": boolean}
"""Those that are no i32."""


def frame(w: Writer, level: int, inner: Callable[[Held], str], held: Held, *, limit: str = "once") -> str:
    """A loop as TensorFlow 1 has it."""
    name = f"frame{level}"
    how = {"frame_name": name, "parallel_iterations": 10}
    inside = {
        key: w.node("Enter", ref, name=f"{name}/{key}", T=DTYPES.get(key, i32), is_constant=key != "x", **how)
        for key, ref in held.items()
    }  # fmt: skip
    starts = {"i": w.node("Enter", held["zero"], name=f"{name}/i", T=i32, is_constant=False, **how), "x": inside["x"]}
    for key, start in starts.items():
        w.node("Merge", start, f"{name}/next_{key}", name=f"{name}/merge_{key}", T=DTYPES.get(key, i32), N=2)
    w.node("LoopCond", w.node("Less", f"{name}/merge_i", inside[limit], T=i32), name=f"{name}/test", T=None)
    for key in starts:
        w.node("Switch", f"{name}/merge_{key}", f"{name}/test", name=f"{name}/switch_{key}", T=DTYPES.get(key, i32))
    w.node("NextIteration", w.node("Add", f"{name}/switch_i:1", inside["one"], T=i32), name=f"{name}/next_i", T=i32)
    w.node("NextIteration", inner({**inside, "x": f"{name}/switch_x:1"}), name=f"{name}/next_x")
    return w.node("Exit", f"{name}/switch_x", name=f"{name}/exit")


def switch(w: Writer, level: int, inner: Callable[[Held], str], held: Held) -> str:
    """A branch as TensorFlow 1 has it."""
    sides = {
        key: w.node("Switch", ref, held["yes"], name=f"side{level}/{key}", T=DTYPES.get(key, i32))
        for key, ref in held.items()
    }
    other = w.node("Neg", sides["x"], name=f"side{level}/{OTHER}")
    yes = inner({key: f"{ref}:1" for key, ref in sides.items()})
    return w.node("Merge", other, yes, name=f"side{level}/merge", N=2)


def old_program(wrap: Callable[..., str], depth: int, *, own: int) -> Run:
    """Returns a program of frames or switches, as `program` does."""
    w = Writer()
    held = {name: w.input(name, (SIZE, SIZE) if name == "x" else (), str(dtype)) for name, dtype in NAMES.items()}
    held |= {"weights": w.constant(weights()), "one": w.constant(1, np.int32), "zero": w.constant(0, np.int32)}
    del held["side"]

    def step(held: Held) -> str:
        how = {"transpose_a": False, "transpose_b": False}
        return w.node("Tanh", w.node("MatMul", held["x"], held["weights"], name=STEP, **how))

    inner: Callable[[Held], str] = partial(frame, w, 1, step, limit="n")
    for level in range(2, 2 + depth - own):
        inner = partial(wrap, w, level, inner)
    w.node("Identity", inner(held), name="y")
    return partial(run_session, treadle.Session(w.bytes(), outputs=["y"]), given())


KINDS = {
    "TensorFlow While": Kind(partial(program, loop, partial(counted, product)), products),
    "TensorFlow While that finds sizes": Kind(
        partial(program, loop_that_finds, partial(counted, product_of_found)), products
    ),
    "TensorFlow While whose variable changes its shape": Kind(
        partial(
            program, lambda w, level, inner: loop(w, level, then_turned(inner)), partial(counted, turned),
            shape=(None, None), rows=WIDE[0],
        ),
        transposes,
    ),
    "TensorFlow If": Kind(partial(program, branch, partial(counted, product), own=0), products),
    "TensorFlow If whose sides find sizes": Kind(
        partial(program, partial(branch, finds=True), partial(counted, product), own=0), products
    ),
    "TensorFlow Case": Kind(partial(program, partial(branch, case=True), partial(counted, product), own=0), products),
    "TensorFlow map_fn": Kind(partial(program, mapped, partial(counted, product), own=0), products),
    "TensorFlow While over a list that it rewrites": Kind(partial(program, loop, rewriting), products),
    "TensorFlow While that fills a list of uneven items": Kind(partial(program, loop, filling), products),
    "TensorFlow While that pops and pushes": Kind(partial(program, loop, swapping), products),
    "TensorFlow 1 frame": Kind(partial(old_program, frame, own=1), products),
    "TensorFlow 1 switch": Kind(partial(old_program, switch, own=0), products),
}  # fmt: skip
