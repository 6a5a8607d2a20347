"""Scan for the `onnx` package's reference implementation, whose own is that of operator set 9 and makes an iteration.

In set 8 inputs have a batch before the sequence, and sequences of a batch may be shorter than the axis. Outputs of no
iteration are empty; what is unknown of their sizes is 0.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from treadle.frontends.onnx.reference_loop import nothing_stacked

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

_BATCHED = 8
"""The one operator set of this form."""


@cache
def reference_scan() -> type[OpRun]:
    """Return the Scan of the specification (https://onnx.ai/onnx/operators/onnx__Scan.html)."""
    from onnx.reference.ops import op_scan

    class Scan(op_scan.Scan):
        op_domain = ""

        def _run(self, *args: Any, **options: Any) -> tuple[Any, ...]:
            if self.run_params["opsets"].get("", _BATCHED + 1) != _BATCHED:
                return self._run_whole(args, options)
            lengths, *arrays = args
            scanned: int = self.num_scan_inputs  # type: ignore[attr-defined]  # the attribute
            states, sequences = arrays[: len(arrays) - scanned], arrays[len(arrays) - scanned :]
            batch, longest = sequences[0].shape[:2]
            counts = [longest] * batch if lengths is None or not lengths.size else [int(each) for each in lengths]
            rows = [
                self._row([each[row] for each in states], [each[row, :count] for each in sequences], options)
                for row, count in enumerate(counts)
            ]
            ends = [np.stack([last[number] for last, _ in rows]) for number in range(len(states))]
            outputs = self.body.proto_.output[len(states) :]  # type: ignore[attr-defined]  # the attribute
            for number, output in enumerate(outputs):
                found = next((items[number] for _, items in rows if items), None)
                item = nothing_stacked(output) if found is None else found[:0]
                made = np.zeros((batch, longest, *item.shape[1:]), item.dtype)
                for row, (_, items) in enumerate(rows):
                    if items:
                        made[row, : len(items[number])] = items[number]
                ends.append(made)
            return self._check_and_fix_outputs(tuple(ends))

        def _run_whole(self, args: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
            """The results in operator sets from 9 on."""
            scanned: int = self.num_scan_inputs  # type: ignore[attr-defined]  # the attribute
            states = args[: len(args) - scanned]
            if args[len(states)].shape[0]:
                found: tuple[Any, ...] = super()._run(*args, **options)  # type: ignore[no-untyped-call]
                return found
            outputs = self.body.proto_.output[len(states) :]  # type: ignore[attr-defined]  # the attribute
            return self._check_and_fix_outputs((*states, *map(nothing_stacked, outputs)))

        def _row(self, states: list[Any], sequences: list[Any], options: dict[str, Any]) -> tuple[list[Any], list[Any]]:
            """The last states for one sequence of the batch, and what iterations stack; nothing if there are none."""
            run: Any = self._run_body  # type: ignore[attr-defined]  # what runs the body
            backwards = getattr(self, "directions", None) or [0] * len(sequences)
            steps = [each[::-1] if back else each for each, back in zip(sequences, backwards, strict=True)]
            outer = {key: options.get(key) for key in ("attributes", "bindings")}
            stacked: list[list[Any]] = []
            for items in zip(*steps, strict=True):
                feeds = dict(zip(self.input_names, (*states, *items), strict=True))
                found = list(run({**(options.get("context") or {}), **feeds}, **outer))
                states = found[: len(states)]
                stacked.append(found[len(states) :])
            return states, [np.stack(each) for each in zip(*stacked, strict=True)]

    return Scan
