"""Resize and Upsample."""

import numpy as np

from treadle.frontends.faults import Fault
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value
from treadle.ops.interpolation import COORDINATE_MODES, NEAREST_MODES

_OLD_COORDINATES = "tf_half_pixel_for_nn"
"""Opset 11 alone has it; the other modes are named as those of the core op."""


def resize(node: OnnxNode, b: Builder) -> Value | None:
    """Resize -> resize. Opset 10 has scales only, and means what Upsample did."""
    if node.version < 11:
        return _upsampled(node, node.input(1), b)
    coordinates = node.choice("coordinate_transformation_mode", "half_pixel", *COORDINATE_MODES, _OLD_COORDINATES)
    if coordinates == _OLD_COORDINATES:
        return None
    operands = [_or_absent(node, index) for index in (1, 2, 3)]
    axes = node.integers("axes")
    return b.add(
        "resize",
        node.input(0),
        *operands,
        mode=node.choice("mode", "nearest", "nearest", "linear", "cubic"),
        coordinate_mode=coordinates,
        nearest_mode=node.choice("nearest_mode", "round_prefer_floor", *NEAREST_MODES),
        cubic_coeff=node.number("cubic_coeff_a", -0.75),
        exclude_outside=node.flag("exclude_outside", default=False),
        extrapolation=node.number("extrapolation_value", 0.0),
        antialias=node.flag("antialias", default=False),
        axes=None if axes is None else node.axes(axes),
        keep_aspect=node.choice("keep_aspect_ratio_policy", "stretch", "stretch", "not_larger", "not_smaller"),
    )


def _or_absent(node: OnnxNode, index: int) -> Value | None:
    """Operand `index`; an empty tensor means the same as none."""
    return None if node.optional(index) is None or node.dims(index) == (0,) else node.input(index)


def upsample(node: OnnxNode, b: Builder) -> Value:
    """Upsample -> resize; before opset 9 the scales are an attribute."""
    if node.version >= 9:
        return _upsampled(node, node.input(1), b)
    attribute = node.attribute("scales")
    if attribute is None:
        raise Fault("its attribute 'scales' is missing")
    return _upsampled(node, b.constant(np.asarray(attribute.floats, np.float32)), b)


def _upsampled(node: OnnxNode, scales: Value, b: Builder) -> Value:
    mode = node.choice("mode", "nearest", "nearest", "linear", "bilinear")
    return b.add(
        "resize",
        node.input(0),
        None,
        scales,
        mode="nearest" if mode == "nearest" else "linear",
        coordinate_mode="asymmetric",
        nearest_mode="floor",
    )
