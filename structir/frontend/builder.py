"""A builder whose bindings carry the place of the node of a model that they come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from structir.build import BlockBuilder, BuilderScope
from structir.errors import Span
from structir.ir.expr import Call, Expr, SeqExpr, Var
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo


class NodeBuilder(BlockBuilder):
    """Builds a module node by node."""

    place: Span | None = None  # the node that is being built

    @contextmanager
    def at(self, place: Span) -> Iterator[None]:
        """Everything emitted inside comes from this node."""
        before, self.place = self.place, place
        try:
            yield
        finally:
            self.place = before

    def aside(self, build: Callable[[], Expr]) -> SeqExpr:
        """What `build` emits and gives as a sequence of its own, not part of the function."""
        scope = BuilderScope(self.scopes[-1])
        scope.in_dataflow = self.scopes[-1].in_dataflow
        self.scopes.append(scope)
        try:
            return scope.sequence(self.atom(build()))
        finally:
            self.scopes.pop()

    def _bind(
        self,
        kind: type[Var],
        value: Expr,
        name: str | None,
        annotation: StructInfo | None,
        span: Span | None,
    ) -> Var:
        if type(value) is Call and value.span is None and self.place is not None:
            value = replace(value, span=self.place)
        return super()._bind(kind, value, name, annotation, span or self.place)
