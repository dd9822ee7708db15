"""Lowers ops to stages."""
