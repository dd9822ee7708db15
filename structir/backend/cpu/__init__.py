"""What is the CPU's own: intrinsics, compiled kernels, the plan runner, BLAS."""
