"""Batching."""


class Batching:
    """Batching."""
