"""What rules take: read from their signatures, for calls by users and for nodes of files alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treadle.frontends.tensorflow.emitter import Emitter
from treadle.graph.value import Value


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a rule, without the emitter.

    `kinds` says of each parameter what kind of tensor it is (None: an attribute, a Python value) and whether it is
    several; `dtypes` are the attributes that are element types; `spread` is the parameter *values, if there is one.
    """

    signature: inspect.Signature
    kinds: Mapping[str, tuple[str | None, bool]]
    dtypes: frozenset[str]
    spread: str | None

    @staticmethod
    def of(rule: Callable[..., Any]) -> Parameters:
        """Those of `rule`."""
        found = list(inspect.signature(rule).parameters.values())[1:]
        return Parameters(
            inspect.Signature(found),
            {parameter.name: kind_of(str(parameter.annotation)) for parameter in found},
            frozenset(p.name for p in found if str(p.annotation).startswith("DType")),
            next((p.name for p in found if p.kind is inspect.Parameter.VAR_POSITIONAL), None),
        )

    def call(self, rule: Callable[..., Any], e: Emitter, given: Mapping[str, Any], spread: Sequence[Value]) -> Any:
        """What `rule` makes of these arguments."""
        if self.spread is None:
            return rule(e, **given)
        last = [name for name, p in self.signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
        first = [value for name, value in given.items() if name not in last]
        return rule(e, *first, *spread, **{name: given[name] for name in last})


def kind_of(annotation: str) -> tuple[str | None, bool]:
    """What a parameter with this annotation is: (kind of tensor or None for an attribute, whether it is several)."""
    several = annotation.startswith("Sequence[")
    word = annotation.removeprefix("Sequence[").split("]")[0].split(" ")[0]
    return (word if word in ("Value", "Same", "Shape") else None), several
