"""Kernels of convolutions: one module an algorithm, and what several of them share."""
