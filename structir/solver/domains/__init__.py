"""Domains of the solver: dims, row variables, ranks, labels, intervals, and reasons of facts."""
