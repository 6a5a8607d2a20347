"""Convolution of a blocked input to a few row-major output channels."""
