"""All public names: the namespaces tf, tf.nn, tf.compat.v1, ... are built from this table."""

from __future__ import annotations

import functools
from typing import Any

from treadle.compat.calls import CLOSE
from treadle.compat.tensorflow import (
    assertions,
    autograph,
    config,
    context,
    control_flow,
    convert,
    devices,
    dtypes,
    errors,
    function,
    functional,
    gfile,
    graph,
    graph_def,
    initializers,
    loop_options,
    module,
    nest,
    placeholders,
    python_ops,
    random,
    scopes,
    session,
    shape,
    tensor,
    tensor_array,
    tensor_like,
    threading,
    variable,
    variable_scope,
)
from treadle.compat.tensorflow.table import OPS, names
from treadle.frontends.tensorflow import messages


class Namespace:
    """A namespace such as `tf.nn`. dir() lists its names; the error for a missing one says what to use instead."""

    def __init__(self, path: str, members: dict[str, Any]) -> None:
        self.__name__ = path
        self.__dict__.update(members)

    def __getattr__(self, name: str) -> Any:
        raise absent(self.__name__, name, list(self.__dict__))

    def __dir__(self) -> list[str]:
        return sorted(name for name in self.__dict__ if not name.startswith("_"))

    def __repr__(self) -> str:
        return f"<namespace {self.__name__}: {', '.join(dir(self))}>"


_TRAINING = "train elsewhere: treadle runs graphs and computes no gradients"
_LOOP = "write the loop in a tf.function (`for x in xs:` over a tensor), or use tf.while_loop"
_NUMPY = "use tf.numpy_function with NumPy's own"
_DENSE = "use dense tensors: tf.scatter_nd makes one of indices and values"

INSTEAD = {
    "keras": "build the layers of tf.nn ops and tf.Variable, or export the model to ONNX and use treadle.Session",
    "layers": "use tf.nn ops with tf.Variable or tf.compat.v1.get_variable",
    "estimator": "call tf.Session or tf.function yourself",
    "data": "iterate over NumPy arrays in Python",
    "contrib": "use tf.nn ops",
    "distribute": "run one process for each part, or several sessions: all share one team of threads",
    "saved_model": 'freeze the model (see the guide) and use treadle.Session("model.pb"), or export it to ONNX',
    "summary": "write what you want to see yourself; RunMetadata.step_stats has the times of ops",
    "profiler": "use RunOptions(trace_level=RunOptions.FULL_TRACE), or treadle's trace",
    "test": "use pytest and numpy.testing",
    "app": "call main() yourself", "flags": "use argparse", "logging": "use Python's logging",
    "vectorized_map": "use tf.map_fn",
    "resize": "use tf.image.resize_bilinear, resize_bicubic or resize_nearest_neighbor",
    "dynamic_rnn": _LOOP,
    "train": f"{_TRAINING}; instead of tf.train.Coordinator use Python's threads: any number of them may run one "
    "session",
    **dict.fromkeys(("GradientTape", "gradients", "custom_gradient", "hessians", "losses", "metrics", "optimizers",
                     "recompute_grad"), _TRAINING),
    **dict.fromkeys((
        "bincount", "searchsorted", "histogram_fixed_width", "cumprod", "fft",
        "signal", "inv", "det", "svd", "qr", "cholesky", "solve", "eigh", "lgamma", "digamma", "atan2", "cross",
        "segment_sum", "unsorted_segment_sum", "dynamic_partition", "dynamic_stitch", "confusion_matrix",
        "polyval", "setdiff1d",
    ), _NUMPY),
    **dict.fromkeys(("strings", "as_string", "regex_replace", "string_split", "string_join", "lookup"),
                    "use Python's text in a tf.numpy_function (it gets and gives bytes)"),
    **dict.fromkeys(("SparseTensor", "sparse", "sparse_placeholder", "IndexedSlices", "ragged",
                     "RaggedTensor"), _DENSE),
    **dict.fromkeys(("complex64", "complex128", "complex", "real", "imag", "conj"), "use two real tensors"),
    **dict.fromkeys(("Generator", "categorical", "multinomial", "gamma", "poisson", "stateless_uniform",
                     "stateless_normal"),
                    "use tf.random.normal or tf.random.uniform, or numpy.random in a tf.numpy_function"),
}  # fmt: skip
"""Well-known names that the facade does not have, and what to do instead."""


LIKE = (
    ("sparse", _DENSE), ("ragged", _DENSE), ("grad", _TRAINING), ("loss", _TRAINING), ("sampler", _TRAINING),
    ("quant", "quantise an ONNX model and use treadle.Session"), ("segment", _NUMPY), ("fft", _NUMPY),
    ("histogram", _NUMPY),
    ("linalg", _NUMPY), ("linearoperator", _NUMPY), ("eig", _NUMPY), ("reader", "read files in Python and feed arrays"),
    ("queue", "read files in Python and feed arrays"),
    ("assert_", "use tf.debugging.Assert or tf.debugging.assert_equal"),
    ("enable_", "leave it out: treadle has no such switch"), ("disable_", "leave it out: treadle has no such switch"),
    ("image", "do it to the arrays before they are fed, or in a tf.numpy_function"), ("version", "use tf.__version__"),
)  # fmt: skip
"""Advice for other missing names, by a part of the full name in lower case."""


def absent(path: str, name: str, existing: list[str]) -> AttributeError:
    """Return the error for a missing name: where it is instead, or which names are similar, if there are any."""
    import difflib

    elsewhere = [full for full in PUBLIC if full.rpartition(".")[2] == name]
    close = difflib.get_close_matches(name, existing, 3, CLOSE)
    if name in INSTEAD:
        advice = INSTEAD[name]
    elif elsewhere:
        advice = f"use {' or '.join(f'tf.{full}' for full in elsewhere[:3])}"
    elif close:
        advice = f"did you mean {' or '.join(close)}?"
    else:
        full = f"{path}.{name}".lower()
        advice = next((text for part, text in LIKE if part in full), "")
    return AttributeError(f"{path} of treadle has no {name!r}{advice and f': {advice}'}", name=name)


_ERRORS = {f"errors.{name}": kind for name, kind in vars(errors).items() if isinstance(kind, type)}

BOTH: dict[str, Any] = {
    **{name: OPS[op.name] for op in OPS.values() for name in names(op) if not name.startswith("_")},
    **dtypes.BY_NAME,
    **{name: kind for name, kind in _ERRORS.items() if issubclass(kind, (errors.OpError, TypeError))},
    **{f"errors.{name}": code for name, code in errors.CODES.items()},
    "DType": dtypes.DType,
    "Graph": graph.Graph,
    "Operation": graph.Operation,
    "Tensor": tensor_like.TensorLike,
    "TensorArray": tensor_array.TensorArray,
    "TensorShape": shape.TensorShape,
    "TensorSpec": shape.TensorSpec,
    "Variable": variable.Variable,
    **{f"debugging.{name}": check for name, check in assertions.CHECKS.items()},
    **{f"dtypes.{name}": dtype for name, dtype in dtypes.BY_NAME.items()},
    "Assert": assertions.Assert,
    "Module": module.Module,
    "as_dtype": dtypes.as_dtype,
    "assert_equal": assertions.CHECKS["assert_equal"],
    "assert_greater": assertions.CHECKS["assert_greater"],
    "assert_less": assertions.CHECKS["assert_less"],
    "case": control_flow.case,
    "debugging.Assert": assertions.Assert,
    "double": dtypes.BY_NAME["float64"],
    "dtypes.as_dtype": dtypes.as_dtype,
    "dtypes.cast": OPS["cast"],
    "half": dtypes.BY_NAME["float16"],
    "init_scope": context.eagerly_outside,
    "autograph.experimental.do_not_convert": autograph.do_not_convert,
    "autograph.experimental.set_loop_options": loop_options.set_loop_options,
    "cond": control_flow.cond,
    "constant": convert.constant,
    "control_dependencies": control_flow.control_dependencies,
    "convert_to_tensor": convert.convert_to_tensor,
    "device": devices.device,
    "executing_eagerly": context.executing_eagerly,
    "foldl": functional.foldl,
    "foldr": functional.foldr,
    "function": function.function,
    "get_static_value": tensor.constant_value,
    "group": control_flow.group,
    "graph_util.import_graph_def": graph_def.import_graph_def,
    "import_graph_def": graph_def.import_graph_def,
    "io.gfile.GFile": gfile.GFile,
    "is_tensor": convert.is_tensor,
    "map_fn": functional.map_fn,
    "nest.assert_same_structure": nest.assert_same_structure,
    "nest.flatten": nest.flatten,
    "nest.is_nested": nest.is_nested,
    "nest.map_structure": nest.map_structure,
    "nest.pack_sequence_as": nest.pack_sequence_as,
    "nn.dropout": random.dropout,
    "newaxis": None,
    "no_op": control_flow.no_op,
    "numpy_function": python_ops.numpy_function,
    "print": python_ops.print_,
    "py_function": python_ops.py_function,
    "random.normal": random.normal,
    "random.set_seed": random.set_seed,
    "random.shuffle": random.shuffle,
    "random.truncated_normal": random.truncated_normal,
    "random.uniform": random.uniform,
    "scan": functional.scan,
    "switch_case": control_flow.switch_case,
    "tuple": control_flow.tuple_,
    "while_loop": control_flow.while_loop,
    "config.experimental.list_logical_devices": devices.list_logical_devices,
    "config.experimental.list_physical_devices": devices.list_physical_devices,
    "config.get_visible_devices": devices.get_visible_devices,
    "config.experimental.get_visible_devices": devices.get_visible_devices,
    "config.set_visible_devices": devices.set_visible_devices,
    "config.experimental.set_visible_devices": devices.set_visible_devices,
    "config.experimental.enable_op_determinism": devices.enable_op_determinism,
    "config.experimental.set_memory_growth": devices.set_memory_growth,
    "config.functions_run_eagerly": function.functions_run_eagerly,
    "config.run_functions_eagerly": function.run_functions_eagerly,
    "config.get_soft_device_placement": devices.get_soft_device_placement,
    "config.list_logical_devices": devices.list_logical_devices,
    "config.list_physical_devices": devices.list_physical_devices,
    "config.set_soft_device_placement": devices.set_soft_device_placement,
    "config.threading.get_inter_op_parallelism_threads": threading.get_inter_op_parallelism_threads,
    "config.threading.get_intra_op_parallelism_threads": threading.get_intra_op_parallelism_threads,
    "config.threading.set_inter_op_parallelism_threads": threading.set_inter_op_parallelism_threads,
    "config.threading.set_intra_op_parallelism_threads": threading.set_intra_op_parallelism_threads,
    "constant_initializer": initializers.Constant,
    "ones_initializer": initializers.Ones,
    "random_normal_initializer": initializers.RandomNormal,
    "random_uniform_initializer": initializers.RandomUniform,
    "zeros_initializer": initializers.Zeros,
}
"""Names in both tf and tf.compat.v1."""


def name_scope(name: str | None, default_name: str | None = None, values: Any = None) -> Any:
    """Prefix the names of operations in the block with "<name>/"; no effect eagerly.

    See tf.name_scope in TensorFlow's documentation.
    """
    from contextlib import nullcontext

    current = context.current_graph()
    return nullcontext(name) if current is None else current.name_scope(name or default_name)


V1: dict[str, Any] = {
    **{name: assertions.assert_v1(check) for name, check in assertions.CHECKS.items()},
    "AUTO_REUSE": variable_scope.AUTO_REUSE,
    "ConfigProto": config.ConfigProto,
    "GPUOptions": config.GPUOptions,
    "GraphDef": messages.GraphDef,
    "GraphOptions": config.GraphOptions,
    "InteractiveSession": session.InteractiveSession,
    "NodeDef": messages.NodeDef,
    "OptimizerOptions": config.OptimizerOptions,
    "RunMetadata": config.RunMetadata,
    "RunOptions": config.RunOptions,
    "Session": session.Session,
    "ThreadPoolOptionProto": config.ThreadPoolOptionProto,
    "GraphKeys": variable_scope.GraphKeys,
    "VariableScope": variable_scope.VariableScope,
    "add_to_collection": variable_scope.add_to_collection,
    "assign": variable_scope.assign,
    "assign_add": variable_scope.assign_add,
    "assign_sub": variable_scope.assign_sub,
    "cond": control_flow.cond_v1,
    "disable_eager_execution": context.disable_eager_execution,
    "disable_v2_behavior": context.disable_eager_execution,
    "enable_eager_execution": context.enable_eager_execution,
    "get_default_graph": context.get_default_graph,
    "get_default_session": scopes.get_default_session,
    "get_collection": variable_scope.get_collection,
    "get_variable": variable_scope.get_variable,
    "get_variable_scope": variable_scope.get_variable_scope,
    "glorot_uniform_initializer": initializers.GlorotUniform,
    "local_variables_initializer": variable.local_variables_initializer,
    "tables_initializer": control_flow.no_op,
    "to_double": functools.partial(OPS["cast"], dtype="float64"),
    "to_float": functools.partial(OPS["cast"], dtype="float32"),
    "to_int32": functools.partial(OPS["cast"], dtype="int32"),
    "to_int64": functools.partial(OPS["cast"], dtype="int64"),
    "variable_scope": variable_scope.variable_scope,
    "while_loop": control_flow.while_loop_v1,
    "gfile.FastGFile": gfile.GFile,
    "gfile.GFile": gfile.GFile,
    "global_variables": variable.global_variables,
    "global_variables_initializer": variable.global_variables_initializer,
    "initializers.global_variables": variable.global_variables_initializer,
    "nn.dropout": random.dropout_v1,
    "nn.embedding_lookup": functools.partial(OPS["nn.embedding_lookup"], partition_strategy="mod"),
    "placeholder": placeholders.placeholder,
    "placeholder_with_default": placeholders.placeholder_with_default,
    "py_func": python_ops.py_func,
    "where": OPS["_select"],
    "random_normal": random.normal,
    "random_shuffle": random.shuffle,
    "random_uniform": random.uniform,
    "reset_default_graph": context.reset_default_graph,
    "set_random_seed": random.set_seed,
    "trainable_variables": variable.trainable_variables,
    "truncated_normal": random.truncated_normal,
    "truncated_normal_initializer": initializers.TruncatedNormal,
    "variables_initializer": variable.variables_initializer,
}
"""Names of TensorFlow 1: in tf.compat.v1, and in tf where TensorFlow 2 has none of the name."""

BOTH["name_scope"] = name_scope
FIRST: dict[str, Any] = {**BOTH, **V1}
"""Names of tf.compat.v1."""

PUBLIC: dict[str, Any] = {**V1, **BOTH}
"""Names of tf. Where both versions have one, it is that of TensorFlow 2."""


def tree(members: dict[str, Any], path: str) -> dict[str, Any]:
    """Return `members` by the first part of their names; the rest forms namespaces."""
    found: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for name, member in members.items():
        head, dot, rest = name.partition(".")
        if dot:
            nested.setdefault(head, {})[rest] = member
        else:
            found[head] = member
    found.update((head, Namespace(f"{path}.{head}", tree(inner, f"{path}.{head}"))) for head, inner in nested.items())
    return found
