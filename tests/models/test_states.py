"""States of sessions: what a run keeps for the next one, with the same bits as when the caller passes it on."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest

import treadle
from tests.models.small import FLOAT, ModelWriter
from treadle.errors import InputError, OutOfRangeError, RunCancelledError, RunTimeoutError, StateError
from treadle.runtime.executable import Executable

Array = np.ndarray[Any, Any]
INT64 = onnx.TensorProto.INT64
WORDS, WIDTH, HEADS = 50, 32, 4


def decoder(layers: int = 2, kept_heads: int = HEADS) -> bytes:
    """A decoder as exporters write it: tokens, a causal mask of the whole length, keys and values of each layer.

    Several heads of queries share one of `kept_heads` of keys and values.
    """
    w = ModelWriter()
    shape, depth = w.constant(np.array([0, 0, WIDTH])), WIDTH // HEADS
    x = w.op("Gather", w.random(WORDS, WIDTH), "ids", axis=0)
    inputs: dict[str, tuple[int, list[Any]]] = {"ids": (INT64, ["batch", "new"])}
    outputs: dict[str, tuple[int, list[Any] | None]] = {}
    for layer in range(layers):
        normal = w.op("LayerNormalization", x, w.random(WIDTH), w.random(WIDTH), axis=-1)
        q, *new = (
            w.op(
                "Transpose",
                w.op(
                    "Reshape",
                    w.op("MatMul", normal, w.random(WIDTH, heads * depth)),
                    w.constant(np.array([0, 0, heads, depth])),
                ),
                perm=[0, 2, 1, 3],
            )
            for heads in (HEADS, kept_heads, kept_heads)
        )
        kept = []
        for name, value in zip(("key", "value"), new, strict=True):
            inputs[f"past.{layer}.{name}"] = (FLOAT, ["batch", kept_heads, "past", depth])
            kept.append(w.op("Concat", f"past.{layer}.{name}", value, axis=-2))
            w.nodes[-1].output[0] = kept[-1] = f"present.{layer}.{name}"
            outputs[kept[-1]] = (FLOAT, ["batch", kept_heads, "total", depth])
        keys, values = (repeated(w, name, kept_heads) if kept_heads < HEADS else name for name in kept)
        scores = w.op("MatMul", q, w.op("Transpose", keys, perm=[0, 1, 3, 2]))
        total = w.op("Gather", w.op("Shape", kept[0]), w.constant(np.array(2)), axis=0)
        first = w.op("Sub", total, w.op("Gather", w.op("Shape", "ids"), w.constant(np.array(1)), axis=0))
        one, zero = w.constant(np.array(1)), w.constant(np.array(0))
        columns = w.op("Range", zero, total, one)
        rows = w.op("Unsqueeze", w.op("Range", first, total, one), w.constant(np.array([1])))
        seen = w.op("LessOrEqual", columns, rows)
        masked = w.op("Where", seen, scores, w.constant(np.float32(-1e9)))
        mixed = w.op("MatMul", w.op("Softmax", masked, axis=-1), values)
        mixed = w.op("Reshape", w.op("Transpose", mixed, perm=[0, 2, 1, 3]), shape)
        x = w.op("Add", x, w.op("MatMul", mixed, w.random(WIDTH, WIDTH)))
    w.op("MatMul", x, w.random(WIDTH, WORDS))
    w.nodes[-1].output[0] = "logits"
    outputs["logits"] = (FLOAT, ["batch", "new", WORDS])
    return bytes(w.model(inputs, outputs).SerializeToString())


def repeated(w: ModelWriter, name: str, heads: int) -> str:
    """Each of the heads as often as heads of queries share it."""
    sizes = w.op("Shape", name)
    batch, _, total, depth = (
        w.op("Slice", sizes, w.constant(np.array([axis])), w.constant(np.array([axis + 1]))) for axis in range(4)
    )
    groups, times = w.constant(np.array([heads])), w.constant(np.array([HEADS // heads]))
    wide = w.op("Concat", batch, groups, times, total, depth, axis=0)
    joined = w.op("Concat", batch, w.constant(np.array([HEADS])), total, depth, axis=0)
    return w.op("Reshape", w.op("Expand", w.op("Unsqueeze", name, w.constant(np.array([2]))), wide), joined)


def lstm() -> bytes:
    """One LSTM whose states are inputs and outputs."""
    w = ModelWriter()
    w.op(
        "LSTM",
        "x",
        w.random(1, 32, 5),
        w.random(1, 32, 8),
        w.random(1, 64),
        "",
        "h_in",
        "c_in",
        outputs=3,
        hidden_size=8,
    )
    w.nodes[-1].output[:] = ["y", "h_out", "c_out"]
    state: tuple[int, list[Any]] = (FLOAT, [1, "batch", 8])
    outputs: dict[str, tuple[int, list[Any] | None]] = {"y": (FLOAT, None), "h_out": state, "c_out": state}
    return bytes(
        w.model({"x": (FLOAT, ["length", "batch", 5]), "h_in": state, "c_in": state}, outputs).SerializeToString()
    )


def steps(count: int, batch: int = 1) -> list[Array]:
    """A prompt of 5 tokens, then one or some at a time."""
    rng = np.random.default_rng(batch)
    return [rng.integers(0, WORDS, (batch, 5 if step == 0 else 1 + step % 7 // 6)) for step in range(count)]


class ByHand:
    """Runs a session and passes what it returns to the next run."""

    def __init__(self, session: treadle.Session, pairs: dict[str, str], batch: int = 1) -> None:
        self.session, self.pairs = session, pairs
        sizes = {"batch": batch, "past": 0}
        self.kept: dict[str, Array] = {
            each.name: np.zeros([dim if isinstance(dim, int) else sizes.get(dim, 0) for dim in each.shape], each.dtype)
            for each in session.inputs
            if each.name in pairs and each.shape is not None
        }

    def run(self, inputs: dict[str, Array]) -> dict[str, Array]:
        found = self.session.run({**inputs, **self.kept})
        self.kept = {name: found.pop(output) for name, output in self.pairs.items()}
        return found


def same(found: dict[str, Array], wanted: dict[str, Array]) -> None:
    """Asserts equal names and equal bits."""
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        assert found[name].tobytes() == array.tobytes(), name
        assert found[name].shape == array.shape


@pytest.fixture(scope="module")
def session() -> treadle.Session:
    """A session of the decoder."""
    return treadle.Session(decoder())


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("math", ["fast", "exact"])
@pytest.mark.parametrize("kept_heads", [HEADS, 2])
def test_a_decoder_appends_in_place(batch: int, math: Any, kept_heads: int) -> None:
    """200 steps have the bits of runs that take all of the past; one further plan serves them."""
    session = treadle.Session(decoder(kept_heads=kept_heads), math=math)
    with session.state() as state:
        assert state.pairs == {f"past.{i}.{name}": f"present.{i}.{name}" for i in (0, 1) for name in ("key", "value")}
        assert state.appended == tuple(state.pairs)
        compiles = session.compiles
        by_hand = ByHand(session, state.pairs, batch)
        for ids in steps(200, batch):
            same(state.run({"ids": ids}), by_hand.run({"ids": ids}))
        same(state.arrays(), by_hand.kept)
        assert np.array_equal(state["present.1.key"], state["past.1.key"])
    assert session.compiles == compiles


def test_shared_heads_are_not_copied() -> None:
    """Attention reads keys and values where they are."""
    session = treadle.Session(decoder(kept_heads=2))
    ops = {call.op for call in session.open_plans()[0].plan.calls}
    assert "attention" in ops
    assert "expand" not in ops


def test_the_arrays_grow_where_they_lie(session: treadle.Session) -> None:
    """Steps neither move what is kept nor leave the memory that has room for it."""
    with session.state() as state:
        state.run({"ids": np.zeros((1, 5), np.int64)})
        kept = state._kept["past.0.key"]
        before = kept.array
        state.run({"ids": np.zeros((1, 1), np.int64)})
        assert len(before) == 5
        assert len(kept.array) == 6
        assert np.shares_memory(kept.array, before)
        assert kept.array.ctypes.data == before.ctypes.data


def test_steps_of_a_state_make_no_new_programs(session: treadle.Session) -> None:
    """
    One program of its own serves all steps, whatever is kept; another choice of outputs has another.
    """
    before = len(Executable.instances)
    state = session.state()
    for tokens in steps(40):
        state.run({"ids": tokens})
    assert len(Executable.instances) - before <= 2
    for tokens in steps(3):
        state.run({"ids": tokens}, [])
    assert len(Executable.instances) - before <= 4
    session.trim()
    assert state["past.0.key"].shape[2] > 40
    state.run({"ids": steps(1)[0]})


def test_an_lstm_passes_its_state_on() -> None:
    """h and c are zeros at first; their names tell the pairs."""
    session = treadle.Session(lstm())
    rng = np.random.default_rng(0)
    with session.state() as state:
        assert state.pairs == {"h_in": "h_out", "c_in": "c_out"}
        assert state.appended == ()
        by_hand = ByHand(session, state.pairs, batch=2)
        for length in (7, 1, 1, 3):
            x = rng.standard_normal((length, 2, 5)).astype(np.float32)
            same(state.run({"x": x}), by_hand.run({"x": x}))
        same(state.arrays(), by_hand.kept)


def test_some_pairs_may_be_passed_by_hand(session: treadle.Session) -> None:
    """A state of one layer leaves the inputs of the other to the caller."""
    every = {"past.0.key": "present.0.key", "past.0.value": "present.0.value"}
    rest = {"past.1.key": "present.1.key", "past.1.value": "present.1.value"}
    by_hand = ByHand(session, every | rest)
    others = {name: by_hand.kept[name] for name in rest}
    with session.state(every) as state:
        for ids in steps(4):
            found, wanted = state.run({"ids": ids, **others}), by_hand.run({"ids": ids})
            others = {name: found.pop(output) for name, output in rest.items()}
            same(found, wanted)
        same(state.arrays() | others, by_hand.kept)


def test_a_failed_step_leaves_the_state_as_it_was(session: treadle.Session) -> None:
    """A token outside the table, a timeout and a cancelled run: the next step continues from before."""
    first, second, *_ = steps(2)
    with session.state() as state:
        by_hand = ByHand(session, state.pairs)
        same(state.run({"ids": first}), by_hand.run({"ids": first}))
        with pytest.raises(OutOfRangeError):
            state.run({"ids": np.array([[1, WORDS]])})
        with pytest.raises(RunTimeoutError):
            state.run({"ids": second}, timeout=1e-9)
        token = treadle.CancelToken()
        token.cancel()
        with pytest.raises(RunCancelledError):
            state.run({"ids": second}, cancel=token)
        with pytest.raises(InputError):
            state.run({"ids": np.zeros((2, 1), np.int64)})
        same(state.arrays(), by_hand.kept)
        same(state.run({"ids": second}), by_hand.run({"ids": second}))


def test_a_state_is_loaded_and_forgotten(session: treadle.Session) -> None:
    """One state goes on from another's arrays; after a reset it starts anew, also with another batch."""
    first, second = steps(2)
    with session.state() as state, session.state() as other:
        state.run({"ids": first})
        other.load(state.arrays())
        wanted = state.run({"ids": second})
        same(other.run({"ids": second}), wanted)
        state.reset()
        with pytest.raises(StateError, match="before its first run"):
            state.arrays()
        state.run({"ids": first})
        same(state.run({"ids": second}), wanted)
        state.reset()
        assert state.run({"ids": np.repeat(first, 3, axis=0)})["logits"].shape == (3, 5, WORDS)


def test_outputs_are_chosen(session: treadle.Session) -> None:
    """A prompt may be run for its state alone; the state's own outputs are read from it."""
    first, second = steps(2)
    with session.state() as state:
        by_hand = ByHand(session, state.pairs)
        wanted = session.run({"ids": first, **by_hand.kept}, list(state.pairs.values()))
        assert state.run({"ids": first}, []) == {}
        by_hand.kept = {name: wanted[output] for name, output in state.pairs.items()}
        same(state.arrays(), by_hand.kept)
        same(state.run({"ids": second}, ["logits"]), by_hand.run({"ids": second}))
        with pytest.raises(InputError, match=r"read it with state\['present.0.key'\]"):
            state.run({"ids": second}, ["present.0.key"])


def test_threads_use_states_of_their_own(session: treadle.Session) -> None:
    """Several generations at a time do not disturb each other."""
    tokens = [
        [np.random.default_rng((lane, step)).integers(0, WORDS, (1, 2)) for step in range(40)] for lane in range(4)
    ]

    def generate(lane: list[Array]) -> list[Array]:
        with session.state() as state:
            return [state.run({"ids": ids})["logits"] for ids in lane]

    wanted = [generate(lane) for lane in tokens]
    with ThreadPoolExecutor(4) as threads:
        for found, alone in zip(threads.map(generate, tokens), wanted, strict=True):
            assert all(one.tobytes() == other.tobytes() for one, other in zip(found, alone, strict=True))


def test_a_state_is_used_by_one_run_at_a_time() -> None:
    """A step inside a step of the same state is refused, and so is use of a closed one."""
    inside: list[BaseException] = []

    def meddle(arrays: list[Array]) -> list[Array]:
        try:
            state.run({"x": np.zeros(2, np.float32)})
        except StateError as error:
            inside.append(error)
        return [arrays[0] + 1]

    session = treadle.Session(counter(meddle))
    state = session.state({"h": "h_next"})
    state.run({"x": np.zeros(2, np.float32)})
    assert [str(error) for error in inside] == [
        "the state is in use by another run; give each thread a state of its own"
    ]
    assert state["h"].tolist() == [1, 1]
    state.close()
    with pytest.raises(StateError, match="closed"):
        state.run({"x": np.zeros(2, np.float32)})


def counter(function: Any) -> Any:
    """h_next = function(h), y = h + x."""
    from treadle.dtypes import f32
    from treadle.graph.graph import Graph
    from treadle.ops.op import Info

    graph = Graph()
    x, h = graph.input("x", f32, (2,)), graph.input("h", f32, (2,))
    attrs = {"function": function, "infer": lambda infos: [Info(infos[0].dtype, infos[0].shape, None)]}
    graph.add("call", [h], attrs, name="call", outputs=[graph.value("h_next")])
    graph.add("add", [x, h], name="y")
    graph.outputs = [graph.nodes[0].output, graph.nodes[1].output]
    return graph


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ({"past.0.kay": "present.0.key"}, "no input 'past.0.kay'"),
        ({"past.0.key": "present"}, "no output 'present'"),
        ({"past.0.key": "logits"}, "their ranks differ"),
        ({"ids": "logits"}, "their dtypes differ"),
        ({"past.0.key": "present.0.key", "past.0.value": "present.0.key"}, "in two pairs"),
        ({}, "one pair at least"),
        ([("past.0.key", "present.0.key")], "wanted a mapping"),
    ],
)
def test_pairs_that_cannot_be_are_refused(session: treadle.Session, pairs: Any, message: str) -> None:
    """The message says which name or size is wrong."""
    with pytest.raises(InputError, match=message):
        session.state(pairs)


def test_a_model_without_a_state_needs_pairs() -> None:
    """Nothing is guessed from names that tell nothing."""
    w = ModelWriter()
    y = w.op("Relu", "x")
    with pytest.raises(InputError, match="name the pairs"):
        treadle.Session(w.model({"x": (FLOAT, ["n"])}, {y: (FLOAT, ["n"])})).state()


def test_inputs_of_the_state_are_not_given_to_run(session: treadle.Session) -> None:
    """They are loaded; load() wants all of them, of the declared form."""
    with session.state() as state:
        ids = np.zeros((1, 1), np.int64)
        past = np.zeros((1, HEADS, 3, WIDTH // HEADS), np.float32)
        with pytest.raises(InputError, match="give it to load"):
            state.run({"ids": ids, "past.0.key": past})
        with pytest.raises(InputError, match=r"'past.0.value' of the state is missing"):
            state.load({"past.0.key": past})
        with pytest.raises(InputError, match="no input 'ids'"):
            state.load({"ids": ids})
        with pytest.raises(InputError, match="axis 1 must be 4"):
            state.load(dict.fromkeys(state.pairs, past[:, :2]))


def test_a_size_that_no_input_tells_has_to_be_loaded() -> None:
    """Zeros of how many units: the caller knows."""
    w = ModelWriter()
    w.op("Add", "x", "h")
    w.nodes[-1].output[0] = "h_out"
    session = treadle.Session(w.model({"x": (FLOAT, [1]), "h": (FLOAT, ["units"])}, {"h_out": (FLOAT, ["units"])}))
    with session.state() as state:
        with pytest.raises(InputError, match="no input tells the size 'units' of axis 0"):
            state.run({"x": np.ones(1, np.float32)})
        state.load({"h": np.zeros(3, np.float32)})
        state.run({"x": np.ones(1, np.float32)})
        assert state.run({"x": np.ones(1, np.float32)}) == {}
        assert state["h"].tolist() == [2, 2, 2]


def test_an_input_that_is_read_otherwise_is_passed_on() -> None:
    """Its elements are needed before new ones are appended: runs have the same results, in new memory each."""
    w = ModelWriter()
    w.op("Concat", "past", "x", axis=0)
    w.nodes[-1].output[0] = "present"
    y = w.op("ReduceSum", w.op("Exp", "past"))
    form: tuple[int, list[Any]] = (FLOAT, ["rows", 2])
    model = w.model({"x": (FLOAT, [1, 2]), "past": form}, {y: (FLOAT, None), "present": (FLOAT, ["total", 2])})
    session = treadle.Session(model)
    with session.state() as state:
        assert state.appended == ()
        for count in range(3):
            assert state.run({"x": np.zeros((1, 2), np.float32)})[y].item() == pytest.approx(2 * count)


def test_a_model_compiled_for_each_size_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without plans for all sizes, what a run returns is the input of the next."""
    monkeypatch.setenv("TREADLE_DISABLE", "open_sizes")
    session = treadle.Session(decoder(layers=1))
    with session.state() as state:
        assert state.appended == ()
        by_hand = ByHand(session, state.pairs)
        for ids in steps(3):
            same(state.run({"ids": ids}), by_hand.run({"ids": ids}))
