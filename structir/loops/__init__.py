"""The loop IR: kernels are scheduled by checked primitives, functions from kernel to kernel."""
