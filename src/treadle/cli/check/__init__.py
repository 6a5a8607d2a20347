"""Judges a model that is not trusted in a process with limits, for `treadle check`."""
