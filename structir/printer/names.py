"""Names in a text: each variable and each symbolic dim gets one that nothing else in sight has."""

from __future__ import annotations

import itertools
import re
from typing import Any

from structir.ir.axes import RowVar
from structir.ir.dims import Poly, Sym
from structir.ir.dims import sym as new_sym
from structir.ir.expr import Var
from structir.printer.syntax import RESERVED

_FOREIGN = re.compile(r"\W")


class NameScope:
    """The names of one function and all that is nested in it. A name is kept where it is free.

    A branch gives the names of its variables back when it ends; dims keep theirs, for they are
    declared where the function begins.
    """

    def __init__(self, taken: frozenset[str] = frozenset()) -> None:
        self.of: dict[Any, str] = {}
        self.twins: dict[Sym, Poly] = {}  # dims again, as old as their names
        self._taken = set(RESERVED | taken)
        self._given: list[str] = []
        self._next: dict[str, int] = {}

    def var(self, var: Var) -> str:
        """The name of a variable."""
        name = self.of.get(var)
        if name is None:
            name = self.of[var] = self._free(var.name)
            self._given.append(name)
        return name

    def sym(self, sym: Sym) -> str:
        """The name of a symbolic dim."""
        name = self.of.get(sym)
        if name is None:
            name = self.of[sym] = self._free(sym.name)
            self.twins[sym] = new_sym(name)
        return name

    def row(self, row: RowVar) -> str:
        """The name of a row variable, with its star: rows have names of their own."""
        name = self.of.get(row)
        if name is None:
            stem = f"*{row.name or 'r'}"
            others = (f"{stem}_{count}" for count in itertools.count(1))
            name = (
                stem if stem not in self._taken else next(n for n in others if n not in self._taken)
            )
            self._taken.add(name)
            self.of[row] = name
        return name

    def share(self, var: Var, name: str) -> None:
        """Let a variable go by a name given already: what a branch gives is what it defines."""
        self.of[var] = name

    def mark(self) -> int:
        """A point that `release` comes back to."""
        return len(self._given)

    def release(self, mark: int) -> None:
        """Give back the names of variables that were given since."""
        self._taken.difference_update(self._given[mark:])
        del self._given[mark:]

    def _free(self, wanted: str) -> str:
        name = wanted if wanted.isidentifier() else _identifier(wanted)
        if name in self._taken:
            count = self._next.get(name, 1)
            while (numbered := f"{name}_{count}") in self._taken:
                count += 1
            self._next[name] = count
            name = numbered
        self._taken.add(name)
        return name


def _identifier(name: str) -> str:
    made = _FOREIGN.sub("_", name)
    return made if made.isidentifier() else f"v_{made}"
