"""Rewrites of stages."""
