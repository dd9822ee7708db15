"""Index projections of kernels, from their loops and accesses."""
