"""call: a Python function as a node, for ops that have no core op and for control flow."""

from collections.abc import Sequence

from weft.errors import ShapeError
from weft.ops.op import Attrs, Info


def infer_call(attrs: Attrs, inputs: Sequence[Info | None], n_outputs: int) -> list[Info]:
    """attrs: function, infer, blocking, label.

    Asks the node's own `infer`. Without one nothing is known: the list is empty, and dtypes and shapes
    stay as the front end stated them.
    """
    if attrs.get("infer") is None:
        return []
    found: list[Info] = attrs["infer"](list(inputs))
    if len(found) != n_outputs:
        raise ShapeError(f"{attrs['label']} describes {len(found)} results, but the node has {n_outputs}")
    return list(found)
