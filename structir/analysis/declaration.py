"""Declares analyses: functions that compute facts about programs and do not change them.

`@analysis` above a function adds it to `all_analyses()`, wherever its file is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import attrs

F = TypeVar("F", bound=Callable[..., Any])
PACKAGE = Path(__file__).parents[1]
DECORATOR = "\n@analysis\n"
ANALYSES: dict[str, Analysis] = {}


@attrs.frozen
class Analysis:
    """A declared analysis."""

    function: Callable[..., Any]

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.function.__name__

    @property
    def module(self) -> str:
        """The module of the function."""
        return self.function.__module__

    @property
    def signature(self) -> str:
        """The parameters and the result, as in the source."""
        return str(inspect.signature(self.function)).replace("'", "")

    @property
    def summary(self) -> str:
        """The first sentence of the documentation."""
        text = (self.function.__doc__ or "").strip()
        return text.partition("\n\n")[0].replace("\n    ", " ")


def analysis(function: F) -> F:
    """Declares a function as an analysis; returns it unchanged."""
    ANALYSES[f"{function.__module__}.{function.__name__}"] = Analysis(function)
    return function


def all_analyses() -> list[Analysis]:
    """Returns all declared analyses, ordered by module and name.

    Those of this package are loaded; those of other packages are listed once they are imported.
    """
    for path in sorted(PACKAGE.rglob("*.py")):
        if DECORATOR in path.read_text(encoding="utf-8"):
            import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
    return [ANALYSES[name] for name in sorted(ANALYSES)]
