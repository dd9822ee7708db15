"""Discovery of primitives and recipes: each file of a package declares the one of its name."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Generic, TypeVar

from structir.counterparts import SCHEDULES
from structir.errors import Diagnostic
from structir.lazy import import_completely
from structir.loops.schedule.refusal import UnknownPrimitiveError

Entry = TypeVar("Entry")


class Registry(Generic[Entry]):
    """The entries of a package, and those that users register."""

    def __init__(self, kind: str, package: str, folder: Path) -> None:
        self.kind, self.package = kind, package
        self.files = sorted(file.stem for file in folder.glob("*.py") if file.stem[0] != "_")
        self.added: dict[str, Entry] = {}
        self._loaded: dict[str, Entry] = {}

    def names(self) -> list[str]:
        """Returns the names of all entries."""
        return sorted({*self.files, *self.added})

    def add(self, name: str, entry: Entry) -> Entry:
        """Registers an entry that has no file."""
        self.added[name] = entry
        return entry

    def find(self, name: str) -> Entry:
        """Returns the entry of this name; raises UnknownPrimitiveError if there is none."""
        if name in self.added:
            return self.added[name]
        if name in self._loaded:
            return self._loaded[name]
        if name in self.files:
            module = import_completely(f"{self.package}.{name}")
            return self._loaded.setdefault(name, getattr(module, name))
        close = difflib.get_close_matches(str(name), self.names(), 1)
        names = ", ".join(self.names())
        help = f"did you mean `{close[0]}`?" if close else f"the {self.kind}s are: {names}"
        help = f"write {SCHEDULES[name]}" if str(name) in SCHEDULES else help
        diagnostic = Diagnostic(f"unknown {self.kind} `{name}`", code="E1115", hint=help)
        raise UnknownPrimitiveError(diagnostic)
