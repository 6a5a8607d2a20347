"""What the integers among the attributes of nodes may be that the `onnx` package's reference implementation runs.

It takes them as they are: a number of inputs that a node does not have is a list of as many numbers. The ops of other
nodes have `treadle.ops.bounds`.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx

from treadle.errors import LimitError
from treadle.frontends.onnx.names import place
from treadle.frontends.onnx.opsets import domain_of
from treadle.ops.bounds import AXIS, COUNT, EXTRA, INDEX, Bound

FLAG = INDEX
"""Any number: it is 0 or it is not, or one of an enumeration, which the node's rule checks."""

DATA = INDEX
"""Any numbers: labels, categories and keys."""

_SKIPPED = Bound(0, INDEX.most)
"""Any number: what exceeds a row is as much as the row."""

_WINDOW = {"kernel_shape": COUNT, "strides": COUNT, "pads": EXTRA, "dilations": COUNT}
_SIGNAL = {"periodic": FLAG, "output_datatype": FLAG}
_RANDOM = {"shape": EXTRA, "dtype": FLAG}

BOUNDS: Mapping[str, Mapping[str, Bound]] = {
    "AffineGrid": {"align_corners": FLAG},
    "Bernoulli": {"dtype": FLAG},
    "BitCast": {"to": FLAG},
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), _SIGNAL),
    "CastMap": {"max_map": EXTRA},
    "CenterCropPad": {"axes": AXIS},
    "Col2Im": _WINDOW,
    "ConcatFromSequence": {"axis": AXIS, "new_axis": FLAG},
    "DFT": {"axis": AXIS, "inverse": FLAG, "onesided": FLAG},
    "DeformConv": {**_WINDOW, "group": COUNT, "offset_group": COUNT},
    "DictVectorizer": {"int64_vocabulary": DATA},
    "FeatureVectorizer": {"inputdimensions": EXTRA},
    "LabelEncoder": {"default_int64": DATA, "keys_int64s": DATA, "values_int64s": DATA},
    "LinearAttention": {"chunk_size": COUNT, "kv_num_heads": COUNT, "q_num_heads": COUNT},
    "MaxRoiPool": {"pooled_shape": COUNT},
    "MaxUnpool": _WINDOW,
    "MelWeightMatrix": {"output_datatype": FLAG},
    "Multinomial": {"dtype": FLAG, "sample_size": COUNT},
    "OneHotEncoder": {"cats_int64s": DATA, "zeros": FLAG},
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _RANDOM),
    "STFT": {"onesided": FLAG},
    "Scan": {
        "num_scan_inputs": COUNT, "scan_input_axes": AXIS, "scan_output_axes": AXIS, "scan_input_directions": FLAG,
        "scan_output_directions": FLAG, "directions": FLAG,
    },
    "SequenceEmpty": {"dtype": FLAG},
    "SplitToSequence": {"axis": AXIS, "keepdims": FLAG},
    "StringNormalizer": {"is_case_sensitive": FLAG},
    "StringSplit": {"maxsplit": INDEX},
    "TfIdfVectorizer": {
        "max_gram_length": COUNT, "max_skip_count": _SKIPPED, "min_gram_length": COUNT, "ngram_counts": EXTRA,
        "ngram_indexes": EXTRA, "pool_int64s": DATA,
    },
    "ZipMap": {"classlabels_int64s": DATA},
}  # fmt: skip
"""Operator -> its attributes of integers -> their bounds."""

LISTED = {
    ("TfIdfVectorizer", "ngram_counts"): ("pool_int64s", "pool_strings"),
}
"""Attributes of places in a list -> the attributes, one of which is the list."""


def check_attributes(node: onnx.NodeProto, name: str) -> None:
    """Checks the integers among the attributes of `node`, which errors call `name`.

    Raises:
        LimitError: One is too small or too large for any model.
    """
    bounds = BOUNDS.get(node.op_type)
    if bounds is None or domain_of(node.domain) not in ("", "ai.onnx.ml"):
        return
    for attribute in node.attribute:
        bound = bounds.get(attribute.name)
        if bound is None:
            continue
        most = min(bound.most, _most(node, attribute.name))
        for number in [attribute.i] if attribute.type == onnx.AttributeProto.INT else attribute.ints:
            if not bound.least <= number <= most:
                wanted = f"{attribute.name} must be from {bound.least} to {most}, got {number}"
                raise LimitError(wanted, place(node, name), name)


def _most(node: onnx.NodeProto, name: str) -> int:
    """The most that the node's own inputs and lists allow."""
    if (node.op_type, name) == ("Scan", "num_scan_inputs"):
        return len(node.input)
    lists = LISTED.get((node.op_type, name), ())
    sizes = [len(each.ints) + len(each.strings) for each in node.attribute if each.name in lists]
    return max(sizes) if sizes else 1 << 63
