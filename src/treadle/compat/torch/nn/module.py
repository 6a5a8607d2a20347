"""Modules: tensors and modules as attributes, and a forward method."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions.creation import to
from treadle.compat.torch.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module lists among its parameters."""

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.numpy() if isinstance(data, Tensor) else data)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Keys(NamedTuple):
    """What load_state_dict gives back: names that the state lacks, and names that the module lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module:
    """Base class of models. Attributes that are Parameters, registered buffers or Modules are found by name."""

    training: bool = True
    _buffers: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes; subclasses say."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """A tensor that belongs to the module but is no parameter."""
        setattr(self, name, tensor)
        if persistent:
            self._buffers = self._buffers | {name}

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Set a parameter, or None in place of one."""
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Set a module by name."""
        setattr(self, name, module)

    register_module = add_module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly inside."""
        yield from ((name, each) for name, each in vars(self).items() if isinstance(each, Module))

    def children(self) -> Iterator[Module]:
        """The modules directly inside."""
        yield from (each for _, each in self.named_children())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all inside it, by dotted names."""
        yield prefix, self
        for name, each in self.named_children():
            yield from each.named_modules(f"{prefix}.{name}" if prefix else name)

    def modules(self) -> Iterator[Module]:
        """This module and all inside it."""
        yield from (each for _, each in self.named_modules())

    def _named(self, wanted: Callable[[Module, str, Any], bool]) -> Iterator[tuple[str, Any]]:
        for prefix, module in self.named_modules():
            for name, each in vars(module).items():
                if wanted(module, name, each):
                    yield (f"{prefix}.{name}" if prefix else name), each

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters, by dotted names."""
        return self._named(lambda _, __, each: isinstance(each, Parameter))

    def parameters(self) -> Iterator[Parameter]:
        """All parameters."""
        yield from (each for _, each in self.named_parameters())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """All buffers, by dotted names."""
        return self._named(lambda module, name, each: name in module._buffers and each is not None)  # noqa: SLF001

    def buffers(self) -> Iterator[Tensor]:
        """All buffers."""
        yield from (each for _, each in self.named_buffers())

    def state_dict(self) -> OrderedDict[str, Tensor]:
        """Parameters and buffers by dotted names."""
        return OrderedDict([*self.named_parameters(), *self.named_buffers()])

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> Keys:
        """Write tensors or arrays (those of a PyTorch state_dict too) into parameters and buffers of those names.

        Raises RuntimeError that lists names missing or unknown (if `strict`) and shapes that differ.
        """
        own = self.state_dict()
        keys = Keys([name for name in own if name not in state_dict], [name for name in state_dict if name not in own])
        faults = []
        if strict:
            faults += [f"Missing key(s) in state_dict: {name!r}" for name in keys.missing_keys]
            faults += [f"Unexpected key(s) in state_dict: {name!r}" for name in keys.unexpected_keys]
        for name in own.keys() & state_dict.keys():
            given = state_dict[name]
            array = np.asarray(given.detach().numpy() if hasattr(given, "detach") else given)
            if array.shape != tuple(own[name].shape):
                faults.append(f"size mismatch for {name}: got {array.shape}, wanted {tuple(own[name].shape)}")
            else:
                own[name].array = array.astype(own[name].dtype.numpy)
        if faults:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(faults))
        return keys

    def train(self, mode: bool = True) -> Module:
        """Training mode, in which layers that only training needs refuse to run."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Inference mode."""
        return self.train(mode=False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Nothing to do: there are no gradients."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Floating-point parameters and buffers as another element type."""
        for tensor in self.state_dict().values():
            if tensor.is_floating_point():
                tensor.array = to(tensor, *args, **kwargs).numpy()
        return self

    def float(self) -> Module:
        """Floating-point parameters and buffers as float32."""
        return self.to(dtypes.float32)

    def double(self) -> Module:
        """Floating-point parameters and buffers as float64."""
        return self.to(dtypes.float64)

    def half(self) -> Module:
        """Floating-point parameters and buffers as float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Module:
        """Floating-point parameters and buffers as bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self) -> Module:
        """Nothing to do: treadle runs on CPUs."""
        return self

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Call `fn` with every module inside, then with this one."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """What stands between the brackets of repr."""
        return ""

    def __repr__(self) -> str:
        inner = [f"({name}): " + repr(each).replace("\n", "\n  ") for name, each in self.named_children()]
        if not inner:
            return f"{type(self).__name__}({self.extra_repr()})"
        return f"{type(self).__name__}(\n  " + "\n  ".join(inner) + "\n)"
