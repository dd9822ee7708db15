"""Functionalization of in-place writes: tracks the tensors that alias the same memory.

Torch writes in place; StructIR values are immutable. Each view is recorded with its node. A write
through a view is propagated to its base, and a read after a write rebuilds the view.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.complex import ComplexTensor, map_parts, on_parts
from structir.frontend.torch.graph import FxGraph, Ref, names_of
from structir.frontend.torch.node import FxNode, FxScope
from structir.frontend.torch.registry import (
    Write,
    changes_metadata,
    find_view,
    is_view,
    may_copy,
    updated_args,
)


@attrs.frozen(eq=False)
class TensorView:
    """A tensor that aliases another one: the node that creates it, and its index among the
    results."""

    node: FxNode
    base: str
    index: int
    write: Write | None  # None for an alias of the whole tensor
    may_be_copy: bool = False  # torch may have made a copy


class ViewRebuilder(Protocol):
    """The interface that rebuilds a view."""

    builder: Any

    def results(self, node: FxNode) -> list[Any]:
        """Returns the results of the mapping of a node."""
        ...


class AliasState:
    """The alias relation of the tensors of a graph, and the writes that each value reflects."""

    def __init__(self, rebuilder: ViewRebuilder) -> None:
        self.rebuilder = rebuilder
        self.views: dict[str, TensorView] = {}
        self.aliases: dict[str, str] = {}
        self.write_counts: dict[str, int] = {}  # number of writes, by root tensor
        self.reflected_writes: dict[str, int] = {}  # by name: writes included in the value
        # By root tensor: the view that was written, and that torch may have copied.
        self.unknown: dict[str, TensorView] = {}

    def record_view(self, node: FxNode) -> None:
        """Records the views that a node creates."""
        write = find_view(node.spec.target)
        if write is None or not is_view(node.spec, node.scope.graph.tensors):
            return
        first = next(iter(node.spec.args.values()), None)
        if not isinstance(first, Ref):
            return
        copies = may_copy(node.spec.target)
        may_be_copy = copies is not None and copies(node)
        for index, name in enumerate(names_of(node.spec.outputs)):
            self.views[name] = TensorView(
                node, self._resolve_alias(first.name), index, write, may_be_copy
            )
            self.reflected_writes[name] = self._write_count(name)

    def record_alias(self, name: str, of: str) -> None:
        """Records that two names are the same tensor."""
        if name != of:
            self.aliases[name] = self._resolve_alias(of)

    def _resolve_alias(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def root(self, name: str) -> str:
        """Returns the name of the tensor that owns the memory."""
        name = self._resolve_alias(name)
        while name in self.views:
            name = self._resolve_alias(self.views[name].base)
        return name

    def _write_count(self, name: str) -> int:
        """Returns the number of writes to the memory of a tensor."""
        return self.write_counts.get(self.root(name), 0) if self.write_counts else 0

    def read(self, scope: FxScope, name: str) -> Any:
        """Returns the value of a name, rebuilt if its memory was written after it was built."""
        name = self._resolve_alias(name)
        written_view = self.unknown.get(self.root(name)) if self.unknown else None
        if written_view is not None:
            raise _unknown_alias(written_view)
        view = self.views.get(name)
        if view is None:
            return scope.values[name]
        write_count = self._write_count(name)
        if self.reflected_writes[name] != write_count:
            if view.may_be_copy:
                raise _unknown_alias(view)
            scope.values[name] = self._rebuild(view, name)
            self.reflected_writes[name] = write_count
        return scope.values[name]

    def _rebuild(self, view: TensorView, name: str) -> Any:
        result = self.rebuilder.results(view.node)[view.index]
        return map_parts(lambda part: self.rebuilder.builder.emit(part, name), result)

    def write(self, node: FxNode, name: str, new_value: Any) -> None:
        """Updates a tensor and its bases after a write."""
        name, scope = self._resolve_alias(name), node.scope
        self._propagate(scope, name, new_value)
        root = self.root(name)
        self.write_counts[root] = self.write_counts.get(root, 0) + 1
        while name in self.views:  # the views in between are up to date
            self.reflected_writes[name] = self.write_counts[root]
            name = self._resolve_alias(self.views[name].base)

    def _propagate(self, scope: FxScope, name: str, new_value: Any) -> None:
        while name in self.views:
            view = self.views[name]
            if view.may_be_copy:
                self._detach(name)
                break
            base = self._resolve_alias(view.base)
            self.read(scope, base)
            assert view.write is not None
            with self.rebuilder.builder.at(view.node.span):
                updated_base = map_parts(
                    lambda part, base=base: self.rebuilder.builder.emit(part, base),
                    _write_back(view, new_value),
                )
            scope.values[name], name, new_value = new_value, base, updated_base
        scope.values[name] = new_value

    def _detach(self, name: str) -> None:
        """Makes a written view, which may be a copy, a tensor of its own: its base is unknown."""
        root = self.root(name)
        self.write_counts[name] = self.write_counts.get(root, 0)
        self.unknown[root] = self.views.pop(name)


class ViewNode(FxNode):
    """The node of a view, with the index of its result; a write-back receives it."""

    def __init__(self, view: TensorView) -> None:
        node = view.node
        super().__init__(node.spec, node.host, node.scope, node.span)
        self.result_index = view.index


def _write_back(view: TensorView, update: Any) -> Any:
    """Returns the new base; a view of both parts of a complex tensor writes each part."""
    assert view.write is not None
    node = ViewNode(view)
    if isinstance(update, ComplexTensor) and isinstance(node.positional()[0], ComplexTensor):
        return on_parts(node, view.write, update)
    return view.write(node, update)


def _unknown_alias(view: TensorView) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "cannot determine whether this view aliases a tensor that is written in place",
            view.node.span,
            view.node.spec.target,
            hint="export a functional program: `ep = ep.run_decompositions()`",
        )
    )


def written_names(graph: FxGraph, in_place: Any) -> set[str]:
    """Returns the inputs of a graph that its nodes write, directly or through views."""
    base: dict[str, str] = {}
    written: set[str] = set()
    for spec in graph.nodes:
        updated = updated_args(spec.target, spec.args)
        written |= {value.name for value in updated if isinstance(value, Ref)}
        first = next(iter(spec.args.values()), None)
        if not isinstance(first, Ref):
            continue
        functional = in_place(spec.target)
        writes = functional is not None and not changes_metadata(functional)
        if functional is not None or is_view(spec, graph.tensors):
            base.update(dict.fromkeys(names_of(spec.outputs), first.name))
        if writes:
            written.add(first.name)
    roots = set()
    for name in written:
        while name in base and base[name] != name:
            name = base[name]
        roots.add(name)
    return roots
