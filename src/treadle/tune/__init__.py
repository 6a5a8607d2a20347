"""Measures which thread limits suit a model on this machine: `treadle tune`."""
