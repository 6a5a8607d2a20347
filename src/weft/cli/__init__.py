"""The command line: `weft` and `python -m weft`."""
