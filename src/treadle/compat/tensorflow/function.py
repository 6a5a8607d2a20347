"""tf.function: Python functions traced to graphs, one graph for each signature."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from treadle import forking
from treadle.compat.signatures import float_part
from treadle.compat.tensorflow import context, nest
from treadle.compat.tensorflow.autograph import convert
from treadle.compat.tensorflow.convert import convert_to_tensor, frozen
from treadle.compat.tensorflow.errors import from_treadle_error, python_cause
from treadle.compat.tensorflow.func_graph import FuncGraph
from treadle.compat.tensorflow.program import Program
from treadle.compat.tensorflow.shape import TensorSpec
from treadle.compat.tensorflow.state import EAGER, Counted, Counts, Run
from treadle.compat.tensorflow.tensor import EagerTensor, Tensor
from treadle.errors import TreadleError


class _Process:
    run_eagerly = False


_process = _Process()


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Run every tf.function as plain Python, op by op, for debugging.

    See tf.config.run_functions_eagerly in TensorFlow's documentation.
    """
    _process.run_eagerly = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """Return whether every tf.function runs as plain Python.

    See tf.config.functions_run_eagerly in TensorFlow's documentation.
    """
    return _process.run_eagerly


class ConcreteFunction(Counted):
    """A function traced for one signature; call it with tensors of these dtypes and shapes."""

    def __init__(self, graph: FuncGraph, program: Program, name: str) -> None:
        self.graph = graph
        self.name = name
        self._counts = Counts()
        self._program = program
        self._referenced: list[Any] = []  # objects whose ids are in the signature

    @property
    def inputs(self) -> list[Tensor]:
        """The placeholders of the arguments."""
        return list(self.graph.parameters)

    @property
    def outputs(self) -> list[Tensor]:
        """The results, as tensors of the graph."""
        return list(self.graph.results)

    @property
    def structured_outputs(self) -> Any:
        """The results in the structure that the function returns."""
        return self.graph.structure

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function.

        Returns:
            Eager tensors in the structure that the function returns.

        Raises:
            TypeError: a wrong number of tensors, or a value that cannot be converted.
            ValueError: a tensor of another dtype or shape.
            tf.errors.OpError: the run failed.
        """
        leaves = nest.flatten((args, kwargs))
        if len(leaves) != len(self.graph.parameters):
            raise TypeError(f"{self.name} takes {len(self.graph.parameters)} tensors, got {len(leaves)}")
        given = [convert_to_tensor(leaf, p.dtype) for leaf, p in zip(leaves, self.graph.parameters, strict=True)]
        return self.run([np.asarray(tensor) for tensor in given])

    def run(self, arrays: list[Any]) -> Any:
        """Return the results for the arrays of the arguments."""
        for parameter, array in zip(self.graph.parameters, arrays, strict=True):
            if not parameter.shape.is_compatible_with(array.shape):
                raise ValueError(
                    f"{self.name} takes shape {parameter.shape} for {parameter.op.name}, got {array.shape}"
                )
        try:
            found = self._program.run(
                dict(zip(self.graph.parameters, arrays, strict=True)), Run(EAGER, counts=self._counts)
            )
        except TreadleError as error:
            raise from_treadle_error(error) from python_cause(error)
        results = iter([EagerTensor(frozen(found[tensor])) for tensor in self.graph.results])
        form = [
            None if leaf is None or _is_operation(leaf) else next(results)
            for leaf in nest.flatten(self.graph.structure)
        ]
        return nest.pack_sequence_as(self.graph.structure, form)


class Function:
    """A Python function that runs as a graph. See tf.function in TensorFlow's documentation.

    The Python code runs while the function is traced, once for each signature. With `autograph`, `if`, `while` and
    `for` over tensors become parts of the graph. Variables may be created in the first trace only. Called while a graph
    is built, the function becomes part of that graph.
    """

    def __init__(self, function: Callable[..., Any], input_signature: Any = None, *, autograph: bool = True) -> None:
        functools.update_wrapper(self, function)
        self.python_function = function
        self._name = str(getattr(function, "__name__", function))
        self.input_signature = None if input_signature is None else tuple(input_signature)
        self._signature = _signature(function)
        self._autograph = autograph
        self._converted: Callable[..., Any] | None = None
        self._traced: dict[Any, ConcreteFunction] = {}
        self._traces = 0
        self._bound: dict[int, Function] = {}
        self._owner: weakref.ref[Any] | None = None
        self._lock = forking.lock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """Return the function of an instance, which has its own traces and does not keep the instance alive."""
        if instance is None:
            return self
        key = id(instance)
        if key not in self._bound:
            bound = Function(self.python_function, self.input_signature, autograph=self._autograph)
            bound._owner = weakref.ref(instance, lambda _: self._bound.pop(key, None))
            if self._signature is not None:
                bound._signature = self._signature.replace(parameters=[*self._signature.parameters.values()][1:])
            self._bound[key] = bound
        return self._bound[key]

    def _self_argument(self) -> tuple[Any, ...]:
        """Return the instance as a tuple, empty if the function is not a method."""
        return () if self._owner is None else (self._owner(),)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the function, tracing it first for a new signature.

        Returns:
            Eager tensors in the structure that the function returns.

        Raises:
            TypeError: arguments that do not fit the function or its input signature.
            ValueError: the code cannot become a graph; the error names file, function and line.
            tf.errors.OpError: the run failed.
        """
        leaves = nest.flatten((args, kwargs))
        if context.current_graph() is not None or any(isinstance(leaf, Tensor) for leaf in leaves):
            return self._traceable()(*self._self_argument(), *args, **kwargs)
        if _process.run_eagerly:
            return self.python_function(*self._self_argument(), *args, **kwargs)
        structure, given = self._arguments(args, kwargs)
        arrays = [np.asarray(leaf) for leaf in given if isinstance(leaf, EagerTensor)]
        return self._trace(structure, given).run(arrays)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> ConcreteFunction:
        """Return the function traced for these arguments, of which any may be a TensorSpec.

        Without arguments it is traced for the input signature.
        """
        if self.input_signature is not None and not args and not kwargs:
            return self._trace((self.input_signature, {}), nest.flatten(self.input_signature))
        return self._trace(*self._arguments(args, kwargs))

    @property
    def native_runs(self) -> int:
        """How many native runs the calls so far took: one each, unless Python stands between their parts."""
        return sum(traced.native_runs for traced in list(self._traced.values()))

    @property
    def compiles(self) -> int:
        """How many plans were compiled for the calls so far."""
        return sum(traced.compiles for traced in list(self._traced.values()))

    def experimental_get_tracing_count(self) -> int:
        """Return how often the function has been traced."""
        return self._traces

    def _arguments(self, args: Any, kwargs: Any) -> tuple[Any, list[Any]]:
        """Return the arguments in a canonical structure, and its leaves with arrays as tensors.

        Raises TypeError for arguments that do not fit the function or its input signature.
        """
        if self._signature is not None:
            bound = self._signature.bind(*args, **kwargs)
            bound.apply_defaults()
            args, kwargs = bound.args, bound.kwargs
            if self.input_signature is not None:
                _check_rest(bound, len(self.input_signature))
                args = args[: len(self.input_signature)]
        if self.input_signature is None:
            return (args, kwargs), [
                convert_to_tensor(leaf) if isinstance(leaf, (EagerTensor, np.ndarray, np.generic)) else leaf
                for leaf in nest.flatten((args, kwargs))
            ]
        specs = nest.flatten(self.input_signature)
        leaves = nest.flatten_up_to(self.input_signature, args)
        return (self.input_signature, {}), [_cast(*pair) for pair in zip(leaves, specs, strict=True)]

    def _traceable(self) -> Callable[..., Any]:
        """Return the function to trace, rewritten by autograph."""
        with self._lock:
            if self._converted is None:
                self._converted = convert(self.python_function) if self._autograph else self.python_function
            return self._converted

    def _trace(self, structure: Any, leaves: list[Any]) -> ConcreteFunction:
        specs = leaves if self.input_signature is None else nest.flatten(self.input_signature)
        key = (nest.structure_of(structure), tuple(_key(leaf) for leaf in specs))
        with self._lock:
            if key not in self._traced:
                found = self._trace_graph(structure, specs, may_create_variables=not self._traced)
                if found.graph.created_variables:
                    found = self._trace_graph(structure, specs, may_create_variables=False)
                found._referenced = list(leaves)  # noqa: SLF001 - it was created here
                self._traced[key] = found
            return self._traced[key]

    def _trace_graph(self, structure: Any, specs: list[Any], *, may_create_variables: bool) -> ConcreteFunction:
        graph = FuncGraph(None)
        graph.may_create_variables = may_create_variables
        with graph.as_default():
            given = [
                graph.parameter(
                    graph.describer.described(leaf.dtype.core, leaf.shape.dims),
                    getattr(leaf, "name", None) or f"arg{number}",
                )
                if isinstance(leaf, (EagerTensor, TensorSpec))
                else leaf
                for number, leaf in enumerate(specs)
            ]
        graph.parameters = [leaf for leaf in given if isinstance(leaf, Tensor)]
        args, kwargs = nest.pack_sequence_as(structure, given)
        self._traces += 1
        graph.trace(self._traceable(), *self._self_argument(), *args, **kwargs)
        return ConcreteFunction(graph, graph.program(effects=True), self._name)


def _signature(function: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def _check_rest(bound: inspect.BoundArguments, signed: int) -> None:
    """Raise TypeError unless the arguments after the first `signed` ones have their defaults.

    The input signature does not describe them, so the function is traced with the defaults.
    """
    count = len(bound.args)
    if signed > count:
        raise TypeError(f"input_signature describes {signed} arguments, but the function takes {count}")
    for at, parameter in enumerate(bound.signature.parameters.values()):
        value, default = bound.arguments.get(parameter.name), parameter.default
        if parameter.kind is parameter.VAR_POSITIONAL:
            fits = count <= max(at, signed)
        elif parameter.kind is parameter.VAR_KEYWORD:
            fits = not value
        else:
            signs = at < signed and parameter.kind is not parameter.KEYWORD_ONLY
            fits = signs or value is default or (type(value) is type(default) and value == default)
        if not fits:
            raise TypeError(
                "Binding inputs to tf.function failed: the input signature has no TensorSpec for "
                f"{parameter.name!r}, so it keeps its default; got {value!r}"
            )


def _cast(leaf: Any, spec: TensorSpec) -> Any:
    """Convert an argument to a tensor that `spec` describes. Raises TypeError if that is impossible."""
    if isinstance(leaf, TensorSpec):
        return leaf
    try:
        tensor = convert_to_tensor(leaf, spec.dtype)
    except (TypeError, ValueError) as error:
        raise TypeError(f"Binding inputs to tf.function failed: {leaf!r} does not fit {spec!r}: {error}") from None
    if not spec.shape.is_compatible_with(tensor.shape):
        raise TypeError(f"Binding inputs to tf.function failed: shape {tensor.shape} does not fit {spec!r}")
    return tensor


def _is_operation(leaf: Any) -> bool:
    return hasattr(leaf, "control_inputs")


def _key(leaf: Any) -> Any:
    """Return the part of a signature for one argument: dtype and shape, or a Python value (by id if unhashable)."""
    if isinstance(leaf, (EagerTensor, TensorSpec)):
        return leaf.dtype.name, leaf.shape
    try:
        hash(leaf)
    except TypeError:
        return "object", id(leaf)
    return type(leaf).__name__, float_part(leaf) if isinstance(leaf, float) else leaf


def function(
    func: Callable[..., Any] | None = None, input_signature: Any = None, autograph: bool = True, **_: Any
) -> Any:
    """Turn `func` into a function that runs as a graph. It is also a decorator with arguments.

    See tf.function in TensorFlow's documentation.

    Args:
        func: the Python function; None when used as a decorator with arguments.
        input_signature: TensorSpecs of the arguments, for a single trace; None to trace for each signature.
        autograph: rewrite `if`, `while`, `for` and boolean operators over tensors. False leaves them to Python.

    Other arguments are accepted and have no effect.

    Returns:
        A Function, or a decorator if `func` is None.

    Example:
        @tf.function
        def step(x):
            return tf.reduce_sum(x * x) if tf.rank(x) > 0 else x
    """
    if func is None:
        return lambda later: Function(later, input_signature, autograph=autograph)
    return Function(func, input_signature, autograph=autograph)
