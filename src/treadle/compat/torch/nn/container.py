"""Modules that hold modules or parameters. Their methods are scripted as a user's own are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treadle.compat.torch.nn.module import Module, Parameter


class _List(Module):
    """Entries as attributes "0", "1", ..."""

    def __init__(self, entries: Iterable[Any] = ()) -> None:
        super().__init__()
        self.extend(entries)

    def entries(self) -> list[Any]:
        """The entries in order."""
        return [each for name, each in vars(self).items() if name.isdigit()]

    def append(self, entry: Any) -> Any:
        """Add an entry at the end."""
        setattr(self, str(len(self)), entry)
        return self

    def extend(self, entries: Iterable[Any]) -> Any:
        """Add entries at the end."""
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
    """Modules in a list."""


class ParameterList(_List):
    """Parameters in a list."""

    def append(self, entry: Any) -> Any:
        """Add a parameter at the end; other tensors become one."""
        return super().append(entry if isinstance(entry, Parameter) else Parameter(entry))


class Sequential(_List):
    """Modules one after another."""

    def __init__(self, *modules: Any) -> None:
        if len(modules) == 1 and isinstance(modules[0], Mapping):
            Module.__init__(self)
            for name, module in modules[0].items():
                setattr(self, name, module)
        else:
            super().__init__(modules[0] if len(modules) == 1 and isinstance(modules[0], list) else modules)

    def entries(self) -> list[Any]:
        """The modules in order."""
        return list(self.children())

    def forward(self, input: Any) -> Any:
        """Each module's result is the next one's input."""
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
        """The names."""
        return [name for name, _ in self.named_children()]

    def values(self) -> list[Module]:
        """The modules."""
        return list(self.children())

    def items(self) -> list[tuple[str, Module]]:
        """Names and modules."""
        return list(self.named_children())
