"""TensorFlow 1's variables by name: scopes, get_variable, and functions that assign."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from treadle.compat.tensorflow import context
from treadle.compat.tensorflow.graph import Graph
from treadle.compat.tensorflow.initializers import GlorotUniform
from treadle.compat.tensorflow.variable import Variable

AUTO_REUSE = "AUTO_REUSE"
"""reuse=: share the variable of a name if there is one, else create it."""

_STORE = "_variables_by_name"


@dataclass(frozen=True, slots=True)
class VariableScope:
    """A scope of get_variable: the prefix of names, whether variables are shared, and the default initializer."""

    name: str
    reuse: Any = None
    initializer: Any = None

    def reuse_variables(self) -> None:
        """Share variables in this scope from now on."""
        scopes = context.get_default_graph().scopes
        scopes[:] = [VariableScope(s.name, True, s.initializer) if s is self else s for s in scopes]


def get_variable_scope() -> VariableScope:
    """Return the innermost variable scope. See tf.compat.v1.get_variable_scope in TensorFlow's documentation."""
    scopes = context.get_default_graph().scopes
    return scopes[-1] if scopes else VariableScope("")


@contextmanager
def variable_scope(
    name_or_scope: Any,
    default_name: str | None = None,
    values: Any = None,
    initializer: Any = None,
    reuse: Any = None,
    auxiliary_name_scope: bool = True,
    **_: Any,
) -> Iterator[VariableScope]:
    """Prefix the names of variables of get_variable, and of operations, in the block.

    See tf.compat.v1.variable_scope in TensorFlow's documentation.

    Args:
        name_or_scope: a name, or a VariableScope to enter again.
        default_name: the name where `name_or_scope` is None; made unique.
        values: has no effect.
        initializer: the default initializer of variables.
        reuse: True shares variables, AUTO_REUSE those that exist; None as the scope around it.
        auxiliary_name_scope: whether names of operations get the prefix too.

        Other arguments are accepted and have no effect.

    Raises:
        ValueError: neither a name nor a default name.
    """
    graph, outer = context.get_default_graph(), get_variable_scope()
    own = name_or_scope if isinstance(name_or_scope, VariableScope) else None
    if own is None and not name_or_scope:
        if default_name is None:
            raise ValueError("If default_name is None then name_or_scope is required")
        name_or_scope = _unique_scope(graph, outer, default_name)
    full = own.name if own is not None else f"{outer.name}/{name_or_scope}" if outer.name else str(name_or_scope)
    shared = reuse or (own.reuse if own is not None else None) or outer.reuse
    scope = VariableScope(full, shared, initializer or (own.initializer if own is not None else outer.initializer))
    graph.scopes.append(scope)
    try:
        if auxiliary_name_scope:
            with graph.name_scope(full.rpartition("/")[2]):
                yield scope
        else:
            yield scope
    finally:
        graph.scopes.pop()


def _unique_scope(graph: Graph, outer: VariableScope, name: str) -> str:
    taken = graph.collections.setdefault("_variable_scopes", [])
    found, count = name, 0
    while (full := f"{outer.name}/{found}") in taken:
        count += 1
        found = f"{name}_{count}"
    taken.append(full)
    return found


def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    **_: Any,
) -> Variable:
    """Return the variable `name` of the current scope, created if necessary.

    See tf.compat.v1.get_variable in TensorFlow's documentation.

    Args:
        name: the name inside the scope.
        shape: its shape; required for an initializer that is a function.
        dtype: its element type; None for float32, or that of the initial value.
        initializer: a value, or a function of shape and dtype. None: that of the scope, else Glorot's.
        regularizer: has no effect: there is no training.
        trainable: whether trainable_variables() lists it.
        collections: names of the graph's collections it is added to.

        Other arguments are accepted and have no effect.

    Raises:
        ValueError: it exists and is not to be shared, does not exist and is to be, or has another shape.
    """
    graph, scope = context.get_default_graph(), get_variable_scope()
    full = f"{scope.name}/{name}" if scope.name else name
    store: dict[str, Variable] = graph.collections.setdefault(_STORE, [{}])[0]
    if full in store:
        if not scope.reuse:
            raise ValueError(
                f"Variable {full} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                "VarScope?"
            )
        found = store[full]
        if shape is not None and not found.shape.is_compatible_with(shape):
            raise ValueError(
                f"Trying to share variable {full}, but specified shape {shape} and found shape {found.shape}."
            )
        return found
    if scope.reuse is True:
        raise ValueError(
            f"Variable {full} does not exist, or was not created with tf.get_variable(). Did you mean to set "
            "reuse=tf.AUTO_REUSE in VarScope?"
        )
    maker = initializer if initializer is not None else scope.initializer or GlorotUniform()
    if callable(maker):
        if shape is None:
            raise ValueError(f"Shape of a new variable ({full}) must be fully defined, but instead was <unknown>.")
        with graph.name_scope(f"{full}/Initializer/"):
            first = (maker() if isinstance(maker, type) else maker)(shape, dtype or "float32")
    else:
        first = maker
    with graph.name_scope(None):
        store[full] = Variable(first, trainable is not False, dtype, full, shape, collections)
    return store[full]


def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: Any = None, name: str | None = None
) -> Any:
    """Assign to the variable `ref`; returns the new value. See tf.compat.v1.assign in TensorFlow's documentation."""
    return ref.assign(value)


def assign_add(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Any:
    """Add to the variable `ref`; returns the new value. See tf.compat.v1.assign_add in TensorFlow's documentation."""
    return ref.assign_add(value)


def assign_sub(ref: Any, value: Any, use_locking: Any = None, name: str | None = None) -> Any:
    """Subtract from the variable `ref`; returns the new value.

    See tf.compat.v1.assign_sub in TensorFlow's documentation.
    """
    return ref.assign_sub(value)


class GraphKeys:
    """Names of collections. See tf.compat.v1.GraphKeys in TensorFlow's documentation."""

    GLOBAL_VARIABLES = "variables"
    TRAINABLE_VARIABLES = "trainable_variables"
    LOCAL_VARIABLES = "local_variables"
    SUMMARIES = "summaries"
    LOSSES = "losses"
    REGULARIZATION_LOSSES = "regularization_losses"
    UPDATE_OPS = "update_ops"
    GLOBAL_STEP = "global_step"


def add_to_collection(name: str, value: Any) -> None:
    """Add `value` to a collection of the default graph.

    See tf.compat.v1.add_to_collection in TensorFlow's documentation.
    """
    context.get_default_graph().add_to_collection(name, value)


def get_collection(key: str, scope: str | None = None) -> list[Any]:
    """Return a collection of the default graph. See tf.compat.v1.get_collection in TensorFlow's documentation.

    Args:
        key: the name of the collection.
        scope: return only items whose names start with it.
    """
    found = context.get_default_graph().get_collection(key)
    return found if scope is None else [item for item in found if str(getattr(item, "name", "")).startswith(scope)]
