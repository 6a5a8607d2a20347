"""The Plan: the kernel calls, buffers and tasks of a graph. Records only."""
