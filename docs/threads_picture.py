"""Draws docs/guide/threads.svg: one small model run with four pairs of numbers, from real traces.

Run by `scripts/docs`. Two independent branches of matrix products meet in a third; each panel shows which worker ran
which op when.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

import treadle
from treadle.tracing.record import Event, record

SETTINGS = [
    (1, 1, "one op at a time, on one worker"),
    (2, 1, "two workers share each op"),
    (1, 2, "two ops at once, one worker each"),
    (2, 2, "two ops at once; a worker without an op helps the other"),
]
COLOURS = {"a": "#3b6fb6", "b": "#d9822b", "j": "#4c9a5b"}
ROUNDS = 25
SIZE = 384
WIDTH, LEFT, LANE, GAP = 860, 90, 26, 44


def model() -> ModelProto:
    """Returns a model with three products in branch a, two in branch b, and one that joins them."""
    weight = np.random.default_rng(0).standard_normal((SIZE, SIZE)).astype(np.float32) / np.float32(np.sqrt(SIZE))
    weights, nodes = [], []

    def product(name: str, left: str, right: str | None = None) -> str:
        if right is None:
            right = f"w_{name}"
            weights.append(numpy_helper.from_array(weight, right))
        nodes.append(helper.make_node("MatMul", [left, right], [name], name=name))
        return name

    a = product("a3", product("a2", product("a1", "x")))
    b = product("b2", product("b1", "x"))
    product("join", a, b)
    form = [SIZE, SIZE]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, form)]
    outputs = [helper.make_tensor_value_info("join", TensorProto.FLOAT, form)]
    graph = helper.make_graph(nodes, "two_branches", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def typical_run(session: treadle.Session, x: np.ndarray) -> list[Event]:
    """Returns the events of the run of median length out of `ROUNDS`."""
    runs = []
    for _ in range(ROUNDS):
        session.run({"x": x})
        with record() as recording:
            session.run({"x": x})
        runs.append(recording.events)
    return sorted(runs, key=length)[ROUNDS // 2]


def length(events: list[Event]) -> int:
    """Returns the time from the first start to the last end in ns."""
    return max(event.end for event in events) - min(event.start for event in events)


def panel(top: int, title: str, events: list[Event], scale: float) -> Iterator[str]:
    """Yields a title and one lane per worker; `scale` is in pixels per ns."""
    origin = min(event.start for event in events)
    yield f'<text x="{LEFT}" y="{top}" class="title">{escape(title)}</text>'
    for worker in range(2):
        y = top + 8 + worker * LANE
        yield f'<text x="{LEFT - 8}" y="{y + 17}" text-anchor="end">worker {worker}</text>'
        yield f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - 20}" height="{LANE - 3}" class="lane"/>'
    for event in events:
        x, y = LEFT + (event.start - origin) * scale, top + 8 + event.worker * LANE
        width = max(1.0, (event.end - event.start) * scale)
        yield (
            f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{LANE - 3}" class="op" '
            f'fill="{COLOURS[event.node[0]]}">'
            f"<title>{escape(event.node)}: {(event.end - event.start) / 1000:.0f} us, "
            f"{event.chunks} chunks</title></rect>"
        )
        if width > 8 * len(event.node):
            yield f'<text x="{x + width / 2:.1f}" y="{y + 16}" class="node">{escape(event.node)}</text>'
    end = LEFT + length(events) * scale
    yield f'<text x="{end + 6:.1f}" y="{top + LANE - 2}" class="time">{length(events) / 1e6:.2f} ms</text>'


def draw(traces: list[list[Event]]) -> str:
    """Returns the whole picture; all panels have the same time scale."""
    scale = (WIDTH - LEFT - 90) / max(map(length, traces))
    height = len(traces) * (2 * LANE + GAP) + 10
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">',
        "<style>text{font:12px sans-serif;fill:#333} .title{font-weight:bold} .node{fill:#fff;text-anchor:middle}",
        ".lane{fill:#f0f0f0} .time{font-weight:bold} .op{stroke:#fff}</style>",
        '<rect width="100%" height="100%" fill="#fff"/>',
    ]
    for number, ((intra, inter, words), events) in enumerate(zip(SETTINGS, traces, strict=True)):
        title = f"intra_op={intra} inter_op={inter} — {words}"
        lines.extend(panel(24 + number * (2 * LANE + GAP), title, events, scale))
    return "\n".join([*lines, "</svg>", ""])


def main(path: Path) -> None:
    """Runs the model, draws the picture and writes it."""
    session = treadle.Session(model())
    x = np.random.default_rng(1).standard_normal((SIZE, SIZE)).astype(np.float32)
    traces = []
    for intra, inter, _ in SETTINGS:
        treadle.threads.set(intra_op=intra, inter_op=inter)
        traces.append(typical_run(session, x))
    path.write_text(draw(traces), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
