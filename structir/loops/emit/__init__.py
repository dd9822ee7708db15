"""Emits LLVM IR for kernels, by tables over their nodes."""
