"""Sessions: a model, compiled for the inputs it meets.

The stages that compile are imported when something has to be compiled: a model whose compiled form is kept on disk
is ready before they would be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle import _native, knobs
from treadle.codegen.artifact import Artifact, artifact_key
from treadle.codegen.file_digests import load_digest, store_digest
from treadle.codegen.out_of_process import load_or_compile
from treadle.codegen.target import detect
from treadle.errors import InputError
from treadle.frontends.origin import Origin, file_digest
from treadle.graph.graph import Graph
from treadle.graph.shape import StaticShape
from treadle.graph.template import Template
from treadle.runtime.caps import NodeCaps, checked_caps, in_force
from treadle.runtime.control import PLAIN, Request
from treadle.runtime.executable import Executable
from treadle.runtime.limits import Setting
from treadle.runtime.pool import Pool, threads_of
from treadle.runtime.providers import TREADLE, provider_for
from treadle.runtime.session import Runnable, SessionBase
from treadle.runtime.signature import Form, dtype_of, shape_of, signature_of

if TYPE_CHECKING:
    from treadle.codegen.artifact_writer import ArtifactWriter
    from treadle.driver import Options
    from treadle.passes.base import Math, Precision
    from treadle.plan.plan import Plan
    from treadle.plan.target import Target
    from treadle.provider import Provider

Array = np.ndarray[Any, Any]
_AT_FIRST = "Session(node_intra_op=)"
Progress = Callable[[int, int], None]
"""(kernels done, kernels in all), called while kernels are compiled."""


class Session(SessionBase):
    """A model ready to run.

    `model` is a path, the bytes of a model, an onnx.ModelProto, a TensorFlow GraphDef, a torch.nn.Module, a
    torch.export.ExportedProgram, or a treadle Graph or Template. A module needs `example_inputs`, its positional arguments
    as a tuple, and may have `dynamic_shapes`, as torch.export takes them. Of a frozen TensorFlow graph `inputs` and
    `outputs` name the tensors to begin and end at ("name", "name:1"; None: its placeholders, and what no node reads).

    `intra_op` and `inter_op` limit this session's runs (None: the settings of `pool`, or of the process; 0: automatic).
    `settings` is a file that `treadle tune --save` wrote for this model on such a machine: its limits count where none is given.
    `node_intra_op` caps the workers of single nodes by name, before the model's own metadata `treadle.intra_op` (0: no cap).

    `math="exact"` forbids reassociation and fast algorithms with other rounding; both are deterministic.
    `precision="bf16"` lets convolutions and products with constant weights round their factors to bf16 where the CPU has
    AVX512_BF16 (others run f32); sums stay f32. `matmul_provider` ("treadle", "openblas", "mkl", "onednn"; None: as the
    process has it now) multiplies f32 and f64 matrices in all plans of this session. `progress(done, total)` is called
    while kernels are compiled.

    A model whose inputs all have fixed shapes is compiled here, others when a combination of shapes is
    first met. Raises ModelError and its kinds for a model that cannot be used, ThreadSettingError for
    impossible thread numbers, SettingsFileError for settings that are damaged or of another model or machine, ProviderError for a provider that is unknown or not installed, InputError for another
    impossible argument.
    """

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        intra_op: int | None = None,
        inter_op: int | None = None,
        settings: str | os.PathLike[str] | None = None,
        pool: Pool | None = None,
        node_intra_op: Mapping[str, int] | None = None,
        math: Math = "fast",
        precision: Precision = "f32",
        matmul_provider: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        _check_choice("math", math, ("fast", "exact"))
        _check_choice("precision", precision, ("f32", "bf16"))
        if progress is not None and not callable(progress):
            raise InputError(f"progress: wanted a function of (done, total) or None, got {progress!r}")
        self._caps = NodeCaps(checked_caps({} if node_intra_op is None else node_intra_op, None, _AT_FIRST))
        self._nodes: tuple[str, ...] | None = None
        self._origin = Origin(
            model,
            find=load_digest,
            keep=store_digest,
            example_inputs=example_inputs,
            dynamic_shapes=dynamic_shapes,
            inputs=inputs,
            outputs=outputs,
        )
        self._graph: Graph | None = None
        self._artifact_writer: ArtifactWriter | None = None
        self._means = _Means(detect(), math, precision, provider_for(matmul_provider), progress, pool)
        tuned = {} if settings is None else self._means.tuned(settings, model, self._origin)
        key = self._means.key(self._origin)
        self._kept = None if key is None else self._means.found(model, self._origin, key)
        source = self._origin.load() if self._kept is None else self._kept
        signature = source.signature if isinstance(source, Artifact) else signature_of(source, objects=source is model)
        if not isinstance(source, Template):
            self._nodes = source.nodes if isinstance(source, Artifact) else names_of(source)
        checked_caps(self._caps.get(), self._nodes, _AT_FIRST)
        compile_ = self._instantiate if isinstance(source, Template) else self._specialize
        super().__init__(signature, compile_, intra_op=intra_op, inter_op=inter_op, tuned=tuned, pool=pool)
        shapes = signature.fixed_shapes
        if shapes is None or isinstance(source, Template):
            return
        if key is None or isinstance(source, Artifact) or source.files:
            self._plans.get(shapes, signature.select(None))
        else:
            self._compile_and_keep(key, shapes)

    def _compile_and_keep(self, key: str, shapes: tuple[StaticShape, ...]) -> None:
        """Compile for the input `shapes`, and keep what came of it on disk under `key`."""
        from treadle.codegen.artifact_writer import ArtifactWriter
        from treadle.driver import Compiled

        with closing(ArtifactWriter(key)) as self._artifact_writer:
            runnable = self._plans.get(shapes, self._signature.select(None))
            if isinstance(runnable, Compiled) and self._origin.is_unchanged():
                self._artifact_writer.store(Artifact(self._signature, runnable.executable, self._nodes or ()))
        self._artifact_writer = None

    @property
    def graph(self) -> Graph:
        """The model's graph as the front end made it; of a Template, that for the inputs met last.

        Raises InputError for a Template that has met no inputs yet, ModelError if the graph was not needed before and
        the model's file is another one by now.
        """
        if self._graph is None:
            source = self._origin.load()
            if isinstance(source, Template):
                raise InputError(
                    "the model has no graph before it meets inputs: its dtypes and shapes follow from theirs"
                )
            self._graph = source
        return self._graph

    @property
    def node_intra_op(self) -> dict[str, int]:
        """The caps on single nodes that this session asks for, by name."""
        return self._caps.get()

    def set(
        self,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        node_intra_op: Mapping[str, int] | None = None,
    ) -> None:
        """Change the limits of this session's runs, and the caps on single nodes; None leaves them, 0 is automatic.

        `node_intra_op` takes the place of all caps asked for before, so that {} leaves the model's own. Any thread, any
        time; runs in progress have caps, and limits where they ask for none of their own, from their next op on.
        Raises ThreadSettingError, and then changes nothing, for what is impossible or names no node.
        """
        caps = (
            None if node_intra_op is None else checked_caps(node_intra_op, self._nodes, "Session.set(node_intra_op=)")
        )
        super().set(intra_op=intra_op, inter_op=inter_op)
        if caps is not None:
            self._caps.set(caps)

    def _specialize(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        kept, self._kept = self._kept, None
        if kept is None:
            return self._compile(forms, outputs)
        self._caps.follow(kept.executable)
        return Restored(kept.executable, partial(self._compile, forms, outputs))

    def _compile(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        from treadle.driver import compile_for

        options = self._means.options(self._caps, self._artifact_writer)
        return compile_for(self.graph, options, [shape_of(form) for form in forms], outputs)

    def _instantiate(self, forms: Sequence[Form], outputs: Sequence[str]) -> Runnable:
        from treadle.driver import compile_for

        template = self._origin.load()
        assert isinstance(template, Template)
        told = [(dtype_of(form, value), shape_of(form)) for value, form in zip(template.inputs, forms, strict=True)]
        self._graph = graph = template.build(told)
        self._nodes = names_of(graph)
        checked_caps(self._caps.get(), self._nodes, _AT_FIRST)
        return compile_for(graph, self._means.options(self._caps), [shape for _, shape in told], outputs)

    def plans(self) -> list[Plan]:
        """The plans compiled so far, the latest used last; a graph cut by data-dependent shapes has several.

        A model that was found on disk in its compiled form has its plan made anew to be shown.
        """
        return self._shown(self._plans.all())

    def plans_for(self, inputs: Mapping[str, Any]) -> list[Plan]:
        """The plans by which `inputs` are run, compiled now if need be (and run, where shapes depend on data)."""
        self.run(inputs)
        return self._shown([self._plan_of(inputs)])

    def _shown(self, runnables: Sequence[Runnable]) -> list[Plan]:
        plans = [plan for runnable in runnables for plan in plans_of(runnable)]
        asked = self._caps.get()
        return [
            replace(plan, calls=[replace(call, caps=in_force(call.caps, asked)) for call in plan.calls])
            for plan in plans
        ]


@dataclass(frozen=True, slots=True)
class _Means:
    """How a session compiles: for which machine, with which mathematics, by whose matrix products (None: treadle's).

    `progress` is told of kernels, and in `pool` run the bodies of branches and loops.
    """

    target: Target
    math: Math
    precision: Precision
    provider: Provider | None
    progress: Progress | None
    pool: Pool | None

    def key(self, origin: Origin) -> str | None:
        """The name of the compiled form of what `origin` reads; None where none is kept."""
        if origin.digest is None or self.provider is not None or knobs.get("TREADLE_DEBUG"):
            return None
        return artifact_key(origin.digest, self._settings, self.target)

    def found(self, model: Any, origin: Origin, key: str) -> Artifact | None:
        """What is kept on disk under `key`; None where `model` is to be compiled in this process."""
        source = model if origin.path is None else origin.path
        return load_or_compile(source, key, self.target, self._settings, self.progress)

    def tuned(self, settings: str | os.PathLike[str], model: Any, origin: Origin) -> dict[str, Setting]:
        """The limits that the file `settings` has for `model`, which `origin` reads, on this machine."""
        from treadle.runtime.tuned import machine, read_tuned

        tuned, file = read_tuned(settings), os.fsdecode(settings)
        digest = origin.digest or file_digest(model)
        if digest is None:
            origin.load()  # says it if the model cannot be read
        topology = threads_of(self.pool, "Session(pool=)").topology()
        tuned.must_fit(file, digest, machine(self.target.isa, topology))
        return tuned.limits(f"Session(settings={file!r})", topology)

    def options(self, caps: NodeCaps, artifact_writer: ArtifactWriter | None = None) -> Options:
        """The same for the driver."""
        from treadle.driver import Options

        return Options(
            target=self.target,
            math=self.math,
            progress=self.progress,
            nested=self._session_of_body,
            precision=self.precision,
            provider=self.provider,
            caps=caps,
            artifact_writer=artifact_writer,
        )

    @property
    def _settings(self) -> dict[str, str]:
        return {"math": self.math, "precision": self.precision}

    def _session_of_body(self, body: Any) -> Session:
        provider = TREADLE if self.provider is None else self.provider.name
        return Session(body, pool=self.pool, math=self.math, precision=self.precision, matmul_provider=provider)


@dataclass(slots=True)
class Restored:
    """An executable from disk. `compile_` makes it again, for those who ask how it works."""

    executable: Executable
    compile_: Callable[[], Runnable]
    _shown: Runnable | None = None

    def run(self, inputs: Sequence[Array], team: _native.Team, request: Request = PLAIN) -> list[Array]:
        """Run the executable."""
        return self.executable.run(inputs, team, request)

    def trim(self) -> None:
        """Free the memory that no run uses at the moment."""
        self.executable.trim()

    def shown(self) -> Runnable:
        """The same, compiled in this process."""
        if self._shown is None:
            self._shown = self.compile_()
        return self._shown


def _check_choice(name: str, given: object, choices: Sequence[str]) -> None:
    if not isinstance(given, str) or given not in choices:
        raise InputError(f"{name}: wanted {' or '.join(map(repr, choices))}, got {given!r}")


def plans_of(runnable: Runnable) -> list[Plan]:
    """The plans of one compilation, first stage first."""
    from treadle import driver

    return driver.plans_of(runnable.shown() if isinstance(runnable, Restored) else runnable)


def names_of(graph: Graph) -> tuple[str, ...]:
    """The names of the nodes."""
    return tuple(node.name for node in graph.nodes)
