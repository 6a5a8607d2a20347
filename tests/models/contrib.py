"""Models of one operator of ONNX Runtime (com.microsoft), run on every number of threads and beside ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import treadle

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OneNode:
    """A node `op`: its operands by name in order (None: absent), those that are constants, its results (empty: not
    read)."""

    op: str
    operands: Mapping[str, Array | None]
    constants: frozenset[str] = frozenset()
    outputs: tuple[str, ...] = ("y",)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    domain: str = "com.microsoft"
    opset: int = 17

    def feeds(self) -> dict[str, Array]:
        return {n: array for n, array in self.operands.items() if array is not None and n not in self.constants}

    def model(self, *, is_open: bool) -> bytes:
        """The node as a model. If `is_open`, sizes of 2 to 5 have names: equal ones the same."""
        held = [numpy_helper.from_array(np.asarray(self.operands[name]), name) for name in sorted(self.constants)]
        names = [name if array is not None else "" for name, array in self.operands.items()]
        takes = []
        for name, array in self.feeds().items():
            kind = helper.np_dtype_to_tensor_dtype(array.dtype)
            shape = [f"size_{size}" if 1 < size < 6 else size for size in array.shape] if is_open else array.shape
            takes.append(helper.make_tensor_value_info(name, kind, shape))
        node = helper.make_node(self.op, names, self.outputs, domain=self.domain, **self.attributes)
        gives = [onnx.ValueInfoProto(name=name) for name in self.outputs if name]
        graph = helper.make_graph([node], "g", takes, gives, held)
        domains = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        return bytes(helper.make_model(graph, opset_imports=domains, ir_version=10).SerializeToString())

    def run(self, *, is_open: bool = False, may_call: bool = False) -> dict[str, Array]:
        """The results on one thread, after checking that two give the same and that each step is a kernel."""
        content = self.model(is_open=is_open)
        one, two = (treadle.Session(content, intra_op=threads) for threads in (1, 2))
        found, again = dict(one.run(self.feeds())), dict(two.run(self.feeds()))
        for name, array in found.items():
            np.testing.assert_array_equal(array, again[name])
        if not may_call:
            assert [call.op for plan in one.plans() for call in plan.calls if call.function is not None] == []
        return found

    def run_by_onnxruntime(self) -> dict[str, Array]:
        """The results of ONNX Runtime; skips the test where it is not installed."""
        runtime = pytest.importorskip("onnxruntime")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = 1
        session = runtime.InferenceSession(self.model(is_open=False), options, providers=["CPUExecutionProvider"])
        names = [name for name in self.outputs if name]
        return dict(zip(names, session.run(names, self.feeds()), strict=True))


def close(found: Mapping[str, Array], wanted: Sequence[Array], *, rtol: float = 1e-5, atol: float = 1e-5) -> None:
    """Checks results against those wanted, in order."""
    assert len(found) == len(wanted)
    for (name, array), expected in zip(found.items(), wanted, strict=True):
        assert array.shape == expected.shape, name
        np.testing.assert_allclose(
            array.astype(np.float64), np.asarray(expected, np.float64), rtol=rtol, atol=atol, err_msg=name
        )


def check_case(node: OneNode, wanted: Array, *, runs: bool) -> None:
    """Checks the only result of `node` against that wanted and, if ONNX Runtime `runs` it on CPUs, against its own."""
    found = node.run()
    close(found, [wanted], rtol=1e-4, atol=1e-5)
    if runs:
        (theirs,) = node.run_by_onnxruntime().values()
        assert found["y"].dtype == theirs.dtype
        np.testing.assert_allclose(found["y"], theirs, rtol=1e-4, atol=1e-5)


def some(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Array:
    """Random numbers of the standard normal distribution."""
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)
