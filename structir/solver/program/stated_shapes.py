"""The solver for users: shapes and conditions are text, as in a program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from structir.errors import Diagnostic, ParseError, StructInfoError, StructIRError
from structir.ir import dims
from structir.ir.axes import AnySize, Axis, Labelled, Ragged, size_in
from structir.ir.polynomial import Sym
from structir.solver.constraints.signature import SignatureVars, read_signature, read_size
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import RowVar, symbol_of
from structir.solver.program.axis_conversion import as_axes, as_labelled_row
from structir.solver.program.unsat_core import explain
from structir.solver.solver import (
    Assertion,
    ConstraintSolver,
    HasShape,
    SchemeApplication,
    UserConstraint,
    Value,
    replay,
)

Shape: TypeAlias = tuple[int | str, ...]


class Solver:
    """Solves shapes that are stated as text, outside of a program.

    Names of sizes (`n`) and of row variables (`*s`) are shared by all statements. Sizes are at
    least 1. A statement that contradicts earlier ones is a StructInfoError with a minimal set of
    conflicting statements, and has no effect.
    """

    def __init__(self) -> None:
        self._solver = ConstraintSolver()
        self._names = SignatureVars()
        self._values: dict[str, Value] = {}
        self._inferred_names: dict[Sym | RowVar, str] = {}

    def shape(self, name: str, axes: Sequence[int | str] | None = None) -> Shape:
        """Declares the axes of a tensor, as in `R.Tensor((...))`, and returns the inferred ones.

        Without `axes` it only returns them. Two declarations of one tensor are unified.
        """
        if axes is not None:
            self._declare(name, axes)
        solved = as_axes(self._solver, self._value(name))
        return tuple([self._text(axis) for axis in solved])

    def require(self, statement: str, *tensors: str) -> None:
        """Requires conditions on sizes, or a signature between tensors.

        Conditions are those of `R.require` and of `where` in a signature: `n >= 4`,
        `elements(*s) == 12`. A signature is that of `R.sig`; its names are its own, and `tensors`
        are its operands and results.
        """
        text = ", ".join(map(repr, (statement, *tensors)))
        if tensors:
            self._relate(statement, tensors, f"require({text})")
            return
        constraints = list(self._names.conditions(statement))
        origin = self._origin(f"require({text})")
        self._assert([UserConstraint(origin, constraint) for constraint in constraints])

    def why(self, name: str) -> list[str]:
        """Returns the statements that determine a tensor, a size or a row variable (`*s`)."""
        texts = [origin.text for origin in self._origins(name)]
        return list(dict.fromkeys(texts))

    # Statements

    def _declare(self, name: str, axes: Sequence[int | str]) -> None:
        if not isinstance(axes, tuple | list):
            hint = f'write a tuple: `shape({name!r}, ("*s", "n", 4))`'
            message = f"shape: expected a tuple of axes, found {axes!r}"
            raise ParseError(Diagnostic(message, hint=hint, code="E0400"))
        row, constraints = as_labelled_row(tuple(map(self._axis, axes)))
        origin = self._origin(f"shape({name!r}, {tuple(axes)!r})")
        value = self._values.get(name, Value(name))
        further = [UserConstraint(origin, constraint) for constraint in constraints]
        self._assert([HasShape(origin, value, row), *further])
        self._values[name] = value

    def _relate(self, signature: str, tensors: Sequence[str], text: str) -> None:
        scheme = read_signature(signature)
        count = len(scheme.operands)
        expected = count + len(scheme.results)
        if len(tensors) != expected:
            message = f"require: expected {expected} tensors by the signature, found {len(tensors)}"
            raise StructInfoError(Diagnostic(message, code="E0408"))
        origin = self._origin(text)
        # a row variable per new tensor: explanations then include this statement
        new = {name: Value(name) for name in tensors if name not in self._values}
        known = self._values | new
        declared = [HasShape(origin, value, (RowVar(),)) for value in new.values()]
        values = tuple([known[name] for name in tensors])
        application = SchemeApplication(origin, scheme, values[:count], values[count:])
        self._assert([*declared, application])
        self._values = known

    def _origin(self, text: str) -> Origin:
        self._solver.prefer(map(symbol_of, self._names.sizes.values()))  # type: ignore[arg-type]
        return Origin(text, "annotation", text, order=len(self._solver.assertions))

    def _assert(self, assertions: Sequence[Assertion]) -> None:
        """Adds assertions and solves. Without effect if they contradict the others."""
        count = len(self._solver.assertions)
        try:
            for assertion in assertions:
                self._solver.assert_(assertion)
            self._solver.solve()
        except Conflict as conflict:
            core = explain(self._solver, conflict)
            self._solver = replay(self._solver.assertions[:count], self._solver)
            raise StructInfoError(core.diagnostic()) from None

    def _axis(self, axis: int | str) -> Axis:
        if type(axis) is int and axis >= 0:
            return axis
        if not isinstance(axis, str):
            raise _invalid_axis(axis)
        size, colon, label = axis.replace(" ", "").partition(":")
        if size == "*":
            self._solver.store.may_be_ragged = True
            return Ragged(label)
        if size[:1] == "*":
            if colon or not size[1:].isidentifier():
                raise _invalid_axis(axis)
            return self._names.row_var(size[1:])
        dim = AnySize() if size == "_" else read_size(size, self._names.size)
        return Labelled(dim, label) if colon else dim

    # Queries

    def _value(self, name: str) -> Value:
        if name not in self._values:
            known = ", ".join(self._values) or "none"
            raise StructIRError(f"shape: no tensor named {name!r}; declared: {known}")
        return self._values[name]

    def _origins(self, name: str) -> Iterable[Origin]:
        if name in self._values:
            value = self._values[name]
            yield from self._solver.explain(self._solver.row(value))
            for assertion in self._solver.assertions:
                if _states(assertion, value):
                    yield assertion.origin
        elif name[:1] == "*" and name[1:] in self._names.rows:
            yield from self._solver.explain((self._names.rows[name[1:]],))
        elif name in self._names.sizes:
            yield from self._solver.explain((self._names.sizes[name],))
        else:
            raise StructIRError(f"why: no tensor, size or row variable named {name!r}")

    # Text

    def _text(self, axis: Axis) -> int | str:
        size = size_in(axis)
        if isinstance(size, Ragged):
            text = f"*:{size.name}" if size.name else "*"
        elif isinstance(size, RowVar):
            text = f"*{self._name(size)}"
        elif isinstance(size, int) and not isinstance(axis, Labelled):
            return size
        else:
            text = dims.text(size, self._name)
        return f"{text}:{axis.label}" if isinstance(axis, Labelled) else text

    def _name(self, variable: Sym | RowVar) -> str:
        """Returns the declared name of a variable, or one that no declared variable has."""
        declared = {row: name for name, row in self._names.rows.items()}
        declared |= {symbol_of(size): name for name, size in self._names.sizes.items()}  # type: ignore[misc]
        if variable in declared:
            return declared[variable]
        used = {*declared.values(), *self._inferred_names.values()}
        prefix = "r" if isinstance(variable, RowVar) else "d"
        candidates = (f"{prefix}{number}" for number in range(len(used) + 1))
        free = next(name for name in candidates if name not in used)
        return self._inferred_names.setdefault(variable, free)


def _invalid_axis(axis: object) -> ParseError:
    message = (
        f"shape: expected a size such as 4, `n` or `2 * n`, or a row variable `*s`: found {axis!r}"
    )
    return ParseError(Diagnostic(message, code="E0400"))


def _states(assertion: Assertion, value: Value) -> bool:
    """Returns whether an assertion states the shape of a value directly."""
    if isinstance(assertion, HasShape):
        return assertion.value is value
    return isinstance(assertion, SchemeApplication) and value in assertion.results
