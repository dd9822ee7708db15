"""The importer of jaxprs: applies the mapping of each equation and binds its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from structir.analysis.calls import are_disjoint
from structir.errors import Diagnostic, DiagnosticError, Span
from structir.frontend.builder import NodeBuilder, without_op_hint
from structir.frontend.constants import all_constant
from structir.frontend.jax.equation import Equation, dtype_of, is_key, span_of
from structir.frontend.jax.registry import find_build
from structir.frontend.jax.sizes import JaxSizes
from structir.interpret.interpreter import Interpreter
from structir.interpret.scope import Activation
from structir.ir import dims
from structir.ir.expr import Constant, Expr
from structir.ir.module import IRModule
from structir.ir.struct_info import TensorStructInfo
from structir.lazy import lazy_module

jax_core = lazy_module("jax.extend.core")
jax_random = lazy_module("jax.random")
np = lazy_module("numpy")
MAX_FOLDED = 4096  # elements of a result that is computed at import


class JaxImporter:
    """Builds the equations of jaxprs."""

    def __init__(self, sizes: JaxSizes) -> None:
        self.builder, self.sizes = NodeBuilder(), sizes

    def inlined(self, jaxpr: Any, consts: Sequence[Any], operands: Sequence[Expr]) -> list[Expr]:
        """Builds the equations of a jaxpr into the current scope; returns its results."""
        values: dict[Any, Expr] = dict(zip(jaxpr.invars, operands, strict=True))
        values |= {v: _constant(c) for v, c in zip(jaxpr.constvars, consts, strict=True)}
        for equation in jaxpr.eqns:
            span = span_of(equation)
            with self.builder.at(span):
                results = self._results(equation, values, span)
            for var, value in zip(equation.outvars, results, strict=True):
                values[var] = value
        return [_read(values, atom) for atom in jaxpr.outvars]

    def _results(self, source: Any, values: Mapping[Any, Expr], span: Span) -> list[Expr]:
        equation = Equation(
            source.primitive.name,
            source.params,
            tuple([_read(values, atom) for atom in source.invars]),
            tuple([atom.aval for atom in source.invars]),
            tuple([var.aval for var in source.outvars]),
            self,
            span,
        )
        build = find_build(equation.name)
        if build is None:
            hint = f'register a mapping: `@jax_primitive("{equation.name}")`'
            message = "the primitive has no mapping"
            raise DiagnosticError(Diagnostic(message, span, equation.name, hint=hint, code="E0801"))
        try:
            built = build(equation)
            results = list(built) if isinstance(built, list | tuple) else [built]
            return [self._bound(equation, k, value) for k, value in enumerate(results)]
        except DiagnosticError as error:
            raise _located(error, equation) from error

    def _bound(self, equation: Equation, index: int, value: Expr) -> Expr:
        """Returns a result as a variable or a constant, with the sizes that JAX recorded."""
        if isinstance(value, Constant):
            return value
        value = equation.emit(self._folded(value))
        return value if isinstance(value, Constant) else self.recorded(equation, index, value)

    def recorded(self, equation: Equation, index: int, value: Expr) -> Expr:
        """Returns a variable with the sizes that JAX recorded of a result."""
        recorded = TensorStructInfo(equation.out_dims(index), equation.out_dtype(index))
        info = value.struct_info
        if info is None or are_disjoint(recorded, info):
            equation.fail(f"result {index}: expected {recorded} as JAX recorded, found {info}")
        if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
            return self.builder.match_cast(value, recorded)
        pairs = zip(recorded.dims, info.dims, strict=True)
        if all([dims.equal(a, b) is True for a, b in pairs]):
            return value
        return self.builder.match_cast(value, recorded)

    def _folded(self, value: Expr) -> Expr:
        """Returns a small expression of constants as a constant; other values unchanged."""
        info = value.struct_info
        if not isinstance(info, TensorStructInfo) or not isinstance(info.dims, tuple):
            return value
        if not all([type(d) is int for d in info.dims]) or not all_constant(value):
            return value
        if int(np.prod(info.dims)) > MAX_FOLDED:
            return value
        scope = Activation({}, {})
        evaluated = Interpreter(IRModule({})).value(self.builder.aside(lambda: value), scope)
        return Constant(np.asarray(evaluated))


def _read(values: Mapping[Any, Expr], atom: Any) -> Expr:
    if isinstance(atom, jax_core.Literal):
        data = np.asarray(atom.val, dtype=dtype_of(atom.aval))
        return Constant(data)
    return values[atom]


def _constant(value: Any) -> Constant:
    if is_key(value):
        value = jax_random.key_data(value)
    return Constant(np.asarray(value))


def _located(error: DiagnosticError, equation: Equation) -> DiagnosticError:
    located = [
        d if d.span is not None else without_op_hint(d.at(equation.span)) for d in error.diagnostics
    ]
    return DiagnosticError([d if d.op else attrs.evolve(d, op=equation.name) for d in located])
