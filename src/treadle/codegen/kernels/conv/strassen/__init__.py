"""Pointwise convolution by Strassen's algorithm."""
