"""Convolution by Winograd's algorithm."""
