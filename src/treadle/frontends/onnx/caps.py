"""Reads the cap on the workers of a node from its metadata."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from treadle.graph.node import Node
from treadle.runtime.limits import checked, impossible

KEY = "treadle.intra_op"
"""Key in a node's metadata_props. Its value is a number of workers, 0 for no cap."""


def cap_workers(proto: onnx.NodeProto, name: str, nodes: Sequence[Node]) -> None:
    """Cap `nodes`, which `proto` was translated to. Raises ThreadSettingError for an impossible number."""
    for entry in getattr(proto, "metadata_props", ()):
        if entry.key != KEY:
            continue
        source = f"metadata {KEY} of node {name!r}"
        try:
            number = int(entry.value)
        except ValueError:
            raise impossible("intra_op", entry.value, source, "an int of 0 or more (0 = no cap)") from None
        cap = checked("intra_op", number, source)
        for node in nodes:
            node.max_workers = min(cap, node.max_workers) if cap and node.max_workers else cap or node.max_workers
