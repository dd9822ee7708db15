"""Operands whose rank is not known: what is deduced of them holds at the rank that they have."""

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from structir.analysis import base_check
from structir.analysis.lattice import PASS, map_dims
from structir.errors import DiagnosticWarning
from structir.ir.axes import AnySize, RowVar, fields_of
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.op import registered_ops
from structir.ir.struct_info import TensorStructInfo
from tests.solver.test_schemes import call_of


def examples() -> Iterator[Any]:
    for op in registered_ops():
        for number, (args, keywords) in enumerate(getattr(op.definition, "examples", ())):
            yield pytest.param(op, args, keywords, id=f"{op.name}-{number}")


class Hidden:
    """Arguments of which some axes are hidden behind rows, or sizes behind `_`."""

    def __init__(self, kept: int, shared: bool) -> None:
        self.kept = kept  # of the last axes
        self.shared = shared  # equal axes stand behind one row
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
            for row, known in self.rows.items():
                if known == axes:
                    return row
        made = RowVar(f"r{len(self.rows)}")
        self.rows[made] = axes
        return made


class Blurred(Hidden):
    """The last sizes are kept, the others are there and may be any."""

    def arg(self, arg: Expr) -> Expr:
        info = arg.struct_info
        if isinstance(arg, Tuple):
            return Tuple(tuple(map(self.arg, arg.fields)))
        if not isinstance(arg, Var) or not isinstance(info, TensorStructInfo) or not info.dims:
            return arg
        place = max(1, len(info.dims) - self.kept)
        axes = (*[AnySize()] * place, *info.dims[place:])
        return Var(arg.name, TensorStructInfo(dtype=info.dtype, **fields_of(axes)))


@pytest.mark.sampled(120)
@pytest.mark.parametrize(("op", "args", "keywords"), list(examples()))
def test_what_is_deduced_of_rows_is_so(op: Any, args: Any, keywords: Any) -> None:
    call = call_of(op, args, keywords)
    known = call.struct_info
    hidings = [Hidden(kept, shared) for kept in range(4) for shared in (False, True)]
    for hiding in [*hidings, Blurred(1, False), Blurred(0, False)]:
        made = tuple(map(hiding.arg, call.args))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DiagnosticWarning)
            found = op.definition.deduce(Call(op, made, call.attrs))
        assert base_check(map_dims(found, hiding.rows), known) is PASS, (str(found), str(known))
