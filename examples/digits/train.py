"""Trains the classifier of this example and writes `digits.onnx` and `images.npz` beside this file.

    pip install torch==2.13.0 scikit-learn onnx
    python examples/digits/train.py

Data: the UCI "Optical Recognition of Handwritten Digits" test images (8 x 8, 17 grey levels) that scikit-learn
carries. Every fifth image is held out; the network never sees those. Network: two Inception-style blocks,
each with four branches that do not depend on each other.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from torch import nn

HERE = Path(__file__).parent
EPOCHS = 60


class Inception(nn.Module):
    """1x1, 3x3, 5x5 and pooled 1x1 branches side by side, concatenated: 4 x `width` channels."""

    def __init__(self, into: int, width: int) -> None:
        super().__init__()
        self.one = nn.Conv2d(into, width, 1)
        self.reduce3 = nn.Conv2d(into, width, 1)
        self.three = nn.Conv2d(width, width, 3, padding=1)
        self.reduce5 = nn.Conv2d(into, width // 2, 1)
        self.five = nn.Conv2d(width // 2, width, 5, padding=2)
        self.pooled = nn.Conv2d(into, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat(
            [
                torch.relu(self.one(x)),
                torch.relu(self.three(torch.relu(self.reduce3(x)))),
                torch.relu(self.five(torch.relu(self.reduce5(x)))),
                torch.relu(self.pooled(torch.max_pool2d(x, 3, 1, 1))),
            ],
            1,
        )


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(1, 32, 3, padding=1)
        self.first = Inception(32, 16)
        self.second = Inception(64, 24)
        self.head = nn.Linear(96, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        x = torch.max_pool2d(self.first(x), 2, 2)
        x = self.second(x)
        return self.head(torch.dropout(x.mean((2, 3)), 0.2, self.training))


def train(images: np.ndarray, labels: np.ndarray) -> Classifier:
    """Adam with a one-cycle learning rate; images are shifted by up to one pixel."""
    torch.manual_seed(0)
    model = Classifier()
    x, y = torch.from_numpy(images), torch.from_numpy(labels)
    batch = 64
    steps = EPOCHS * -(-len(x) // batch)
    optimizer = torch.optim.Adam(model.parameters(), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x)).split(batch):
            shift = torch.randint(-1, 2, (2,)).tolist()
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(torch.roll(x[rows], shift, (2, 3))), y[rows])
            loss.backward()
            optimizer.step()
            schedule.step()
    return model.eval()


def to_onnx(model: Classifier) -> onnx.ModelProto:
    """The network as an ONNX model with a symbolic batch size and named nodes."""
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def add(kind: str, name: str, inputs: list[str], **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(name: str, layer: nn.Conv2d, x: str) -> str:
        for part, tensor in (("weight", layer.weight), ("bias", layer.bias)):
            weights.append(numpy_helper.from_array(tensor.detach().numpy(), f"{name}.{part}"))
        size, pad = layer.kernel_size[0], layer.padding[0]
        shape = {"kernel_shape": [size, size], "pads": [pad] * 4}
        out = add("Conv", f"{name}/conv{size}x{size}", [x, f"{name}.weight", f"{name}.bias"], **shape)
        return add("Relu", f"{name}/relu", [out])

    def inception(name: str, block: Inception, x: str) -> str:
        pooled = add("MaxPool", f"{name}.pool", [x], kernel_shape=[3, 3], pads=[1] * 4, strides=[1, 1])
        branches = [
            conv(f"{name}.one", block.one, x),
            conv(f"{name}.three", block.three, conv(f"{name}.reduce3", block.reduce3, x)),
            conv(f"{name}.five", block.five, conv(f"{name}.reduce5", block.reduce5, x)),
            conv(f"{name}.pooled", block.pooled, pooled),
        ]
        return add("Concat", f"{name}.concat", branches, axis=1)

    x = inception("first", model.first, conv("stem", model.stem, "images"))
    x = add("MaxPool", "halve", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = inception("second", model.second, x)
    x = add("Flatten", "flatten", [add("GlobalAveragePool", "average", [x])], axis=1)
    for part, tensor in (("weight", model.head.weight), ("bias", model.head.bias)):
        weights.append(numpy_helper.from_array(tensor.detach().numpy(), f"head.{part}"))
    x = add("Gemm", "head", [x, "head.weight", "head.bias"], transB=1)
    add("Softmax", "probabilities", [x], axis=-1)
    images = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 1, 8, 8])
    output = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])
    graph = helper.make_graph(nodes, "digits", [images], [output], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def main() -> None:
    data = load_digits()
    images = (data.images / 16.0).astype(np.float32)[:, None]
    held_out = np.arange(len(images)) % 5 == 0
    model = train(images[~held_out], data.target[~held_out])
    with torch.no_grad():
        guesses = model(torch.from_numpy(images[held_out])).argmax(1).numpy()
    print(f"held out: {(guesses == data.target[held_out]).mean():.4f} of {held_out.sum()} images right")
    onnx.save(to_onnx(model), HERE / "digits.onnx")
    levels = data.images[held_out].astype(np.uint8)
    np.savez_compressed(HERE / "images.npz", images=levels, labels=data.target[held_out].astype(np.uint8))


if __name__ == "__main__":
    main()
