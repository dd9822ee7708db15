"""`structir.solver.explain`: what was found of each function, why, and what cannot hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic, StructIRError
from structir.ir import dims
from structir.ir.expr import Var
from structir.ir.module import IRModule
from structir.solver.constraints.constraint import Constraint
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import Element, RowVar
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.inference import Unsatisfiable, generate_constraints
from structir.solver.program.unsat_core import UnsatCore
from structir.solver.program.value_trees import leaves
from structir.solver.solver import Value


@attrs.frozen(eq=False)
class Report:
    """What the solver knows of a module; `conflicts` where it cannot hold."""

    functions: Mapping[str, ConstraintGenerator]
    conflicts: tuple[Diagnostic, ...] = ()
    explanations: tuple[UnsatCore, ...] = ()  # the same by their statements

    def shape(self, function: str, name: str) -> tuple[Element, ...]:
        """The sizes of a variable, and row variables where the rank is not known."""
        return self._generator(function).solver.shape(self.value(function, name))

    def explain(self, function: str, name: str, axis: int | None = None) -> list[Origin]:
        """The statements that tell a variable's shape, or one of its sizes, nearest first."""
        solver, value = self._generator(function).solver, self.value(function, name)
        row = solver.row(value)
        if axis is None:
            return solver.explain_row(row)
        expanded = solver.store.row(row)
        return solver.explain_row((expanded[axis],))

    def _generator(self, function: str) -> ConstraintGenerator:
        if function not in self.functions:
            raise StructIRError(f"no function {function!r} was solved")
        return self.functions[function]

    def value(self, function: str, name: str) -> Value:
        """The value that a variable is."""
        for var, tree in self._generator(function).trees.items():
            if var.name == name:
                for value in leaves(tree):
                    return value
        raise StructIRError(f"{function} has no tensor {name!r}")

    def data(self) -> dict[str, Any]:
        """The report as plain data: of each function the shapes, and what stays open."""
        return {
            name: {
                "shapes": {
                    var.name: [list(map(element_text, shape)) for shape in shapes]
                    for var, shapes in _shapes(generator)
                },
                "open": list(map(_open, generator.solver.residual)),
            }
            for name, generator in self.functions.items()
        }

    def __str__(self) -> str:
        if self.conflicts:
            return "\n\n".join(map(str, self.conflicts))
        return "\n".join(
            [line for name, generator in self.functions.items() for line in _lines(name, generator)]
        )


def _lines(name: str, generator: ConstraintGenerator) -> list[str]:
    lines = [f"{name}:"]
    made = [statement.origin for statement in generator.solver.statements]
    chosen = {origin.label for origin in made if origin.kind == "chosen"}
    for var, shapes in _shapes(generator):
        told = ", ".join(f"({', '.join(map(element_text, shape))})" for shape in shapes)
        mark = "   chosen" if f"chosen:{var.name}" in chosen else ""
        lines.append(f"  {var.name}: {told}{mark}")
    lines += [f"  open: {_open(constraint)}" for constraint in generator.solver.residual]
    return lines


def _shapes(generator: ConstraintGenerator) -> Iterator[tuple[Var, list[tuple[Element, ...]]]]:
    """The variables that have shapes: one, or those of a tuple's fields."""
    for var, tree in generator.trees.items():
        shapes = [generator.solver.shape(value) for value in leaves(tree)]
        if shapes:
            yield var, shapes


def _open(constraint: Constraint) -> str:
    """A constraint by the names that the shapes are shown with."""
    parts = [
        f"{name}={_part(getattr(constraint, name), kind)}"
        for name, kind in constraint.kinds.items()
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
    """A size or a row variable as a report shows it."""
    if isinstance(element, RowVar):
        return repr(element)
    return dims.text(element, lambda symbol: symbol.name or f"?{symbol.order}")


def explain(module: IRModule, *, close: bool = False) -> Report:
    """What the solver finds of a module, and why; an impossible one is explained, not raised.

    `close` chooses where too little is known, as `structir.infer` does; choices are marked.
    """
    try:
        return Report(generate_constraints(module, close=close))
    except Unsatisfiable as error:
        return Report({}, tuple(error.diagnostics), (error.explanation,))
