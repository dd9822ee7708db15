"""The constraint language of the solver, and the schemes that signatures and assumptions become."""
