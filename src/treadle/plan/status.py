"""What the status codes that kernels return mean; 0 is success."""

from treadle.errors import KernelError, OutOfRangeError

INDEX_OUT_OF_RANGE = 1
DIVISION_BY_ZERO = 2
LIBRARY_FAILED = 3
ITEMS_DIFFER = 4
SHAPE_DIFFERS = 5
SINGULAR = 6

FAILURES: dict[int, tuple[type[KernelError], str]] = {
    INDEX_OUT_OF_RANGE: (OutOfRangeError, "an index is out of range for the axis it selects from"),
    DIVISION_BY_ZERO: (KernelError, "an integer was divided by zero"),
    ITEMS_DIFFER: (
        KernelError,
        "an item that the loop has to stack has another shape than the item before it; all must have one shape",
    ),
    SHAPE_DIFFERS: (
        KernelError,
        "its body gives a value another rank, or another size of a dimension that is known before the run",
    ),
    SINGULAR: (KernelError, "a matrix is singular: it has no inverse"),
    LIBRARY_FAILED: (KernelError, "the library that the matmul provider is reports a failure"),
}
"""The error that each one raises, and its message."""
