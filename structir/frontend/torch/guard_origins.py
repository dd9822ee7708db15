"""The origins of guards on sizes: torch's analysis of ops, or the code of the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs

from structir.lazy import lazy_module

torch = lazy_module("torch")
exporting = lazy_module("torch.export.exported_program")
symbolic_shapes = lazy_module("torch.fx.experimental.symbolic_shapes")
INTERNALS_ERRORS = (  # of another release of torch, or of a program that torch loaded
    AttributeError,
    KeyError,
    TypeError,
    ValueError,
    RuntimeError,
)
TRACER = "_dynamo"  # the part of torch that runs the branches of a model in a strict export
SHAPE_ANALYSIS = "fx"  # the only public part of torch that analyses ops


@attrs.frozen
class GuardOrigins:
    """The guards of a program, before decompositions; and those that torch's analysis of ops is
    known to have caused.

    A file has no record of origins: each of its guards may be a branch of the model.
    """

    guards: tuple[str, ...] = ()
    internal: frozenset[str] = frozenset()


UNKNOWN_ORIGINS = GuardOrigins()


def origins_of(original: Any, program: Any) -> GuardOrigins:
    """Returns the guards of an `ExportedProgram`, and the internal ones of its decomposed form.

    Torch loses the guards of a loaded program when it decomposes it.
    """
    return GuardOrigins(tuple(getattr(original, "_guards_code", ())), _internal_guards(program))


def _internal_guards(program: Any) -> frozenset[str]:
    """Returns the guards that torch's analysis of ops caused; empty if this release of torch, or
    this program, has no record of origins."""
    try:
        environment = exporting._get_shape_env(program.graph_module)
        if environment is None:
            return frozenset()
        folder = Path(torch.__file__).parent
        sources = environment.var_to_sources
        printer = symbolic_shapes.ShapeGuardPythonPrinter(sources, lambda s: s.name, sources)
        by_origin: dict[bool, set[str]] = {True: set(), False: set()}
        for guard in environment.guards:
            is_internal = _is_analysis(guard.sloc.framework_loc, folder)
            by_origin[is_internal].add(printer.doprint(guard.expr))
        return frozenset(by_origin[True] - by_origin[False])
    except INTERNALS_ERRORS:
        return frozenset()


def _is_analysis(location: Any, folder: Path) -> bool:
    """Returns whether a stack frame is in a private module of torch that analyses ops; the public
    ones, such as `torch.nn`, have branches of models."""
    path = Path(getattr(location, "filename", None) or "")
    if folder not in path.parents:
        return False
    package = path.relative_to(folder).parts[0]
    return package == SHAPE_ANALYSIS or (package.startswith("_") and package != TRACER)
