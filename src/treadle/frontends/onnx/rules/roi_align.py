"""RoiAlign: of images whose channels come last, so that a pixel is a row of memory."""

from treadle import dtypes
from treadle.frontends.onnx.build import Builder
from treadle.frontends.onnx.node import OnnxNode
from treadle.graph.value import Value

_TO_LAST, _TO_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def roi_align(node: OnnxNode, b: Builder) -> Value | None:
    """RoiAlign(x [N, C, H, W], regions [n, 4], images [n]) -> [n, C, output_height, output_width].

    Before opset 16 pixels have no half.
    """
    x, regions = node.input(0), node.input(1)
    if x.dtype not in (dtypes.f16, dtypes.f32, dtypes.f64) or regions.dtype != x.dtype:
        return None
    usual = "half_pixel" if node.version >= 16 else "output_half_pixel"
    how = node.choice("coordinate_transformation_mode", usual, "half_pixel", "output_half_pixel")
    found = b.add(
        "roi_align",
        b.add("transpose", x, perm=_TO_LAST),
        regions,
        node.input(2),
        rows=node.integer("output_height", 1),
        columns=node.integer("output_width", 1),
        samples=node.integer("sampling_ratio", 0),
        scale=node.number("spatial_scale", 1.0),
        largest=node.choice("mode", "avg", "avg", "max") == "max",
        half_pixel=how == "half_pixel",
    )
    return b.add("transpose", found, perm=_TO_FIRST)
