"""The command line: `treadle` and `python -m treadle`."""
