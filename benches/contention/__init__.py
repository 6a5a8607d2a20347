"""Engines on CPUs that other programs use too."""
