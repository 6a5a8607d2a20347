"""Modules of TorchScript files: PyTorch has read them, treadle runs them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from treadle import forking
from treadle.compat.signatures import float_part, map_structure
from treadle.compat.torch.functions.writing import compute_sizes, copy_
from treadle.compat.torch.jit.binding import bind
from treadle.compat.torch.jit.rewrite import Error
from treadle.compat.torch.jit.run_counts import RunCounts
from treadle.compat.torch.jit.script import ScriptModule
from treadle.compat.torch.jit.trace import TracedFunction
from treadle.compat.torch.nn.module import Module, Parameter
from treadle.compat.torch.recording import emit_node
from treadle.compat.torch.state import current
from treadle.compat.torch.tensor import Tensor
from treadle.errors import ModelError, UnsupportedModelError
from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.methods import Form, Given, Method, Program, ScriptRaisedError
from treadle.frontends.torch.results import Input, Output
from treadle.frontends.torch.stored_module import StoredModule, StoredTensor
from treadle.graph.value import Value
from treadle.lru import LRU

MOST_PROGRAMS = 64
"""The number of programs that one module keeps, for arguments of several forms."""


def module_of(file: Any, extra_files: dict[str, Any] | None) -> RecursiveScriptModule:
    """Returns the module of a TorchScript file. Raises as torch.jit.load."""
    try:
        return RecursiveScriptModule(StoredModule.read(file, extra_files), {})
    except Unsupported as error:
        raise NotImplementedError(f"torch.jit.load: {error}") from None


class RecursiveScriptModule(ScriptModule):
    """A module of a TorchScript file.

    Parameters, buffers and submodules are those of a Module, and its methods are those of the file. Each call reads its
    tensors; what the script writes into them and into its arguments is written.
    """

    _script: Script

    def __init__(self, stored: StoredModule, known: dict[int, Tensor]) -> None:
        held = self.__dict__
        held.update(_script=Script(stored), training=stored.is_training)
        buffers = list(stored.buffers())
        held.update((each.name, _tensor_of(each, known)) for each in (*stored.parameters(), *buffers))
        held["_buffers"] = frozenset(each.name for each in buffers)
        held.update((name, RecursiveScriptModule(child, known)) for name, child in stored.children())

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return self._script.stored.original_name

    @property
    def code(self) -> str:
        """The source of forward, as PyTorch writes it."""
        return self._script.stored.code

    @property
    def _run_counts(self) -> RunCounts:  # type: ignore[override]
        return self._script.counts

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs forward."""
        return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the method forward of the file.

        Raises:
            RuntimeError: The arguments do not fit.
            torch.jit.Error: The script raises an exception.
            NotImplementedError: It needs what treadle does not support; the message lists all of it.
            AttributeError: The file has no method forward for the module.
        """
        if not self._script.stored.has_method("forward"):
            raise AttributeError("'RecursiveScriptModule' object has no attribute 'forward'")
        return self._script.call(self, "forward", args, kwargs)

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        script = self.__dict__.get("_script")
        if script is not None and not name.startswith("__"):
            if script.stored.has_method(name):
                return partial(script.call_named, self, name)
            if script.stored.has_attribute(name):
                return self._read(name)
        raise AttributeError(f"'RecursiveScriptModule' object has no attribute '{name}'")

    def _read(self, name: str) -> Any:
        """Returns an attribute of the file. A tensor is an attribute of this object from now on."""
        try:
            stored = self._script.stored.attribute(name)
        except Unsupported as error:
            raise NotImplementedError(f"a loaded module: {error}") from None
        found = map_structure(stored, lambda each: _tensor_of(each, {}), StoredTensor)
        return self.__dict__.setdefault(name, found) if isinstance(found, Tensor) else found

    def __setattr__(self, name: str, value: Any) -> None:
        held = self.__dict__.get(name)
        what = f"a loaded module: {name!r}"
        if isinstance(held, Module):
            raise TypeError(f"{what} is a submodule, and stays the one of its file")
        if isinstance(held, Tensor) and not isinstance(value, Tensor):
            raise TypeError(f"{what} is a tensor; it cannot become a {type(value).__name__}")
        if self._script.stored.has_method(name):
            raise TypeError(f"{what} is a method of its file")
        object.__setattr__(self, name, value)

    def extra_repr(self) -> str:
        """Returns the name of the class that was scripted."""
        return f"original_name={self.original_name}"


def _tensor_of(stored: StoredTensor, known: dict[int, Tensor]) -> Tensor:
    """Returns a tensor on the memory of PyTorch's; the same one for each name of a tensor of several names."""
    found = known.get(stored.identity)
    if found is None:
        found = Parameter(stored.array) if stored.is_parameter else Tensor(stored.array)
        known[stored.identity] = found
    return found


class Script:
    """The methods of a module of a file. Threads may share it."""

    def __init__(self, stored: StoredModule) -> None:
        self.stored = stored
        self.counts = RunCounts()
        self._methods: dict[str, Method] = {}
        self._programs: WeakKeyDictionary[Module, LRU[Any, _Prepared]] = WeakKeyDictionary()
        self._lock = forking.lock()

    def __deepcopy__(self, _: Any) -> Script:
        """Returns the methods anew: what a copy of the module changes are attributes of its own."""
        return Script(self.stored)

    def call_named(self, module: RecursiveScriptModule, name: str, /, *args: Any, **kwargs: Any) -> Any:
        """Calls a method with these arguments. Raises as RecursiveScriptModule.forward."""
        return self.call(module, name, args, kwargs)

    def call(self, module: RecursiveScriptModule, name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Calls a method. Raises as RecursiveScriptModule.forward."""
        tensors: list[Tensor] = []

        def given(tensor: Tensor) -> Given:
            compute_sizes(tensor)
            tensors.append(tensor)
            return Given(tensor.dtype.core, tuple(tensor.shape))

        try:
            method = self._method(name)
            arguments = bind(method.schema, args, kwargs, given)
            prepared = self._prepared(module, method, arguments)
        except UnsupportedModelError as error:
            raise NotImplementedError(str(error)) from error
        except ScriptRaisedError as error:
            raise Error(str(error)) from None
        except ModelError as error:
            raise RuntimeError(str(error)) from error
        return prepared.run(tensors)

    def _method(self, name: str) -> Method:
        with self._lock:
            found = self._methods.get(name)
            if found is None:
                found = self._methods[name] = self.stored.method(name)
            return found

    def _prepared(self, module: RecursiveScriptModule, method: Method, arguments: list[Any]) -> _Prepared:
        key = method.title, _key(arguments)
        with self._lock:
            programs = self._programs.setdefault(module, LRU(MOST_PROGRAMS))
            found = programs.get(key)
            if found is None or not found.holds():
                owner = _Owner(module)
                program = method.program(arguments, owner)
                found = _Prepared(program, owner, self.counts)
                programs.put(key, found)
            return found


class _Owner:
    """The tensors and other attributes of a module by their paths."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self.tensors: list[Tensor] = []

    def holder(self, path: str) -> tuple[Any, str]:
        """Returns the submodule whose attribute has this path, and its name."""
        *parts, name = path.split(".")
        holder = self._module
        for part in parts:
            holder = vars(holder)[part]
        return holder, name

    def tensor(self, path: str) -> Tensor:
        """Returns the tensor with this path."""
        found: Tensor = getattr(*self.holder(path))
        return found

    def form_of(self, path: str) -> Form:
        """Returns the form of the tensor with this path."""
        tensor = self.tensor(path)
        return Form(tensor.dtype.core, tuple(tensor.shape), id(tensor))

    def attribute(self, path: str, stored: Any) -> Any:
        """Returns the attribute with this path: what it was set to, or that of the file."""
        holder, name = self.holder(path)
        return vars(holder).get(name, stored)


_Place = tuple[dict[str, Any], str, Tensor, tuple[int, ...], np.dtype[Any]]
"""The attributes of a module, the name of one that is a tensor, that tensor, and the shape and dtype of its array."""


class _Prepared:
    """A program with the tensors of the module that it reads."""

    def __init__(self, program: Program, owner: _Owner, counts: RunCounts) -> None:
        self._program = program
        self._state = [owner.tensor(path) for path in program.state]
        self._places: list[_Place] = []
        for path, tensor in zip(program.state, self._state, strict=True):
            holder, name = owner.holder(path)
            array = tensor.materialized()
            self._places.append((vars(holder), name, tensor, array.shape, array.dtype))
        self._attributes = [(*owner.holder(path), value) for path, value in program.attributes.items()]
        self._counts = counts
        self._traced: TracedFunction | None = None

    def holds(self) -> bool:
        """Returns True if the module still has these tensors, in these forms, and these attributes."""
        for held, name, tensor, shape, dtype in self._places:
            if held.get(name) is not tensor:
                return False
            array = tensor.array
            if array is None or array.shape != shape or array.dtype != dtype:
                return False
        return all(vars(holder).get(name, value) == value for holder, name, value in self._attributes)

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Returns the result for tensors of the forms of the program."""
        self._require_apart(tensors)
        recording = current()
        if recording is None:
            if self._traced is None:
                self._traced = TracedFunction(self._emit, tuple(tensors), {}, self._counts)
            outputs = self._traced(*tensors)
        else:
            recording.not_replayable = "it calls a module of a file"
            outputs = self._emit(*tensors)
        inputs = [*tensors, *self._state]

        def filled(place: Input | Output) -> Any:
            if isinstance(place, Input):
                return inputs[place.place]
            found = outputs[place.place]
            return found if place.number is None else place.number(found.item())

        return map_structure(self._program.result, filled, (Input, Output))

    def _emit(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Records the program and returns its outputs."""
        recording = current()
        assert recording is not None, "traces and scripts record"
        graph = self._program.graph
        inputs = [*tensors, *self._state]
        found: dict[Value, Tensor] = dict(zip(graph.inputs, inputs, strict=True))
        function = recording.function
        try:
            for node in graph.nodes:
                recording.function = node.name
                emit_node(node, found)
        finally:
            recording.function = function
        outputs = tuple(found[value] if value in found else Tensor(np.array(value.data)) for value in graph.outputs)
        for place, output in self._program.written:
            copy_(inputs[place], outputs[output])
        return outputs

    def _require_apart(self, tensors: Sequence[Tensor]) -> None:
        """Raises NotImplementedError if a tensor that the program writes shares memory with another one."""
        inputs = [*tensors, *self._state]
        for place, _ in self._program.written:
            target = inputs[place].array
            others = (each.array for at, each in enumerate(inputs) if at != place)
            if target is not None and any(each is not None and np.may_share_memory(target, each) for each in others):
                raise NotImplementedError(
                    "a loaded module writes into a tensor that shares memory with another argument or parameter; "
                    "pass a .clone()"
                )


def _key(value: Any) -> Any:
    """Returns a hashable form of arguments."""
    if isinstance(value, Given):
        return Given, value.dtype.name, value.shape
    if isinstance(value, list):
        return list, tuple(map(_key, value))
    if isinstance(value, dict):
        return dict, tuple((name, _key(each)) for name, each in value.items())
    return type(value), float_part(value) if isinstance(value, float) else value
