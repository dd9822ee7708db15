"""Batching: maps functions over a new leading axis, as IR to IR."""
