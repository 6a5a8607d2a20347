"""Generators of kernels: one file a family, listed in `table`."""
