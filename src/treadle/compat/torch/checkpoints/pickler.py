"""Writes the pickles of checkpoints, in protocol 2, as PyTorch reads them with weights_only=True."""

from __future__ import annotations

import pickle
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from treadle.compat.torch.checkpoints.storages import CLASS_OF, memory_of
from treadle.compat.torch.devices import device
from treadle.compat.torch.dtypes import dtype
from treadle.compat.torch.nn.module import Module, Parameter
from treadle.compat.torch.sizes import Size
from treadle.compat.torch.tensor import Tensor
from treadle.ops.op import Array


class Saved(NamedTuple):
    """A storage of the checkpoint: its key, and the elements of a contiguous array."""

    key: str
    data: Array


class Pickler:
    """Pickles one object.

    Args:
        has_views: Whether names of storages have a sixth part, as in the older form of checkpoints.

    Attributes:
        storages: The storages of its tensors, in the order in which they were met.
    """

    def __init__(self, *, has_views: bool) -> None:
        self.storages: list[Saved] = []
        self._has_views = has_views
        self._out = bytearray()
        self._memo: dict[int, int] = {}
        self._kept: list[Any] = []
        self._keys: dict[tuple[int, int, str], Saved] = {}

    def dump(self, value: Any) -> bytes:
        """Returns the pickle of `value`.

        Raises:
            NotImplementedError: It holds what is no part of a checkpoint of weights.
        """
        self._out += pickle.PROTO + b"\x02"
        self._save(value, "the object")
        self._out += pickle.STOP
        return bytes(self._out)

    def _save(self, value: Any, where: str) -> None:
        if id(value) in self._memo:
            self._out += pickle.LONG_BINGET + struct.pack("<I", self._memo[id(value)])
            return
        save = self._SAVERS.get(type(value))
        if save is None:
            advice = "; save its state_dict()" if isinstance(value, Module) else ""
            raise NotImplementedError(
                f"torch.save: {where} is a {type(value).__name__}; treadle saves tensors, dtypes, numbers, texts and "
                f"containers of these{advice}"
            )
        save(self, value, where)

    def _remember(self, value: Any) -> None:
        """Gives what has just been written a number, by which it is named where it occurs again."""
        self._out += pickle.LONG_BINPUT + struct.pack("<I", len(self._kept))
        self._memo[id(value)] = len(self._kept)
        self._kept.append(value)

    def _global(self, module: str, name: str) -> None:
        self._out += pickle.GLOBAL + f"{module}\n{name}\n".encode()

    def _call(self, module: str, name: str, arguments: Sequence[Any], where: str) -> None:
        self._global(module, name)
        self._arguments(arguments, where)
        self._out += pickle.REDUCE

    def _arguments(self, arguments: Sequence[Any], where: str) -> None:
        self._out += pickle.MARK
        for argument in arguments:
            self._save(argument, where)
        self._out += pickle.TUPLE

    def _none(self, value: None, where: str) -> None:
        self._out += pickle.NONE

    def _bool(self, value: bool, where: str) -> None:
        self._out += pickle.NEWTRUE if value else pickle.NEWFALSE

    def _int(self, value: int, where: str) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self._out += pickle.BININT + struct.pack("<i", value)
            return
        data = pickle.encode_long(value)
        if len(data) > 255:
            raise NotImplementedError(
                f"torch.save: {where} is an integer of {len(data)} bytes; at most 255 are possible"
            )
        self._out += pickle.LONG1 + bytes([len(data)]) + data

    def _float(self, value: float, where: str) -> None:
        self._out += pickle.BINFLOAT + struct.pack(">d", value)

    def _str(self, value: str, where: str) -> None:
        data = value.encode("utf-8", "surrogatepass")
        self._out += pickle.BINUNICODE + struct.pack("<I", len(data)) + data
        self._remember(value)

    def _bytes(self, value: bytes, where: str) -> None:
        self._call("_codecs", "encode", (value.decode("latin1"), "latin1"), where)
        self._remember(value)

    def _bytearray(self, value: bytearray, where: str) -> None:
        self._call("builtins", "bytearray", (bytes(value),), where)
        self._remember(value)

    def _complex(self, value: complex, where: str) -> None:
        self._call("builtins", "complex", (value.real, value.imag), where)

    def _tuple(self, value: tuple[Any, ...], where: str) -> None:
        self._out += pickle.MARK
        for number, entry in enumerate(value):
            self._save(entry, f"{where}[{number}]")
        self._out += pickle.TUPLE
        self._remember(value)

    def _list(self, value: list[Any], where: str) -> None:
        self._out += pickle.EMPTY_LIST
        self._remember(value)
        self._out += pickle.MARK
        for number, entry in enumerate(value):
            self._save(entry, f"{where}[{number}]")
        self._out += pickle.APPENDS

    def _dict(self, value: dict[Any, Any], where: str) -> None:
        self._out += pickle.EMPTY_DICT
        self._remember(value)
        self._items(value, where)

    def _items(self, value: dict[Any, Any], where: str) -> None:
        self._out += pickle.MARK
        for key, entry in value.items():
            self._save(key, f"a key of {where}")
            self._save(entry, f"{where}[{key!r:.80}]")
        self._out += pickle.SETITEMS

    def _ordered(self, value: OrderedDict[Any, Any], where: str) -> None:
        self._call("collections", "OrderedDict", (), where)
        self._remember(value)
        self._items(value, where)
        if vars(value):
            self._save(vars(value), where)
            self._out += pickle.BUILD

    def _counter(self, value: Counter[Any], where: str) -> None:
        self._call("collections", "Counter", (dict(value),), where)
        self._remember(value)

    def _set(self, value: set[Any], where: str) -> None:
        self._call("builtins", "set", (list(value),), where)
        self._remember(value)

    def _size(self, value: Size, where: str) -> None:
        self._call("torch", "Size", (tuple(value),), where)

    def _dtype(self, value: dtype, where: str) -> None:
        self._global("torch", value.name)

    def _device(self, value: device, where: str) -> None:
        self._call("torch", "device", ("cpu",), where)

    def _parameter(self, value: Parameter, where: str) -> None:
        self._call("torch._utils", "_rebuild_parameter", (Tensor(value.numpy()), True, OrderedDict()), where)
        self._remember(value)

    def _tensor(self, value: Tensor, where: str) -> None:
        memory = memory_of(value.numpy())
        self._global("torch._utils", "_rebuild_tensor_v2")
        self._out += pickle.MARK
        self._storage(memory.elements, value.dtype, where)
        hooks: OrderedDict[str, Any] = OrderedDict()
        for argument in (memory.offset, tuple(value.shape), memory.strides, False, hooks):
            self._save(argument, where)
        self._out += pickle.TUPLE + pickle.REDUCE
        self._remember(value)

    def _storage(self, data: Array, of: dtype, where: str) -> None:
        """Names the storage `data`, which is written later."""
        place = (data.ctypes.data, data.nbytes, of.name if data.nbytes == 0 else "")
        saved = self._keys.get(place)
        if saved is None:
            saved = Saved(str(len(self.storages)), data)
            self.storages.append(saved)
            self._keys[place] = saved
        if saved.data.dtype != data.dtype:
            raise RuntimeError("Cannot save multiple tensors or storages that view the same data as different types")
        self._out += pickle.MARK
        self._save("storage", where)
        self._global("torch", CLASS_OF[of.name])
        for part in (saved.key, "cpu", data.size, *([None] if self._has_views else [])):
            self._save(part, where)
        self._out += pickle.TUPLE + pickle.BINPERSID

    _SAVERS: ClassVar[dict[type, Callable[..., None]]] = {
        type(None): _none, bool: _bool, int: _int, float: _float, str: _str,
        bytes: _bytes, bytearray: _bytearray, complex: _complex, tuple: _tuple,
        list: _list, dict: _dict, OrderedDict: _ordered, Counter: _counter,
        set: _set, Size: _size, dtype: _dtype, device: _device,
        Parameter: _parameter, Tensor: _tensor,
    }  # fmt: skip
    """How each type is written; no other type can be."""
