"""Traced functions and transforms of functions: trace, jit, gradients, maps and control flow."""
