"""tf.function: Python functions traced to graphs, one for each combination of dtypes, shapes and Python values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from weft import forking
from weft.compat.tensorflow import context, nest
from weft.compat.tensorflow.autograph import converted
from weft.compat.tensorflow.convert import convert_to_tensor, frozen
from weft.compat.tensorflow.errors import python_cause, translated
from weft.compat.tensorflow.func_graph import FuncGraph
from weft.compat.tensorflow.graph import placeholder_forms
from weft.compat.tensorflow.program import Program
from weft.compat.tensorflow.state import EAGER, Run
from weft.compat.tensorflow.tensor import EagerTensor, Tensor
from weft.errors import WeftError


class Function:
    """A function that runs as a graph. Called while a graph is built, it becomes part of that graph.

    Python code runs once, while tracing; with `autograph`, `if`, `while` and `for` over tensors become part of the graph.
    """

    def __init__(self, function: Callable[..., Any], input_signature: Any = None, *, autograph: bool = True) -> None:
        functools.update_wrapper(self, function)
        self.python_function = function
        self._autograph = autograph
        self._converted: Callable[..., Any] | None = None
        self.input_signature = input_signature
        self._traced: dict[Any, tuple[FuncGraph, Program]] = {}
        self._lock = forking.lock()

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results, as eager tensors in the form in which the function returns them."""
        leaves = nest.flatten((args, kwargs))
        if context.current_graph() is not None or any(isinstance(leaf, Tensor) for leaf in leaves):
            return self._staged()(*args, **kwargs)
        given = [convert_to_tensor(leaf) if isinstance(leaf, (EagerTensor, np.ndarray)) else leaf for leaf in leaves]
        graph, program = self._trace((args, kwargs), given)
        arrays = [np.asarray(leaf) for leaf in given if isinstance(leaf, EagerTensor)]
        try:
            found = program.run(dict(zip(graph.parameters, arrays, strict=True)), Run(EAGER))
        except WeftError as error:
            raise translated(error) from python_cause(error)
        results = iter([EagerTensor(frozen(found[tensor])) for tensor in graph.results])
        form = [None if leaf is None or _is_op(leaf) else next(results) for leaf in nest.flatten(graph.structure)]
        return nest.pack_sequence_as(graph.structure, form)

    def get_concrete_function(self, *args: Any, **kwargs: Any) -> FuncGraph:
        """The graph for these arguments."""
        leaves = nest.flatten((args, kwargs))
        given = [convert_to_tensor(leaf) if isinstance(leaf, (EagerTensor, np.ndarray)) else leaf for leaf in leaves]
        return self._trace((args, kwargs), given)[0]

    def _staged(self) -> Callable[..., Any]:
        """The function as it is traced."""
        with self._lock:
            if self._converted is None:
                self._converted = converted(self.python_function) if self._autograph else self.python_function
            return self._converted

    def _trace(self, structure: Any, leaves: list[Any]) -> tuple[FuncGraph, Program]:
        key = tuple(
            (leaf.dtype.name, leaf.shape) if isinstance(leaf, EagerTensor) else _comparable(leaf) for leaf in leaves
        )
        with self._lock:
            if key not in self._traced:
                graph = FuncGraph(None)
                with graph.as_default():
                    given = [
                        graph.parameter(placeholder_forms(leaf.dtype.core, leaf.shape), f"arg{number}")
                        if isinstance(leaf, EagerTensor)
                        else leaf
                        for number, leaf in enumerate(leaves)
                    ]
                graph.parameters = [leaf for leaf in given if isinstance(leaf, Tensor)]
                args, kwargs = nest.pack_sequence_as(structure, given)
                graph.trace(self._staged(), *args, **kwargs)
                self._traced[key] = graph, graph.program(effects=True)
            return self._traced[key]


def _is_op(leaf: Any) -> bool:
    return hasattr(leaf, "control_inputs")


def _comparable(leaf: Any) -> Any:
    """A Python value as part of a key: by value if it can be, else by identity."""
    try:
        hash(leaf)
    except TypeError:
        return ("object", id(leaf))
    return (type(leaf).__name__, leaf)


def function(
    func: Callable[..., Any] | None = None, input_signature: Any = None, autograph: bool = True, **_: Any
) -> Any:
    """Let `func` run as a graph; also as a decorator with arguments."""
    if func is None:
        return lambda later: Function(later, input_signature, autograph=autograph)
    return Function(func, input_signature, autograph=autograph)
