"""The function that torch.compile calls with each captured graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treadle.compat.dynamo.fallbacks import LEDGER
from treadle.errors import InputError, ModelError

if TYPE_CHECKING:
    from torch import fx

OPTIONS = ("intra_op", "inter_op", "pool", "math")
"""The keys of torch.compile(options={...}): arguments of treadle.Session."""


def backend(
    module: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, Any] | None = None, mode: Any = None
) -> Callable[..., Any]:
    """Compiles a captured graph; PyTorch runs it eagerly if treadle does not support it.

    torch.compile(model, backend="treadle") calls this function. A graph that runs eagerly is added to `report()`, and a
    FallbackWarning lists the reasons.

    Args:
        module: The captured graph, of PyTorch functions.
        example_inputs: Its arguments: tensors (real or fake) and sizes.
        options: Arguments of treadle.Session: `intra_op`, `inter_op`, `pool`, `math`.
        mode: Must be None; modes are those of PyTorch's own compiler.

    Returns:
        A function of the graph's arguments, which returns its results as tensors.

    Raises:
        InputError: An option is unknown, or `mode` is given.
    """
    import torch

    chosen = dict(options or {})
    unknown = [name for name in chosen if name not in OPTIONS]
    if unknown or mode is not None:
        raise InputError(
            f"torch.compile(backend='treadle') takes options {', '.join(OPTIONS)}; "
            f"got {', '.join(map(repr, unknown)) if unknown else f'mode={mode!r}'}"
        )
    tensors = [example for example in example_inputs if isinstance(example, torch.Tensor)]
    reasons = _unsupported_reasons(tensors)
    if reasons:
        LEDGER.add_fallback(_title(module), reasons)
        return module.forward  # type: ignore[no-any-return]
    from treadle.compat.dynamo.compiled import Compiled

    try:
        return Compiled(module, example_inputs, _title(module), chosen).call
    except ModelError as error:
        LEDGER.add_fallback(_title(module), error.faults or [str(error)])
        return module.forward  # type: ignore[no-any-return]


def _unsupported_reasons(tensors: Sequence[Any]) -> list[str]:
    """Returns why a graph with these tensors is not supported, whatever its ops."""
    import torch

    reasons = []
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        reasons.append("gradients are enabled; treadle runs inference: call it inside torch.no_grad()")
    devices = sorted({str(tensor.device) for tensor in tensors if tensor.device.type != "cpu"})
    if devices:
        reasons.append(f"tensors are on {', '.join(devices)}; treadle runs on CPUs")
    return reasons


def _title(module: fx.GraphModule) -> str:
    """Returns a name for the captured graph: the first line of the program with a node in it."""
    for node in module.graph.nodes:
        trace = (node.stack_trace or "").strip().splitlines() if node.op not in ("placeholder", "output") else []
        lines = [line.strip() for line in trace if line.strip().startswith("File ")]
        if lines:
            return f"the graph that begins at {lines[-1].removeprefix('File ')}"
    return "an empty graph"
