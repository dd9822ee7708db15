"""Tensors that share memory: what is written through one of them is seen through the others.

Torch writes in place; here every value is new. A view is remembered with the node that made it:
a write through it is carried to what it is a view of, and a read after a write makes it anew.
"""

from __future__ import annotations

from typing import Any, Protocol

import attrs

from structir.errors import Diagnostic, DiagnosticError
from structir.frontend.torch.graph import NodeSpec, Ref, names_of
from structir.frontend.torch.node import FxNode, FxScope
from structir.frontend.torch.registry import Write, find_view, may_copy
from structir.ir.expr import Expr


@attrs.frozen(eq=False)
class TensorView:
    """A tensor that shares the memory of another one: the node that made it, and its place among
    the node's results."""

    node: FxNode
    base: str
    place: int
    write: Write | None  # None where it is the very same tensor
    unsure: bool = False  # whether torch may have made a copy


class ViewRebuilder(Protocol):
    """What makes a view anew."""

    builder: Any

    def results(self, node: FxNode) -> list[Any]:
        """What the mapping of a node gives."""
        ...


class AliasState:
    """Which tensors of a graph share memory, and which of them are out of date."""

    def __init__(self, maker: ViewRebuilder) -> None:
        self.maker = maker
        self.views: dict[str, TensorView] = {}
        self.aliases: dict[str, str] = {}
        self.changes: dict[str, int] = {}  # by the root of a family: how often it was written
        self.seen: dict[str, int] = {}  # by name: the changes that its value knows of

    def note(self, node: FxNode) -> None:
        """Remember a node that makes views."""
        write = find_view(node.spec.target)
        if write is None:
            return
        first = next(iter(node.spec.args.values()), None)
        if not isinstance(first, Ref):
            return
        copies = may_copy(node.spec.target)
        unsure = copies is not None and copies(node)
        for place, name in enumerate(names_of(node.spec.outputs)):
            self.views[name] = TensorView(node, self._own(first.name), place, write, unsure)
            self.seen[name] = self.changes.get(self.root(name), 0)

    def same(self, name: str, of: str) -> None:
        """Remember that a name stands for the very same tensor as another one."""
        if name != of:
            self.aliases[name] = self._own(of)

    def _own(self, name: str) -> str:
        while name in self.aliases:
            name = self.aliases[name]
        return name

    def root(self, name: str) -> str:
        """The tensor that owns the memory."""
        name = self._own(name)
        while name in self.views:
            name = self._own(self.views[name].base)
        return name

    def read(self, scope: FxScope, name: str) -> Any:
        """The value of a name, made anew if its memory was written since."""
        name = self._own(name)
        view = self.views.get(name)
        if view is None:
            return scope.values[name]
        now = self.changes.get(self.root(name), 0)
        if self.seen[name] != now:
            if view.unsure:
                raise _unsure(view)
            scope.values[name] = self._again(view, name)
            self.seen[name] = now
        return scope.values[name]

    def _again(self, view: TensorView, name: str) -> Expr:
        made = self.maker.results(view.node)[view.place]
        return self.maker.builder.emit(made, name)

    def write(self, node: FxNode, name: str, new: Expr) -> None:
        """Give a tensor new elements, and what it is a view of."""
        name, scope = self._own(name), node.scope
        self._carry(scope, name, new)
        root = self.root(name)
        self.changes[root] = self.changes.get(root, 0) + 1
        while name in self.views:  # those on the way are up to date
            self.seen[name] = self.changes[root]
            name = self._own(self.views[name].base)

    def _carry(self, scope: FxScope, name: str, new: Expr) -> None:
        while name in self.views:
            view = self.views[name]
            if view.unsure:
                raise _unsure(view)
            base = self._own(view.base)
            self.read(scope, base)
            assert view.write is not None
            with self.maker.builder.at(view.node.place):
                whole = self.maker.builder.emit(view.write(ViewNode(view), new), base)
            scope.values[name], name, new = new, base, whole
        scope.values[name] = new


class ViewNode(FxNode):
    """A view as its writer sees it: the node that made it, and which of its results it is."""

    def __init__(self, view: TensorView) -> None:
        node = view.node
        super().__init__(node.spec, node.host, node.scope, node.place)
        self.place_among = view.place


def _unsure(view: TensorView) -> DiagnosticError:
    return DiagnosticError(
        Diagnostic(
            "a tensor is written in place that may or may not share its memory with this one",
            view.node.place,
            view.node.spec.target,
            hint="export a functional program: ep.run_decompositions()",
        )
    )


def written_names(nodes: tuple[NodeSpec, ...], in_place: Any) -> set[str]:
    """The inputs of a graph that its nodes write, through views or by themselves."""
    base: dict[str, str] = {}
    written: set[str] = set()
    for spec in nodes:
        first = next(iter(spec.args.values()), None)
        if not isinstance(first, Ref):
            continue
        writes = in_place(spec.target) is not None
        if writes or find_view(spec.target) is not None:
            base.update(dict.fromkeys(names_of(spec.outputs), first.name))
        if writes and spec.target not in HARMLESS:
            written.add(first.name)
    roots = set()
    for name in written:
        while name in base and base[name] != name:
            name = base[name]
        roots.add(name)
    return roots


HARMLESS = frozenset({"aten.detach_.default"})
