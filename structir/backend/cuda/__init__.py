"""The CUDA backend: kernels by numba-cuda from the same loops, and memory, streams and graphs."""
