"""torch.jit.script: functions and modules, rewritten from their source so that forked calls run concurrently."""

from __future__ import annotations

import copy
import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from treadle import forking
from treadle.compat.torch.future import Future
from treadle.compat.torch.jit.later_numbers import needed_tensors, needs_numbers, number_later
from treadle.compat.torch.jit.pure import is_library, is_pure
from treadle.compat.torch.jit.replays import Replays
from treadle.compat.torch.jit.rewrite import CALL, RAISED, TRUTH, ScriptError, generator_of, raised, require_names
from treadle.compat.torch.jit.run_counts import Counted, RunCounts
from treadle.compat.torch.jit.scripted import Scripted
from treadle.compat.torch.lazy_ints import Lazy, plain
from treadle.compat.torch.nn.module import Module, Parameter
from treadle.compat.torch.state import current_call
from treadle.compat.torch.tasks import Body, drive
from treadle.compat.torch.tensor import Tensor

_CONTAINERS = "treadle.compat.torch.nn.container"
_VALUES = {"item", "tolist", "numpy", "__bool__", "__int__", "__float__"}
_IGNORED: weakref.WeakSet[Any] = weakref.WeakSet()
_REWRITTEN: weakref.WeakKeyDictionary[types.FunctionType, Callable[..., Body] | None] = weakref.WeakKeyDictionary()
_LOCK = forking.lock()


def rewrite(function: types.FunctionType) -> Callable[..., Body]:
    """Returns the generator form of `function`. Raises ScriptError if it cannot be scripted."""
    with _LOCK:
        found = _REWRITTEN.get(function)
    if found is None:
        found = generator_of(function, {CALL: call, TRUTH: truth, RAISED: raised})
        with _LOCK:
            _REWRITTEN[function] = found
    return found


def _scriptable(function: Any) -> bool:
    """Returns True if a script enters a plain Python function that it calls."""
    if not isinstance(function, types.FunctionType) or function in _IGNORED:
        return False
    if function in _REWRITTEN:
        return True
    if is_library(function.__module__) and function.__module__ != _CONTAINERS:
        return False
    if inspect.isgeneratorfunction(function) or inspect.iscoroutinefunction(function):
        return False
    try:
        rewrite(function)
    except ScriptError:
        _IGNORED.add(function)
        return False
    return True


def _enter_function(function: types.FunctionType) -> Callable[..., Body]:
    """Returns the generator form of a function that the current call enters."""
    around = current_call()
    if around is not None:
        around.functions.add(function)
    return rewrite(function)


def _note_plain_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Notes that the current call runs a function as it is, which may prevent a replay."""
    around = current_call()
    if around is None or around.recording.keep or around.recording.not_replayable:
        return
    if not is_pure(function, kwargs):
        around.recording.not_replayable = f"it calls {name_of(function)}"
    elif function in (getattr, hasattr) and len(args) > 1:
        around.named.add(args[1])


def call(function: Any, /, *args: Any, **kwargs: Any) -> Body:
    """Runs a call inside a script."""
    if isinstance(function, ScriptFunction):
        function = function.original
    if isinstance(function, Module):
        forward: Any = type(function).forward
        if _scriptable(forward):
            return (yield from _enter_function(forward)(function, *args, **kwargs))
        _note_plain_call(function, args, kwargs)
        return forward(function, *args, **kwargs)
    if function is wait or (isinstance(function, types.MethodType) and function.__func__ is Future.wait):
        return (yield from _wait_for(args[0] if args else kwargs.get("future", getattr(function, "__self__", None))))
    if isinstance(function, type | types.BuiltinFunctionType | types.MethodType):
        known = number_later(function, args)
        if known is not None:
            return known
        if needs_numbers(function):
            yield from needed_tensors((args, kwargs))
            args, kwargs = plain((args, kwargs))
    return (yield from _call_plainly(function, args, kwargs))


def _call_plainly(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
    """Runs a call of anything but a module or a script, which it enters if it can be scripted."""
    if function in (bool, int, float) and args and isinstance(args[0], Tensor):
        yield args[0]
    elif isinstance(function, types.MethodType):
        if isinstance(function.__self__, Tensor) and function.__name__ in _VALUES:
            yield function.__self__
        elif _scriptable(function.__func__):
            return (yield from _enter_function(function.__func__)(function.__self__, *args, **kwargs))  # type: ignore[arg-type]
    elif _scriptable(function):
        return (yield from _enter_function(function)(*args, **kwargs))
    _note_plain_call(function, args, kwargs)
    return function(*args, **kwargs)


def truth(value: Any) -> Body:
    """Returns `value` as a condition."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Lazy):
        yield from value.tensors()
    return bool(value)


def _wait_for(future: Any) -> Body:
    if isinstance(future, Future) and not future.done():
        yield future
    return wait(future)


def as_body(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
    """Returns a body that calls `function` without rewriting it."""
    return function(*args, **kwargs)
    yield


def name_of(function: Any) -> str:
    """Returns the name of a function in traces."""
    return str(getattr(function, "__name__", type(function).__name__))


def fork(func: Any, *args: Any, **kwargs: Any) -> Future:
    """Calls a function concurrently with the code that follows.

    In scripts and traces, the call becomes part of the same graph, without a dependency on the code up to `wait`, so
    both run concurrently on the team. Elsewhere the call is made at once.

    Args:
        func: A function, a scripted function or a module.
        *args: Its positional arguments.
        **kwargs: Its keyword arguments.

    Returns:
        The future of the call's result. An exception of the call is raised by `wait`.
    """
    around = current_call()
    if around is not None:
        return around.fork(call(func, *args, **kwargs), name_of(func))
    future = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - raised by wait()
        future.set_exception(error)
    return future


def wait(future: Future) -> Any:
    """Returns the result of a forked call.

    Args:
        future: A future that `fork` returned.

    Returns:
        What the forked call returned.

    Raises:
        TypeError: `future` is not a Future.
        RuntimeError: The future can never end, as the calls wait for each other.
        BaseException: The exception that the call raised.
    """
    if not isinstance(future, Future):
        raise TypeError(f"wait() takes a Future, as torch.jit.fork returns it, got {type(future).__name__}")
    return future.wait()


class _Replayed(Counted):
    """Something whose calls are replayed."""

    _replays: Replays

    @property
    def _run_counts(self) -> RunCounts:  # type: ignore[override]
        return self._replays.counts


class ScriptFunction(Scripted, _Replayed):
    """A scripted function. It can be called from any thread, by other scripts, and by plain Python code."""

    def __init__(self, original: types.FunctionType) -> None:
        super().__init__(original)
        self._replays = Replays()
        rewrite(original)
        require_names(original)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the script, or its replay."""
        return _enter(self._replays, self.original, args, kwargs, self.__name__)

    def __repr__(self) -> str:
        return f"<torch.jit.ScriptFunction {self.__name__}>"


def _enter(replays: Replays, what: Any, args: tuple[Any, ...], kwargs: dict[str, Any], scope: str) -> Any:
    if current_call() is not None:
        return drive(call(what, *args, **kwargs))
    args, kwargs = tuple(map(_own_containers, args)), {name: _own_containers(each) for name, each in kwargs.items()}
    return replays.call(what, args, kwargs, lambda: call(what, *args, **kwargs), scope)


def _own_containers(value: Any) -> Any:
    """Returns an argument as a script gets it from Python code: with lists and dicts of its own.

    What a script does to them is not seen by the caller, as in PyTorch, where they become lists and dicts of
    TorchScript.
    """
    kind = type(value)
    if kind is list:
        return [_own_containers(each) for each in value]
    if kind is dict:
        return {key: _own_containers(each) for key, each in value.items()}
    return tuple(map(_own_containers, value)) if kind is tuple else value


class ScriptModule(Module, _Replayed):
    """A scripted module. It shares all attributes with the module that it was made from."""

    def __init__(self) -> None:
        super().__init__()
        object.__setattr__(self, "_replays", Replays())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs forward, or its replay."""
        return _enter(self._replays, self, args, kwargs, type(self).__name__)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if isinstance(found, types.MethodType) and getattr(found.__func__, "__treadle_export__", False):
            return ScriptMethod(found)
        return found

    @property
    def code(self) -> str:
        """The source of forward."""
        return inspect.getsource(type(self).forward)


class ScriptMethod:
    """A method of a scripted module that `torch.jit.export` made callable from outside."""

    def __init__(self, method: types.MethodType) -> None:
        self._method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the method, or its replay."""
        module: Any = self._method.__self__
        # Pass the module as first argument: a bound method is a new object in each access.
        return _enter(module._replays, self._method.__func__, (module, *args), kwargs, self._method.__name__)  # noqa: SLF001


def script(obj: Any, **options: Any) -> Any:
    """Compiles a function or module from its source.

    The code is rewritten so that it can be suspended where it waits; tensor code up to that point runs as one graph.
    Python control flow on values of tensors works; nested functions, `yield` and classes inside a script are refused.

    Args:
        obj: A function written with `def`, or an instance of a Module subclass.
        **options: Accepted and ignored.

    Returns:
        A ScriptFunction, or a ScriptModule that shares all attributes with the module.

    Raises:
        ScriptError: The source cannot be scripted (a RuntimeError); the message names file, function and line.
        RuntimeError: `obj` is a Module class instead of an instance.
        TypeError: `obj` is neither a function nor a module.
    """
    if isinstance(obj, ScriptFunction | ScriptModule | type):
        if isinstance(obj, type) and issubclass(obj, Module):
            raise RuntimeError(  # noqa: TRY004 - as PyTorch has it
                f"Type '{obj}' cannot be compiled since it inherits from nn.Module, "
                "consider passing an instance instead"
            )
        return obj
    if isinstance(obj, Module):
        kind = type(obj)
        forward: Any = kind.forward
        if not is_library(forward.__module__):
            if not _scriptable(forward):
                rewrite(forward)  # raises and says why
            if isinstance(forward, types.FunctionType):
                require_names(forward)
        members = {"__module__": kind.__module__, "_replays": Replays()}
        made: Any = object.__new__(type(kind.__name__, (ScriptModule, kind), members))
        made.__dict__ = obj.__dict__
        return made
    if isinstance(obj, types.FunctionType):
        return ScriptFunction(obj)
    raise TypeError(f"torch.jit.script takes a function or a torch.nn.Module, got {type(obj).__name__}")


def export(fn: Any) -> Any:
    """Marks a method as callable from outside on the scripted module."""
    fn.__treadle_export__ = True
    return fn


def ignore(fn: Any = None, **options: Any) -> Any:
    """Excludes a function from scripting: scripts call it as plain Python."""
    if not callable(fn):
        return ignore
    _IGNORED.add(fn)
    return fn


def annotate(the_type: Any, the_value: Any) -> Any:
    """Returns the value; scripts need no types."""
    return the_value


def is_scripting() -> bool:
    """Returns True if the calling code is part of a script."""
    call_ = current_call()
    return call_ is not None and not call_.recording.keep


def freeze(mod: Any, *args: Any, **options: Any) -> Any:
    """Returns a copy of a scripted module with constant parameters and buffers, which become packed weights.

    Args:
        mod: A scripted module in eval mode.
        *args: Accepted and ignored.
        **options: Accepted and ignored.

    Returns:
        The copy. Later changes of the original do not affect it.

    Raises:
        RuntimeError: `mod` is not a scripted module, or is in training mode.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(  # noqa: TRY004 - as PyTorch has it
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() first."
        )
    frozen = copy.copy(mod)
    frozen.__dict__ = _frozen_attributes(mod)
    return frozen


def _frozen_attributes(module: Module) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if isinstance(value, Tensor):
            constant = Parameter(value) if isinstance(value, Parameter) else Tensor(value.numpy())
            constant.array = value.numpy().copy()
            constant.frozen = True
            found[name] = constant
        elif isinstance(value, Module):
            inner = copy.copy(value)
            inner.__dict__ = _frozen_attributes(value)
            found[name] = inner
        else:
            found[name] = value
    return found


@contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Does nothing: code is always optimized, which changes results by no more than rounding."""
    yield
