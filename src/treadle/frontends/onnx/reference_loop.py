"""The Loop of the `onnx` package's reference implementation, where it differs from the specification."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


@cache
def reference_loop() -> type[OpRun]:
    """Return a Loop whose condition is true if it is absent: the package's own then makes no iteration."""
    from onnx.reference.ops import op_loop

    class Loop(op_loop.Loop):
        op_domain = ""

        def _run(self, M: Any, cond: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N803
            run: Any = super()._run
            return run(M, np.array(True) if cond is None else cond, *args, **kwargs)

    return Loop
