"""Modules that hold modules or parameters. Scripts enter their methods as they do a user's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treadle.compat.torch.nn.module import Module, Parameter


class _List(Module):
    """Entries stored as attributes "0", "1", ..."""

    def __init__(self, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(entries)

    def entries(self) -> list[Any]:
        """Returns the entries in order."""
        return [each for name, each in vars(self).items() if name.isdigit()]

    def append(self, entry: Any) -> Any:
        """Adds an entry at the end."""
        setattr(self, str(len(self)), entry)
        return self

    def extend(self, entries: Iterable[Any]) -> Any:
        """Adds entries at the end."""
        for entry in entries:
            self.append(entry)
        return self

    def __len__(self) -> int:
        return len(self.entries())

    def __iter__(self) -> Iterator[Any]:
        return iter(self.entries())

    def __getitem__(self, index: Any) -> Any:
        found = self.entries()[index]
        return type(self)(found) if isinstance(index, slice) else found

    def __setitem__(self, index: int, entry: Any) -> None:
        setattr(self, str(range(len(self))[index]), entry)


class ModuleList(_List):
    """A list of modules."""


class ParameterList(_List):
    """A list of parameters."""

    def append(self, entry: Any) -> Any:
        """Adds a parameter at the end; a tensor becomes one."""
        return super().append(entry if isinstance(entry, Parameter) else Parameter(entry))


class Sequential(_List):
    """Modules that run one after another.

    Args:
        *modules: Modules; or one list of modules; or one mapping of names to modules.
    """

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            Module.__init__(self)
            for name, module in modules[0].items():
                setattr(self, name, module)
        else:
            super().__init__(modules[0] if len(modules) == 1 and isinstance(modules[0], list) else modules)

    def entries(self) -> list[Any]:
        """Returns the modules in order."""
        return list(self.children())

    def forward(self, input: Any) -> Any:
        """Passes the input through all modules in order."""
        for module in self:
            input = module(input)  # noqa: A001
        return input


class ModuleDict(Module):
    """Modules by name."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        for name, module in (modules or {}).items():
            setattr(self, name, module)

    def __getitem__(self, name: str) -> Any:
        return vars(self)[name]

    def __setitem__(self, name: str, module: Module) -> None:
        setattr(self, name, module)

    def __contains__(self, name: str) -> bool:
        return name in dict(self.named_children())

    def __len__(self) -> int:
        return len(list(self.named_children()))

    def keys(self) -> list[str]:
        """Returns the names."""
        return [name for name, _ in self.named_children()]

    def values(self) -> list[Module]:
        """Returns the modules."""
        return list(self.children())

    def items(self) -> list[tuple[str, Module]]:
        """Returns names and modules."""
        return list(self.named_children())
