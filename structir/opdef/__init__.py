"""Definitions of ops: index signatures, their resolution at a call, and derived rules."""
