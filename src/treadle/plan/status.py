"""What the status codes that kernels return mean; 0 is success."""

INDEX_OUT_OF_RANGE = 1
DIVISION_BY_ZERO = 2
LIBRARY_FAILED = 3

MESSAGES: dict[int, str] = {
    INDEX_OUT_OF_RANGE: "an index is out of range for the axis it selects from",
    DIVISION_BY_ZERO: "an integer was divided by zero",
    LIBRARY_FAILED: "the library that the matmul provider is reports a failure",
}
