"""Measures which limits suit a model on this machine: `treadle tune`."""
