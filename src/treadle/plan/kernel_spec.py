"""The contract between lowering and kernel generators: what shapes a kernel's code, and what it is given at run time.

Each kernel family has one module in `plan.kernels` with two records: its `KernelSpec` (parameters: one machine code for
each set of them) and its `KernelArgs` (int64 arguments: bounds, strides, offsets), and the constants that both sides
use. Lowering fills the records, generators read them by name, and `KernelArgs.packed` is the only place that knows the
order in which arguments lie in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from itertools import count
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

from treadle.records import dataclass

T = TypeVar("T")

Lengths: TypeAlias = "Mapping[str, int | tuple[int, int]]"
"""How many numbers each tuple of a `KernelArgs` has; two numbers for a tuple of tuples."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """The parameters of a kernel: everything that shapes its code. Calls with equal specs share one compiled kernel.

    A subclass is one kernel family. Its fields are ints, bools, strings, DTypes, Exprs, Layouts, other specs, or tuples
    of these: their `repr` identifies the kernel on disk. A loop bound that does not shape the code is an argument.
    """

    family: ClassVar[str]
    """The name of the family, as traces, `treadle inspect` and symbols show it."""

    def __str__(self) -> str:
        named = sorted((field.name, getattr(self, field.name)) for field in fields(self))
        return f"{self.family}({', '.join(f'{name}={value!r}' for name, value in named)})"

    @property
    def symbol(self) -> str:
        """The name of the kernel's function: its family and a hash of its parameters."""
        return f"treadle_{self.family}_{hashlib.sha256(str(self).encode()).hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelArgs(Generic[T]):
    """The arguments of a kernel by name: ints where lowering fills them, IR values where a generator reads them.

    A field is one argument (`T`), a tuple of them, a tuple of such tuples, or a record of arguments itself, such as
    those of another kernel that is emitted into this one. A field that is a tuple has as many elements as
    `tuple_lengths` says for the kernel's spec.
    """

    @classmethod
    def tuple_lengths(cls, spec: Any) -> Lengths:
        """The lengths of the fields that are tuples, by name, for a kernel of `spec`."""
        return {}

    @classmethod
    def inner_kernels(cls, spec: Any) -> Mapping[str, tuple[type[KernelArgs[Any]], KernelSpec]]:
        """The fields that are records of arguments, by name: their class, and the spec that it is packed with."""
        return {}

    def packed(self, spec: KernelSpec) -> tuple[T, ...]:
        """Returns the arguments in the order in which a kernel of `spec` finds them in memory.

        Raises:
            ValueError: a tuple does not have the length that `spec` asks for.
        """
        return tuple(self._numbers(spec))

    def _numbers(self, spec: KernelSpec) -> Iterator[T]:
        lengths, inner = self.tuple_lengths(spec), self.inner_kernels(spec)
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in inner:
                yield from value.packed(inner[field.name][1])
            elif field.name not in lengths:
                yield value
            else:
                wanted = lengths[field.name]
                rows = (value,) if isinstance(wanted, int) else value
                shape = (1, wanted) if isinstance(wanted, int) else wanted
                if len(rows) != shape[0] or any(len(row) != shape[1] for row in rows):
                    name = f"{type(self).__name__}.{field.name}"
                    raise ValueError(f"{name}: wanted {wanted} numbers for {spec}, got {value}")
                for row in rows:
                    yield from row

    @classmethod
    def unpacked(cls, spec: KernelSpec, read: Callable[[int], T]) -> Self:
        """Returns the record whose arguments are `read(position)`, with positions as `packed` has them."""
        return cls.taken(spec, map(read, count()))

    @classmethod
    def taken(cls, spec: KernelSpec, numbers: Iterator[T]) -> Self:
        """Returns the record of the next `numbers`, which are in the order of `packed`."""
        lengths, inner = cls.tuple_lengths(spec), cls.inner_kernels(spec)
        taken: dict[str, Any] = {}
        for field in fields(cls):
            if field.name in inner:
                kind, other = inner[field.name]
                taken[field.name] = kind.taken(other, numbers)
            elif field.name not in lengths:
                taken[field.name] = next(numbers)
            else:
                wanted = lengths[field.name]
                rows, columns = (1, wanted) if isinstance(wanted, int) else wanted
                table = tuple(tuple(next(numbers) for _ in range(columns)) for _ in range(rows))
                taken[field.name] = table[0] if isinstance(wanted, int) else table
        return cls(**taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class NoArgs(KernelArgs[T]):
    """The arguments of a kernel that has none."""
