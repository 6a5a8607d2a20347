"""Runs ONNX Loop nodes: treadle drives the iterations, the reference implementation runs the body.

The reference's own Loop joins scalar scan outputs to [n, 1], where the specification wants [n].
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from treadle.dtypes import DType
from treadle.errors import RunCancelledError, RunError, RunTimeoutError
from treadle.frontends.faults import Fault, Unsupported
from treadle.frontends.onnx.names import captured, graph_of
from treadle.frontends.onnx.reference import IR_VERSION, Fragment, evaluator, first_line, tensor_of
from treadle.ops.op import Array
from treadle.runtime.control import begin_iteration


class LoopFunction:
    """Runs a Loop node: arrays in the order of the fragment's inputs to arrays of `dtypes`, one for each result that is
    read.

    Raises Unsupported when it is made, if the onnx package cannot run the body; Fault if the body does
    not take and give what a Loop needs. Calls raise RunError if the body fails.
    """

    detachable = True

    def __init__(
        self,
        node: onnx.NodeProto,
        fragment: Fragment,
        dtypes: Mapping[str, DType],
    ) -> None:
        self.fragment = fragment
        self._node = node
        self._names = fragment.inputs
        self._dtypes = dict(dtypes)
        body = graph_of(node)
        self._formals = [value.name for value in body.input]
        self._carried = len(node.input) - 2
        self._scans = len(body.output) - 1 - self._carried
        if len(self._formals) != 2 + self._carried or self._scans < 0 or len(node.output) > len(body.output) - 1:
            raise Fault(
                f"its body has {len(body.input)} inputs and {len(body.output)} outputs; with {self._carried} values "
                f"carried it needs {2 + self._carried} inputs, and 1 output more than the node has "
                f"({len(node.output)})"
            )
        self._empty = [_empty_shape(value.type) for value in body.output[1 + self._carried :]]
        self._outside = captured(node)
        try:
            self._body = evaluator(self._body_model(body, fragment))
        except Exception as error:  # noqa: BLE001 - whatever it raises means the same: it cannot run this
            raise Unsupported(f"the onnx package cannot run its body: {first_line(error)}") from None

    def _body_model(self, body: onnx.GraphProto, fragment: Fragment) -> onnx.ModelProto:
        graph = onnx.GraphProto()
        graph.CopyFrom(body)
        graph.input.extend(onnx.ValueInfoProto(name=name) for name in self._outside)
        imports = [helper.make_opsetid(domain, version) for domain, version in fragment.versions.items()]
        return helper.make_model(graph, opset_imports=imports, functions=fragment.functions, ir_version=IR_VERSION)

    def __call__(self, arrays: Sequence[Array]) -> list[Array]:
        """The results on `arrays`."""
        given = dict(zip(self._names, arrays, strict=True))
        try:
            with np.errstate(all="ignore"):
                return self._run(given)
        except (RunTimeoutError, RunCancelledError):
            raise
        except Exception as error:
            raise RunError(f"the loop failed: {first_line(error)}") from error

    def _run(self, given: Mapping[str, Array]) -> list[Array]:
        count, condition, *carried = [given[name] if name else None for name in self._node.input]
        limit = None if count is None else int(count.reshape(()))
        going = True if condition is None else bool(condition.reshape(()))
        outside = {name: given[name] for name in self._outside}
        state: list[Any] = list(carried)
        scans: list[list[Array]] = [[] for _ in range(self._scans)]
        step = 0
        while going and (limit is None or step < limit):
            begin_iteration(step)
            formals = [np.array(step, np.int64), np.array(going), *state]
            results: Any = self._body.run(None, outside | dict(zip(self._formals, formals, strict=True)))
            going = bool(np.asarray(results[0]).reshape(()))
            state = list(results[1 : 1 + self._carried])
            for scan, item in zip(scans, results[1 + self._carried :], strict=True):
                scan.append(np.asarray(item))
            step += 1
        joined = [np.stack(scan) if scan else np.empty(empty) for scan, empty in zip(scans, self._empty, strict=True)]
        by_name = dict(zip(self._node.output, [*state, *joined], strict=False))
        return [tensor_of(by_name[name], dtype) for name, dtype in self._dtypes.items()]


def _empty_shape(kind: onnx.TypeProto) -> tuple[int, ...]:
    """The shape of a scan output after no iteration."""
    return (0, *(int(dim.dim_value) for dim in kind.tensor_type.shape.dim))
