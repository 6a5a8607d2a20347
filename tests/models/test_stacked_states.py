"""States of models that stack the pasts of keys and values, or of all layers, in one tensor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle
from tests.models.small import FLOAT
from tests.models.test_states import HEADS, INT64, WIDTH, ByHand, decoder, same, steps

LAYERS = 2
PART = ["batch", HEADS, "past", WIDTH // HEADS]


class Stacking:
    """Writes nodes that take the parts of a model's past out of stacks, and stack what it returns."""

    def __init__(self, model: onnx.ModelProto, pick: str) -> None:
        self.model = model
        self.pick = pick
        self.before: list[onnx.NodeProto] = []
        self.after: list[onnx.NodeProto] = []

    def constant(self, *numbers: int, scalar: bool = False) -> str:
        name = f"number{len(self.model.graph.initializer)}"
        array = np.array(numbers[0] if scalar else numbers)
        self.model.graph.initializer.append(numpy_helper.from_array(array, name))
        return name

    def take(self, source: str, targets: list[str], axis: int = 0) -> None:
        """`targets` are the elements of `source` along `axis`."""
        if self.pick == "split":
            pieces = [f"{target}.piece" for target in targets]
            self.before.append(helper.make_node("Split", [source], pieces, axis=axis))
            self.before += [
                helper.make_node("Squeeze", [piece, self.constant(axis)], [target])
                for piece, target in zip(pieces, targets, strict=True)
            ]
            return
        for number, target in enumerate(targets):
            if self.pick == "gather":
                index = self.constant(number - len(targets), scalar=True)
                self.before.append(helper.make_node("Gather", [source, index], [target], axis=axis))
            else:
                bounds = [self.constant(each) for each in (number, number + 1, axis)]
                self.before.append(helper.make_node("Slice", [source, *bounds], [f"{target}.piece"]))
                self.before.append(helper.make_node("Squeeze", [f"{target}.piece", self.constant(axis)], [target]))

    def stack(self, sources: list[str], target: str, axis: int = 0) -> None:
        """`target` has `sources` along a new `axis`."""
        wide = [f"{source}.wide" for source in sources]
        for source, result in zip(sources, wide, strict=True):
            self.after.append(helper.make_node("Unsqueeze", [source, self.constant(axis)], [result]))
        self.after.append(helper.make_node("Concat", wide, [target], axis=axis))

    def finish(self, shapes: dict[str, list[Any]]) -> bytes:
        """The model whose inputs of the past, and outputs, are those of `shapes`, by names without past or present."""
        graph = self.model.graph
        nodes = [*self.before, *graph.node, *self.after]
        del graph.node[:]
        graph.node.extend(nodes)
        for values, word in ((graph.input, "past"), (graph.output, "present")):
            left = [each for each in values if not each.name.startswith(f"{word}.")]
            del values[:]
            values.extend(left)
            values.extend(
                helper.make_tensor_value_info(
                    word + name, FLOAT, [dim if (dim, word) != ("past", "present") else "total" for dim in shape]
                )
                for name, shape in shapes.items()
            )
        return bytes(self.model.SerializeToString())


def by_layer(pick: str, axis: int = 0) -> bytes:
    """Keys and values of each layer are stacked along `axis`."""
    made = Stacking(onnx.load_from_string(decoder(LAYERS)), pick)
    for layer in range(LAYERS):
        made.take(f"past_{layer}", [f"past.{layer}.{name}" for name in ("key", "value")], axis)
        made.stack([f"present.{layer}.{name}" for name in ("key", "value")], f"present_{layer}", axis)
    return made.finish({f"_{layer}": [*PART[:axis], 2, *PART[axis:]] for layer in range(LAYERS)})


def with_sizes(model: bytes, name: str) -> bytes:
    """`model`, of which one output more is the shape of the input `name`, from its second size on."""
    changed = onnx.load_from_string(model)
    changed.graph.node.append(helper.make_node("Shape", [name], ["sizes"], start=1))
    changed.graph.output.append(helper.make_tensor_value_info("sizes", INT64, None))
    return bytes(changed.SerializeToString())


def all_layers(pick: str) -> bytes:
    """The layers are stacked, and in each of them keys and values."""
    made = Stacking(onnx.load_from_string(decoder(LAYERS)), pick)
    made.take("past", [f"layer.{layer}" for layer in range(LAYERS)])
    for layer in range(LAYERS):
        made.take(f"layer.{layer}", [f"past.{layer}.{name}" for name in ("key", "value")])
        made.stack([f"present.{layer}.{name}" for name in ("key", "value")], f"after.{layer}")
    made.stack([f"after.{layer}" for layer in range(LAYERS)], "present")
    return made.finish({"": [LAYERS, 2, *PART]})


MODELS = {
    "by_layer_gather": lambda: by_layer("gather"),
    "by_layer_split_behind_the_batch": lambda: by_layer("split", 1),
    "by_layer_slice_with_sizes": lambda: with_sizes(by_layer("slice"), "past_0"),
    "all_layers_slice": lambda: all_layers("slice"),
    "all_layers_gather": lambda: all_layers("gather"),
}


@pytest.mark.parametrize("name", MODELS)
def test_each_part_of_a_stack_grows_in_place(name: str) -> None:
    """70 steps have the bits of runs that take all of the past; arrays have the model's form; one plan serves them."""
    session = treadle.Session(MODELS[name]())
    pairs = {"past": "present"} if name.startswith("all") else {f"past_{i}": f"present_{i}" for i in range(LAYERS)}
    with session.state() as state:
        assert state.pairs == pairs
        assert state.appended == tuple(pairs)
        compiles = session.compiles
        by_hand = ByHand(session, pairs, batch=2)
        for ids in steps(70, batch=2):
            same(state.run({"ids": ids}), by_hand.run({"ids": ids}))
        same(state.arrays(), by_hand.kept)
        for before, after in pairs.items():
            assert np.array_equal(state[after], by_hand.kept[before])
        assert session.compiles == compiles


def test_the_form_of_a_stack_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second session compiles neither the model nor the form, and knows the parts."""
    monkeypatch.setenv("TREADLE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "model.onnx"
    path.write_bytes(all_layers("gather"))
    results = []
    for _ in range(2):
        session = treadle.Session(path)
        with session.state() as state:
            found = [state.run({"ids": ids})["logits"].tobytes() for ids in steps(3)]
            assert state.appended == ("past",)
            results.append((session.compiles, found))
    (first, wanted), (second, found) = results
    assert (first, second) == (2, 0)
    assert found == wanted
