"""Batching of functions."""
