"""Cases of resize: every mode with every way of mapping coordinates."""

from typing import Any

import numpy as np

from tests.ops.case import Case, OnnxCall, floats, i64, integers

_DEFAULTS: dict[str, Any] = {
    "mode": "nearest",
    "coordinate_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
    "cubic_coeff": -0.75,
    "exclude_outside": False,
    "extrapolation": 0.0,
    "antialias": False,
    "axes": None,
    "keep_aspect": "stretch",
}
_ONNX_NAMES = {
    "mode": "mode",
    "coordinate_mode": "coordinate_transformation_mode",
    "nearest_mode": "nearest_mode",
    "cubic_coeff": "cubic_coeff_a",
    "exclude_outside": "exclude_outside",
    "extrapolation": "extrapolation_value",
    "antialias": "antialias",
    "axes": "axes",
    "keep_aspect": "keep_aspect_ratio_policy",
}


def _case(
    name: str,
    shape: tuple[int, ...],
    *,
    scales: tuple[float, ...] | None = None,
    sizes: tuple[int, ...] | None = None,
    roi: tuple[float, ...] | None = None,
    x: np.ndarray | None = None,
    **options: Any,
) -> Case:
    attrs = {**_DEFAULTS, **options}
    known = {
        _ONNX_NAMES[key]: int(value) if isinstance(value, bool) else list(value) if isinstance(value, tuple) else value
        for key, value in attrs.items()
        if value is not None
    }
    operands = (
        floats("resize", *shape) if x is None else x,
        None if roi is None else np.array(roi, np.float32),
        None if scales is None else np.array(scales, np.float32),
        None if sizes is None else i64(*sizes),
    )
    return Case(f"resize/{name}", "resize", attrs, operands, frozenset({1, 2, 3}), onnx=OnnxCall("Resize", known))


_IMAGE = (1, 3, 6, 8)
_COORDINATES = ("half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric")

CASES = [
    *(
        _case(
            f"{mode}_{coordinates}_{direction}", _IMAGE, scales=(1, 1, *scales), mode=mode, coordinate_mode=coordinates
        )
        for mode in ("nearest", "linear", "cubic")
        for coordinates in _COORDINATES
        for direction, scales in (("up", (2, 2.5)), ("down", (0.5, 0.75)))
    ),
    *(
        _case(
            f"nearest_{rounding}",
            _IMAGE,
            scales=(1, 1, 1.5, 0.625),
            nearest_mode=rounding,
            coordinate_mode=coordinates,
        )
        for rounding, coordinates in (
            ("floor", "asymmetric"),
            ("ceil", "asymmetric"),
            ("round_prefer_ceil", "half_pixel"),
            ("round_prefer_floor", "align_corners"),
        )
    ),
    _case("nearest_sizes", _IMAGE, sizes=(1, 3, 9, 5)),
    _case("nearest_up2_asymmetric_odd", (2, 19, 5, 7), scales=(1, 1, 2, 2), coordinate_mode="asymmetric",
          nearest_mode="floor"),
    _case("linear_sizes", (2, 17, 5, 7), sizes=(2, 17, 13, 11), mode="linear"),
    _case("linear_one_pixel", (1, 2, 1, 1), sizes=(1, 2, 3, 4), mode="linear", coordinate_mode="pytorch_half_pixel"),
    _case("linear_to_one_pixel", _IMAGE, sizes=(1, 3, 1, 1), mode="linear", coordinate_mode="align_corners"),
    _case("linear_1d", (1, 2, 9), sizes=(1, 2, 20), mode="linear"),
    _case("linear_axes", _IMAGE, sizes=(12, 5), axes=(2, 3), mode="linear"),
    _case("cubic_exclude_outside", _IMAGE, scales=(1, 1, 2, 0.5), mode="cubic", exclude_outside=True),
    _case("cubic_coefficient", _IMAGE, scales=(1, 1, 1.5, 2), mode="cubic", cubic_coeff=-0.5),
    _case("linear_antialias", _IMAGE, scales=(1, 1, 0.5, 0.375), mode="linear", antialias=True),
    _case("cubic_antialias", _IMAGE, scales=(1, 1, 0.5, 0.625), mode="cubic", antialias=True),
    _case("not_larger", _IMAGE, sizes=(9, 24), axes=(2, 3), mode="linear", keep_aspect="not_larger"),
    _case("not_smaller", _IMAGE, sizes=(9, 24), axes=(2, 3), mode="linear", keep_aspect="not_smaller"),
    _case("crop", _IMAGE, sizes=(1, 3, 4, 5), roi=(0, 0, 0.25, 0.1, 1, 1, 0.75, 1.25), mode="linear",
          coordinate_mode="tf_crop_and_resize", extrapolation=9.0),
    _case("unchanged", _IMAGE, scales=(1, 1, 1, 1), mode="linear"),
    _case("nearest_int64", (), sizes=(5, 9), x=integers("resize", 0, 99, 3, 4)),
    _case("linear_float64", (), sizes=(5, 9), x=floats("resize", 3, 4, dtype=np.float64), mode="linear"),
]  # fmt: skip
