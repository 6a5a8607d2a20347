"""Templates: models whose graph is known once the dtypes and shapes of their inputs are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from treadle.dtypes import DType
from treadle.graph.graph import Graph
from treadle.graph.open_dims import NOTHING, OpenDims
from treadle.graph.shape import StaticShape
from treadle.graph.value import Value
from treadle.immutable import immutable

Form = tuple[DType, StaticShape]
"""Dtype and shape of one input."""


@immutable
class Template:
    """A model that becomes a Graph for each combination of input dtypes and shapes.

    `inputs` and `outputs` hold what is known beforehand: names, and a dtype and a shape or None. `build` gives
    the Graph for one form an input, with inputs and outputs of these names in this order; it raises ModelError or
    ShapeError, listing what does not fit. If `builds_open`, the shapes that it takes may hold expressions. `dims` is
    what is declared of open dimensions.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    build: Callable[[Sequence[Form]], Graph]
    builds_open: bool = False
    dims: OpenDims = NOTHING

    def with_inputs(self, inputs: tuple[Value, ...]) -> Template:
        """Return it with more known of its inputs."""
        return Template(self.name, inputs, self.outputs, self.build, self.builds_open, self.dims)
