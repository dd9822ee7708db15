"""Control flow: the functions of `structir.transforms.control`."""

from structir.transforms.control import (
    associative_scan,
    cond,
    fori_loop,
    map,
    scan,
    switch,
    while_loop,
)

__all__ = ["associative_scan", "cond", "fori_loop", "map", "scan", "switch", "while_loop"]
