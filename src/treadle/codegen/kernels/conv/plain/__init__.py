"""Convolution of row-major tensors."""
