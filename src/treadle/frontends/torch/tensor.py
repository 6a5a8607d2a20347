"""Tensors of the program being imported: values that in-place ops replace, seen through views."""

from __future__ import annotations

from collections.abc import Callable

from treadle.frontends.faults import Unsupported
from treadle.frontends.torch.build import Complex
from treadle.graph.value import Value

Held = Value | Complex
"""The value of a tensor, or its real and imaginary parts."""

Forward = Callable[[Held], Held]
"""The base's value -> the view's value."""

Backward = Callable[[Held, Held], Held]
"""(the base's value, the view's new value) -> the base's new value."""


class Missing:
    """The result of an op whose fault has been recorded."""


class NotComputed:
    """A result that treadle does not compute: indices of a pool, what only a gradient reads."""


MISSING, NOT_COMPUTED = Missing(), NotComputed()


class Box:
    """One tensor. Graphs only compute new values, so a write in place puts another value into the box.

    A view derives its value again after its `base` has changed, and writes through to it. `owner` names the owner of
    memory that must not be written: an input, a parameter.
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
        """Returns a view of `base` with `value`; with `may_share`, PyTorch may have made a copy."""
        box = Box(value)
        box._base, box._forward, box._backward, box._may_share = base, forward, backward, may_share
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
        if self._base is not None and self._forward is not None and self._base.version() != self._seen:
            self._value = self._forward(self._base.held())
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
        """Marks the value as unknown, for the reason `why`."""
        self._invalid = why
        if self._base is not None:
            self._base.invalidate(why)
