"""Compares the constraint schemes of index signatures with deduction from the same signatures."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from structir.ir.dims import sym
from structir.ir.expr import Call, Tuple, Var
from structir.ir.op import Op, registered_ops
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.opdef.constraint_schemes import scheme_of, window_of
from structir.solver.constraints.scheme import Scheme
from structir.solver.domains.reasons import Conflict, Origin
from structir.solver.domains.terms import Row, RowVar, row_vars
from structir.solver.solver import ConstraintSolver, Value
from tests.cases import every_case
from tests.ops.built_in import BUILT_IN_OPS


def as_argument(value: Any) -> Any:
    """Returns an operand of an example as a variable of its shape."""
    if isinstance(value, np.ndarray):
        return Var("x", TensorStructInfo(value.shape, value.dtype.name))
    if isinstance(value, StructInfo):
        return Var("x", value)
    if isinstance(value, tuple | list) and any(isinstance(v, np.ndarray) for v in value):
        return Tuple(tuple([as_argument(v) for v in value]))
    return value


def calls() -> Iterator[Any]:
    for op in BUILT_IN_OPS.values():
        if "struct_info" in getattr(op.definition, "hooks", ()):
            continue  # no line says its sizes
        for number, (args, keywords) in enumerate(getattr(op.definition, "examples", ())):
            yield pytest.param(op, args, keywords, id=f"{op.name}-{number}")


def call_of(op: Op, args: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
    given = {name: as_argument(value) for name, value in keywords.items()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return op.definition.bind(tuple(map(as_argument, args)), given, None)


def operand_rows(call: Call, paths: tuple[tuple[int, int | None], ...]) -> list[Row]:
    rows: list[Row] = []
    for place, member in paths:
        arg = call.args[place]
        info = arg.fields[member].struct_info if member is not None else arg.struct_info  # type: ignore[attr-defined]
        rows.append(info.dims if isinstance(info, TensorStructInfo) else ())  # type: ignore[arg-type]
    return rows


def told(scheme: Scheme, operands: list[Row], results: list[Row]) -> tuple[list[Row], list[Row]]:
    """Returns the shapes of operands and results after solving a call."""
    solver = ConstraintSolver(0)
    ins = [Value(f"x{k}") for k in range(len(operands))]
    outs = [Value(f"y{k}") for k in range(len(scheme.results))]
    for value, row in zip(ins, operands, strict=True):
        solver.assert_shape(value, row, Origin(value.name, "parameter"))
    solver.apply(scheme, ins, outs, Origin("op"))
    for value, row in zip(outs, results, strict=False):
        solver.assert_shape(value, row, Origin(f"annot:{value.name}", "annotation"))
    solver.solve()
    return [solver.shape(v) for v in ins], [solver.shape(v) for v in outs]


def result_rows(call: Call) -> list[Row]:
    info = call.struct_info
    parts = getattr(info, "fields", (info,))
    return [part.dims for part in parts]  # type: ignore[union-attr]


@every_case(("op", "args", "keywords"), calls())
def test_known_operands_give_the_deduced_result(
    op: Op, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    call = call_of(op, args, keywords)
    found = scheme_of(call, [arg.struct_info for arg in call.args])
    assert found is not None
    wanted = result_rows(call)
    _, results = told(found.scheme, operand_rows(call, found.paths), [])
    for mine, deduced in zip(results, wanted, strict=True):
        if type(deduced) is tuple:
            assert mine == deduced


@every_case(("op", "args", "keywords"), calls())
def test_inferred_operands_are_sound(
    op: Op, args: tuple[Any, ...], keywords: dict[str, Any]
) -> None:
    """With the result known and one operand hidden, the inferred shape is true of the operand."""
    call = call_of(op, args, keywords)
    found = scheme_of(call, [arg.struct_info for arg in call.args])
    wanted = result_rows(call)
    if found is None or not all(type(row) is tuple for row in wanted):
        pytest.skip("no line, or a result that is only known at run time")
    rows = operand_rows(call, found.paths)
    for place, row in enumerate(rows):
        hidden = [*rows[:place], (RowVar(),), *rows[place + 1 :]]
        operands, _ = told(found.scheme, hidden, wanted)
        mine = operands[place]
        if not row_vars(mine):
            assert len(mine) == len(row)
            assert all(a == b for a, b in zip(mine, row, strict=True) if type(a) is int)


def test_a_wrong_rank_is_a_conflict() -> None:
    call = call_of(op_named("matmul"), (np.zeros((2, 3)), np.zeros((3, 4))), {})
    found = scheme_of(call, [arg.struct_info for arg in call.args])
    assert found is not None
    with pytest.raises(Conflict):
        told(found.scheme, [(2, 3), (5, 4)], [])


def op_named(name: str) -> Op:
    return next(op for op in registered_ops() if op.name == name)


def test_windows_are_recognised_by_their_form() -> None:
    outer, inner, kernel = sym("h"), sym("H"), sym("p")
    window = window_of(outer, (inner + 3 - kernel * 2) // 2 + 1)
    assert window is not None
    assert (window.stride, window.dilation, window.pad) == (2, 2, 2)
    assert window.inner == inner
    assert window_of(outer, inner * kernel // 2 + 1) is None
