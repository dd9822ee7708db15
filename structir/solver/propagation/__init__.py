"""Propagation rules for each kind of constraint, and the search that follows propagation."""
