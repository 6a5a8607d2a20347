"""Convolution with groups that lie within one block of channels."""
