"""Asserts a case on a solver: values, assertions in order, and their origins."""

from collections.abc import Iterator
from typing import Any

import attrs

from structir.ir.polynomial import Dim, as_dim
from structir.solver.constraints.constraint import Constraint, DimEq, Divides, Ge, Label, Ne
from structir.solver.constraints.scheme import Scheme
from structir.solver.constraints.signature import read_size
from structir.solver.domains.reasons import Origin
from structir.solver.domains.terms import RAGGED, Element, Row, RowVar, symbol_of
from structir.solver.program.generalisation import generalise, loop_scheme
from structir.solver.propagation.arithmetic import fresh
from structir.solver.propagation.store import ANONYMOUS
from structir.solver.solver import ConstraintSolver, Value
from tests.solver.case_ops import SCHEMES

Case = dict[str, Any]


class Program:
    """The names of a case, and the solver with its assertions."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.solver = ConstraintSolver()
        self.values: dict[str, Value] = {}
        self.sizes: dict[str, Dim] = {}
        self.rows: dict[str, RowVar] = {}
        self.anonymous: list[Dim] = []
        self.solver.store.may_be_ragged = "'*'" in repr((case["params"], case.get("annotations")))
        self.labelled = "'label'" in repr(case["params"]) + repr(case.get("annotations"))

    def value(self, name: str) -> Value:
        return self.values.setdefault(name, Value(name))

    def size(self, name: str) -> Dim:
        if name not in self.sizes:
            self.sizes[name] = fresh(name)
            self.solver.prefer([symbol_of(self.sizes[name])])
        return self.sizes[name]

    def declare(self) -> None:
        """Asserts the parameters and the facts."""
        for order, param in enumerate(self.case["params"]):
            origin = Origin(f"param:{param['name']}", "parameter", order=order)
            self.assert_shape(param["name"], param["shape"], origin)
        for left, op, right in self.case.get("facts", []):
            self.solver.add(self.fact(left, op, right), Origin("fact", "fact"))

    def fact(self, left: Any, op: str, right: Any) -> Constraint:
        one, other = (read_size(str(side), self.size) for side in (left, right))
        match op:
            case "==":
                return DimEq(one, other)
            case "!=":
                return Ne(one, other)
            case ">=":
                return Ge(one - other, 0)
            case "<=":
                return Ge(other - one, 0)
            case "%":
                return Divides(other, one)
        raise ValueError(op)

    def assert_shape(self, name: str, shape: list[Any] | None, origin: Origin) -> None:
        """Asserts the partial shape of a value."""
        further: list[Constraint] = []
        row = (RowVar(name),) if shape is None else tuple(self.elements(shape, further))
        for constraint in further:
            self.solver.add(constraint, origin)
        self.solver.assert_shape(self.value(name), row, origin)

    def elements(self, shape: list[Any], further: list[Constraint]) -> Iterator[Element]:
        for entry in shape:
            element = self.element(entry)
            if self.labelled and type(element) is not RowVar:
                axis = fresh()
                further.append(DimEq(axis, element))
                if isinstance(entry, dict) and "label" in entry:
                    further.append(Label(axis, entry["label"]))
                element = axis
            yield element

    def element(self, entry: Any) -> Element:
        match entry:
            case None:
                made = fresh()
                self.solver.prefer([symbol_of(made)], ANONYMOUS)
                return made
            case "*":
                return RAGGED
            case int():
                return as_dim(entry)
            case str():
                return self.size(entry)
            case {"row": name}:
                return self.rows.setdefault(name, RowVar(name))
            case {"expr": text}:
                return read_size(text, self.size)
            case {"dim": size}:
                return self.element(size)
        raise ValueError(entry)

    def add_op(self, op: Case) -> None:
        """Asserts an op and the annotations of its results."""
        operands = [self.value(name) for name in op["in"]]
        results = [self.value(name) for name in op["out"]]
        scheme = scheme_of(op, self.case.get("funcs", {}), len(operands))
        self.solver.apply(scheme, operands, results, Origin(op["id"], "op"))
        for name in op["out"]:
            if name in self.case.get("annotations", {}):
                origin = Origin(f"annot:{name}", "annotation")
                self.assert_shape(name, self.case["annotations"][name], origin)


def scheme_of(op: Case, functions: dict[str, Case], count: int) -> Scheme:
    if op["op"] == "call":
        return function_scheme(functions[op["attrs"]["func"]], functions)
    if op["op"] == "scan":
        cell = function_scheme(functions[op["attrs"]["func"]], functions)
        states = op["attrs"]["states"]
        axes = [(0,) if k == states else () for k in range(len(cell.operands))]
        scheme = loop_scheme(cell, axes, states, (0,))
        assert scheme is not None
        return scheme
    return SCHEMES[op["op"]](op["attrs"], count)


def function_scheme(function: Case, functions: dict[str, Case]) -> Scheme:
    body = Program({"params": function["params"], "ops": function["ops"], "funcs": functions})
    for param in function["params"]:
        body.assert_shape(param["name"], param.get("shape"), Origin(param["name"], "parameter"))
    for op in function["ops"]:
        body.add_op(op)
    params = [body.value(param["name"]) for param in function["params"]]
    return generalise(body.solver, params, [body.value(name) for name in function["ret"]])


@attrs.frozen
class Answer:
    """The result of a case: the program, and the op of the conflict, if there is one."""

    program: Program
    bad: str | None
    conflict: Exception | None = None

    def shape(self, name: str) -> Row:
        return self.program.solver.shape(self.program.value(name))
