"""Rewrites a model of padded texts into one that computes their tokens only, where the graph proves that it may."""
