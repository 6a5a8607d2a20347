"""Compares the values of a model with those of another engine, node by node: `treadle compare`."""
