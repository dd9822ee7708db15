"""A check before the import that every op of a program has a mapping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.graph import FxGraph, NodeSpec, all_graphs, has_complex, names_of
from structir.frontend.torch.listing import line_of
from structir.frontend.torch.registry import find_build, in_place

DECOMPOSE = "decompose into core ATen ops: `ep = ep.run_decompositions()`"
SUPPORTED_DTYPE = "convert the tensor to a supported dtype in the model: `x.to(torch.float32)`"


class UnmappedOpsError(DiagnosticError):
    """Raised for ops without a mapping; `names` are their targets, `complex_names` those of
    complex tensors."""

    def __init__(
        self,
        diagnostics: Diagnostic | Sequence[Diagnostic],
        names: frozenset[str],
        complex_names: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(diagnostics)
        self.names, self.complex_names = names, complex_names


class RejectedNodeError(UnmappedOpsError):
    """Raised for a node whose arguments the mapping of its op does not support."""


def check_supported(graph: FxGraph) -> None:
    """Raises one `UnmappedOpsError` that lists all unsupported ops and dtypes with their counts."""
    missing: dict[str, list[NodeSpec]] = {}
    complex_names: set[str] = set()
    tensors: list[str] = []  # of an unsupported dtype
    for part in all_graphs(graph):
        tensors += [name for name, meta in part.tensors.items() if meta.dtype is None]
        for node in part.nodes:
            scalar = _is_symbolic_arithmetic(part, names_of(node.outputs))
            is_complex = has_complex(part, node)
            if not is_supported(node.target, is_complex) and not scalar:
                name = f"{node.target} of complex tensors" if is_complex else node.target
                complex_names |= {node.target} if is_complex else set()
                missing.setdefault(name, []).append(node)
    if missing or tensors:
        names = frozenset({node.target for nodes in missing.values() for node in nodes})
        raise UnmappedOpsError(_missing_mappings(missing, tensors), names, frozenset(complex_names))


def _missing_mappings(missing: Mapping[str, list[NodeSpec]], tensors: list[str]) -> Diagnostic:
    """Returns the error that lists ops without a mapping, the most frequent first."""
    total, ops = sum(map(len, missing.values())), len(missing)
    nodes_text = f"{total} node{'s' * (total > 1)} of {ops} op{'s' * (ops > 1)}"
    first = f", first {tensors[0]!r}" if tensors else ""
    dtypes_text = f"{len(tensors)} x tensor of a quantized or other unsupported dtype{first}"
    diagnostic = Diagnostic(
        f"{nodes_text} cannot be imported" if missing else f"cannot import {dtypes_text}",
        code="E0801",
        hint=DECOMPOSE if missing else SUPPORTED_DTYPE,
    )
    for name, nodes in sorted(missing.items(), key=lambda item: (-len(item[1]), item[0])):
        text, origin = line_of(nodes[0])
        diagnostic = diagnostic.note(f"{len(nodes)} x {name}, first in `{text}`{origin}")
    return diagnostic.note(dtypes_text) if missing and tensors else diagnostic


def with_hint(error: UnmappedOpsError, is_decomposed: bool) -> UnmappedOpsError:
    """Returns an error with the hint to register a mapping, or else to decompose first.

    `is_decomposed` is whether torch's decompositions have been tried. A hint of the mapping itself
    stays.
    """
    if not error.names or (isinstance(error, RejectedNodeError) and error.diagnostics[0].hint):
        return error
    target = min(error.names)
    name = target.removeprefix("aten.") if target.startswith("aten.") else f":{target}"
    decorator = "complex_op" if target in error.complex_names else "torch_op"
    hint = f'register a mapping: `@{decorator}("{name}")`'
    if not is_decomposed:
        hint = f"{DECOMPOSE}; if the error remains, {hint}"
    first, *others = error.diagnostics
    return type(error)([first.hinted(hint), *others], error.names, error.complex_names)


def is_supported(target: str, is_complex: bool = False) -> bool:
    """Returns whether an op has a mapping, or is the in-place form of one that has."""
    if find_build(target, is_complex) is not None:
        return True
    functional = in_place(target)
    return functional is not None and find_build(functional, is_complex) is not None


def _is_symbolic_arithmetic(graph: FxGraph, names: list[str]) -> bool:
    """Returns whether a node only computes symbolic numbers, which the program declares anyway."""
    return bool(names) and all(name in graph.scalars for name in names)
