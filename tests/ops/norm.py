"""Cases of the normalisations."""

from typing import Any

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, random


def _layer(
    name: str, shape: tuple[int, ...], axis: int, *, scale: bool = True, bias: bool = True, dtype: Any = np.float32
) -> Case:
    x = floats(name, *shape, dtype=dtype) * 3 + 1
    over = shape[axis:]
    operands = (
        x,
        floats("s", *over, dtype=dtype) if scale else None,
        floats("b", *over, dtype=dtype) if bias else None,
    )
    known = OnnxCall("LayerNormalization", {"axis": axis, "epsilon": 1e-5}) if scale else None
    return Case(
        f"layer_norm/{name}", "layer_norm", {"axis": axis, "epsilon": 1e-5}, operands, frozenset({1, 2}), onnx=known
    )


def _channelwise(
    op: str, name: str, shape: tuple[int, ...], onnx: str | None, *, groups: int = 0, dtype: Any = np.float32
) -> Case:
    channels = shape[1]
    operands = [
        floats(name, *shape, dtype=dtype) * 2 - 1,
        floats("s", channels, dtype=dtype),
        floats("b", channels, dtype=dtype),
    ]
    if op == "batch_norm":
        operands += [floats("m", channels, dtype=dtype), (random("v").random(channels) + 0.1).astype(dtype)]
    attrs: dict[str, Any] = {"epsilon": 1e-3}
    known: dict[str, Any] = {"epsilon": 1e-3}
    if groups:
        attrs["groups"] = known["num_groups"] = groups
    call = None if onnx is None else OnnxCall(onnx, known)
    return Case(f"{op}/{name}", op, attrs, tuple(operands), frozenset(range(1, len(operands))), onnx=call)


def _rms(name: str, shape: tuple[int, ...], axis: int) -> Case:
    operands = (floats(name, *shape), floats("s", *shape[axis:]))
    known = OnnxCall("RMSNormalization", {"axis": axis, "epsilon": 1e-6})
    return Case(f"rms_norm/{name}", "rms_norm", {"axis": axis, "epsilon": 1e-6}, operands, frozenset({1}), onnx=known)


def _lrn(name: str, shape: tuple[int, ...], size: int) -> Case:
    attrs = {"size": size, "alpha": 2e-2, "beta": 0.75, "bias": 1.5}
    return Case(f"lrn/{name}", "lrn", attrs, (floats(name, *shape) * 5,))


CASES = [
    _layer("rows", (9, 48), -1),
    _layer("bert", (2, 7, 96), -1),
    _layer("odd", (3, 37), -1),
    _layer("short", (5, 3), -1),
    _layer("two_axes", (3, 4, 21), 1),
    _layer("no_bias", (4, 33), -1, bias=False),
    _layer("no_scale", (4, 33), -1, scale=False, bias=False),
    _layer("no_scale_but_bias", (4, 33), -1, scale=False),
    _layer("float64", (4, 33), -1, dtype=np.float64),
    _layer("one_row", (1, 1024), -1),
    _channelwise("batch_norm", "image", (2, 19, 5, 7), "BatchNormalization"),
    _channelwise("batch_norm", "vector", (6, 17), "BatchNormalization"),
    _channelwise("batch_norm", "sequence", (1, 5, 33), "BatchNormalization"),
    _channelwise("batch_norm", "float64", (1, 5, 3, 3), "BatchNormalization", dtype=np.float64),
    _channelwise("instance_norm", "image", (2, 5, 7, 9), "InstanceNormalization"),
    _channelwise("instance_norm", "sequence", (3, 4, 35), "InstanceNormalization"),
    _channelwise("group_norm", "image", (2, 12, 5, 7), "GroupNormalization", groups=3),
    _channelwise("group_norm", "one_group", (2, 6, 9), "GroupNormalization", groups=1),
    _channelwise("group_norm", "each_channel", (2, 6, 9), "GroupNormalization", groups=6),
    _rms("rows", (5, 64), -1),
    _rms("odd", (3, 4, 37), -1),
    _rms("two_axes", (3, 4, 7), 1),
    _lrn("size5", (1, 19, 5, 6), 5),
    _lrn("size3", (2, 4, 3, 3), 3),
    _lrn("even_size", (1, 9, 4, 4), 4),
    _lrn("wider_than_channels", (1, 3, 4, 4), 9),
]
