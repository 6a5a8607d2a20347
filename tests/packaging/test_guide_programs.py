"""The programs of the guide run without changes."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import onnx
import pytest

from tests.packaging.sources import ROOT
from tests.packaging.test_readme import vision_model

BLOCK = re.compile(r"(?:^    .*\n(?:\n+(?=    ))?)+", re.MULTILINE)
COMMAND = re.compile(r"^TREADLE_\w+=.*$", re.MULTILINE)

PLAIN = """
import numpy as np
import treadle
session = treadle.Session("model.onnx")
model, inputs = "model.onnx", {"x": np.zeros((1, 3, 224, 224), np.float32)}
"""
GRAPH = """
import numpy as np
import treadle
import treadle.compat.tensorflow as tf
weights, images = np.ones((784, 10), np.float32), np.ones((2, 784), np.float32)
with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [None, 784], name="x")
    tf.nn.softmax(tf.matmul(x, tf.constant(weights)), name="softmax")
    with open("model.pb", "wb") as file:
        file.write(graph.as_graph_def().SerializeToString())
"""
MODULE = """
import numpy as np
import torch
import treadle
import treadle.compat.dynamo
class Doubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x
module = model = Doubled().eval()
x, array = torch.ones(2, 4), np.ones((2, 4), np.float32)
torch.jit.trace(module, x).save("model.pt")
"""

WORDS = """
import onnx
from onnx import TensorProto, helper
form = ["batch", "length", 64]
nodes = [helper.make_node("Softmax", ["x"], ["p"], axis=-1), helper.make_node("Add", ["p", "x"], ["y"])]
ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, form)] for name in "xy"]
graph, opsets = helper.make_graph(nodes, "words", *ports), [helper.make_opsetid("", 17)]
onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), "words.onnx")
"""
LOADED_WORDS = f"""{WORDS}
import numpy as np
import treadle
session, sizes = treadle.Session("words.onnx"), {{"batch": 8, "length": 0}}
"""

DECODER = """
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
import treadle
table = numpy_helper.from_array(np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32), "table")
nodes = [
    helper.make_node("Gather", ["table", "input_ids"], ["x"], axis=0),
    helper.make_node("Concat", ["past.key", "x"], ["present.key"], axis=1),
    helper.make_node("Transpose", ["present.key"], ["keys"], perm=[0, 2, 1]),
    helper.make_node("MatMul", ["x", "keys"], ["logits"]),
]
past, present = (
    helper.make_tensor_value_info(f"{name}.key", TensorProto.FLOAT, ["batch", name, 8]) for name in ("past", "present")
)
ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "new"])
logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "new", "present"])
graph = helper.make_graph(nodes, "decoder", [ids, past], [logits, present], [table])
onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "decoder.onnx")
prompt = np.arange(12)[None]
"""
EMBEDDER = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
import numpy as np
import onnx
import treadle
from tests.models import encoders
model, feed = encoders.encoder(encoders.masked_mean, encoders.all_rows), encoders.feed([3, 5], 5)
names = {{"ids": "input_ids", "mask": "attention_mask", "y": "sentence_embedding", "y1": "last_hidden_state"}}
for node in model.graph.node:
    for values in (node.input, node.output):
        values[:] = [names.get(value, value) for value in values]
for port in (*model.graph.input, *model.graph.output):
    port.name = names.get(port.name, port.name)
onnx.save(model, "embedder.onnx")
ids, mask = feed.values()
feed = {{"input_ids": ids, "attention_mask": mask}}
session = treadle.Session("embedder.onnx", skip_padding=True)
"""

FACADE = """
import treadle.compat.torch as torch
x = torch.ones(2)
"""
CHECKPOINT = """
import treadle.compat.torch as torch
model = torch.nn.Linear(2, 3)
torch.save(model.state_dict(), "model.pt")
"""
JOINED = """
import torch
import treadle

class Joined(torch.nn.Module):
    def forward(self, x, y):
        return torch.cat([x, y])

module, x, y = Joined().eval(), torch.zeros(5, 3), torch.zeros(6, 3)
"""

PROGRAMS: dict[str, tuple[str, str, str]] = {
    "threads.md: treadle.threads.set(": (PLAIN, "", ""),
    "threads.md: session.run(": (PLAIN, "token.cancel()\nfuture.cancel()", ""),
    "shapes.md: import numpy": (WORDS, "", ""),
    "shapes.md: for plan in": (LOADED_WORDS, "assert session.compiles == before <= 1 and not plan.serves(sizes)", ""),
    "state.md: session = ": (DECODER, "assert state.appended == ('past.key',) and logits.shape == (1, 1, 112)", ""),
    "padding.md: session = treadle": (EMBEDDER, "assert embeddings.shape[0] == 2", ""),
    "padding.md: print(session.why_padded": (EMBEDDER, "assert session.why_padded() and session.compiles <= 1", ""),
    "pytorch.md: @torch.jit.script": (MODULE, "assert session.run({'x': x.detach().numpy()})", "torch"),
    "pytorch.md: d = torch.export": (JOINED, "assert len(session.open_plans()) == 1", "torch"),
    "onnxruntime.md: import treadle.compat.onnxruntime as ort": (f"{PLAIN}x = inputs['x']", "assert outputs", ""),
    "onnxruntime.md: import treadle.compat.onnxruntime\n": ("", "onnxruntime.InferenceSession", ""),
    "tensorflow.md: import treadle.compat": ("", "", ""),
    "tensorflow.md: config = tf.ConfigProto": (GRAPH, "", ""),
    'tensorflow.md: session = treadle.Session("model.pb"': (GRAPH, "", ""),
    "tensorflow.md: graph_def = ": (GRAPH, "", ""),
    "tensorflow.md: import treadle\n": ("", "", ""),
    "pytorch.md: import treadle.compat.torch as torch\n\n": ("", "", ""),
    "pytorch.md: model.load_state_dict": (CHECKPOINT, "", ""),
    "pytorch.md: model = torch.jit.load": (MODULE + FACADE, "assert y.tolist() == [2.0, 2.0]", "torch"),
    "pytorch.md: fast = torch.compile": (MODULE, "assert not treadle.compat.dynamo.report().fallbacks", "torch"),
    "pytorch.md: print(treadle": (MODULE, "", "torch"),
    "pytorch.md: session = treadle.Session": (MODULE, "", "torch"),
}
"""Page and beginning of a block -> what stands before it, what after it, and what must be installed."""

NOT_RUN = {
    "threads.md: treadle.threads.set_matmul_provider": "needs MKL, OpenBLAS and oneDNN",
    "onnxruntime.md: python -m": "a program of the user's",
    "reliability.md: scripts/campaign": "takes hours; tests/campaign runs a share",
    'tensorflow.md: session = treadle.Session("folder"': "a SavedModel of the user's",
    "pytorch.md: import treadle.compat.torch as torch": "the one line that changes",
}


def blocks() -> dict[str, str]:
    """The indented blocks of the guide, by the page and the beginning that a table above has for each."""
    found = {}
    for page in sorted((ROOT / "docs" / "guide").glob("*.md")):
        for block in BLOCK.findall(page.read_text(encoding="utf-8")):
            text = re.sub(r"^ {4}", "", block, flags=re.MULTILINE)
            title = f"{page.name}: {text}"
            keys = [key for key in (*PROGRAMS, *NOT_RUN) if title.startswith(key)]
            found[max(keys, key=len, default=title)] = text
    return found


def test_every_block_of_the_guide_has_its_line() -> None:
    """
    What is shown is run, or there is a reason why not.
    """
    assert sorted(blocks()) == sorted({*PROGRAMS, *NOT_RUN})


@pytest.mark.parametrize("title", PROGRAMS)
def test_blocks_run(title: str, tmp_path: Path) -> None:
    """
    Each as a program of its own, from a file, as scripts are read from their source.
    """
    before, after, needed = PROGRAMS[title]
    if needed and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    onnx.save(vision_model(), tmp_path / "model.onnx")
    program = tmp_path / "program.py"
    program.write_text(f"{before}\n{COMMAND.sub('', blocks()[title])}\n{after}\n", encoding="utf-8")

    done = subprocess.run([sys.executable, program.name], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-3000:]
