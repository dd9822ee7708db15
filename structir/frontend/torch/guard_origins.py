"""The guards on sizes that come from branches of a model, by torch's record of their origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from structir.lazy import lazy_module

torch = lazy_module("torch")
exporting = lazy_module("torch.export.exported_program")
symbolic_shapes = lazy_module("torch.fx.experimental.symbolic_shapes")
INTERNALS_ERRORS = (AttributeError, KeyError, TypeError, ValueError)  # of another release of torch


def branch_guards(program: Any) -> frozenset[str]:
    """Returns the guards of an `ExportedProgram`, as its file contains them, that code outside of
    torch caused; empty if this release of torch records no origins.

    Torch's analysis of ops causes the other guards.
    """
    try:
        environment = exporting._get_shape_env(program.graph_module)
        if environment is None:
            return frozenset()
        folder = Path(torch.__file__).parent
        sources = environment.var_to_sources
        printer = symbolic_shapes.ShapeGuardPythonPrinter(sources, lambda s: s.name, sources)
        guards = [g for g in environment.guards if not _is_within(g.sloc.framework_loc, folder)]
        return frozenset({printer.doprint(g.expr) for g in guards})
    except INTERNALS_ERRORS:
        return frozenset()


def _is_within(location: Any, folder: Path) -> bool:
    """Returns whether a stack frame is in a folder; an unknown one counts as such."""
    name = getattr(location, "filename", None)
    return name is None or folder in Path(name).parents
