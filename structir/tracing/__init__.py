"""Tracing: symbolic values, their dtypes and sizes, and the state of a trace."""
