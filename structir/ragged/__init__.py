"""Ragged tensors expressed with dense ones: the values of all rows, and the rows' limits."""
