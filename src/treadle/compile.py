"""`treadle.Session`: a model, compiled for the signatures of its runs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Unpack

import numpy as np

from treadle.codegen.file_digests import load_digest, load_external, store_digest, store_external
from treadle.codegen.target import detect
from treadle.compile_settings import CompileCounter, CompileSettings, Progress
from treadle.errors import InputError
from treadle.frontends.model_source import DigestStore, ModelSource
from treadle.garbage import rare_collections
from treadle.graph.graph import Graph
from treadle.model_compiler import AT_CONSTRUCTION, ModelCompiler, loading
from treadle.model_forms import ModelForms
from treadle.runtime.caps import NodeCaps, checked_caps
from treadle.runtime.formed_runner import FormedRunner
from treadle.runtime.object_runner import runner_for
from treadle.runtime.pool import Pool, threads_of
from treadle.runtime.providers import TREADLE, provider_for
from treadle.runtime.run_options import RunOptions
from treadle.runtime.runner import Runner
from treadle.runtime.session_limits import SessionLimits
from treadle.runtime.signature import Tensor
from treadle.runtime.threads import Threads, ThreadSettings
from treadle.state_forms import StateForms
from treadle.tuned_limits import tuned_limits
from treadle.written_forms import WrittenForms

if TYPE_CHECKING:
    from treadle.compiled_plans import Open
    from treadle.passes.base import Math, Precision
    from treadle.passes.skip_padding.in_the_way import InTheWay
    from treadle.plan.plan import Plan
    from treadle.runtime.futures import RunFuture
    from treadle.runtime.per_size import PerSize
    from treadle.runtime.state import State

Array = np.ndarray[Any, Any]


class Session:
    """A model that is ready to run. Threads may share it.

    The model is compiled when the session is made; with open dimensions once for all their sizes, if that is possible,
    else (`why_per_size`) when a combination of sizes is first used.

    Args:
        model: A path, the bytes of a model, an onnx.ModelProto, a TensorFlow GraphDef, a torch.nn.Module, a
            torch.export.ExportedProgram, or a treadle Graph or Template.
        example_inputs: The positional arguments of a torch.nn.Module, as a tuple; no other model has them.
        dynamic_shapes: The open dimensions of a torch.nn.Module, as torch.export takes them.
        inputs: Names of tensors ("name", "name:1") of a frozen TensorFlow graph that become inputs. None: its
            placeholders.
        outputs: Names of tensors of a frozen TensorFlow graph that become outputs. None: those that no node reads.
        signature: The signature of a SavedModel, whose inputs and outputs the session has. None: "serving_default".
        strict_dims: Whether dimensions of an ONNX model's inputs that have one name must have one size. False: each
            may have its own, and a run fails where an op needs them to be equal.
        round_low_bits: Let products with weights of 2 or 4 bits in an ONNX model's QDQ form round their other factor to
            8 bits block by block, as MatMulNBits of accuracy level 4 does; math="exact" does not.
        intra_op: How many workers may share one op. 0: automatic. None: the setting of `pool`, or of the process.
        inter_op: How many independent ops may be in progress at once, likewise.
        settings: A file that `treadle tune --save` wrote for this model on such a machine. Its limits count where
            `intra_op` and `inter_op` are None.
        pool: The pool that runs the session. None: the process's team.
        node_intra_op: Caps on the workers of single nodes, by name; they go before the model's own metadata
            `treadle.intra_op`. 0: no cap.
        math: "fast", or "exact", which forbids reassociation and algorithms that round differently. Results of either
            are deterministic.
        precision: "f32", or "bf16", which lets convolutions and products with constant weights round their factors to
            bf16 on CPUs with AVX512_BF16 (others compute in f32). Sums stay f32.
        batch_invariant: Let the bits of a row or image not depend on what else is in the batch, nor on how much is.
            math="exact" implies it.
        skip_padding: Compute only the tokens of padded texts: an input of [texts, length] is their attention mask, 1
            for tokens and 0 for padding. The graph must prove that padding reaches no output; `why_padded` says where
            it does. Outputs differ by rounding.
        matmul_provider: What multiplies f32 and f64 matrices in all plans of this session: "treadle", "openblas", "mkl"
            or "onednn". None: the setting of the process at this time.
        progress: A function of (kernels done, kernels in all) that is called while kernels are compiled.

    Raises:
        ModelError: The model cannot be used; the error lists why (see its subclasses).
        ThreadSettingError: A number of threads cannot be, or `node_intra_op` names no node.
        SettingsFileError: The file of settings is damaged, or of another model or machine.
        ProviderError: The provider is unknown or not installed.
        MemoryLimitError: There is no memory to load and compile the model.
        InputError: Another argument cannot be. `skip_padding` cannot serve any output of the model.

    Example:
        >>> session = treadle.Session("model.onnx", intra_op=4)
        >>> session.inputs
        (Tensor(name='x', dtype=dtype('float32'), shape=('batch', 3, 224, 224)),)
        >>> outputs = session.run({"x": np.zeros((1, 3, 224, 224), np.float32)})
        >>> outputs["logits"].shape
        (1, 1000)
    """

    def __init__(
        self,
        model: Any,
        example_inputs: Any = None,
        dynamic_shapes: Any = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        signature: str | None = None,
        strict_dims: bool = True,
        round_low_bits: bool = False,
        intra_op: int | None = None,
        inter_op: int | None = None,
        settings: str | os.PathLike[str] | None = None,
        pool: Pool | None = None,
        node_intra_op: Mapping[str, int] | None = None,
        math: Math = "fast",
        precision: Precision = "f32",
        batch_invariant: bool = False,
        skip_padding: bool = False,
        matmul_provider: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        _check_choice("math", math, ("fast", "exact"))
        _check_choice("precision", precision, ("f32", "bf16"))
        _check_flag("batch_invariant", batch_invariant)
        _check_flag("skip_padding", skip_padding)
        _check_flag("strict_dims", strict_dims)
        _check_flag("round_low_bits", round_low_bits)
        if skip_padding and math == "exact":
            raise InputError(
                "skip_padding: wanted math='fast', got 'exact': attention in packed texts reassociates sums"
            )
        if progress is not None and not callable(progress):
            raise InputError(f"progress: wanted a function of (done, total) or None, got {progress!r}")
        self._caps = NodeCaps(checked_caps({} if node_intra_op is None else node_intra_op, None, AT_CONSTRUCTION))
        with loading():
            source = ModelSource(
                model,
                digests=DigestStore(load_digest, store_digest, load_external, store_external),
                example_inputs=example_inputs,
                dynamic_shapes=dynamic_shapes,
                inputs=inputs,
                outputs=outputs,
                signature=signature,
                strict_dims=None if strict_dims else False,
                round_low_bits=round_low_bits or None,
            )
            target, provider = detect(), provider_for(matmul_provider)
        counter = CompileCounter()
        if batch_invariant and provider is not None:
            raise InputError(
                f"batch_invariant: wanted matmul_provider='treadle', got {provider.name!r}, which adds as it likes"
            )
        nested = _nested(
            pool, math, precision, TREADLE if provider is None else provider.name, counter, batch_invariant
        )
        compile_settings = CompileSettings(
            target, math, precision, provider, progress, nested, counter, skip_padding, batch_invariant
        )
        tuned = {}
        if settings is not None:
            topology = threads_of(pool, "Session(pool=)").topology()
            with loading():
                tuned = tuned_limits(settings, model, source, target, topology)
        self._compiler = ModelCompiler(model, source, compile_settings, self._caps)
        threads = threads_of(pool, "Session(pool=)")
        self._limits = SessionLimits(threads, tuned, intra_op=intra_op, inter_op=inter_op)
        threads.team()  # reports a wrong environment variable now, not at the first run
        self._forms: ModelForms | None = None
        with rare_collections():
            self._runner = self._make_runner(threads)
            self._compiler.compile_declared(self._runner.plans)
        self._states = StateForms(self._compiler, self._runner)
        self._written = WrittenForms(self._compiler, self._runner)

    def _make_runner(self, threads: Threads) -> Runner:
        common, formed = self._limits.common, self._compiler.formed

        def make_runner(compiler: ModelCompiler) -> Runner:
            return runner_for(compiler.interface, compiler.compile, threads, common, compiler)

        if formed is None:
            return make_runner(self._compiler)
        self._forms = ModelForms(self._compiler, formed, make_runner)
        return FormedRunner(formed, self._forms.runner, threads, common)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """Name, dtype and shape of each input, in the model's order."""
        return self._runner.interface.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """Name, dtype and shape of each output, in the model's order; the type of one that is no tensor."""
        return self._runner.results

    @property
    def graph(self) -> Graph:
        """The model's graph as the front end made it; of a Template, the one for the latest inputs, or for all sizes.

        Of a model that takes sequences or optionals, it is the one for those of the latest run.

        Raises:
            InputError: The model is one of these, and has had no inputs yet.
            ModelError: The graph was not needed before, and the model's file has changed since the session was made.
        """
        return self._compiler.graph if self._forms is None else self._forms.graph

    @property
    def node_intra_op(self) -> dict[str, int]:
        """The caps that this session sets on single nodes, by name."""
        return self._caps.get()

    @property
    def compiles(self) -> int:
        """How many plans this session has compiled, in this process or in a child of a run.

        A run that leaves it as it was compiled nothing.
        """
        return self._compiler.compiles

    def run(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None, **options: Unpack[RunOptions]
    ) -> dict[str, Array]:
        """Compute outputs from inputs, on this thread and those of the team.

        A run compiles nothing if a plan held is valid for the shapes of its inputs. Ctrl-C, `timeout` and `cancel` end
        a run at the next chunk. They do not wait for Python functions in other threads, whose results are dropped. The
        session stays usable after every error.

        Args:
            inputs: An array for each input, by name: of the declared dtype exactly, and of a shape that fits the
                declared one. Strings are str, or bytes in UTF-8. A sequence is a list of arrays, an optional without a
                value None, a sparse tensor an array or an object with `toarray`; elements of float8 or of 2 or 4 bits
                have dtypes of ml_dtypes. What these hold is compiled for each length of a sequence.
            outputs: Names of the outputs to compute. None: all.
            **options: `intra_op`, `inter_op`, `pool`, `timeout`, `cancel` and `priority` of this run: see RunOptions.

        Returns:
            A fresh array for each output, by name. An output of an ONNX model that is no tensor comes as a Python
            object: a sequence as a list, a map as a dict, an optional without a value as None.

        Raises:
            InputError: An argument does not fit.
            ThreadSettingError: A limit cannot be.
            RunError: A node failed (see its subclasses); RunTimeoutError after `timeout` seconds, RunCancelledError
                after `cancel.cancel()`.
            MemoryLimitError: There is no memory for the run.
            ThreadLimitError: A blocking function gets no thread.

        Example:
            >>> session.run({"x": x}, ["logits"], timeout=0.5)["logits"]
            array([[0.1, 0.7, 0.2]], dtype=float32)
        """
        runner = self._runner
        if options:
            return runner.run_with(inputs, outputs, options)
        return runner.run(inputs, outputs, runner.threads, runner.request)

    def run_async(
        self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None, **options: Unpack[RunOptions]
    ) -> RunFuture:
        """Start a run in the background.

        Arguments are checked now. The arrays are not copied, so they must not change until the future is done. When
        the process ends, runs that have not begun are cancelled, and those in progress end first.

        Args:
            inputs: As run() takes them.
            outputs: As run() takes them.
            **options: As run() takes them. Cancelling the future cancels the token `cancel`, if one is given.

        Returns:
            The future of the outputs, which can be awaited. Cancelling it cancels the run; its set_limits() changes the
            limits while the run is in progress.

        Raises:
            InputError: An argument does not fit.
            ThreadSettingError: A limit cannot be.
            ThreadLimitError: There is no thread to run on.

        Example:
            >>> futures = [session.run_async({"x": x}) for x in batches]
            >>> results = [future.result()["logits"] for future in futures]
        """
        return self._runner.run_async(inputs, outputs, options)

    def state(self, pairs: Mapping[str, str] | None = None) -> State:
        """Return a state: inputs that are outputs of the run before, such as a decoder's past or an LSTM's h and c.

        `State.run` takes the other inputs and returns the other outputs. Where an output is an input with new elements
        appended, a run writes these behind those kept, and copies nothing. A session may have several states at a time.

        Args:
            pairs: The output that each input of the state is in the next run, by the name of the input. None: those
                that the names tell, such as `past.0.key` and `present.0.key`, `h0` and `hn`, and those of inputs that
                the model only appends to.

        Raises:
            InputError: A name is unknown, a pair does not fit, or no pair is found.
            ModelError: The graph was not needed before, and the model's file has changed since the session was made.

        Example:
            >>> with session.state({"past.key": "present.key", "past.value": "present.value"}) as state:
            ...     logits = state.run({"input_ids": prompt})["logits"]
            ...     logits = state.run({"input_ids": logits[:, -1:].argmax(-1)})["logits"]
        """
        if self._forms is not None:
            raise InputError("states are of models whose inputs are all tensors; this one takes others")
        return self._states.state(pairs)

    def set(
        self,
        *,
        intra_op: int | None = None,
        inter_op: int | None = None,
        node_intra_op: Mapping[str, int] | None = None,
    ) -> None:
        """Change the limits of this session's runs and the caps on single nodes, at any time, from any thread.

        Runs in progress follow at their next op: they take the caps, and the limits that they have not set themselves.

        Args:
            intra_op: How many workers may share one op. 0: automatic. None: unchanged.
            inter_op: How many independent ops may be in progress at once. 0: automatic. None: unchanged.
            node_intra_op: Caps on the workers of single nodes, by name, in place of all caps set before; {} leaves
                those of the model. None: unchanged.

        Raises:
            ThreadSettingError: A number cannot be, or no node has such a name. Nothing is changed then.

        Example:
            >>> session.set(intra_op=2, node_intra_op={"embedding": 1})
        """
        caps = None
        if node_intra_op is not None:
            caps = checked_caps(node_intra_op, self._compiler.nodes, "Session.set(node_intra_op=)")
        self._limits.set("Session.set", intra_op=intra_op, inter_op=inter_op)
        if caps is not None:
            self._caps.set(caps)

    def get(self) -> ThreadSettings:
        """Return the limits of a run that sets none itself, and what decided each.

        Raises:
            ThreadSettingError: An environment variable that decides a limit cannot be used.
        """
        return self._limits.get()

    def plans(self) -> list[Plan]:
        """Return the plans compiled so far, the most recently used last.

        A model with data-dependent shapes has several for one signature, one for each stage. A model that was read from
        its artifact is compiled to show its plan.
        """
        return self._compiler.plans_of(self._runner.plans.all()) if self._forms is None else self._forms.plans()

    def plans_for(self, inputs: Mapping[str, Any]) -> list[Plan]:
        """Run `inputs`, and return the plans that compute all outputs from them, first stage first.

        Args:
            inputs: As run() takes them.

        Raises:
            TreadleError: As run() does.
        """
        self.run(inputs)
        return self._compiler.plans_of([self._runner.plan_for(inputs)])

    def open_plans(self) -> list[Open]:
        """Return the plans for all sizes of open dimensions, the first compiled first; empty if there are none.

        The `guards` of a plan are the conditions under which it is valid, such as "length <= 512", `samples` the sizes
        by which decisions were taken that no proof settled, `plan` is the plan with expressions for sizes.
        """
        return self._compiler.open_plans()

    def why_per_size(self) -> PerSize | None:
        """Return why sizes that no open plan serves are compiled each for itself; None if a further plan is compiled.

        The `reason` is a text, `nodes` are the nodes of which it is true.
        """
        return self._compiler.why_per_size()

    def why_padded(self, outputs: Sequence[str] | None = None) -> InTheWay | None:
        """Return why a run for `outputs` computes the padding of texts; None if it computes their tokens only.

        The `reason` is a text, `node` the name of the node of which it is true, `op` its op.

        Args:
            outputs: As run() takes them.

        Raises:
            InputError: There is no such output.

        Example:
            >>> session = treadle.Session("embedder.onnx", skip_padding=True)
            >>> print(session.why_padded(["last_hidden_state"]))
            node 'Add_91' (add): output 'last_hidden_state' has rows for padding
        """
        return self._compiler.why_padded(self._runner.interface.select(outputs))

    def trim(self) -> None:
        """Free the memory that no run uses at the moment; the next run takes it again."""
        self._runner.trim()
        self._states.trim()
        self._written.trim()
        if self._forms is not None:
            self._forms.trim()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a treadle.Session cannot be pickled or copied: give another process the model, and let it make a session "
            "of its own"
        )

    def __repr__(self) -> str:
        inputs = ", ".join(map(str, self.inputs))
        return f"<treadle.Session ({inputs}) -> ({', '.join(map(str, self.outputs))})>"


def runner_of(session: Session) -> Runner:
    """Return the runner of `session`, for facades and the command line."""
    return session._runner  # noqa: SLF001 - this module's own class


def compiler_of(session: Session) -> ModelCompiler:
    """Return what compiles the model of `session`."""
    return session._compiler  # noqa: SLF001 - this module's own class


def count_compiles(session: Session, counter: CompileCounter) -> None:
    """Let `counter` count the plans of `session` too, for facades."""
    compiler_of(session).count_in(counter)


def runs_in_stages(session: Session) -> bool:
    """Return whether a plan of `session` has Python between its parts, for facades."""
    from treadle.driver import Staged

    return any(isinstance(plan, Staged) for plan in runner_of(session).plans.all())


def written_forms(session: Session) -> WrittenForms:
    """Return what runs the model of `session` on buffers that are both an input and an output, for facades."""
    return session._written  # noqa: SLF001 - this module's own class


def remembered(session: Session, name: str, make: Callable[[], Any]) -> Any:
    """Return what `make` returns of the model of `session`, as JSON has it; it is kept on disk under `name`."""
    return compiler_of(session).remembered(name, make)


def _nested(
    pool: Pool | None,
    math: Math,
    precision: Precision,
    provider: str,
    counter: CompileCounter,
    batch_invariant: bool,
) -> Callable[[Any], Runner]:
    """Return a function from the body of a branch or loop to its runner, which has the session's settings."""

    def runner(body: Any) -> Runner:
        session = Session(
            body,
            pool=pool,
            math=math,
            precision=precision,
            matmul_provider=provider,
            batch_invariant=batch_invariant,
        )
        compiler_of(session).count_in(counter)
        return runner_of(session)

    return runner


def _check_flag(name: str, given: object) -> None:
    if not isinstance(given, bool):
        raise InputError(f"{name}: wanted True or False, got {given!r}")


def _check_choice(name: str, given: object, choices: Sequence[str]) -> None:
    if not isinstance(given, str) or given not in choices:
        raise InputError(f"{name}: wanted {' or '.join(map(repr, choices))}, got {given!r}")
