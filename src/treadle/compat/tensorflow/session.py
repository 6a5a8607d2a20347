"""Sessions: run parts of a graph, and hold the values of its variables."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Self

import numpy as np

from treadle import forking
from treadle.compat.tensorflow import context, devices, nest, placement
from treadle.compat.tensorflow.config import NO_TRACE, ConfigProto, RunMetadata, RunOptions
from treadle.compat.tensorflow.convert import array_of
from treadle.compat.tensorflow.effects import closure
from treadle.compat.tensorflow.errors import InvalidArgumentError, OpError, from_treadle_error, python_cause
from treadle.compat.tensorflow.graph import Graph, Operation
from treadle.compat.tensorflow.program import Program
from treadle.compat.tensorflow.scopes import CURRENT
from treadle.compat.tensorflow.state import Counted, Counts, Run, Store
from treadle.compat.tensorflow.step_stats import record_step_stats
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor
from treadle.compat.tensorflow.threading import apply_config, session_pools
from treadle.compat.tensorflow.variable import Variable
from treadle.errors import TreadleError
from treadle.ops.op import Array
from treadle.runtime.pool import Pool

DEFAULT = RunOptions()


class Session(Counted):
    """Runs a graph and holds the values of its variables. Threads may share it.

    See tf.compat.v1.Session in TensorFlow's documentation.

    While a session is open that was created outside any graph, ops outside graphs go into the default graph. As a
    context manager it is the default session of the block and is closed at its end.

    Args:
        target: must be "": treadle runs in this process.
        graph: the graph to run; None for the default one.
        config: thread limits, devices and timeout; None for defaults.

    Raises:
        tf.errors.InvalidArgumentError: `target` is not "", or a number of threads is impossible.
        TypeError: `config` is not a ConfigProto.

    Example:
        with tf.Session() as session:
            x = tf.placeholder(tf.float32, [None, 2])
            session.run(tf.nn.relu(x), {x: [[1, -1]]})
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        if target:
            raise InvalidArgumentError(
                None, None, f"Session(target=): wanted '', got {target!r}: treadle runs in this process"
            )
        if config is not None and not isinstance(config, ConfigProto):
            raise TypeError(f'Argument `config` must be a tf.ConfigProto, but got "{type(config).__name__}"')
        self._config = ConfigProto() if config is None else config
        self._pools: list[Pool] = session_pools(self._config)
        if not self._pools:
            apply_config(self._config)
        self._cpus = max(1, self._config.device_count.get("CPU", 1))
        if "CPU" in self._config.device_count:
            devices.set_logical_cpus(self._cpus)
        self._holds_graph_mode = graph is None and context.current_graph() is None
        self.graph = context.get_default_graph() if graph is None else graph
        if self._holds_graph_mode:
            context.session_opened()
        self.store = Store()
        self._counts = Counts()
        self._programs: dict[Any, Program] = {}
        self._variable_reads: dict[Variable, Tensor] = {}
        self._logged: set[Operation] = set()
        self._lock = forking.lock()
        self._exit_stacks: list[ExitStack] = []
        self._closed = False

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: RunOptions | None = None,
        run_metadata: RunMetadata | None = None,
    ) -> Any:
        """Compute `fetches`. See tf.compat.v1.Session in TensorFlow's documentation.

        Args:
            fetches: tensors, operations, variables, names of these, or lists, tuples and dicts of them.
            feed_dict: values for tensors, by tensor or name. A key may be a tuple of tensors, its value a tuple of
                values. Values are converted to the dtype of the tensor.
            options: the timeout, trace level and pool of this run.
            run_metadata: receives the trace.

        Returns:
            NumPy arrays in the structure of `fetches`; NumPy scalars for rank 0, None for operations.

        Raises:
            tf.errors.OpError: the run failed; the subclass says why, `op` names the operation.
            RuntimeError: the session is closed, or its graph is empty.
            TypeError: a fetch, feed key or fed value of the wrong type.
            ValueError: a name or tensor that the graph does not have, or a fed value of the wrong shape.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        options_or_default = DEFAULT if options is None else options
        if not isinstance(options_or_default, RunOptions):
            raise TypeError(f"options: wanted tf.compat.v1.RunOptions, got {options_or_default!r}")
        if not self.graph.get_operations():
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        leaves = [self._resolve_fetch(leaf) for leaf in nest.flatten(fetches)]
        if feed_dict is not None and not isinstance(feed_dict, Mapping):
            raise TypeError(f"feed_dict: wanted a dictionary of tensors and values, got {type(feed_dict).__name__}")
        feeds = {
            self._resolve_feed(part): each
            for key, value in (feed_dict or {}).items()
            for part, each in (zip(key, value, strict=True) if isinstance(key, tuple) else ((key, value),))
        }
        arrays = {tensor: fed_array(tensor, value) for tensor, value in feeds.items()}
        traced = options_or_default.trace_level != NO_TRACE and run_metadata is not None
        try:
            program = self._program(leaves, tuple(feeds))
            with record_step_stats(run_metadata) if traced and run_metadata is not None else _untraced():
                found = program.run(
                    {tensor: arrays[tensor] for tensor in program.given}, self._new_run(options_or_default)
                )
        except TreadleError as error:
            raise self._with_operation(from_treadle_error(error), error.node) from python_cause(error)
        return nest.pack_sequence_as(fetches, [fetched_value(leaf, found) for leaf in leaves])

    def make_callable(self, fetches: Any, feed_list: Sequence[Any] = (), accept_options: bool = False) -> Any:
        """Return a function that runs `fetches`. See tf.compat.v1.Session in TensorFlow's documentation.

        Args:
            fetches: as for run().
            feed_list: the tensors whose values the function takes, in order.
            accept_options: has no effect; the function always takes `options` and `run_metadata`.
        """
        keys = list(feed_list)

        def call(*values: Any, options: Any = None, run_metadata: Any = None) -> Any:
            if len(values) != len(keys):
                raise ValueError(f"this callable takes {len(keys)} values, got {len(values)}")
            return self.run(fetches, dict(zip(keys, values, strict=True)), options, run_metadata)

        return call

    def _with_operation(self, error: OpError, node: str | None) -> OpError:
        """Return `error` with the operation that failed, if `node` is its name."""
        if error.op is None and node is not None:
            try:
                error.op = self.graph.get_operation_by_name(node)
                error.node_def = error.op.node_def
            except (KeyError, ValueError):
                pass  # it is the name of a part of an operation
        return error

    def _new_run(self, options_or_default: RunOptions) -> Run:
        milliseconds = options_or_default.timeout_in_ms or self._config.operation_timeout_in_ms
        timeout = milliseconds / 1000 if milliseconds > 0 else None
        number = options_or_default.inter_op_thread_pool
        single = self._config.experimental.executor_type == "SINGLE_THREADED_EXECUTOR"
        negative = single or self._config.inter_op_parallelism_threads < 0
        if number == -1:
            return Run(self.store, 1, None, timeout, counts=self._counts)
        if number < -1 or number >= max(1, len(self._pools)):
            raise InvalidArgumentError(None, None, f"Invalid inter_op_thread_pool: {number}")
        pool = self._pools[number] if self._pools else None
        return Run(self.store, 1 if negative else None, pool, timeout, counts=self._counts)

    def _resolve_fetch(self, leaf: Any) -> Any:
        if isinstance(leaf, str):
            try:
                return self.graph.as_graph_element(leaf)
            except (KeyError, ValueError) as error:
                raise ValueError(f"Argument `fetch` = {leaf} cannot be interpreted as a Tensor. ({error})") from None
        if isinstance(leaf, Variable):
            with self._lock:
                if leaf not in self._variable_reads:
                    with self.graph.as_default(), self.graph.control_dependencies(None), self.graph.reopened():
                        self._variable_reads[leaf] = leaf.read_value()
                return self._variable_reads[leaf]
        if not isinstance(leaf, (Tensor, Operation, EagerTensor)):
            raise TypeError(
                f"Fetch argument {leaf!r} has invalid type {type(leaf).__name__}, must be a string, Tensor, Operation "
                "or Variable, or a list, tuple or dict of these."
            )
        if not isinstance(leaf, EagerTensor) and leaf.graph is not self.graph:
            raise ValueError(f"Fetch argument {leaf!r} is not an element of this session's graph.")
        return leaf

    def _resolve_feed(self, key: Any) -> Tensor:
        try:
            found = self._resolve_fetch(key)
        except (TypeError, ValueError) as error:
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {error}") from None
        if not isinstance(found, Tensor):
            raise TypeError(f"Cannot interpret feed_dict key as Tensor: {key!r}")
        return found

    def _program(self, leaves: list[Any], fed: tuple[Tensor, ...]) -> Program:
        key = (tuple(leaf for leaf in leaves if not isinstance(leaf, EagerTensor)), frozenset(fed))
        with self._lock:
            found = self._programs.get(key)
            if found is None:
                wanted = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
                ops = closure(wanted, [leaf for leaf in leaves if isinstance(leaf, Operation)], fed)
                self._place_ops(ops)
                read = {tensor for op in ops for tensor in op.inputs} | set(wanted)
                found = self._programs[key] = Program(ops, [tensor for tensor in fed if tensor in read], wanted)
            return found

    def _place_ops(self, ops: list[Operation]) -> None:
        soft = self._config.allow_soft_placement
        for op in ops:
            device = placement.resolve_device(op.device, op.name, soft=soft, cpus=self._cpus)
            if self._config.log_device_placement and op not in self._logged:
                self._logged.add(op)
                sys.stderr.write(f"{op.name}: ({op.type}): {device}\n")

    def list_devices(self) -> list[devices.LogicalDevice]:
        """Return the session's logical CPUs."""
        return [devices.LogicalDevice(placement.cpu_name(number), "CPU") for number in range(self._cpus)]

    def as_default(self) -> AbstractContextManager[Session]:
        """Make it the default session, and its graph the default graph, of the block.

        See tf.compat.v1.Session in TensorFlow's documentation.
        """
        return _DefaultScope(self)

    def close(self) -> None:
        """Release compiled programs and the values of variables. Later runs raise RuntimeError."""
        if self._closed:
            return
        self._closed = True
        if self._holds_graph_mode:
            context.session_closed()
        self._programs.clear()
        self.store = Store()
        self._counts = Counts()

    def __enter__(self) -> Self:
        stack = ExitStack()
        stack.enter_context(_DefaultScope(self))
        self._exit_stacks.append(stack)
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stacks.pop().close()
        self.close()


class InteractiveSession(Session):
    """A session that is the default one of its thread until it is closed.

    See tf.compat.v1.InteractiveSession in TensorFlow's documentation.
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: ConfigProto | None = None) -> None:
        super().__init__(target, graph, config)
        CURRENT.sessions.append(self)

    def close(self) -> None:
        """Release its resources; it is no longer the default session."""
        CURRENT.sessions = [session for session in CURRENT.sessions if session is not self]
        super().close()


class _DefaultScope(AbstractContextManager[Session]):
    def __init__(self, session: Session) -> None:
        self._session = session
        self._graph = session.graph.as_default()

    def __enter__(self) -> Session:
        CURRENT.sessions.append(self._session)
        self._graph.__enter__()
        return self._session

    def __exit__(self, *_: object) -> None:
        self._graph.__exit__(None, None, None)
        CURRENT.sessions.pop()


def _untraced() -> AbstractContextManager[None]:
    return nullcontext()


def fed_array(tensor: Tensor, value: Any) -> Array:
    """Return a fed value as an array of the dtype of the tensor. Raises TypeError or ValueError if it does not fit."""
    if isinstance(value, Tensor):
        raise TypeError("The value of a feed cannot be a tf.Tensor object; run it first and feed the result.")
    if isinstance(value, int) and tensor.dtype.is_integer and not _fits_dtype(tensor.dtype.core.numpy, value):
        raise TypeError(
            f"Type of feed value {value} with type {type(value)} is not compatible with Tensor type {tensor.dtype!r}. "
            "Try explicitly setting the type of the feed tensor to a larger type (e.g. int64)."
        )
    if tensor.dtype.name == "string":
        array = array_of(value)
    else:
        array = np.asarray(value, dtype=tensor.dtype.core.numpy, order="C")
    if not tensor.shape.is_compatible_with(array.shape):
        raise ValueError(
            f"Cannot feed value of shape {array.shape} for Tensor {tensor.name}, which has shape {tensor.shape}"
        )
    return array


def _fits_dtype(dtype: Any, number: int) -> bool:
    limits = np.iinfo(dtype)
    return bool(limits.min <= number <= limits.max)


def fetched_value(leaf: Any, found: dict[Tensor, Array]) -> Any:
    """Return the value of a fetch: None for an operation, a NumPy scalar or array for a tensor."""
    if isinstance(leaf, Operation):
        return None
    if isinstance(leaf, EagerTensor):
        return leaf.numpy()
    array = found[leaf]
    return array if array.ndim else array[()]
