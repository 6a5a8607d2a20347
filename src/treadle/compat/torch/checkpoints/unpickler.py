"""Reads the pickles of checkpoints without running their code: a stack machine for the opcodes that data needs.

`pickletools` reads the opcodes. Names stand for what `names.find` says, nothing else is imported; only lists, sets and
dictionaries are filled; only what `names.may_call` says is called.
"""

from __future__ import annotations

import pickle
import pickletools
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import IO, Any, ClassVar

from treadle.compat.torch.checkpoints.names import call, find, is_allowed, may_call
from treadle.compat.torch.checkpoints.storages import corrupt

_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}

_PUSHED: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False, "EMPTY_LIST": list, "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple, "EMPTY_SET": set,
}  # fmt: skip
"""Opcodes that push a value of their own."""

_ARGUMENT = frozenset((
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT", "UNICODE", "BINUNICODE",
    "SHORT_BINUNICODE", "BINUNICODE8", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
))  # fmt: skip
"""Opcodes that push their argument."""

_TEXT_OF_PYTHON_2 = frozenset(("STRING", "BINSTRING", "SHORT_BINSTRING"))
_IGNORED = frozenset(("PROTO", "FRAME", "STOP"))
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}

_STRAY = (AttributeError, IndexError, KeyError, LookupError, TypeError, ValueError, OverflowError, UnicodeError)
"""What damaged pickles raise."""


class _ProgramError(Exception):
    """Carries out what a function of the program raised, so that it is not taken for damage."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Mark:
    """Where the entries begin that a later opcode takes together."""


_MARK = _Mark()


class Unpickler:
    """Reads one pickle after another from a file.

    Args:
        file: The file, at the begin of a pickle.
        load_storage: Returns the storage that a checkpoint names by the tuple it is given.
    """

    def __init__(self, file: IO[bytes], load_storage: Callable[[tuple[Any, ...]], Any]) -> None:
        self._file = file
        self._load_storage = load_storage
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Returns the contents of the next pickle.

        Raises:
            UnpicklingError: It is damaged, or needs what is not allowed.
            EOFError: The file is empty here.
        """
        self._stack, self._memo = [], {}
        begin = self._file.tell()
        if not self._file.read(1):
            raise EOFError("Ran out of input")
        self._file.seek(begin)
        try:
            for opcode, argument, position in pickletools.genops(self._file):
                self._take(opcode.name, argument, position)
            (found,) = self._stack
        except _ProgramError as raised:
            raise raised.error from None
        except pickle.UnpicklingError as error:
            raise pickle.UnpicklingError(_with_begin(str(error))) from None
        except _STRAY as error:
            raise corrupt(f"{type(error).__name__}: {error}") from None
        return found

    def _take(self, name: str, argument: Any, position: int | None) -> None:
        stack = self._stack
        if name in _ARGUMENT:
            stack.append(argument)
        elif name in _PUSHED:
            stack.append(_PUSHED[name]())
        elif name in _TUPLES:
            stack.append(tuple(self._pop(_TUPLES[name])))
        elif name in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            self._memo[len(self._memo) if argument is None else argument] = stack[-1]
        elif name in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self._memo[argument])
        elif name == "MARK":
            stack.append(_MARK)
        elif name in _TEXT_OF_PYTHON_2:
            stack.append(argument.encode("latin1").decode("utf-8"))
        elif name in _IGNORED:
            pass
        elif name in self._BUILDING:
            self._BUILDING[name](self, argument)
        else:
            raise pickle.UnpicklingError(f"Unsupported operand {name} at byte {position}")

    def _pop(self, count: int) -> list[Any]:
        """The last `count` entries, taken off the stack."""
        if count > len(self._stack):
            raise corrupt("a stack of values is empty too soon")
        found = self._stack[len(self._stack) - count :]
        del self._stack[len(self._stack) - count :]
        return found

    def _pop_to_mark(self) -> list[Any]:
        """The entries behind the last mark, taken off the stack with it."""
        begin = next((i for i in range(len(self._stack) - 1, -1, -1) if self._stack[i] is _MARK), None)
        if begin is None:
            raise corrupt("entries have no begin")
        found = self._stack[begin + 1 :]
        del self._stack[begin:]
        return found

    def _target(self, wanted: tuple[type, ...]) -> Any:
        if type(self._stack[-1]) not in wanted:
            names = ", ".join(each.__name__ for each in wanted)
            raise pickle.UnpicklingError(f"Can only fill {names}, but got {type(self._stack[-1])}")
        return self._stack[-1]

    def _global(self, argument: str) -> None:
        module, _, name = argument.partition(" ")
        self._stack.append(find(f"{_PYTHON_2.get(module, module)}.{name}"))

    def _stack_global(self, _: Any) -> None:
        module, name = self._pop(2)
        self._stack.append(find(f"{module}.{name}"))

    def _reduce(self, _: Any) -> None:
        function, arguments = self._pop(2)
        if not may_call(function):
            raise pickle.UnpicklingError(f"Trying to call reduce for unrecognized function {function}")
        self._stack.append(_made(call, function, arguments) if is_allowed(function) else call(function, arguments))

    def _new_object(self, _: Any) -> None:
        made, arguments = self._pop(2)
        if not may_call(made):
            raise pickle.UnpicklingError(
                "Can only create new object for nn.Parameter or classes allowlisted via `add_safe_globals` "
                f"but got {made}"
            )
        self._stack.append(_made(made.__new__, made, *arguments) if is_allowed(made) else call(made, arguments))

    def _build(self, _: Any) -> None:
        (state,) = self._pop(1)
        made = self._stack[-1]
        if type(made) is OrderedDict:
            if any(hasattr(OrderedDict, name) for name in state):
                raise corrupt("a dictionary would lose its methods")
            vars(made).update(state)
        elif is_allowed(type(made)):
            _made(_set_state, made, state)
        else:
            raise pickle.UnpicklingError(
                "Can only build Tensor, Parameter, OrderedDict or types allowlisted via `add_safe_globals`, "
                f"but got {type(made)}"
            )

    def _append(self, _: Any) -> None:
        (entry,) = self._pop(1)
        self._target((list,)).append(entry)

    def _appends(self, _: Any) -> None:
        entries = self._pop_to_mark()
        self._target((list,)).extend(entries)

    def _add_items(self, _: Any) -> None:
        entries = self._pop_to_mark()
        self._target((set,)).update(entries)

    def _set_item(self, _: Any) -> None:
        key, value = self._pop(2)
        self._target((dict, OrderedDict, Counter))[key] = value

    def _set_items(self, _: Any) -> None:
        entries = self._pop_to_mark()
        self._target((dict, OrderedDict, Counter)).update(zip(entries[::2], entries[1::2], strict=True))

    def _tuple(self, _: Any) -> None:
        self._stack.append(tuple(self._pop_to_mark()))

    def _storage(self, _: Any) -> None:
        (named,) = self._pop(1)
        if type(named) is not tuple or named[:1] != ("storage",):
            raise pickle.UnpicklingError(f"Only persistent_load of storage is allowed, but got {named!r:.80}")
        self._stack.append(_made(self._load_storage, named))

    _BUILDING: ClassVar[dict[str, Callable[..., None]]] = {
        "GLOBAL": _global, "STACK_GLOBAL": _stack_global, "REDUCE": _reduce,
        "NEWOBJ": _new_object, "BUILD": _build, "APPEND": _append,
        "APPENDS": _appends, "ADDITEMS": _add_items, "SETITEM": _set_item,
        "SETITEMS": _set_items, "TUPLE": _tuple, "BINPERSID": _storage,
    }  # fmt: skip
    """Opcodes that take entries off the stack."""


def _made(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function makes that is the program's, or calls one of the program's."""
    try:
        return function(*arguments)
    except _STRAY as error:
        raise _ProgramError(error) from None


def _with_begin(message: str) -> str:
    begin = "Weights only load failed."
    return message if message.startswith(begin) else f"{begin} WeightsUnpickler error: {message}"


def _set_state(made: Any, state: Any) -> None:
    """Gives an object of a class that the program allows its state, as `pickle` does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    slots = None
    if isinstance(state, tuple) and len(state) == 2:
        state, slots = state
    if state:
        vars(made).update(state)
    for name, value in (slots or {}).items():
        setattr(made, name, value)
