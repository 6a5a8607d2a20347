"""Measures what the cost model assumes of a machine."""
