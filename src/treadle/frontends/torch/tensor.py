"""Tensors of the program that is being imported: values that in-place ops replace, seen through views."""

from __future__ import annotations

from collections.abc import Callable

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Complex
from treadle.graph.value import Value

Held = Value | Complex
"""What a tensor is worth: one value, or two parts."""

Forward = Callable[[Held], Held]
"""The base's value -> the view's."""

Backward = Callable[[Held, Held], Held]
"""(the base's value, the view's new one) -> the base's new value."""


class Missing:
    """The result of an op with a fault, which is noted already."""


class NotComputed:
    """A result that treadle does not compute: where a pool found its elements, what only a gradient reads."""


MISSING, NOT_COMPUTED = Missing(), NotComputed()


class Box:
    """One tensor. Graphs compute new values only, so writing in place puts another value into the box.

    A view reads its `base` anew when that has changed, and writes through it. `owner` says whose memory it is that
    must not be written: an input, a parameter.
    """

    def __init__(self, value: Held, *, owner: str = "") -> None:
        self._value = value
        self._base: Box | None = None
        self._forward: Forward | None = None
        self._backward: Backward | None = None
        self._seen = 0
        self._version = 0
        self._invalid = ""
        self.owner = owner
        self._may_share = False

    @staticmethod
    def view(value: Held, base: Box, forward: Forward, backward: Backward | None, *, may_share: bool) -> Box:
        """A view of `base` with `value`; `may_share`: PyTorch makes a copy where strides ask for it."""
        box = Box(value)
        box._base, box._forward, box._backward, box._may_share = base, forward, backward, may_share
        box._seen = base.version()
        return box

    def origin(self) -> Box | None:
        """The tensor whose memory this one surely shares; None if it may be a copy."""
        box = self
        while box._base is not None:
            if box._may_share:
                return None
            box = box._base
        return box

    def version(self) -> int:
        """A number that changes with each write, also one through its base."""
        self.held()
        return self._version

    def read(self) -> Value:
        """The value as it is now. Raises Unsupported if that cannot be told, or is complex."""
        held = self.held()
        if isinstance(held, Complex):
            raise Unsupported("treadle has no rule for it on complex numbers; take it apart with torch.view_as_real")
        return held

    def held(self) -> Held:
        """As `read`, complex tensors too."""
        if self._invalid:
            raise Unsupported(self._invalid)
        if self._base is not None and self._forward is not None and self._base.version() != self._seen:
            self._value = self._forward(self._base.held())
            self._seen = self._base.version()
            self._version += 1
        return self._value

    def write(self, value: Held) -> None:
        """Replace the value, here and in what shares its memory. Raises Unsupported where that is not possible."""
        if self._base is not None and self._may_share:
            self._base.invalidate(
                "it is read after a tensor that may share its memory was written in place; write to a .clone()"
            )
            self._base = None
        if self._base is not None:
            if self._backward is None:
                raise Unsupported(
                    "it writes in place through a view of a kind treadle cannot follow; write to a .clone()"
                )
            self._base.write(self._backward(self._base.held(), value))
            self._seen = self._base.version()
        elif self.owner:
            raise Unsupported(f"it writes into {self.owner} in place; treadle never changes it: write to a .clone()")
        self._value = value
        self._version += 1

    def invalidate(self, why: str) -> None:
        """From now on the value cannot be told."""
        self._invalid = why
        if self._base is not None:
            self._base.invalidate(why)
