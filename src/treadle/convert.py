"""Writes the optimised graph of a model as an ONNX file: `treadle convert`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from treadle.codegen.target import detect
from treadle.errors import InputError, UnsupportedModelError
from treadle.frontends import load
from treadle.graph.facts import Facts
from treadle.graph.graph import Graph
from treadle.graph.shape import is_static
from treadle.passes.base import Math, PassContext
from treadle.passes.pipeline import infer, make_portable
from treadle.passes.regions import first_region
from treadle.passes.sample_sizes import with_sample_sizes
from treadle.passes.specialize import specialize, specialize_open
from treadle.records import dataclass

MOST_BYTES = (1 << 31) - (1 << 20)
"""A larger model has its weights in a file beside it: protobuf reads at most 2 GiB."""

GUARDS = "treadle.guards"
"""The key of a file's metadata that has the conditions under which it is the same model."""


@dataclass(frozen=True, slots=True)
class Converted:
    """What was written.

    Attributes:
        path: The file.
        external: The file beside it that has the weights; None if they are in the model.
        before: How many nodes of each op the model has here.
        after: How many nodes of each operator the file has.
        guards: The conditions on sizes under which it is the same model, such as "length <= 512".
    """

    path: Path
    external: Path | None
    before: Counter[str]
    after: Counter[str]
    guards: tuple[str, ...]


def convert(
    model: Any,
    path: str | os.PathLike[str],
    *,
    math: Math = "fast",
    external: bool | None = None,
    dims: Mapping[str, int] | None = None,
    **options: Any,
) -> Converted:
    """Write the optimised graph of `model` as an ONNX file.

    Nothing that is fitted to a machine is written: no fusion into kernels, no layout. Names, dtypes and open
    dimensions of inputs and outputs stay.

    Args:
        model: A model as Session takes it.
        path: The file to write; it is replaced once the new one is whole.
        math: "exact" forbids rewrites that round differently.
        external: True writes the weights to a file beside it, whose name ends in ".data"; None does so if the model is
            larger than MOST_BYTES.
        dims: Sizes by name of open dimensions, for which the model is right where it is not for all sizes: what they
            decide is among the guards. They stay open. None: sizes that fit.
        **options: As Session takes them for this kind of model, such as `outputs`.

    Raises:
        ModelError: The model cannot be used. UnsupportedModelError: It cannot be written, or is a model whose graph is
            made for the shapes of its inputs.
        ShapeError: The sizes in `dims` do not fit it.
        InputError: There is no such folder, or no such dimension.
        OSError: The file cannot be written.
    """
    from treadle.frontends.onnx.writing.model import data_of, model_of, save  # imports onnx

    target = Path(path)
    if not target.parent.is_dir():
        raise InputError(f"{os.fspath(path)!r}: there is no folder {str(target.parent)!r}")
    graph = load(model, **options)
    if not isinstance(graph, Graph):
        raise UnsupportedModelError(
            "wanted a model of one graph; that of this one depends on the shapes of its inputs or on what they hold, "
            "and one file cannot have all"
        )
    if graph.results:
        names = ", ".join(repr(each.name) for each in graph.results if not isinstance(each, str))
        raise UnsupportedModelError(f"outputs that are no tensors of core values cannot be written: {names}")
    context = PassContext(detect(), math)
    make = partial(_optimised, graph, context)
    optimised, facts = make(_checked(dims, graph), Facts()) if dims else with_sample_sizes(graph, make)
    guards = tuple(map(str, dict.fromkeys(facts.guards)))
    notes = {GUARDS: "; ".join(guards)} if guards else {}
    written = model_of(optimised, graph.inputs, list(graph.outputs), notes)
    apart = written.ByteSize() > MOST_BYTES if external is None else external
    save(written, target, apart=apart)
    return Converted(
        target,
        data_of(target) if apart else None,
        Counter(node.op for node in graph.nodes),
        Counter(node.op_type for node in written.graph.node),
        guards,
    )


def _checked(dims: Mapping[str, int], graph: Graph) -> Mapping[str, int]:
    """Return `dims`. Raises InputError for names that no input declares."""
    names = {dim for value in graph.inputs for dim in value.shape or () if isinstance(dim, str)}
    if wrong := sorted(dims.keys() - names):
        raise InputError(f"the model has no dimension {wrong[0]!r}; it has {', '.join(sorted(names)) or 'none'}")
    return dims


def _optimised(graph: Graph, context: PassContext, samples: Mapping[str, int], facts: Facts) -> tuple[Graph, Facts]:
    """Return a copy of `graph` with inferred shapes, and the facts about sizes that it relies on.

    The copy is simplified unless a shape in it depends on data. `samples` are sizes of open dimensions for decisions
    that no proof settles. Raises ShapeError if they do not fit.
    """
    fixed = {value.name: value.shape for value in graph.inputs if value.shape is not None and is_static(value.shape)}
    if len(fixed) == len(graph.inputs):
        copy = specialize(graph, fixed)
    else:
        try:
            copy = specialize_open(graph, facts, samples)
        except InputError as error:
            raise UnsupportedModelError(f"it cannot be written: {error}") from error
    infer(copy, context)
    return (make_portable(copy, context) if first_region(copy).graph is copy else copy), facts
