"""Plan to Executable: emits kernels as LLVM IR, compiles and links them, and caches the results on disk."""
