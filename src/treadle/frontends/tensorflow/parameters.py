"""Parameters of rules, read from their signatures. Calls by users and nodes of files are bound by them alike."""

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

    `kinds` says of each parameter what kind of tensor it is (None: an attribute, a Python value) and whether it takes
    several; `dtypes` are the attributes that are element types; `variadic` is the parameter *values, if there is one.
    """

    signature: inspect.Signature
    kinds: Mapping[str, tuple[str | None, bool]]
    dtypes: frozenset[str]
    variadic: str | None

    @staticmethod
    def of(rule: Callable[..., Any]) -> Parameters:
        """Return the parameters of `rule`."""
        found = list(inspect.signature(rule).parameters.values())[1:]
        return Parameters(
            inspect.Signature(found),
            {parameter.name: kind_of(str(parameter.annotation)) for parameter in found},
            frozenset(p.name for p in found if str(p.annotation).startswith("DType")),
            next((p.name for p in found if p.kind is inspect.Parameter.VAR_POSITIONAL), None),
        )

    def call(self, rule: Callable[..., Any], e: Emitter, given: Mapping[str, Any], variadic: Sequence[Value]) -> Any:
        """Call `rule` with these arguments. Raises TypeError if one is missing."""
        if self.variadic is None:
            return rule(e, **given)
        for name, parameter in self.signature.parameters.items():
            if name != self.variadic and name not in given and parameter.default is inspect.Parameter.empty:
                raise TypeError(f"missing a required argument: {name!r}")
        last = [name for name, p in self.signature.parameters.items() if p.kind is inspect.Parameter.KEYWORD_ONLY]
        first = [value for name, value in given.items() if name not in last]
        return rule(e, *first, *variadic, **{name: given[name] for name in last})


def kind_of(annotation: str) -> tuple[str | None, bool]:
    """Return what an annotation means: the kind of tensor (None for an attribute), and whether it is a sequence."""
    several = annotation.startswith("Sequence[")
    word = annotation.removeprefix("Sequence[").split("]")[0].split(" ")[0]
    return (word if word in ("Value", "Same", "Shape") else None), several
