"""The Plan: how a graph is cut up into kernel calls, buffers and tasks. Records only."""
