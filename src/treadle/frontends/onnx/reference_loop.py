"""A Loop for the `onnx` package's reference implementation, whose own differs from the specification.

Its own makes no iteration without a condition, joins what iterations stack along their first axis instead of a new one
(for all ranks but 1), and fails where nothing was stacked.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun


def nothing_stacked(output: Any) -> Any:
    """Return no items of a stacked output of a body; sizes that the body leaves open are 0."""
    from onnx.helper import tensor_dtype_to_np_dtype

    tensor = output.type.tensor_type
    dims = [dim.dim_value for dim in tensor.shape.dim]
    return np.empty((0, *dims), tensor_dtype_to_np_dtype(tensor.elem_type) if tensor.elem_type else np.float32)


@cache
def reference_loop() -> type[OpRun]:
    """Return the Loop of the specification (https://onnx.ai/onnx/operators/onnx__Loop.html)."""
    from onnx.reference.ops import op_loop

    class Loop(op_loop.Loop):
        op_domain = ""

        def _run(
            self,
            M: Any,  # noqa: N803 - the name of the input
            cond: Any,
            *carried: Any,
            context: Any = None,
            body: Any = None,  # noqa: ARG002 - the evaluator passes it; it is an attribute too
            attributes: Any = None,
            bindings: Any = None,
        ) -> tuple[Any, ...]:
            graph: Any = self.body  # type: ignore[attr-defined]  # the attribute
            run: Any = self._run_body  # type: ignore[attr-defined]  # what runs it
            names, values = graph.input_names, carried
            stacked: list[list[Any]] = [[] for _ in range(self.K)]
            going, done = cond is None or bool(cond), 0
            while going and (M is None or done < M):
                feeds = dict(zip(names, (np.array(done), np.array(True), *values), strict=False))
                found = run({**(context or {}), **feeds}, attributes=attributes, bindings=bindings)
                going, values = bool(found[0]), tuple(found[1 : 1 + self.N])
                for items, item in zip(stacked, found[1 + self.N :], strict=True):
                    items.append(item)
                done += 1
            outputs = graph.proto_.output[1 + self.N :]
            ends = [
                np.stack(items) if items else nothing_stacked(output)
                for items, output in zip(stacked, outputs, strict=True)
            ]
            return self._check_and_fix_outputs((*values, *ends))

    return Loop
