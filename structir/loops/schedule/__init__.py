"""Analyses and edits of kernels that schedule primitives share."""
