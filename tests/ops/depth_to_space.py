"""Cases of depth_to_space and space_to_depth."""

from tests.ops.case import Case, OnnxCall, floats

CASES = [
    *(
        Case(
            f"depth_to_space/{mode.lower()}{block}",
            "depth_to_space",
            {"block": block, "mode": mode},
            (floats("d2s", 2, 3 * block * block, 4, 5),),
            onnx=OnnxCall("DepthToSpace", {"blocksize": block, "mode": mode}),
        )
        for mode in ("DCR", "CRD")
        for block in (1, 2, 3)
    ),
    *(
        Case(
            f"space_to_depth/{block}",
            "space_to_depth",
            {"block": block},
            (floats("s2d", 2, 3, 4 * block, 3 * block),),
            onnx=OnnxCall("SpaceToDepth", {"blocksize": block}),
        )
        for block in (1, 2, 3)
    ),
]
