"""Sessions: a model, compiled for the inputs it meets.

The stages that compile are imported when something has to be compiled: a model whose compiled form is kept on disk
is ready before they would be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from weft import dtypes
from weft.codegen.target import detect
from weft.dtypes import DType
from weft.errors import InputError, ThreadSettingError, WeftError
from weft.frontends import load
from weft.graph.graph import Graph
from weft.graph.shape import StaticShape, is_static
from weft.graph.template import Template
from weft.graph.value import Value
from weft.passes.base import Math
from weft.plan.plan import Plan
from weft.runtime.limits import checked
from weft.runtime.pool import Pool
from weft.runtime.session import Runnable, SessionBase
from weft.runtime.signature import Form, Signature, Tensor

Progress = Callable[[int, int], None]
"""(kernels done, kernels in all), called while kernels are compiled."""


class Session(SessionBase):
    """A model ready to run.

    `model` is a path, the bytes of a model, an onnx.ModelProto, a torch.nn.Module, a torch.export.ExportedProgram, or a
    weft Graph or Template. A module needs `example_inputs`, its positional arguments as a tuple, and may have
    `dynamic_shapes`, as torch.export takes them. `intra_op` and `inter_op` limit this session's runs (None: the settings of `pool`, or of the process; 0: automatic). `node_intra_op`
    caps the workers of single nodes by name, as the model's own metadata `weft.intra_op` does. `math="exact"` forbids
    reassociation and fast algorithms with other rounding; both are deterministic. `progress(done, total)`
    is called while kernels are compiled.

    A model whose inputs all have fixed shapes is compiled here, others when a combination of shapes is
    first met. Raises ModelError and its kinds for a model that cannot be used, ThreadSettingError for
    impossible thread numbers.
    """

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        pool: Pool | None = None,
        node_intra_op: Mapping[str, int] | None = None,
        math: Math = "fast",
        progress: Progress | None = None,
    ) -> None:
        from weft.driver import Options

        if math not in ("fast", "exact"):
            raise WeftError(f"math: wanted 'fast' or 'exact', got {math!r}")
        source = load(model, example_inputs, dynamic_shapes)
        self._node_intra_op = node_intra_op
        self._graph: Graph | None = None
        if isinstance(source, Graph):
            self._graph = self._capped(source)
        nested = partial(Session, intra_op=intra_op, inter_op=inter_op, pool=pool, math=math)
        self._options = Options(detect(), math, progress, nested)
        compile_ = self._instantiate if isinstance(source, Template) else self._specialize
        self._source = source
        super().__init__(signature_of(source), compile_, intra_op=intra_op, inter_op=inter_op, pool=pool)
        shapes = tuple(value.shape for value in source.inputs)
        if isinstance(source, Graph) and all(shape is not None and is_static(shape) for shape in shapes):
            self._plans.get(shapes, self._signature.select(None))  # type: ignore[arg-type]

    @property
    def graph(self) -> Graph:
        """The model's graph as the front end made it; of a Template, that for the inputs met last.

        Raises InputError for a Template that has met no inputs yet.
        """
        if self._graph is None:
            raise InputError("the model has no graph before it meets inputs: its dtypes and shapes follow from theirs")
        return self._graph

    def _capped(self, graph: Graph) -> Graph:
        return graph if self._node_intra_op is None else capped(graph, self._node_intra_op)

    def _specialize(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        from weft.driver import compile_for

        return compile_for(self.graph, self._options, [_shape_of(form) for form in forms], outputs)

    def _instantiate(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        from weft.driver import compile_for

        assert isinstance(self._source, Template)
        told = [
            (_dtype_of(form, value), _shape_of(form)) for value, form in zip(self._source.inputs, forms, strict=True)
        ]
        self._graph = graph = self._capped(self._source.build(told))
        return compile_for(graph, self._options, [shape for _, shape in told], outputs)

    def plans(self) -> list[Plan]:
        """The plans compiled so far, the latest used last; a graph cut by data-dependent shapes has several."""
        from weft.driver import plans_of

        return [plan for runnable in self._plans.all() for plan in plans_of(runnable)]

    def plans_for(self, inputs: Mapping[str, Any]) -> list[Plan]:
        """The plans by which `inputs` are run, compiled now if need be (and run, where shapes depend on data)."""
        from weft.driver import plans_of

        self.run(inputs)
        return plans_of(self._plans.all()[-1])


def capped(graph: Graph, caps: Mapping[str, int]) -> Graph:
    """A copy of `graph` in which the named nodes are shared by so many workers at most (0: as the run has it).

    A node that became several has them named `<name>` or `<name>/...`. Raises ThreadSettingError for an impossible
    number or a name that no node has.
    """
    from weft.passes.specialize import copy_graph

    copy = copy_graph(graph)
    for name, value in caps.items():
        cap = checked("intra_op", value, f"Session(node_intra_op=) for node {name!r}")
        found = [node for node in copy.nodes if node.name == name or node.name.startswith(f"{name}/")]
        if not found:
            names = sorted({node.name for node in copy.nodes})
            raise ThreadSettingError(
                f"intra_op from Session(node_intra_op=): no node of the model is named {name!r}; "
                f"its {len(names)} nodes are {', '.join(map(repr, names[:8]))}{', ...' if len(names) > 8 else ''}"
            )
        for node in found:
            node.max_workers = cap
    return copy


def _shape_of(form: Form) -> StaticShape:
    return form[1] if form and isinstance(form[0], np.dtype) else form


def _dtype_of(form: Form, value: Value) -> DType:
    return dtypes.from_numpy(form[0]) if form and isinstance(form[0], np.dtype) else value.known_dtype


def signature_of(graph: Graph | Template) -> Signature:
    """What a session of `graph` takes and gives."""

    def tensor(value: Value) -> Tensor:
        if value.dtype is None and isinstance(graph, Template):
            return Tensor(value.name, None, value.shape)
        dtype = value.dtype if value.dtype is not None else dtypes.f32
        return Tensor(value.name, dtype.numpy, value.shape)

    return Signature(tuple(map(tensor, graph.inputs)), tuple(map(tensor, graph.outputs)))
