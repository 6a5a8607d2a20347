"""The types of options that take a number."""

from __future__ import annotations

import math
from typing import Any

import click

MOST_SECONDS = 1e6
"""The most seconds that a command measures."""


class Number(click.FloatRange):
    """A number in a range; FloatRange alone accepts nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number. Raises click.BadParameter."""
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail("wanted a number, got nan", param, ctx)
        return number


class Positive(Number):
    """A number above 0, and at most `most` if that is given."""

    def __init__(self, most: float | None = None) -> None:
        """Take numbers up to `most`."""
        super().__init__(min=0, max=most, min_open=True)
