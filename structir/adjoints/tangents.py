"""Tangents."""


class Tangents:
    """Tangents."""
