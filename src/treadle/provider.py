"""Matmul providers as lowering sees them: a library whose matrix product is called in place of treadle's kernels."""

from dataclasses import dataclass

from treadle.dtypes import DType


@dataclass(frozen=True, slots=True)
class Provider:
    """A library that is loaded. `version` is its own account of itself, `dtypes` what it multiplies, and no size or
    stride may exceed `most`."""

    name: str
    version: str
    dtypes: tuple[DType, ...]
    most: int
