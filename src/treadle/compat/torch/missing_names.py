"""Errors for names that the facade does not have."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from treadle.compat.calls import CLOSE

_INSTEAD = {
    "save": "keep the source of the model, and its state_dict with torch.save",
    "optim": "treadle runs models and does not train them; train with PyTorch and convert with .numpy()",
    "autograd": "treadle runs models and does not train them",
    "compile": "torch.jit.script(model) compiles here; PyTorch's own torch.compile takes backend='treadle'",
    "distributed": "start one process a machine; in one process all threads are one team",
    "vmap": "write the batch axis into the code, or use torch.einsum",
    "_C": "treadle has no PyTorch inside; names from torch._C have no counterpart",
    "script_if_tracing": "torch.jit.script",
    "multiprocessing": "Python's own multiprocessing",
    "profiler": "`with treadle.trace(path)` writes a timeline of every op",
    "utils": "iterate over NumPy arrays or tensors in Python, from any number of threads",
    "fft": "numpy.fft on x.numpy()",
    "polar": "write cosine and sine of the angle as two real tensors, as rotate_half does",
    "view_as_complex": "take x[..., 0] and x[..., 1] as real and imaginary parts; "
    "rotate_half does so for rotary embeddings",
}


_METHODS = {
    "backward": "treadle runs models and does not train them",
    "cuda": "treadle runs on CPUs; leave it out",
    "unsqueeze_": "x = x.unsqueeze(dim)",
    "squeeze_": "x = x.squeeze(dim)",
    "t_": "x = x.t()",
    "transpose_": "x = x.transpose(dim0, dim1)",
    "resize_": "x = x.reshape(sizes)",
}


def missing_name_error(module: str, name: str, offered: Iterable[str]) -> AttributeError:
    """Returns the error for `module.name`, which says what to use instead if there is something."""
    near = difflib.get_close_matches(name, list(offered), n=3, cutoff=CLOSE)
    instead = _METHODS if module == "Tensor" else _INSTEAD
    if name in instead:
        advice = instead[name]
    elif near:
        advice = "did you mean " + " or ".join(f"{module}.{other}" for other in near) + "?"
    else:
        advice = ""
    return AttributeError(f"treadle's {module} has no {name!r}{advice and f': {advice}'}")
