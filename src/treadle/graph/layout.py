"""Physical layouts of a tensor in memory. None stands for plain row-major everywhere."""

from treadle.graph.shape import StaticShape
from treadle.immutable import immutable


@immutable
class Blocked:
    """Channels (axis 1) cut into blocks of `block`, the block innermost: NCHW16c and its like.

    A logical [N, C, *spatial] is stored as [N, ceil(C / block), *spatial, block]. Where C is no
    multiple of `block`, the last block's spare lanes hold unspecified values: no op may let a spare
    lane influence a real one.
    """

    block: int

    def physical(self, shape: StaticShape) -> StaticShape:
        """The shape of the memory that holds a tensor of logical `shape` (rank >= 2)."""
        return (shape[0], -(-shape[1] // self.block), *shape[2:], self.block)

    def __str__(self) -> str:
        return f"c{self.block}"


Layout = Blocked | None


def physical_shape(shape: StaticShape, layout: Layout) -> StaticShape:
    """The shape of the memory that holds a tensor of logical `shape`."""
    return shape if layout is None else layout.physical(shape)
