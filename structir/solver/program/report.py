"""`structir.solver.explain`: reports inferred shapes, their origins, and conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, StructIRError
from structir.ir import dims
from structir.ir.dim_text import display_name, one_message
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.ir.node import ShownAsText
from structir.ir.polynomial import Dim
from structir.solver.constraints.constraint import Constraint
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import Element, RowVar
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.default_selection import Close
from structir.solver.program.inference import (
    Unsatisfiable,
    generate_constraints,
    require_close_names,
)
from structir.solver.program.unsat_core import UnsatCore
from structir.solver.program.value_trees import leaves
from structir.solver.solver import ConstraintSolver, Value


@attrs.frozen(eq=False, repr=False)
class Report(ShownAsText):
    """The solver's results on a module; `conflicts` if it is unsatisfiable."""

    functions: Mapping[str, ConstraintGenerator]
    conflicts: tuple[Diagnostic, ...] = ()
    explanations: tuple[UnsatCore, ...] = ()  # of the conflicts, in the same order

    def shape(self, function: str, name: str) -> tuple[Element, ...]:
        """Returns the sizes of a variable, with row variables if its rank is unknown."""
        return self._generator(function).solver.shape(self.value(function, name))

    def explain(self, function: str, name: str, axis: int | None = None) -> list[Origin]:
        """Returns the origins that determine a shape, or one of its sizes, nearest first."""
        solver, value = self._generator(function).solver, self.value(function, name)
        row = solver.row(value)
        if axis is None:
            return solver.explain(row)
        expanded = solver.store.row(row)
        return solver.explain((expanded[axis],))

    def _generator(self, function: str) -> ConstraintGenerator:
        if function not in self.functions:
            raise StructIRError(
                f"no function {function!r} in the report; available: {', '.join(self.functions)}"
            )
        return self.functions[function]

    def value(self, function: str, name: str) -> Value:
        """Returns the solver value of a variable."""
        for var, tree in self._generator(function).trees.items():
            if var.name == name:
                for value in leaves(tree):
                    return value
        raise StructIRError(f"{function}: no tensor named {name!r}")

    def data(self) -> dict[str, Any]:
        """Returns the report as plain data: shapes and open constraints of each function."""
        return {name: _data(generator) for name, generator in self.functions.items()}

    def __str__(self) -> str:
        if self.conflicts:
            return "\n\n".join(map(str, self.conflicts))
        return "\n".join(
            [line for name, generator in self.functions.items() for line in _lines(name, generator)]
        )


@one_message()
def _data(generator: ConstraintGenerator) -> dict[str, Any]:
    return {
        "shapes": {
            var.name: [list(map(element_text, shape)) for shape in shapes]
            for var, shapes in _shapes(generator)
        },
        "open": [_open(generator.solver, c) for c in generator.solver.residual],
    }


@one_message()
def _lines(name: str, generator: ConstraintGenerator) -> list[str]:
    lines = [f"{name}:"]
    origins = [assertion.origin for assertion in generator.solver.assertions]
    chosen = {origin.label for origin in origins if origin.kind == "chosen"}
    for var, shapes in _shapes(generator):
        shown = ", ".join(f"({', '.join(map(element_text, shape))})" for shape in shapes)
        mark = "   chosen" if f"chosen:{var.name}" in chosen else ""
        mark = "   not decided" if var.name in generator.undecided else mark
        lines.append(f"  {var.name}: {shown}{mark}")
    solver = generator.solver
    lines += [f"  open: {_open(solver, constraint)}" for constraint in solver.residual]
    return lines


def _shapes(generator: ConstraintGenerator) -> Iterator[tuple[Var, list[tuple[Element, ...]]]]:
    """Yields the variables that have shapes: one, or those of a tuple's fields."""
    for var, tree in generator.trees.items():
        shapes = [generator.solver.shape(value) for value in leaves(tree)]
        if shapes:
            yield var, shapes


def _open(solver: ConstraintSolver, constraint: Constraint) -> str:
    """Formats a constraint with the names that shapes are printed with."""

    def resolve_dim(dim: Dim) -> Dim:
        return solver.resolve((dim,))[0]  # type: ignore[return-value]

    resolved = constraint.map_terms(resolve_dim, solver.resolve)
    parts = [
        f"{name}={_part(getattr(resolved, name), kind)}" for name, kind in constraint.kinds.items()
    ]
    return f"{type(constraint).__name__}({', '.join(parts)})"


def _part(part: Any, kind: str) -> str:
    match kind:
        case "dim":
            return element_text(part)
        case "row" | "dims":
            return f"({', '.join(map(element_text, part))})"
        case "rows":
            return f"({', '.join([_part(row, 'row') for row in part])})"
    return repr(part)


def element_text(element: Element) -> str:
    """Formats a size or a row variable."""
    if isinstance(element, RowVar):
        return repr(element)
    return dims.text(element, lambda symbol: display_name(symbol) or f"?{symbol.order}")


def explain(module: IRModule, *, close: Close = False) -> Report:
    """Returns a report of the solver's results; an unsatisfiable module is explained, not raised.

    `close` defaults underconstrained parameters, as `structir.infer` does; defaults are marked.
    """
    try:
        require_close_names(module, close)
        return Report(generate_constraints(module, close=close))
    except Unsatisfiable as error:
        return Report({}, tuple(error.diagnostics), (error.explanation,))
