"""Providers as lowering sees them: libraries whose matrix product is called in place of treadle's kernels."""

from treadle.dtypes import DType
from treadle.immutable import immutable


@immutable
class Provider:
    """A library that is loaded.

    `version` is the library's own text, `dtypes` are the element types that it multiplies. No size or stride may exceed
    `most`.
    """

    name: str
    version: str
    dtypes: tuple[DType, ...]
    most: int
