"""Plan to Executable: kernels emitted in the words of loops, compiled by LLVM, cached on disk."""
