"""A block builder that records the model's node as the location of each binding."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import attrs

from structir.build import BlockBuilder, BuilderScope
from structir.errors import Diagnostic, Span
from structir.ir.expr import Call, Expr, SeqExpr, Var
from structir.ir.struct_info import StructInfo


def without_op_hint(diagnostic: Diagnostic) -> Diagnostic:
    """Returns an error of an op without its hint, which edits a StructIR program, not a model."""
    is_program_edit = diagnostic.hint is not None and "`R." in diagnostic.hint
    return attrs.evolve(diagnostic, hint=None) if is_program_edit else diagnostic


class NodeBuilder(BlockBuilder):
    """A block builder that attaches the location of the current node to every binding."""

    span: Span | None = None  # the node that is being built
    stem: str | None = None  # names of variables without a name of their own

    @contextmanager
    def at(self, span: Span) -> Iterator[None]:
        """Attaches `span` to every binding that is emitted inside the `with` block."""
        before, self.span = self.span, span
        try:
            yield
        finally:
            self.span = before

    def aside(self, build: Callable[[], Expr]) -> SeqExpr:
        """Returns the bindings that `build` emits and its result as a separate sequence."""
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
        if name is None and self.stem:
            name = self._fresh(self.stem)
        if type(value) is Call and value.span is None and self.span is not None:
            call = value
            value = Call(
                call.op, call.args, call.attrs, call.sinfo_args, call.struct_info, self.span
            )
        return super()._bind(kind, value, name, annotation, span or self.span)
