"""Fuses stages to kernels."""
