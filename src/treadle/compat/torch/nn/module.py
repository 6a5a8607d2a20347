"""The base class of modules."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from treadle.compat.torch import dtypes
from treadle.compat.torch.functions.creation import to
from treadle.compat.torch.tensor import Tensor


class Parameter(Tensor):
    """A tensor that a module lists among its parameters.

    Args:
        data: A tensor or array, whose memory is shared.
        requires_grad: Accepted and ignored: there are no gradients.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        super().__init__(data.numpy() if isinstance(data, Tensor) else data)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Keys(NamedTuple):
    """The names that a state lacks, and those that the module lacks."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"_IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Module:
    """Base class of models.

    Parameters, registered buffers and modules that are attributes are found by name. Subclasses define `forward`.
    """

    training: bool = True
    _buffers: frozenset[str] = frozenset()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the module's result; subclasses override it."""
        raise NotImplementedError(f'Module [{type(self).__name__}] is missing the required "forward" function')

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs forward."""
        return self.forward(*args, **kwargs)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Sets a tensor that belongs to the module but is no parameter.

        Args:
            name: The attribute's name.
            tensor: The tensor, or None.
            persistent: Whether `state_dict` includes it.
        """
        setattr(self, name, tensor)
        if persistent:
            self._buffers = self._buffers | {name}

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Sets a parameter, or None, by name."""
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Sets a module by name."""
        setattr(self, name, module)

    register_module = add_module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields the direct submodules with their names."""
        yield from ((name, each) for name, each in vars(self).items() if isinstance(each, Module))

    def children(self) -> Iterator[Module]:
        """Yields the direct submodules."""
        yield from (each for _, each in self.named_children())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yields this module and all its submodules with dotted names.

        Args:
            memo: Modules that are left out; receives those that are yielded.
            prefix: The begin of all names.
            remove_duplicate: Whether a module of several names is yielded once, under its first one.
        """
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, each in self.named_children():
            yield from each.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all its submodules, each once."""
        yield from (each for _, each in self.named_modules())

    def get_submodule(self, target: str) -> Module:
        """Returns the submodule with a dotted name; this module for "". Raises AttributeError if there is none."""
        found: Any = self
        for name in filter(None, target.split(".")):
            found = _attribute(found, name)
            if not isinstance(found, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")  # noqa: TRY004 - as PyTorch has it
        return cast(Module, found)

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter with a dotted name. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        found = _attribute(self.get_submodule(path), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"`{name}` is not an nn.Parameter")  # noqa: TRY004 - as PyTorch has it
        return found

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer with a dotted name. Raises AttributeError if there is none."""
        path, _, name = target.rpartition(".")
        holder = self.get_submodule(path)
        found = _attribute(holder, name)
        if name not in holder._buffers:  # noqa: SLF001 - of its kind
            raise AttributeError(f"`{name}` is not a buffer")
        return cast(Tensor, found)

    def _named(
        self, matches: Callable[[Module, str, Any], bool], prefix: str, *, recurse: bool, once: bool
    ) -> Iterator[tuple[str, Any]]:
        """Yields the attributes of this module, or of its submodules too, for which `matches` is true."""
        seen: set[int] = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=once) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, each in vars(module).items():
                if matches(module, name, each) and id(each) not in seen:
                    if once:
                        seen.add(id(each))
                    yield (f"{path}.{name}" if path else name), each

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yields the parameters with dotted names.

        Args:
            prefix: The begin of all names.
            recurse: Whether those of submodules are among them.
            remove_duplicate: Whether a parameter of several names is yielded once, under its first one.
        """
        return self._named(
            lambda _, __, each: isinstance(each, Parameter), prefix, recurse=recurse, once=remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields the parameters, each once; those of submodules too unless `recurse` is False."""
        yield from (each for _, each in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yields the persistent buffers with dotted names. The arguments are those of named_parameters()."""
        return self._named(
            lambda module, name, each: name in module._buffers and each is not None,  # noqa: SLF001 - of its kind
            prefix,
            recurse=recurse,
            once=remove_duplicate,
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields the persistent buffers, each once; those of submodules too unless `recurse` is False."""
        yield from (each for _, each in self.named_buffers(recurse=recurse))

    def _entries(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        """Yields what a state has of this module and its submodules, in PyTorch's order."""
        own = [(name, each) for name, each in vars(self).items() if isinstance(each, Tensor)]
        yield from ((prefix + name, each) for name, each in own if isinstance(each, Parameter))
        yield from ((prefix + name, each) for name, each in own if name in self._buffers)
        for name, child in self.named_children():
            yield from child._entries(f"{prefix}{name}.")  # noqa: SLF001

    def state_dict(
        self, *, destination: OrderedDict[str, Tensor] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> OrderedDict[str, Tensor]:
        """Returns parameters and persistent buffers by dotted names; the tensors share their memory.

        Args:
            destination: A dictionary that is extended and returned.
            prefix: The begin of all names.
            keep_vars: Whether the parameters and buffers themselves are returned.
        """
        found: OrderedDict[str, Tensor] = OrderedDict() if destination is None else destination
        found.update((name, each if keep_vars else Tensor.of(each.numpy())) for name, each in self._entries(prefix))
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Keys:
        """Copies tensors into the parameters and buffers of the same names.

        Args:
            state_dict: Tensors or arrays by dotted names, such as `torch.load` returns; a PyTorch module's state_dict
                works.
            strict: Whether missing and unknown names are errors.
            assign: Whether parameters and buffers take the tensors' memory and dtype, in place of copies in their own
                dtype.

        Returns:
            The missing and the unexpected names.

        Raises:
            RuntimeError: Names are missing or unknown, or shapes differ; the message lists all of them.
            TypeError: `state_dict` is no dictionary.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        own = dict(self._entries(""))
        keys = Keys([name for name in own if name not in state_dict], [name for name in state_dict if name not in own])
        faults = []
        if strict:
            for what, names in (("Missing", keys.missing_keys), ("Unexpected", keys.unexpected_keys)):
                quoted = ", ".join(f'"{name}"' for name in names)
                faults += [f"{what} key(s) in state_dict: {quoted}. "] if names else []
        for name in (name for name in own if name in state_dict):
            given = state_dict[name]
            array = np.asarray(given.detach().numpy() if hasattr(given, "detach") else given)
            shape = tuple(own[name].shape)
            if shape == () and array.shape == (1,):  # as before PyTorch 0.4, which had no tensors of rank 0
                array = array[0]
            if array.shape != shape:
                faults.append(
                    f"size mismatch for {name}: copying a param with shape torch.Size({list(array.shape)}) from "
                    f"checkpoint, the shape in current model is torch.Size({list(shape)})."
                )
            else:
                own[name].array = array if assign else array.astype(own[name].dtype.numpy)
        if faults:
            raise RuntimeError(f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(faults))
        return keys

    def train(self, mode: bool = True) -> Module:
        """Switches training mode on or off; while training, layers such as dropout refuse to run."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Module:
        """Switches to inference mode."""
        return self.train(mode=False)

    def requires_grad_(self, requires_grad: bool = True) -> Module:
        """Does nothing: there are no gradients."""
        return self

    def to(self, *args: Any, **kwargs: Any) -> Module:
        """Converts floating-point parameters and buffers to another dtype, in place."""
        for _, tensor in self._entries(""):
            if tensor.is_floating_point():
                tensor.array = to(tensor, *args, **kwargs).numpy()
        return self

    def float(self) -> Module:
        """Converts floating-point parameters and buffers to float32."""
        return self.to(dtypes.float32)

    def double(self) -> Module:
        """Converts floating-point parameters and buffers to float64."""
        return self.to(dtypes.float64)

    def half(self) -> Module:
        """Converts floating-point parameters and buffers to float16."""
        return self.to(dtypes.float16)

    def bfloat16(self) -> Module:
        """Converts floating-point parameters and buffers to bfloat16."""
        return self.to(dtypes.bfloat16)

    def cpu(self) -> Module:
        """Does nothing: treadle runs on CPUs."""
        return self

    def apply(self, fn: Callable[[Module], Any]) -> Module:
        """Calls `fn` with every submodule, then with this module."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """Returns the text between the brackets of repr."""
        return ""

    def __repr__(self) -> str:
        inner = [f"({name}): " + repr(each).replace("\n", "\n  ") for name, each in self.named_children()]
        extra = self.extra_repr()
        if not inner and "\n" not in extra:
            return f"{type(self).__name__}({extra})"
        lines = [*(extra.split("\n") if extra else ()), *inner]
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"


def _attribute(module: Module, name: str) -> Any:
    """Returns an attribute. Raises AttributeError with PyTorch's message if there is none."""
    if not hasattr(module, name):
        raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
    return getattr(module, name)
