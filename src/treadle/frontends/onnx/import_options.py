"""What a model's graph depends on beside the model."""

from typing import NamedTuple


class ImportOptions(NamedTuple):
    """How a model is imported.

    Attributes:
        strict_dims: Whether open dimensions of inputs with one name have one size; if not, each has its own.
        round_low_bits: Whether products with dequantized weights of 4 bits may round their other factor to 8 bits.
    """

    strict_dims: bool = True
    round_low_bits: bool = False


DEFAULTS = ImportOptions()
