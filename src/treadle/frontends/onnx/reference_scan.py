"""Scan of operator set 8 for the `onnx` package's reference implementation, which has that of set 9 only.

Its inputs have a batch before the sequence, and sequences of a batch may be shorter than the axis.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from onnx.reference.op_run import OpRun

_BATCHED = 8
"""The one operator set of this form."""


@cache
def reference_scan() -> type[OpRun]:
    """Return a Scan that also follows https://onnx.ai/onnx/operators/onnx__Scan.html#scan-8."""
    from onnx.reference.ops import op_scan

    class Scan(op_scan.Scan):
        op_domain = ""

        def _run(self, *args: Any, **options: Any) -> tuple[Any, ...]:
            if self.run_params["opsets"].get("", _BATCHED + 1) != _BATCHED:
                found: tuple[Any, ...] = super()._run(*args, **options)  # type: ignore[no-untyped-call]
                return found
            lengths, *arrays = args
            scanned: int = self.num_scan_inputs  # type: ignore[attr-defined]  # the attribute
            states, sequences = arrays[: len(arrays) - scanned], arrays[len(arrays) - scanned :]
            batch, longest = sequences[0].shape[:2]
            counts = [longest] * batch if lengths is None or not lengths.size else [int(each) for each in lengths]
            rows = [
                self._row([each[row] for each in states], [each[row, :count] for each in sequences], longest, options)
                for row, count in enumerate(counts)
            ]
            return self._check_and_fix_outputs(tuple(np.stack(each) for each in zip(*rows, strict=True)))

        def _row(self, states: list[Any], sequences: list[Any], longest: int, options: dict[str, Any]) -> list[Any]:
            """The results for one sequence of the batch; elements of outputs after its end are 0."""
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
            ends = [np.stack(each) for each in zip(*stacked, strict=True)]
            return [*states, *(np.pad(end, [(0, longest - len(end)), *[(0, 0)] * (end.ndim - 1)]) for end in ends)]

    return Scan
