"""Operands of unknown rank: the inferred StructInfo holds at every rank."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from structir.analysis import base_check
from structir.analysis.erasure import map_dims
from structir.analysis.lattice import PASS
from structir.errors import DiagnosticWarning
from structir.ir.axes import AnySize, RowVar, fields_of
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.struct_info import TensorStructInfo
from tests.ops.built_in import BUILT_IN_OPS
from tests.solver.test_schemes import call_of


def examples() -> Iterator[Any]:
    for op in BUILT_IN_OPS.values():
        for number, (args, keywords) in enumerate(getattr(op.definition, "examples", ())):
            yield pytest.param(op, args, keywords, id=f"{op.name}-{number}")


class Hidden:
    """Replaces axes of arguments by row variables, or sizes by `_`."""

    def __init__(self, kept: int, shared: bool) -> None:
        self.kept = kept  # of the last axes
        self.shared = shared  # equal axes share one row variable
        self.rows: dict[Any, Any] = {}

    def arg(self, arg: Expr) -> Expr:
        info = arg.struct_info
        if isinstance(arg, Tuple):
            return Tuple(tuple(map(self.arg, arg.fields)))
        if not isinstance(arg, Var) or not isinstance(info, TensorStructInfo):
            return arg
        place = max(0, len(info.dims) - self.kept)
        row = self.row(info.dims[:place])
        return Var(
            arg.name, TensorStructInfo(dtype=info.dtype, **fields_of((row, *info.dims[place:])))
        )

    def row(self, axes: tuple[int, ...]) -> RowVar:
        if self.shared:
            for row, expected in self.rows.items():
                if expected == axes:
                    return row
        arguments = RowVar(f"r{len(self.rows)}")
        self.rows[arguments] = axes
        return arguments


class Blurred(Hidden):
    """Keeps the last sizes and replaces the others by `_`."""

    def arg(self, arg: Expr) -> Expr:
        info = arg.struct_info
        if isinstance(arg, Tuple):
            return Tuple(tuple(map(self.arg, arg.fields)))
        if not isinstance(arg, Var) or not isinstance(info, TensorStructInfo) or not info.dims:
            return arg
        place = max(1, len(info.dims) - self.kept)
        axes = (*[AnySize()] * place, *info.dims[place:])
        return Var(arg.name, TensorStructInfo(dtype=info.dtype, **fields_of(axes)))


@pytest.mark.sampled(60)
@pytest.mark.parametrize(("op", "args", "keywords"), list(examples()))
def test_inferred_struct_info_holds_at_every_rank(op: Any, args: Any, keywords: Any) -> None:
    call = call_of(op, args, keywords)
    expected = call.struct_info
    hidings = [Hidden(kept, shared) for kept in range(4) for shared in (False, True)]
    for hiding in [*hidings, Blurred(1, False), Blurred(0, False)]:
        arguments = tuple(map(hiding.arg, call.args))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiagnosticWarning)
            inferred = op.definition.deduce(Call(op, arguments, call.attrs))
        assert base_check(map_dims(inferred, hiding.rows), expected) is PASS, (
            str(inferred),
            str(expected),
        )
