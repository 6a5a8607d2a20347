"""Tensors of the program being imported: values that in-place ops replace, seen through views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Complex
from treadle.graph.value import Value

Held = Value | Complex
"""The value of a tensor, or its real and imaginary parts."""

Copy = Callable[[Any], Any]
"""What a tensor holds -> its copy."""


@dataclass(frozen=True, slots=True)
class View:
    """How a view follows from its base.

    Attributes:
        rule: (the base's value, *rest) -> the view's value, or those of all parts.
        back: (the base's value, the view's new value, *rest) -> the base's new value; None if that is not possible.
        rest: The other arguments of the op.
        part: Which of the results of the rule it is, if there are several.
    """

    rule: Callable[..., Any]
    back: Callable[..., Held] | None
    rest: Sequence[Any]
    part: int | None = None

    def value(self, base: Held) -> Held:
        """Returns the view of `base`."""
        found = self.rule(base, *self.rest)
        made: Held = found if self.part is None else found[self.part]
        return made


class Missing:
    """The result of an op whose fault has been recorded."""


class NotComputed:
    """A result that treadle does not compute: indices of a pool, what only a gradient reads."""


MISSING, NOT_COMPUTED = Missing(), NotComputed()


class Box:
    """One tensor. Graphs only compute new values, so a write in place puts another value into the box.

    A view derives its value again after its `base` has changed, and writes through to it. `owner` names the owner of
    memory that must not be written: an input, a parameter. With `returns_writes`, whoever runs the program writes the
    last value into it; copies of the box must not be written.
    """

    def __init__(self, value: Held, *, owner: str = "", returns_writes: bool = False) -> None:
        self._value = value
        self._base: Box | None = None
        self._view: View | None = None
        self._seen = 0
        self._version = 0
        self._invalid = ""
        self.owner = owner
        self._returns_writes = returns_writes
        self._may_share = False

    @staticmethod
    def view(value: Held, base: Box, view: View, *, may_share: bool) -> Box:
        """Returns a view of `base` with `value`; with `may_share`, PyTorch may have made a copy."""
        box = Box(value)
        box._base, box._view, box._may_share = base, view, may_share
        box._seen = base.version()
        return box

    def origin(self) -> Box | None:
        """Returns the tensor whose memory this one certainly shares; None if it may be a copy."""
        box = self
        while box._base is not None:
            if box._may_share:
                return None
            box = box._base
        return box

    def version(self) -> int:
        """Returns a number that increases with each write, also one through the base."""
        self.held()
        return self._version

    def read(self) -> Value:
        """Returns the current value. Raises Unsupported if it is unknown or complex."""
        held = self.held()
        if isinstance(held, Complex):
            raise Unsupported("treadle has no rule for it on complex numbers; split it with torch.view_as_real")
        return held

    def held(self) -> Held:
        """Returns the current value, of complex tensors too. Raises Unsupported if it is unknown."""
        if self._invalid:
            raise Unsupported(self._invalid)
        if self._base is not None and self._view is not None and self._base.version() != self._seen:
            self._value = self._view.value(self._base.held())
            self._seen = self._base.version()
            self._version += 1
        return self._value

    def write(self, value: Held) -> None:
        """Replaces the value, also in tensors that share its memory. Raises Unsupported where that is not possible."""
        if self._base is not None and self._may_share:
            self._base.invalidate(
                "it is read after a tensor that may share its memory was written in place; write to a .clone()"
            )
            self._base = None
        if self._base is not None:
            if self._view is None or self._view.back is None:
                raise Unsupported(
                    "it writes in place through a view of a kind treadle cannot follow; write to a .clone()"
                )
            self._base.write(self._view.back(self._base.held(), value, *self._view.rest))
            self._seen = self._base.version()
        elif self.owner and not self._returns_writes:
            raise Unsupported(f"it writes into {self.owner} in place; treadle never changes it: write to a .clone()")
        self._value = value
        self._version += 1

    def copy(self, copy: Copy) -> Box:
        """Returns a copy of the tensor, of the one that it is a view of, and of all that they hold."""
        box = Box(copy(self._value), owner=self.owner)
        box._version, box._invalid, box._may_share, box._seen = (
            self._version,
            self._invalid,
            self._may_share,
            self._seen,
        )
        if self._base is not None and self._view is not None:
            box._base = copy(self._base)
            box._view = replace(self._view, rest=[copy(each) for each in self._view.rest])
        return box

    def invalidate(self, why: str) -> None:
        """Marks the value as unknown, for the reason `why`."""
        self._invalid = why
        if self._base is not None:
            self._base.invalidate(why)
