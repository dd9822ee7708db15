"""Hostile inputs: seeded generators of them, checks of the result, and the run in child processes.

Each file in the folder `kinds` defines one kind of input: `sample(random)` generates a case and
`check(case)` raises an exception if the property of its docstring does not hold. No list names the
kinds. Tests run `TEST_SEEDS` seeds of each kind, 15 where it defines none. `structir fuzz --hostile
KIND` runs many, `BATCH` of them in one process.
"""
