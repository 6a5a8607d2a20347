"""Control dependencies, branches and loops.

Branches and loops run in the native core where nothing in them needs Python; else Python drives them, and each of their
parts is compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import numpy as np

from treadle.compat.tensorflow import context, nest
from treadle.compat.tensorflow.assertions import Assert
from treadle.compat.tensorflow.convert import constant_in, convert_to_tensor
from treadle.compat.tensorflow.core_control import add_branch, add_loop
from treadle.compat.tensorflow.dispatch import call
from treadle.compat.tensorflow.errors import InvalidArgumentError
from treadle.compat.tensorflow.func_graph import Subgraph, effects_of_parts
from treadle.compat.tensorflow.graph import Operation, operation_of
from treadle.compat.tensorflow.shape import TensorShape
from treadle.compat.tensorflow.stage import Function
from treadle.compat.tensorflow.state import Run
from treadle.compat.tensorflow.tensor import Tensor, constant_value
from treadle.frontends.tensorflow.list_loops import ListLoopState, SplitStep
from treadle.ops.op import Array
from treadle.runtime.control import begin_iteration


def control_dependencies(control_inputs: Sequence[Any] | None) -> AbstractContextManager[None]:
    """Run the ops of the block after these. See tf.control_dependencies in TensorFlow's documentation.

    Eagerly it has no effect, since ops run in program order.

    Args:
        control_inputs: operations, tensors or variables; None clears the dependencies of blocks around it.
    """
    graph = context.current_graph()
    return nullcontext() if graph is None else graph.control_dependencies(control_inputs)


def group(*inputs: Any, name: str | None = None) -> Any:
    """Return an operation that depends on all `inputs`. See tf.group in TensorFlow's documentation.

    Args:
        *inputs: operations, tensors, variables, or structures of these.
        name: the name of the operation.

    Returns:
        The operation; None eagerly.
    """
    graph = context.current_graph()
    before = [op for op in map(operation_of, nest.flatten(list(inputs))) if op is not None]
    if graph is None:
        if not before:
            return None
        graph = before[0].graph
    op = graph.create_op("NoOp", (), lambda _e, _v: [], name or "group_deps", outputs=[])
    op.control_inputs.extend(other for other in before if other not in op.control_inputs)
    return op


def no_op(name: str | None = None) -> Any:
    """Return an operation that does nothing; None eagerly. See tf.no_op in TensorFlow's documentation."""
    return group(name=name or "NoOp")


def tuple_(tensors: Sequence[Any], name: str | None = None) -> list[Any]:
    """Return the tensors, each available only when all are. See tf.tuple in TensorFlow's documentation."""
    if context.current_graph() is None:
        return list(tensors)
    with control_dependencies(tensors):
        return [call("identity", tensor) for tensor in tensors]


def cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Call one of two functions, chosen by a tensor. See tf.cond in TensorFlow's documentation.

    Args:
        pred: a boolean scalar.
        true_fn: the function for True, without arguments.
        false_fn: the function for False, without arguments.
        name: the name of the operation.

    Returns:
        The results of the function that runs, in its structure. In a graph both functions are traced, and must return
            the same
        structure and dtypes.

    Raises:
        TypeError: a missing function, a Python bool in a graph, or functions with different results.
    """
    if true_fn is None or false_fn is None:
        raise TypeError("cond(): wanted 'true_fn' and 'false_fn'")
    _require_callable(true_fn=true_fn, false_fn=false_fn)
    graph = context.current_graph()
    if graph is not None and isinstance(pred, bool):
        raise TypeError("pred must not be a Python bool", pred)
    test = convert_to_tensor(pred)
    if not isinstance(test, Tensor):
        return true_fn() if bool(test) else false_fn()
    graph = graph or test.graph
    yes, no = (Subgraph(graph, function, (), ()) for function in (true_fn, false_fn))
    ours, theirs = yes.graph.results, no.graph.results
    if [t.dtype for t in ours] != [t.dtype for t in theirs]:
        raise TypeError(
            f"true_fn and false_fn must return the same number and types of tensors, got {ours} and {theirs}"
        )
    count = len(yes.captured)

    def choose(run: Run, arrays: list[Array]) -> list[Array]:
        taken = arrays[1 : 1 + count] if arrays[0].item() else arrays[1 + count :]
        return (yes if arrays[0].item() else no).run(run, (), taken)

    infos = [graph.describer.common([a.info, b.info]) for a, b in zip(ours, theirs, strict=True)]
    op = graph.create_op(
        "If",
        [test, *yes.captured, *no.captured],
        lambda e, v: add_branch(e, op, v, yes, no) or e.python(op, v, choose),
        name or "cond",
        outputs=infos,
        attrs=effects_of_parts(yes, no),
    )
    return _structured_outputs(yes.graph.structure, op)


def _require_callable(**functions: Any) -> None:
    """Raise TypeError, which names the parameter, for what is no function."""
    for name, function in functions.items():
        if not callable(function):
            raise TypeError(f"'{name}' must be callable.")


def _check_condition(results: Sequence[Tensor]) -> None:
    """Raise InvalidArgumentError unless a loop's condition gives one boolean."""
    kinds = [result.dtype for result in results]
    if [kind.name for kind in kinds] != ["bool"]:
        found = ", ".join(kind.name for kind in kinds) or "nothing"
        raise InvalidArgumentError(None, None, f"while_loop: the condition must give one bool, got {found}")


def cond_v1(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    strict: bool = False,
    name: str | None = None,
    fn1: Callable[[], Any] | None = None,
    fn2: Callable[[], Any] | None = None,
) -> Any:
    """Call cond() with TensorFlow 1's names of the functions. A list of one tensor stays a list.

    See tf.compat.v1.cond in TensorFlow's documentation.
    """
    return cond(pred, true_fn or fn1, false_fn or fn2, name)


def case(
    pred_fn_pairs: Any,
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Call the function of the first true predicate. See tf.case in TensorFlow's documentation.

    Args:
        pred_fn_pairs: pairs of a boolean scalar and a function, or a dict of them.
        default: the function if no predicate is true. None: the last predicate must be true if the others are not.
        exclusive: check that only one predicate is true.
        strict: has no effect.
        name: the name of the operation.

    Raises:
        ValueError: there are no pairs.
        tf.errors.InvalidArgumentError: at once or in the run, no predicate is true and there is no default, or several
            are and `exclusive` is set.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    if not pairs:
        raise ValueError("case(): wanted at least one pair of a predicate and a function")
    predicates = [predicate for predicate, _ in pairs]
    _require_callable(**{f"fn for pred {number}": function for number, (_, function) in enumerate(pairs)})
    checks = []
    if exclusive:
        count = call("reduce_sum", call("cast", call("stack", predicates), "int32"))
        fault = "More than one condition evaluated as True but exclusive=True"
        checks.append(Assert(call("less_equal", count, 1), [f"{fault}. Conditions:", *predicates]))
    if default is None:
        *pairs, (last, function) = pairs
        default = partial(_after_check, last, predicates, function)
    found: Callable[[], Any] = default
    for number, (predicate, function) in reversed(list(enumerate(pairs))):
        found = partial(cond, predicate, function, found, None if number else name)
    with control_dependencies(checks):
        return found()


def _after_check(last: Any, predicates: Sequence[Any], function: Callable[[], Any]) -> Any:
    """Call the function of the last predicate of case(), which must be true."""
    check = Assert(last, ["None of the conditions evaluated as True. Conditions:", *predicates])
    with control_dependencies([check]):
        return nest.map_structure(lambda found: call("identity", found), function())


def switch_case(
    branch_index: Any, branch_fns: Any, default: Callable[[], Any] | None = None, name: str | None = None
) -> Any:
    """Call the function with the number `branch_index`. See tf.switch_case in TensorFlow's documentation.

    Args:
        branch_index: an integer scalar.
        branch_fns: functions, or a dict of functions by number, or pairs of both.
        default: the function for other numbers; None for the one with the largest number.
        name: the name of the operation.

    Raises:
        ValueError: the numbers are not 0, 1, 2 and so on.
    """
    given = list(branch_fns.items() if isinstance(branch_fns, dict) else branch_fns)
    functions = dict(given if all(isinstance(each, tuple) for each in given) else enumerate(given))
    _require_callable(**{f"branch {number}": function for number, function in functions.items()})
    if sorted(functions) != list(range(len(given))):
        keys = ",".join(map(str, sorted(functions)))
        raise ValueError(
            f"branch indices (keys) must form contiguous range of [0 to {len(given)}) but found {{{keys}}}"
        )
    index = convert_to_tensor(branch_index)
    last = default or functions[max(functions)]
    return case([(call("equal", index, number), function) for number, function in functions.items()], last, name=name)


def while_loop_v1(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Call while_loop() with TensorFlow 1's order of parameters: `name` before `maximum_iterations`.

    A single loop variable is returned without a list, unless `return_same_structure`. See tf.compat.v1.while_loop in
    TensorFlow's documentation.
    """
    found = while_loop(cond, body, loop_vars, shape_invariants, maximum_iterations=maximum_iterations, name=name)
    return found[0] if len(found) == 1 and not return_same_structure else found


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """Repeat `loop_vars = body(*loop_vars)` while `cond(*loop_vars)`. See tf.while_loop in TensorFlow's documentation.

    Args:
        cond: returns a boolean scalar.
        body: returns the next values, in the structure of `loop_vars`.
        loop_vars: the initial values.
        shape_invariants: shapes of the variables with None for dimensions that may change; None: no shape changes.
        parallel_iterations: has no effect: iterations run one after the other.
        back_prop: has no effect.
        swap_memory: has no effect.
        maximum_iterations: the largest number of iterations; an int or an integer scalar.
        name: the name of the operation.

    Returns:
        The last values, in the structure of `loop_vars`.

    Raises:
        ValueError: the body returns another number of tensors, or a shape that the invariants do not allow.
        TypeError: the body returns another dtype.
    """
    _require_callable(cond=cond, body=body)
    if isinstance(maximum_iterations, Tensor) and constant_value(maximum_iterations) is None:
        return _loop_with_symbolic_limit(cond, body, loop_vars, shape_invariants, maximum_iterations, name)
    given = [convert_to_tensor(leaf) for leaf in nest.flatten(loop_vars)]
    limit = None if maximum_iterations is None else _number(maximum_iterations)
    graph = context.current_graph() or next((tensor.graph for tensor in given if isinstance(tensor, Tensor)), None)
    if graph is None:
        return _eager_loop(cond, body, nest.pack_sequence_as(loop_vars, given), limit)
    first = [
        graph.enter(tensor) if isinstance(tensor, Tensor) else constant_in(graph, np.asarray(tensor))
        for tensor in given
    ]
    shapes = [tensor.shape for tensor in first] if shape_invariants is None else _shapes(shape_invariants)
    describe = graph.describer.described
    kinds = [(tensor.dtype.core, shape.dims) for tensor, shape in zip(first, shapes, strict=True)]
    parameters = [(describe(*kind), f"loop_{number}") for number, kind in enumerate(kinds)]
    test = Subgraph(graph, cond, parameters, loop_vars)
    step = Subgraph(graph, body, parameters, loop_vars)
    _check_loop_results(step.graph.results, first, shapes)
    _check_condition(test.graph.results)
    joined = not test.graph.effects()
    if joined:
        step.append_test(cond)
    split = step.split_from_lists(len(first))
    repeat = _loop_function(test, step, split, limit, joined=joined)
    op = graph.create_op(
        "While",
        [*first, *test.captured, *step.captured],
        lambda e, v: add_loop(e, op, v, test, step, limit, split) or e.python(op, v, repeat),
        name or "while",
        outputs=[describe(*kind) for kind in kinds],
        attrs=effects_of_parts(test, step),
    )
    return nest.pack_sequence_as(loop_vars, op.outputs)


def _loop_function(
    test: Subgraph, step: Subgraph, split: SplitStep[Tensor] | None, limit: int | None, *, joined: bool
) -> Function:
    """Return the Python function of a loop, whose operands are the variables, then the captures of test and body.

    If they are `joined`, the body computes the test after it. The loop reads and writes the items of lists, if the body
    is `split` from them.
    """
    count, tested = len(step.graph.results) - joined, len(test.captured)

    def continues(run: Run, state: list[Array], of_test: list[Array], done: int) -> bool:
        return (limit is None or done < limit) and bool(test.run(run, state, of_test)[0])

    def repeat(run: Run, arrays: list[Array]) -> list[Array]:
        state, of_test, of_step = arrays[:count], arrays[count : count + tested], arrays[count + tested :]
        done, running = 0, continues(run, state, of_test, 0)
        while running:
            begin_iteration(done)
            made = step.run(run, state, of_step)
            state, done = made[:count], done + 1
            running = bool(made[-1]) and done != limit if joined else continues(run, state, of_test, done)
        return state

    def repeat_over_lists(run: Run, arrays: list[Array]) -> list[Array]:
        assert split is not None
        of_test = arrays[count : count + tested]
        state = ListLoopState(split, [*arrays[:count], *arrays[count + tested :]])
        done, running = 0, continues(run, state.arrays[:count], of_test, 0)
        while running:
            begin_iteration(done)
            made = step.run_split(split, run, state.operands())
            state.update(made)
            done += 1
            running = (
                bool(made[-1]) and done != limit if joined else continues(run, state.arrays[:count], of_test, done)
            )
        return state.final_arrays()[:count]

    return repeat if split is None else repeat_over_lists


def _loop_with_symbolic_limit(
    cond: Callable[..., Any], body: Callable[..., Any], loop_vars: Any, shapes: Any, most: Tensor, name: str | None
) -> Any:
    """while_loop with a limit that only the run knows: the loop counts its iterations in a variable."""
    zero = call("zeros_like", most)
    counted = None if shapes is None else (TensorShape([]), shapes)
    return while_loop(
        lambda done, state: call("logical_and", call("less", done, most), cond(*state)),
        lambda done, state: (call("add", done, 1), nest.pack_sequence_as(loop_vars, nest.flatten(body(*state)))),
        (zero, loop_vars),
        counted,
        name=name,
    )[1]


def _number(value: Any) -> int:
    known = constant_value(value)
    return int(value if known is None else known)


def _eager_loop(cond: Callable[..., Any], body: Callable[..., Any], state: Any, limit: int | None) -> Any:
    done = 0
    while (limit is None or done < limit) and bool(cond(*state)):
        found = body(*state)
        state = nest.pack_sequence_as(state, [convert_to_tensor(leaf) for leaf in nest.flatten(found)])
        done += 1
    return state


def _check_loop_results(results: Sequence[Tensor], first: Sequence[Tensor], shapes: Sequence[TensorShape]) -> None:
    if len(results) != len(first):
        raise ValueError(f"The body returns {len(results)} tensors, but there are {len(first)} loop variables.")
    for result, start, shape in zip(results, first, shapes, strict=True):
        if result.dtype != start.dtype:
            raise TypeError(
                f"The loop variable {start.name} is {start.dtype.name}, but {result.dtype.name} after a step."
            )
        if any(a is not None and a != b for a, b in zip(shape.dims or (), result.shape.dims or (), strict=False)):
            raise ValueError(
                f"The loop variable {start.name} has shape {shape}, but {result.shape} after a step; "
                "say what stays the same with shape_invariants"
            )


def _shapes(structure: Any) -> list[TensorShape]:
    return [structure] if isinstance(structure, TensorShape) else [s for item in structure for s in _shapes(item)]


def _structured_outputs(structure: Any, op: Operation) -> Any:
    """Return the outputs of `op` in the structure that the function returned."""
    leaves = nest.flatten(structure)
    outputs = iter(op.outputs)
    return nest.pack_sequence_as(
        structure, [None if leaf is None else op if isinstance(leaf, Operation) else next(outputs) for leaf in leaves]
    )
