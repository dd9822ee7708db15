"""Reverse-mode differentiation of functions."""
