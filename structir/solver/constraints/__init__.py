"""The constraint language of the solver, and schemes of ops, signatures and functions."""
