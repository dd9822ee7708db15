"""The CUDA backend: kernels by LLVM from the same loops, and memory, streams and graphs."""
