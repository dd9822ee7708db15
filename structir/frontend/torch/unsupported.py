"""A check before the import that every op of a program has a mapping."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.graph import FxGraph, names_of
from structir.frontend.torch.registry import find_build, in_place


class UnmappedOpsError(DiagnosticError):
    """Raised for ops without a mapping; `names` are their targets."""

    def __init__(self, diagnostic: Diagnostic, names: frozenset[str]) -> None:
        super().__init__(diagnostic)
        self.names = names


def all_graphs(graph: FxGraph) -> Iterator[FxGraph]:
    """Yields a graph and all graphs nested in it."""
    yield graph
    for node in graph.nodes:
        for value in node.args.values():
            if isinstance(value, FxGraph):
                yield from all_graphs(value)


def check_supported(graph: FxGraph) -> None:
    """Raises one `UnmappedOpsError` that lists all unsupported ops and dtypes with their counts."""
    missing: Counter[str] = Counter()
    for part in all_graphs(graph):
        for node in part.nodes:
            if not is_supported(node.target) and not _is_symbolic_arithmetic(
                part, names_of(node.outputs)
            ):
                missing[node.target] += 1
        complexes = sum(meta.dtype is None for meta in part.tensors.values())
        if complexes:
            missing["tensor of a complex dtype"] += complexes
    if not missing:
        return
    total, kinds = sum(missing.values()), len(missing)
    diagnostic = Diagnostic(
        f"{total} node{'s' * (total > 1)} of {kinds} op{'s' * (kinds > 1)} cannot be imported",
        code="E0801",
        hint="decompose into core ATen ops: `ep = ep.run_decompositions()`",
    )
    for name, count in sorted(missing.items(), key=lambda item: (-item[1], item[0])):
        diagnostic = diagnostic.note(f"{count} x {name}")
    raise UnmappedOpsError(diagnostic, frozenset(missing))


def is_supported(target: str) -> bool:
    """Returns whether an op has a mapping, or is the in-place form of one that has."""
    if find_build(target) is not None:
        return True
    functional = in_place(target)
    return functional is not None and find_build(functional) is not None


def _is_symbolic_arithmetic(graph: FxGraph, names: list[str]) -> bool:
    """Returns whether a node only computes symbolic numbers, which the program declares anyway."""
    return bool(names) and all(name in graph.scalars for name in names)
