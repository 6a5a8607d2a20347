"""The engines that run a module, each with the inference settings that its documentation advises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Call = Callable[..., Any]
Inputs = tuple[torch.Tensor, ...]


def treadle(module: torch.nn.Module, inputs: Inputs, threads: int) -> tuple[Call, str]:
    """torch.compile(backend="treadle"). Raises RuntimeError if a part of the module fell back to eager."""
    import treadle as library
    from treadle.compat import dynamo

    library.threads.set(intra_op=threads, inter_op=threads)
    compiled = torch.compile(module, backend="treadle")
    with torch.inference_mode():
        compiled(*inputs)
    report = dynamo.report()
    if report.fallbacks or not report.compiled:
        raise RuntimeError(f"treadle did not run the whole model: {report}")
    return compiled, library.__version__


def eager(module: torch.nn.Module, inputs: Inputs, threads: int) -> tuple[Call, str]:
    """The module as it is."""
    return module, torch.__version__


def torchscript(module: torch.nn.Module, inputs: Inputs, threads: int) -> tuple[Call, str]:
    """Traced, frozen, torch.jit.optimize_for_inference (oneDNN fusions)."""
    traced: Any = torch.jit.trace(module, inputs)
    return torch.jit.optimize_for_inference(torch.jit.freeze(traced)), torch.__version__


def inductor(module: torch.nn.Module, inputs: Inputs, threads: int) -> tuple[Call, str]:
    """torch.compile with its default backend."""
    return torch.compile(module), torch.__version__


def inductor_frozen(module: torch.nn.Module, inputs: Inputs, threads: int) -> tuple[Call, str]:
    """torch.compile with its default backend, parameters as constants (packed for oneDNN)."""
    return torch.compile(module, options={"freezing": True}), torch.__version__


ENGINES: dict[str, Callable[[torch.nn.Module, Inputs, int], tuple[Call, str]]] = {
    "treadle": treadle,
    "eager": eager,
    "torchscript": torchscript,
    "inductor": inductor,
    "inductor_frozen": inductor_frozen,
}
