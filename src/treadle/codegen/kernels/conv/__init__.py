"""Convolution: one folder an algorithm, and what several of them share."""
