"""SessionOptions and RunOptions.

`MEANING` says of every setting what a session makes of it. Numbers of threads become limits within the process's one
team. Settings without a meaning here are kept, and `InferenceSession.ignored_options` lists those that were changed.
Settings that would change results are refused.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from treadle.compat.onnxruntime.adapters import LoraAdapter
from treadle.compat.onnxruntime.enums import (
    ExecutionMode,
    ExecutionOrder,
    GraphOptimizationLevel,
    OrtExecutionProviderDevicePolicy,
)
from treadle.compat.onnxruntime.errors import Fail, error
from treadle.compat.onnxruntime.errors import NotImplemented as Unsupported
from treadle.runtime.control import CancelToken

USED, IGNORED = "used", "ignored"

MEANING: dict[str, str] = {
    "intra_op_num_threads": USED,
    "inter_op_num_threads": USED,
    "execution_mode": USED,
    "enable_profiling": USED,
    "profile_file_prefix": USED,
    "execution_order": IGNORED,
    "graph_optimization_level": IGNORED,
    "enable_cpu_mem_arena": IGNORED,
    "enable_mem_pattern": IGNORED,
    "enable_mem_reuse": IGNORED,
    "log_severity_level": IGNORED,
    "log_verbosity_level": IGNORED,
    "logid": IGNORED,
    "use_deterministic_compute": IGNORED,
    "use_per_session_threads": IGNORED,
}
"""What a session makes of a setting. Results are deterministic and threads shared whatever is set."""

_LONGEST_KEY = 1024

_MOST_SEVERE = 4

_REFUSED_KEYS = ("session.model_external_initializers_file_folder_path", "ep.context_enable", "ep.context_file_path")
"""Entries of the configuration that would change what is loaded or written."""


def _integer(value: Any) -> int:
    if isinstance(value, float):
        raise TypeError(f"wanted an int, got {value!r}")
    number = operator.index(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise TypeError(f"wanted an int of 32 bits, got {number}")
    return number


def _truth(value: Any) -> bool:
    if value is not None and not hasattr(value, "__bool__"):
        raise TypeError(f"wanted a bool, got {value!r}")
    return bool(value)


def _of(kind: type) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        if not isinstance(value, kind):
            raise TypeError(f"wanted {kind.__name__}, got {value!r}")
        return value

    return checked


class _Setting:
    """A setting of an options object: what converts its values, and its default."""

    def __init__(self, convert: Callable[[Any], Any], default: Any) -> None:
        self.convert, self.default, self.name = convert, default, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self if owner is None else owner.values.get(self.name, self.default)

    def __set__(self, owner: Any, value: Any) -> None:
        try:
            owner.values[self.name] = self.convert(value)
        except TypeError as fault:
            raise TypeError(f"{type(owner).__name__}.{self.name}: {fault}") from None


class _Options:
    """Settings by name, and entries of a configuration.

    Attributes:
        values: The settings that were set.
        entries: The entries of the configuration.
    """

    __slots__ = ("__weakref__", "entries", "values")

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.entries: dict[str, str] = {}

    def _add_entry(self, key: str, value: str) -> None:
        if not isinstance(key, str) or not isinstance(value, str):
            raise TypeError(f"{type(self).__name__}: wanted a key and a value as str, got {key!r} and {value!r}")
        if not 0 < len(key) <= _LONGEST_KEY:
            raise RuntimeError(f"Config key is empty or longer than maximum length {_LONGEST_KEY}")
        self.entries[key] = value

    def _entry(self, key: str) -> str:
        if key not in self.entries:
            raise RuntimeError(f"{type(self).__name__} does not have configuration with key: {key}")
        return self.entries[key]


class SessionOptions(_Options):
    """The settings of a session, with the names and defaults of onnxruntime.

    Attributes:
        dimensions: Fixed sizes of open dimensions, by name.
        denotations: The same by denotation.
        cancels_loading: Whether sessions with these options fail to load.
        for_peer: What only onnxruntime itself can do: names of methods, and what calls them for its options, with a
            function that makes its own values.
    """

    __slots__ = ("cancels_loading", "denotations", "dimensions", "for_peer")

    intra_op_num_threads = _Setting(_integer, 0)
    inter_op_num_threads = _Setting(_integer, 0)
    execution_mode = _Setting(_of(ExecutionMode), ExecutionMode.ORT_SEQUENTIAL)
    execution_order = _Setting(_of(ExecutionOrder), ExecutionOrder.DEFAULT)
    graph_optimization_level = _Setting(_of(GraphOptimizationLevel), GraphOptimizationLevel.ORT_ENABLE_ALL)
    enable_cpu_mem_arena = _Setting(_truth, default=True)
    enable_mem_pattern = _Setting(_truth, default=True)
    enable_mem_reuse = _Setting(_truth, default=True)
    enable_profiling = _Setting(_truth, default=False)
    profile_file_prefix = _Setting(_of(str), "onnxruntime_profile_")
    optimized_model_filepath = _Setting(_of(str), "")
    log_severity_level = _Setting(_integer, -1)
    log_verbosity_level = _Setting(_integer, 0)
    logid = _Setting(_of(str), "")
    use_deterministic_compute = _Setting(_truth, default=False)
    use_per_session_threads = _Setting(_truth, default=True)

    def __init__(self) -> None:
        """Make options that change nothing."""
        super().__init__()
        self.cancels_loading = False
        self.dimensions: dict[str, int] = {}
        self.denotations: dict[str, int] = {}
        self.for_peer: list[tuple[str, Callable[[Any, Callable[[Any], Any]], None]]] = []

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Set an entry of the configuration."""
        self._add_entry(key, value)

    def get_session_config_entry(self, key: str) -> str:
        """Return an entry of the configuration. Raises RuntimeError if it was not set."""
        return self._entry(key)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Give the open dimension `name` a fixed size."""
        self.dimensions[_of(str)(name)] = _integer(size)

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Give all open dimensions with this denotation a fixed size."""
        self.denotations[_of(str)(denotation)] = _integer(size)

    def register_custom_ops_library(self, path: str) -> None:
        """Have the session use ops of a library: only onnxruntime itself can."""
        self.for_peer.append(("register_custom_ops_library", lambda peer, _: peer.register_custom_ops_library(path)))

    def add_initializer(self, name: str, value: Any) -> None:
        """Replace an initialiser: only onnxruntime itself can."""
        self.for_peer.append(("add_initializer", lambda peer, of: peer.add_initializer(name, of(value))))

    def add_external_initializers(self, names: Sequence[str], values: Sequence[Any]) -> None:
        """Give external initialisers by value: only onnxruntime itself can."""
        self.for_peer.append(
            (
                "add_external_initializers",
                lambda peer, of: peer.add_external_initializers(names, [of(value) for value in values]),
            )
        )

    def add_external_initializers_from_files_in_memory(
        self, names: Sequence[str], buffers: Sequence[Any], lengths: Sequence[int]
    ) -> None:
        """Give the contents of files of external data: only onnxruntime itself can."""
        method = "add_external_initializers_from_files_in_memory"
        self.for_peer.append((method, lambda peer, _: getattr(peer, method)(names, buffers, lengths)))

    def set_load_cancellation_flag(self, is_cancelled: bool) -> None:
        """Have sessions with these options fail to load, with ModelLoadCanceled."""
        self.cancels_loading = _truth(is_cancelled)

    def set_provider_selection_policy(self, policy: OrtExecutionProviderDevicePolicy) -> None:
        """Check the policy; the CPU is used whatever it is."""
        self.entries["provider_selection_policy"] = str(_of(OrtExecutionProviderDevicePolicy)(policy))

    def set_provider_selection_policy_delegate(self, delegate: Callable[..., Any]) -> None:
        """Do nothing: the CPU is the only device."""

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Name a provider; the CPU is used whatever it is."""
        self.entries[f"provider.{name}"] = str(dict(options))

    def has_providers(self) -> bool:
        """Return True if a provider was named."""
        return any(key.startswith("provider.") for key in self.entries)


def state_of(options: SessionOptions) -> dict[str, dict[str, Any]]:
    """Return what a pickle of a session keeps of its options."""
    return {name: dict(getattr(options, name)) for name in ("values", "entries", "dimensions", "denotations")}


def from_state(state: Mapping[str, Mapping[str, Any]]) -> SessionOptions:
    """Return the options of which state_of() made `state`."""
    options = SessionOptions()
    for name, content in state.items():
        getattr(options, name).update(content)
    return options


def copy_of(options: SessionOptions) -> SessionOptions:
    """Return options with the settings of `options`, whose later changes do not alter them."""
    copy = from_state(state_of(options))
    copy.for_peer += options.for_peer
    copy.cancels_loading = options.cancels_loading
    return copy


class RunOptions(_Options):
    """The settings of runs, with the names and defaults of onnxruntime. Threads may share one.

    Attributes:
        token: What `terminate` cancels.
        adapters: Those whose parameters a run takes.
    """

    __slots__ = ("_followers", "_lock", "adapters", "token")

    log_severity_level = _Setting(_integer, -1)
    log_verbosity_level = _Setting(_integer, 0)
    logid = _Setting(_of(str), "")
    only_execute_path_to_fetches = _Setting(_truth, default=False)

    def __init__(self) -> None:
        """Make options that change nothing."""
        super().__init__()
        self.token = CancelToken()
        self.adapters: list[LoraAdapter] = []
        self._lock = threading.Lock()
        self._followers: list[Any] = []  # guarded by _lock

    @property
    def terminate(self) -> bool:
        """True ends all runs in progress that were started with these options, and lets none begin."""
        return self.token.cancelled

    @terminate.setter
    def terminate(self, value: bool) -> None:
        ends = _truth(value)
        with self._lock:
            if ends:
                self.token.cancel()
                for options in self._followers:
                    options.terminate = True
            elif self.token.cancelled:
                self.token = CancelToken()

    def add_active_adapter(self, adapter: Any) -> None:
        """Have runs with these options take the parameters of an adapter. Raises TypeError for what is none.

        As in onnxruntime, runs with an IO binding take none.
        """
        if not isinstance(adapter, LoraAdapter):
            raise TypeError(f"add_active_adapter(): wanted a LoraAdapter, got {type(adapter).__name__}")
        self.adapters.append(adapter)

    @contextmanager
    def followed_by(self, options: Any) -> Iterator[None]:
        """Pass `terminate` on to `options`, which a run has that is not treadle's, while the block runs."""
        with self._lock:
            options.terminate = self.terminate
            self._followers.append(options)
        try:
            yield
        finally:
            with self._lock:
                self._followers.remove(options)

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Set an entry of the configuration."""
        self._add_entry(key, value)

    def get_run_config_entry(self, key: str) -> str:
        """Return an entry of the configuration. Raises RuntimeError if it was not set."""
        return self._entry(key)


class Limits(NamedTuple):
    """The limits of a session's runs; None for those of the process."""

    intra_op: int | None
    inter_op: int | None


def limits_of(options: SessionOptions, available: int) -> Limits:
    """Return the limits of a session. A number of threads above `available`, the CPUs of this process, means all.

    onnxruntime takes 0 and negative numbers for its default. In the sequential mode, `intra_op_num_threads` are all
    threads of a session: here nodes may run at once on them.
    """
    asked = options.intra_op_num_threads
    intra_op = min(asked, available) if asked > 0 else None
    if options.execution_mode is ExecutionMode.ORT_SEQUENTIAL:
        return Limits(intra_op, intra_op)
    asked = options.inter_op_num_threads
    return Limits(intra_op, min(asked, available) if asked > 0 else None)


def rounds_low_bits(options: SessionOptions) -> bool:
    """Return True if the options ask for products of 4-bit weights that round their other factor to 8 bits."""
    level = options.entries.get("session.qdq_matmulnbits_accuracy_level")
    return level == "4" and options.graph_optimization_level >= GraphOptimizationLevel.ORT_ENABLE_EXTENDED


def ignored(options: SessionOptions) -> tuple[str, ...]:
    """Return the settings that were changed and have no meaning here, entries of the configuration included."""
    changed = [
        name
        for name, value in options.values.items()
        if MEANING.get(name) == IGNORED and value != getattr(SessionOptions, name).default
    ]
    return (*sorted(changed), *sorted(options.entries))


def only_in_the_peer(options: SessionOptions) -> str | None:
    """Return what `options` ask for that only onnxruntime itself can do; None if there is nothing."""
    if options.for_peer:
        return options.for_peer[0][0]
    if options.optimized_model_filepath:
        return "optimized_model_filepath"
    return next((key for key in _REFUSED_KEYS if options.entries.get(key, "0") not in ("", "0")), None)


def check_run_options(options: Any) -> None:
    """Raise TypeError for what is no RunOptions, and what `check_severity` raises."""
    if not isinstance(options, RunOptions):
        raise TypeError(f"run(): run_options: wanted RunOptions or None, got {options!r}")
    check_severity(options)


def check_severity(options: SessionOptions | RunOptions) -> None:
    """Raise RuntimeError, for runs Fail, unless the severity of the log is one, or -1 for the default."""
    level = options.log_severity_level
    if -1 <= level <= _MOST_SEVERE:
        return
    text = "log severity level. Not a valid onnxruntime::logging::Severity value:"
    if isinstance(options, RunOptions):
        raise error(Fail, f"Invalid run {text} {level}")
    raise RuntimeError(f"Invalid session {text} {level}")


def copy_to_peer(options: SessionOptions, peer: Any, module: Any, threads: int) -> list[Any]:
    """Give the options of onnxruntime itself, `peer`, the settings of `options`; at most `threads` threads each way.

    Returns what has to live as long as the session: onnxruntime keeps the addresses of values alone.
    """
    for name, value in options.values.items():
        enum = getattr(module, type(value).__name__, None)
        setattr(peer, name, value if enum is None else getattr(enum, value.name))
    for name in ("intra_op_num_threads", "inter_op_num_threads"):
        asked = getattr(options, name)
        setattr(peer, name, min(asked, threads) if asked > 0 else threads)
    for key, value in options.entries.items():
        if not key.startswith("provider."):
            peer.add_session_config_entry(key, value)
    for name, size in options.dimensions.items():
        peer.add_free_dimension_override_by_name(name, size)
    for denotation, size in options.denotations.items():
        peer.add_free_dimension_override_by_denotation(denotation, size)
    values: list[Any] = []

    def value_of(value: Any) -> Any:
        values.append(module.OrtValue.ortvalue_from_numpy(value.numpy()))
        return values[-1]

    for _, apply in options.for_peer:
        apply(peer, value_of)
    return values


def refusal(what: str) -> Exception:
    """Return the error for something that only onnxruntime itself can do, where it may not or cannot stand in."""
    return error(
        Unsupported,
        f"{what}: treadle has nothing like it, and onnxruntime itself is not installed or not allowed (strict=True)",
    )
