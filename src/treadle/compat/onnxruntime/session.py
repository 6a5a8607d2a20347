"""InferenceSession: a model as programs for onnxruntime use it, run by treadle."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from treadle.compat.onnxruntime import feeds, peer
from treadle.compat.onnxruntime.adapters import with_parameters
from treadle.compat.onnxruntime.background import background
from treadle.compat.onnxruntime.binding import IOBinding, in_place
from treadle.compat.onnxruntime.describe import ModelMetadata, NodeArg, metadata_of, node_args
from treadle.compat.onnxruntime.errors import (
    Fail,
    InvalidArgument,
    ModelLoadCanceled,
    NoSuchFile,
    bare,
    error,
    of,
    translated,
    unreadable,
)
from treadle.compat.onnxruntime.options import (
    RunOptions,
    SessionOptions,
    check_run_options,
    check_severity,
    copy_of,
    copy_to_peer,
    from_state,
    ignored,
    limits_of,
    only_in_the_peer,
    refusal,
    rounds_low_bits,
    state_of,
)
from treadle.compat.onnxruntime.own_sizes import OwnSizes, several_sizes
from treadle.compat.onnxruntime.providers import CPU, Providers, check, check_known, check_or_fall_back
from treadle.compat.onnxruntime.values import OrtMemoryInfo, OrtValue, require_cpu
from treadle.compile import Session, remembered, written_forms
from treadle.errors import ModelFormatError, TreadleError, UnsupportedModelError
from treadle.frontends.onnx.description import Description
from treadle.runtime.pool import threads_of
from treadle.runtime.threads import ThreadSettings

Array = np.ndarray[Any, Any]
_MOST_CHECKED = 64
"""How many forms of inputs a session remembers as checked."""

Callback = Callable[[list[Any], Any, str], None]

strict_default = False
"""Whether sessions that do not say `strict` refuse what treadle cannot run."""


class InferenceSession:
    """A model that is ready to run. Threads may share it.

    Args:
        path_or_bytes: A path, or the bytes of an ONNX model.
        sess_options: Settings; None for the defaults.
        providers: Names of execution providers, or pairs of a name and options. The CPU serves all; others get a
            warning, as onnxruntime gives for those that are not installed.
        provider_options: Options in the order of `providers`; they have no meaning here.
        strict: True refuses a model that treadle cannot run, in place of running it on onnxruntime itself.
        strict_dims: True refuses runs that give a dimension of inputs several sizes, with InvalidArgument. Without it
            the first one gives a DimensionWarning.
        **kwargs: Ignored, as onnxruntime does.

    Raises:
        NoSuchFile: There is no such file.
        InvalidProtobuf: The file cannot be read.
        InvalidGraph: The model is not valid.
        NotImplemented: Neither treadle nor onnxruntime itself can run it.
        TypeError: An argument has a wrong type.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        strict: bool | None = None,
        strict_dims: bool = False,
        **kwargs: Any,
    ) -> None:
        """Load and compile the model."""
        if isinstance(path_or_bytes, str | os.PathLike):
            self._model_path: str | None = os.fspath(path_or_bytes)
            self._model_bytes: bytes | None = None
        elif isinstance(path_or_bytes, bytes):
            self._model_path, self._model_bytes = None, path_or_bytes
        else:
            raise TypeError(f"Unable to load from type '{type(path_or_bytes)}'")
        if sess_options and not isinstance(sess_options, SessionOptions):
            raise TypeError(f"sess_options: wanted SessionOptions or None, got {sess_options!r}")
        self._sess_options = copy_of(sess_options) if sess_options else SessionOptions()
        self._strict = strict_default if strict is None else strict
        self._strict_dims = strict_dims
        self._enable_fallback = True
        self._peer: Any = None
        self._description: Any = None
        self._end_profile: Callable[[], Any] = str
        self._profiling_start_time_ns = 0
        self._lock = threading.Lock()
        self._checked: set[tuple[Any, ...]] = set()
        check_severity(self._sess_options)
        check_or_fall_back(providers, provider_options)
        self._load()

    def _load(self) -> None:
        model, path = self._model, self._model_path
        if self._sess_options.cancels_loading:
            raise error(ModelLoadCanceled, "the flag of set_load_cancellation_flag() is set")
        if path is not None and not Path(path).exists():
            raise error(NoSuchFile, f"Load model from {path} failed:Load model {path} failed. File doesn't exist")
        if model == b"" or (path is not None and Path(path).stat().st_size == 0):
            where = "" if path is None else f"Load model from {path} failed:"
            raise error(InvalidArgument, f"{where}No graph was found in the protobuf.")
        if what := only_in_the_peer(self._sess_options) or peer.only_format(model):
            self._use_peer(model, what, None)
            return
        with ExitStack() as undo:
            profile = None
            if self._sess_options.enable_profiling:
                from treadle.compat.onnxruntime.profile import Profile

                profile = Profile(self._sess_options.profile_file_prefix)
                undo.callback(profile.drop)
            self._compile(model)
            if profile is not None and self._peer is None:
                profile.loaded()
                self._profiling_start_time_ns = profile.start_ns
                self._end_profile = weakref.finalize(self, profile.end)  # onnxruntime writes the file then, too
                undo.pop_all()

    def _compile(self, model: Any) -> None:
        limits = limits_of(self._sess_options, threads_of(None, "InferenceSession").topology().available)
        make = partial(Session, model, **limits._asdict(), round_low_bits=rounds_low_bits(self._sess_options))
        self._own_sizes = OwnSizes(partial(make, strict_dims=False), refuses=self._strict_dims)
        with translated():
            try:
                self._sess: Any = make()
            except ModelFormatError as failure:
                raise unreadable(self._model_path, failure) from failure
            except UnsupportedModelError as failure:
                self._use_peer(model, " ".join(map(str.strip, str(failure).splitlines()[:2])), failure)
                return
            self._description = _describe(self._sess, model)  # now: the file may be gone when it is asked for

    def _use_peer(self, model: Any, why: str, failure: UnsupportedModelError | None) -> None:
        module = None if self._strict else peer.load()
        if module is None:
            if failure is not None:
                raise failure
            raise refusal(why)
        options = module.SessionOptions()
        available = threads_of(None, "InferenceSession").topology().available
        self._peer_values = copy_to_peer(self._sess_options, options, module, available)
        peer.tell("a model given as bytes" if self._model_path is None else self._model_path, why)
        with peer.translated():
            self._peer = module.InferenceSession(model, options, providers=[CPU])
        self._sess = self._peer

    @property
    def _model(self) -> str | bytes | None:
        return self._model_bytes if self._model_path is None else self._model_path

    @property
    def ignored_options(self) -> tuple[str, ...]:
        """The settings of this session that were changed and have no meaning here."""
        return ignored(self._sess_options)

    @property
    def threads(self) -> ThreadSettings:
        """The limits of this session's runs within the process's team, and what decided each."""
        settings: ThreadSettings = self._sess.get() if self._peer is None else threads_of(None, "threads").get()
        return settings

    @property
    def runs_on(self) -> str:
        """What runs the model: "treadle", or "onnxruntime" for one that treadle cannot run."""
        return "treadle" if self._peer is None else "onnxruntime"

    def _node_args(self, declared: Iterable[Any], inferred: Iterable[Any]) -> list[NodeArg]:
        options = self._sess_options
        return node_args(declared, inferred, options.dimensions, options.denotations)

    @cached_property
    def _inputs_meta(self) -> list[Any]:
        if self._peer is not None:
            return list(self._peer.get_inputs())
        return self._node_args(self._description.inputs, self._sess.inputs)

    @cached_property
    def _outputs_meta(self) -> list[Any]:
        if self._peer is not None:
            return list(self._peer.get_outputs())
        return self._node_args(self._description.outputs, self._sess.outputs)

    @property
    def _providers(self) -> list[str]:  # insightface logs it
        return self.get_providers()

    @property
    def _provider_options(self) -> dict[str, dict[str, str]]:
        return self.get_provider_options()

    @cached_property
    def _inputs(self) -> dict[str, Any]:
        return {one.name: one for one in self._inputs_meta}

    @cached_property
    def _outputs(self) -> dict[str, Any]:
        return {one.name: one for one in self._outputs_meta}

    @cached_property
    def _optional(self) -> frozenset[str]:
        return frozenset(one.name for one in self.get_overridable_initializers())

    def _leave(self, why: str) -> None:
        """Run on onnxruntime itself from now on."""
        with self._lock:
            if self._peer is None:
                self._use_peer(self._model, why, None)

    @property
    def input_names(self) -> frozenset[str]:
        """The names of the inputs."""
        return frozenset(self._inputs)

    def get_session_options(self) -> SessionOptions:
        """Return a copy of the options that the session was made with."""
        return copy_of(self._sess_options)

    def get_inputs(self) -> list[Any]:
        """Return name, type and shape of each input that a run needs."""
        return self._inputs_meta

    def get_outputs(self) -> list[Any]:
        """Return name, type and shape of each output."""
        return self._outputs_meta

    def get_overridable_initializers(self) -> list[Any]:
        """Return name, type and shape of the inputs that have an initialiser."""
        if self._peer is not None:
            return list(self._peer.get_overridable_initializers())
        return self._node_args(self._description.optional, ())

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return where each input has to be: in the memory of the CPU."""
        return [OrtMemoryInfo("Cpu") for _ in self.get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Return where each output is: in the memory of the CPU."""
        return [OrtMemoryInfo("Cpu") for _ in self.get_outputs()]

    def get_tuning_results(self) -> list[Any]:
        """Return an empty list: `treadle tune` stores what it finds beside the model."""
        return []

    def set_tuning_results(self, results: Sequence[Any], *, error_on_invalid: bool = False) -> None:
        """Do nothing: as onnxruntime does for the CPU."""

    def get_modelmeta(self) -> ModelMetadata:
        """Return what the model says of itself."""
        if self._description is None:
            found = self._peer.get_modelmeta()
            return ModelMetadata(**{name: getattr(found, name) for name in ModelMetadata.__match_args__})
        return metadata_of(self._description)

    def get_providers(self) -> list[str]:
        """Return the execution providers: the CPU."""
        return [CPU]

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of the execution providers: none."""
        return {CPU: {}}

    def set_providers(
        self,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Warn of providers that are not there; the CPU stays in use.

        Raises ValueError for what is no list of providers, RuntimeError for one that onnxruntime does not know.
        """
        check(providers, provider_options)
        check_known(providers)

    def set_ep_dynamic_options(self, options: Mapping[str, str]) -> None:
        """Do nothing: the CPU has no such options. Raises RuntimeError without any."""
        if not options:
            raise RuntimeError("No options were provided")

    def disable_fallback(self) -> None:
        """Do nothing: there is one provider."""
        self._enable_fallback = False

    def enable_fallback(self) -> None:
        """Do nothing: there is one provider."""
        self._enable_fallback = True

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: RunOptions | None = None
    ) -> list[Any]:
        """Compute outputs from inputs.

        Args:
            output_names: The outputs to compute; None or an empty list for all.
            input_feed: By name an array, a nested list of numbers, or an OrtValue.
            run_options: Settings of this run.

        Returns:
            The outputs, in the order of their names.

        Raises:
            ValueError: Inputs are missing.
            InvalidArgument: A name, type, rank or size does not fit.
            RuntimeError: A value is no tensor.
            Fail: A node failed, or the run was terminated.
        """
        if run_options is None and self._peer is None and self._is_known(input_feed):
            try:
                results: Mapping[str, Any] = self._sess.run(input_feed)
            except TreadleError as failure:
                raise of(failure) from failure
            if output_names is None:
                return list(results.values())
            if not isinstance(output_names, str) and all(name in results for name in output_names):
                return [results[name] for name in output_names or results]
        is_any = output_names is None or (isinstance(output_names, list | tuple | str) and not output_names)
        names = list(self._outputs) if is_any else feeds.names_of(output_names)
        results = self._results(names, input_feed, run_options)
        return [results[name] for name in names]

    def _is_known(self, given: Mapping[str, Any]) -> bool:
        """Return True if arrays of these names, dtypes and shapes were checked before."""
        try:
            return feeds.form_of(given) in self._checked
        except (AttributeError, TypeError):  # no arrays, or no mapping
            return False

    def _results(
        self,
        names: Sequence[str],
        given: Mapping[str, Any],
        run_options: RunOptions | None,
        binding: IOBinding | None = None,
    ) -> Mapping[str, Any]:
        if run_options is not None:
            check_run_options(run_options)
            if run_options.adapters and binding is None:
                given = with_parameters(given, run_options.adapters, self._inputs)
        if self._peer is not None:
            feeds.check_complete(self._inputs, given)
            arrays = {name: value.numpy() if isinstance(value, OrtValue) else value for name, value in given.items()}
            with peer.translated(), peer.options_of(run_options) as options:
                return dict(zip(names, self._peer.run(names, arrays, options), strict=True))
        if overridden := given.keys() & self._optional:
            self._leave(f"a run overrides the initialiser {min(overridden)!r}")  # it is compiled into the plan
            return self._results(names, given, run_options, binding)
        arrays = feeds.arrays_of(self._inputs, given)
        feeds.check_names(names, self._outputs)
        departs = feeds.departure(self._sess.inputs, arrays)
        if departs and not self._strict and peer.load() is not None:
            self._leave(departs)
            return self._results(names, given, run_options, binding)
        several = several_sizes(self._sess.inputs, arrays)
        if len(self._checked) >= _MOST_CHECKED:
            self._checked.clear()
        if not several and len(given) == len(arrays) and all(feeds.is_plain(one) for one in given.values()):
            self._checked.add(feeds.form_of(given))
        with translated():
            sess = self._own_sizes.session(several) if several else self._sess
            token = None if run_options is None else run_options.token
            memory = {} if binding is None else in_place(sess, binding.shared)
            if binding is not None and memory:
                return written_forms(sess).run(arrays, names, memory, binding.own, cancel=token)
            wanted = names if run_options is not None and run_options.only_execute_path_to_fetches else None
            results: Mapping[str, Any] = sess.run(arrays, wanted, cancel=token)
        return results

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callback,
        user_data: Any,
        run_options: RunOptions | None = None,
    ) -> None:
        """Start a run; `callback` is called with its outputs, `user_data` and the text of its error, "" for none.

        Inputs that are missing are reported now, everything else to the callback.
        """
        if not callable(callback):
            raise TypeError(f"run_async(): callback: wanted a callable, got {callback!r}")
        feeds.check_complete(self._inputs, input_feed)

        def work() -> None:
            try:
                results = InferenceSession.run(self, output_names, input_feed, run_options)
            except Exception as failure:  # noqa: BLE001 - the callback is told of every one
                callback([], user_data, bare(failure))
            else:
                callback(results, user_data, "")

        background().submit(work)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """Compute outputs from inputs, both as OrtValues. Raises as run() does."""
        for name, value in input_dict_ort_values.items():
            if not isinstance(value, OrtValue):
                raise TypeError(
                    f"run_with_ort_values(): input {name!r}: wanted an OrtValue, got {type(value).__name__}"
                )
        results = InferenceSession.run(self, output_names, input_dict_ort_values, run_options)
        return [OrtValue(one) for one in results]

    def io_binding(self) -> IOBinding:
        """Return an object that binds inputs and outputs of runs to memory."""
        return IOBinding(self)

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Compute the outputs that are bound from the inputs that are bound.

        Raises:
            RuntimeError: Nothing is bound, or something does not fit.
            ValueError: The binding is of another session.
        """
        iobinding.check_session(self)
        if not iobinding.names:
            raise RuntimeError("Error in execution: At least one output should be requested.")
        try:
            results = self._results(iobinding.names, iobinding.feeds, run_options, iobinding)
        except (ValueError, InvalidArgument, Fail) as failure:
            raise RuntimeError(f"Error in execution: {bare(failure)}") from failure
        iobinding.store(results)

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str = "cpu", device_id: int = 0
    ) -> OrtValue:
        """Return an uninitialised tensor."""
        require_cpu(device_type, device_id)
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type)

    def end_profiling(self) -> str:
        """End the profile and return the path of its file; "" if there is none."""
        return str(self._peer.end_profiling() if self._peer is not None else self._end_profile() or "")

    def get_profiling_start_time_ns(self) -> int:
        """Return when the profile began, in ns since 1970; 0 if there is none."""
        if self._peer is not None:
            return int(self._peer.get_profiling_start_time_ns())
        return self._profiling_start_time_ns

    def __getstate__(self) -> dict[str, Any]:
        """Return the model and what to make of it; another process loads it anew."""
        return {
            "model": self._model,
            "options": state_of(self._sess_options),
            "strict": self._strict,
            "strict_dims": self._strict_dims,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        stated = {name: state[name] for name in ("strict", "strict_dims")}
        InferenceSession.__init__(self, state["model"], from_state(state["options"]), **stated)


def _describe(session: Session, model: Any) -> Description:
    """Return what `model` says of itself; it is read once, and found on disk by later sessions."""

    def record() -> dict[str, Any]:
        from treadle.frontends.onnx.describe import describe  # imports onnx

        return describe(model).record

    return Description.of(remembered(session, "description", record))
