"""The view of an equation of a jaxpr that mappings receive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Protocol

import attrs

from structir.errors import Diagnostic, DiagnosticError, Source, Span
from structir.frontend.builder import NodeBuilder
from structir.frontend.jax.sizes import JaxSizes
from structir.ir.dims import Dim
from structir.ir.expr import Constant, Expr, Var
from structir.lazy import lazy_module

np = lazy_module("numpy")
source_info = lazy_module("jax._src.source_info_util")


class JaxImportContext(Protocol):
    """The interface of the importer that mappings may use."""

    builder: NodeBuilder
    sizes: JaxSizes

    def inlined(self, jaxpr: Any, consts: Sequence[Any], operands: Sequence[Expr]) -> list[Expr]:
        """Builds the equations of a jaxpr into the current scope; returns its results."""
        ...

    def recorded(self, equation: Equation, index: int, value: Expr) -> Expr:
        """Returns a variable with the sizes that JAX recorded of a result."""
        ...


@attrs.frozen(eq=False)
class Equation:
    """One equation: the operands as expressions, and what JAX recorded of operands and results."""

    name: str
    params: Mapping[str, Any]
    args: tuple[Expr, ...]
    inputs: tuple[Any, ...]  # the abstract values of the operands
    outputs: tuple[Any, ...]  # those of the results
    host: JaxImportContext
    span: Span

    def dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Returns the recorded sizes of an operand."""
        return self._dims(self.inputs[index])

    def dtype(self, index: int = 0) -> str:
        """Returns the recorded dtype of an operand."""
        return dtype_of(self.inputs[index])

    def out_dims(self, index: int = 0) -> tuple[Dim, ...]:
        """Returns the recorded sizes of a result."""
        return self._dims(self.outputs[index])

    def out_dtype(self, index: int = 0) -> str:
        """Returns the recorded dtype of a result."""
        return dtype_of(self.outputs[index])

    def dim(self, size: Any) -> Dim:
        """Returns a size among the parameters."""
        return self.host.sizes.dim(size)

    def emit(self, value: Expr) -> Expr:
        """Binds a value to a variable; variables and constants are unchanged."""
        if isinstance(value, Var | Constant):
            return value
        return self.host.builder.emit(value)

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raises DiagnosticError at this equation."""
        diagnostic = Diagnostic(message, self.span, self.name, hint=hint, code="E0805")
        raise DiagnosticError(diagnostic)

    def _dims(self, aval: Any) -> tuple[Dim, ...]:
        sizes = tuple([self.host.sizes.dim(size) for size in aval.shape])
        return (*sizes, 2) if is_key(aval) else sizes


def is_key(aval: Any) -> bool:
    """Whether an abstract value is an array of keys of a random number generator."""
    return str(aval.dtype).startswith("key<")


def dtype_of(aval: Any) -> str:
    """Returns the dtype of an abstract value; keys are pairs of uint32."""
    return "uint32" if is_key(aval) else str(aval.dtype)


def span_of(equation: Any) -> Span:
    """Returns the location of an equation: its line in the user's file, or its printed form."""
    origin = source_info.summarize(equation.source_info).rpartition("/")[2]
    operands = ", ".join([str(getattr(atom, "aval", atom)) for atom in equation.invars])
    text = f"{equation.primitive.name}({operands})"
    return Span(Source(origin or "jaxpr", text), 1, 0, 1, len(text))
