"""IOBinding: inputs and outputs of runs that are bound to arrays, addresses and OrtValues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from treadle.compat.onnxruntime.describe import element_dtype, type_name
from treadle.compat.onnxruntime.values import OrtValue, at_address, require_cpu
from treadle.compile import Session, written_forms
from treadle.runtime.runner import OwnPlan

if TYPE_CHECKING:
    from treadle.compat.onnxruntime.session import InferenceSession

Array = np.ndarray[Any, Any]


def in_place(session: Session, shared: Mapping[str, tuple[str, Array]]) -> dict[str, Array]:
    """Return those of the memory `shared` of outputs, each with the name of an input, that runs can write into."""
    pairs = written_forms(session).pairs() if shared else {}
    return {output: array for output, (name, array) in shared.items() if pairs.get(output) == name}


class IOBinding:
    """What runs of a session read and write. It may be used for any number of runs, by one thread at a time."""

    def __init__(self, session: InferenceSession) -> None:
        """Bind nothing yet."""
        self._session = session
        self._inputs: dict[str, OrtValue] = {}
        self._targets: dict[str, Array | None] = {}  # where outputs go, in the order of binding; None: new memory
        self._values: dict[str, OrtValue] = {}
        self._shared: dict[str, tuple[str, Array]] | None = None
        self.own = OwnPlan()
        """The plan of the runs of this binding that write into the memory of inputs."""

    def check_session(self, session: InferenceSession) -> None:
        """Raise ValueError unless this is the session that the binding was made for."""
        if session is not self._session:
            raise ValueError("IOBinding must be used with the session that created it.")

    def bind_cpu_input(self, name: str, arr_on_cpu: Array) -> None:
        """Bind an input to an array, whose memory the runs read. Raises RuntimeError for an unknown name."""
        if isinstance(arr_on_cpu, np.ndarray) and arr_on_cpu.dtype.kind in "OUS":
            self._bind(name, OrtValue(arr_on_cpu))
        else:
            self._bind(name, OrtValue.ortvalue_from_numpy(arr_on_cpu))

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Sequence[int], buffer_ptr: int
    ) -> None:
        """Bind an input to the memory at an address, which must stay valid. Raises RuntimeError for another device."""
        require_cpu(device_type, device_id)
        if name not in self._session.input_names:
            raise RuntimeError(f"Error when binding input: Failed to find input name in the mapping: {name}")
        self._bind(name, OrtValue(at_address(buffer_ptr, element_dtype(element_type), shape)))

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value."""
        self._bind(name, ortvalue)

    def _bind(self, name: str, value: OrtValue) -> None:
        if name not in self._session.input_names:
            raise RuntimeError(f"Failed to find NodeArg with name: {name} in the def list")
        self._inputs[name] = value
        self._shared = None

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Bind an output to the memory at an address; without one, to new memory in each run."""
        require_cpu(device_type, device_id)
        if buffer_ptr is None:
            self._target(name, None)
            return
        if element_type is None or shape is None:
            raise ValueError("`element_type` and `shape` are to be provided if pre-allocated memory is provided")
        self._target(name, at_address(buffer_ptr, element_dtype(element_type), shape))

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to the memory of a value."""
        array = ortvalue.numpy()
        if not isinstance(array, np.ndarray):
            raise RuntimeError(f"output {name!r}: wanted a tensor, got {ortvalue.data_type()}")
        self._target(name, array)

    def _target(self, name: str, array: Array | None) -> None:
        self._targets.pop(name, None)
        self._targets[name] = array
        self._shared = None

    def synchronize_inputs(self) -> None:
        """Do nothing: memory of the CPU is ready."""

    def synchronize_outputs(self) -> None:
        """Do nothing: a run returns when its outputs are ready."""

    def get_outputs(self) -> list[OrtValue]:
        """Return the outputs of the last run, in the order in which they were bound."""
        return [self._values[name] for name in self._targets if name in self._values]

    def get_outputs_as_ortvaluevector(self) -> list[OrtValue]:
        """Return what get_outputs() does."""
        return self.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run as arrays."""
        return [value.numpy() for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Forget the inputs."""
        self._inputs.clear()
        self._shared = None

    def clear_binding_outputs(self) -> None:
        """Forget the outputs."""
        self._targets.clear()
        self._shared = None
        self._values.clear()

    @property
    def feeds(self) -> Mapping[str, OrtValue]:
        """The inputs that are bound."""
        return self._inputs

    @property
    def names(self) -> list[str]:
        """The outputs that are bound."""
        return list(self._targets)

    @property
    def shared(self) -> Mapping[str, tuple[str, Array]]:
        """The outputs that are bound to the memory of an input of the same shape and dtype: the input's name, and the
        array. Memory that anything else is bound to as well is left out."""
        if self._shared is None:
            self._shared = _shared(self._inputs, self._targets)
        return self._shared

    def store(self, results: Mapping[str, Any]) -> None:
        """Take the outputs of a run. Raises RuntimeError, and writes nothing, if one does not fit its memory."""
        for name, target in self._targets.items():
            found = results[name]
            if target is not None and target.dtype != found.dtype:
                types = f"Actual: ({type_name(target.dtype)}) , expected: ({type_name(found.dtype)})"
                raise RuntimeError(f"Error in execution: Unexpected output data type. {types}")
            if target is not None and target.shape != found.shape:
                raise RuntimeError(
                    f"Error in execution: The output OrtValue provided for output '{name}' has shape "
                    f"{_sizes(target)} but the computed output has shape {_sizes(found)}"
                )
        for name, target in self._targets.items():
            if target is None:
                self._values[name] = OrtValue(results[name])
            else:
                if results[name] is not target:
                    target[...] = results[name]
                self._values[name] = OrtValue(target)


class _Bound(NamedTuple):
    """The memory that an input or an output is bound to."""

    start: int
    end: int
    is_output: bool
    name: str
    array: Array


def _shared(inputs: Mapping[str, OrtValue], targets: Mapping[str, Array | None]) -> dict[str, tuple[str, Array]]:
    if all(target is None for target in targets.values()):
        return {}
    given = {name: value.numpy() for name, value in inputs.items() if value.is_tensor()}
    arrays = [(False, *each) for each in given.items()] + [(True, *each) for each in targets.items()]
    bound = sorted(
        (
            _Bound(array.ctypes.data, array.ctypes.data + array.nbytes, is_output, name, array)
            for is_output, name, array in arrays
            if isinstance(array, np.ndarray) and array.size
        ),
        key=lambda each: each[:3],
    )
    found, reached = {}, 0
    for at, before in enumerate(bound):
        after, *others = bound[at + 1 : at + 3] or [before]
        apart = reached <= before.start and all(other.start >= before.end for other in others)
        if apart and after.is_output and not before.is_output and _are_same(before.array, after.array):
            found[after.name] = (before.name, after.array)
        reached = max(reached, before.end)
    return found


def _are_same(before: Array, after: Array) -> bool:
    return (
        before.ctypes.data == after.ctypes.data
        and (before.shape, before.dtype) == (after.shape, after.dtype)
        and before.flags.c_contiguous
        and after.flags.c_contiguous
        and after.flags.writeable
    )


def _sizes(array: Array) -> str:
    return "{" + ",".join(map(str, array.shape)) + "}"


SessionIOBinding = IOBinding
