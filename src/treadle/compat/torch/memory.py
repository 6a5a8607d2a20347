"""Writes in place during a recording: graphs only compute new values, so a write gives a tensor another value.

A view is computed again from its base after the base has changed, and a write to the view is written through to the
base. Tensors that existed before the recording (arguments, parameters, buffers) get their new elements when it is
computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from treadle.ops.op import Array

if TYPE_CHECKING:
    from treadle.compat.torch.recording import Recording
    from treadle.compat.torch.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Step:
    """One step from a base to a view: its ops, its NumPy view, and the base's value after a write to the view."""

    forward: Callable[[Tensor], Tensor]
    of_array: Callable[[Array], Array]
    backward: Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class View:
    """The value number of a view's root, and the steps from the root to the view."""

    root: int
    steps: tuple[Step, ...]

    def of_array(self, array: Array) -> Array:
        """Returns the view of the root's array."""
        for step in self.steps:
            array = step.of_array(array)
        return array


class Memory:
    """The current value of each tensor of one recording, by the number of the tensor's first value."""

    __slots__ = ("_latest", "_seen", "_versions", "_views", "written")

    def __init__(self) -> None:
        self._latest: dict[int, int] = {}
        self._views: dict[int, View] = {}
        self._versions: dict[int, int] = {}  # of roots; each write increments it
        self._seen: dict[int, int] = {}  # the root's version when a view's value was computed
        self.written: dict[int, Tensor] = {}  # inputs with pending writes, by number

    def current(self, recording: Recording, slot: int) -> int:
        """Returns the number of the current value of the tensor whose first value is `slot`."""
        view = self._views.get(slot)
        if view is not None and self._versions.get(view.root, 0) != self._seen[slot]:
            tensor = self._chain(recording, view)[-1]
            self._latest[slot] = recording.number(view.steps[-1].forward(tensor))
            self._seen[slot] = self._versions[view.root]
        return self._latest.get(slot, slot)

    def _chain(self, recording: Recording, view: View) -> list[Tensor]:
        """Returns the current root and the views between it and `view`."""
        tensors = [recording.alias(self._latest.get(view.root, view.root))]
        for step in view.steps[:-1]:
            tensors.append(step.forward(tensors[-1]))
        return tensors

    def rename(self, slot: int, value: int) -> None:
        """Makes an existing value the current one of a new tensor."""
        self._latest[slot] = value

    def share(self, recording: Recording, view: Tensor, base: Tensor, step: Step) -> None:
        """Records that `view` shares the memory of `base`."""
        if view is base or base.frozen or view.recording is not recording:
            return
        parent = recording.slot(base)
        found = self._views.get(parent)
        root, steps = (parent, ()) if found is None else (found.root, found.steps)
        self._views[view.number] = View(root, (*steps, step))
        self._seen[view.number] = self._versions.get(root, 0)

    def write(self, recording: Recording, target: Tensor, new: Tensor) -> None:
        """Writes the elements of `new` into `target` and into the tensors that share its memory."""
        if target.frozen:
            raise RuntimeError("a frozen module's parameters and buffers are constants: they cannot be written")
        if self.written:
            self.flush_overlapping(recording, [target])
        slot, value = recording.slot(target), recording.number(new)
        view = self._views.get(slot)
        root = slot
        if view is not None:
            root = view.root
            for step, base in zip(reversed(view.steps), reversed(self._chain(recording, view)), strict=True):
                new = step.backward(base, new)
            self._latest[root] = recording.number(new)
        self._latest[slot] = value
        self._versions[root] = self._seen[slot] = self._versions.get(root, 0) + 1
        if root in recording.inputs:
            self._note(recording, root)

    def _note(self, recording: Recording, root: int) -> None:
        tensor = recording.inputs[root]
        array = tensor.array
        assert array is not None
        if not array.flags.writeable:
            raise RuntimeError("this tensor is read-only, as the array it was made of is; write to x.clone()")
        self.written[root] = tensor
        others = (each for number, each in recording.inputs.items() if number != root)
        if any(each.array is not None and np.may_share_memory(each.array, array) for each in others):
            recording.flush()

    def has_written(self, tensor: Tensor) -> bool:
        """Returns True if `tensor` existed before the recording and has new elements that are not computed yet."""
        return any(tensor is each for each in self.written.values())

    def flush_overlapping(self, recording: Recording, operands: Sequence[Tensor | Array | None]) -> None:
        """Computes pending writes if `operands` bring memory that may overlap the memory to be written."""
        for each in operands:
            if each is None or isinstance(each, np.ndarray) or each.array is None or self.has_written(each):
                continue
            array = each.array
            if any(w.array is not None and np.may_share_memory(w.array, array) for w in self.written.values()):
                recording.flush()
                return

    def views_of_roots(self, recording: Recording, tensors: Sequence[Tensor]) -> dict[int, View]:
        """Returns the views among `tensors`, by number, whose root is an input or is computed with them."""
        made = {tensor.number for tensor in tensors}
        found = {}
        for tensor in tensors:
            view = self._views.get(tensor.number)
            if view is not None and (view.root in recording.inputs or view.root in made):
                found[tensor.number] = view
        return found
