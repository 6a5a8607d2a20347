"""Measures which limits suit a model on this machine: `weft tune`."""
