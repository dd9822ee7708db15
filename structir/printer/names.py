"""Unique names for the variables and symbolic dims of printed source."""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Any

from structir.ir.axes import RowVar
from structir.ir.binding_dims import row_size_of
from structir.ir.dim_text import display_name
from structir.ir.dims import Poly, Sym
from structir.ir.dims import sym as new_sym
from structir.ir.dtype import MARK, DtypeVar
from structir.ir.expr import Var
from structir.printer.syntax import RESERVED

_FOREIGN = re.compile(r"\W")


class NameScope:
    """The names of a function and everything nested in it. A free name is used unchanged.

    The variable names of a branch are released at its end. Names of dims are not, because dims are
    declared at the beginning of the function.
    """

    def __init__(self, reserved: frozenset[str] = frozenset()) -> None:
        self.of: dict[Any, str] = {}
        self.twins: dict[Sym, Poly] = {}  # copies of dims in the order of their names
        self._used = set(RESERVED | reserved)
        self._variable_names: list[str] = []
        self._next: dict[str, int] = {}

    def var(self, var: Var) -> str:
        """Returns the name of a variable."""
        name = self.of.get(var)
        if name is None:
            name = self.of[var] = self._free(var.name)
            self._variable_names.append(name)
        return name

    def sym(self, sym: Sym) -> str:
        """Returns the name of a symbolic dim."""
        name = self.of.get(sym)
        if name is None:
            of_row = row_size_of(sym)
            if of_row is None:
                name = self.of[sym] = self._free(display_name(sym))
            else:
                name = self.of[sym] = f"{of_row[0]}({self.row(of_row[1])})"
            self.twins[sym] = new_sym(name)
        return name

    def row(self, row: RowVar) -> str:
        """Returns the starred name of a row variable, `*s`."""
        name = self.of.get(row)
        if name is None:
            name = self.of[row] = self._marked("*", display_name(row) or "r")
        return name

    def dtype(self, variable: DtypeVar) -> str:
        """Returns the name of a dtype variable, `'T`."""
        name = self.of.get(variable)
        if name is None:
            name = self.of[variable] = self._marked(MARK, display_name(variable) or "T")
        return name

    def share(self, var: Var, name: str) -> None:
        """Assigns an existing name to a variable: a branch result has the name of its `if`."""
        self.of[var] = name

    def mark(self) -> int:
        """Returns a mark for `release`."""
        return len(self._variable_names)

    def release(self, mark: int) -> None:
        """Releases the variable names assigned since a mark."""
        self._used.difference_update(self._variable_names[mark:])
        del self._variable_names[mark:]

    def _marked(self, mark: str, preferred: str) -> str:
        """Returns an unused name that begins with a mark."""
        stem = f"{mark}{preferred}"
        numbered = (f"{stem}_{count}" for count in itertools.count(1))
        name = next(n for n in itertools.chain((stem,), numbered) if n not in self._used)
        self._used.add(name)
        return name

    def _free(self, preferred: str) -> str:
        plain = preferred.isascii() and preferred.isidentifier()
        name = preferred if plain else _identifier(preferred)
        if name in self._used:
            count = self._next.get(name, 1)
            while (numbered := f"{name}_{count}") in self._used:
                count += 1
            self._next[name] = count
            name = numbered
        self._used.add(name)
        return name


def _identifier(name: str) -> str:
    """Returns an identifier like a name, in the form to which Python normalizes identifiers."""
    identifier = _FOREIGN.sub("_", unicodedata.normalize("NFKC", name))
    if not f"v_{identifier}".isidentifier():  # letters and digits that no identifier contains
        identifier = "".join([c if f"v{c}".isidentifier() else "_" for c in identifier])
    return identifier if identifier.isidentifier() else f"v_{identifier}"
