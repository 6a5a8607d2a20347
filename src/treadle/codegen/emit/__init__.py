"""The vocabulary that kernels are written in: loops, vectors, memory, math."""
