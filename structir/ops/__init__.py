"""Ops: each declared once, by one line and one body, in one file for its family."""
