"""Infers results of single calls on operands with row variables, ragged axes or unknown sizes."""

from __future__ import annotations

from typing import Any

from structir.analysis.axes import axes_of, replace_axes, tensor
from structir.ir.axes import AnySize, RowVar, size_in
from structir.ir.dims import Poly, sym, syms
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.solver.domains.reasons import Conflict
from structir.solver.program.axis_conversion import as_axes
from structir.solver.program.constraint_generation import ConstraintGenerator
from structir.solver.program.dense_parts import solve_dense_parts
from structir.solver.program.ordered_dims import with_ordered_dims
from structir.solver.program.value_trees import Tree, tensors
from structir.solver.solver import ConstraintSolver, Value

__all__ = ["COUNTS", "Conflict", "at_rank", "refine_result", "with_result"]
COUNTS = (1, 0, 2, 3)  # numbers of axes per row variable, for a more specific message


def refine_result(call: Call) -> StructInfo:
    """Returns the StructInfo of a call with the solver's results, in terms of the operands.

    Of equal dims, the result has the one that occurs first. Raises Conflict if the operands cannot
    have these axes.
    """
    call, inverse = with_ordered_dims(call)
    generator = ConstraintGenerator({}, least=0)
    tree = generator.visit_call(call)
    generator.solve()
    solve_dense_parts(generator)
    operand_vars = {
        v for arg in call.args for info in tensors(arg.struct_info) for v in _variables(info)
    }
    result: StructInfo = _refine_info(generator.solver, call.struct_info, tree, operand_vars)
    return inverse.info(result)


def with_result(value: Expr, info: StructInfo, *, of_form: bool = False) -> Expr:
    """Returns a call with what the StructInfo of its result determines; else `value`.

    With `of_form`, the sizes are axes of row variables that the function was specialized for.
    """
    definition: Any = getattr(getattr(value, "op", None), "definition", None)
    hook = getattr(definition, "hooks", {}).get("with_result")
    if hook is None or not isinstance(info, TensorStructInfo):
        return value
    call = hook(value, info, of_form)
    return value if call is None else replace(call, struct_info=definition.deduce(call))


def _variables(info: TensorStructInfo) -> set[Any]:
    axes = map(size_in, axes_of(info) or ())
    return {v for axis in axes for v in ([axis] if type(axis) is RowVar else _symbols(axis))}


def _symbols(size: Any) -> Any:
    return syms(size) if type(size) is Poly else ()


def _refine_info(solver: ConstraintSolver, info: Any, tree: Tree, operand_vars: set[Any]) -> Any:
    if isinstance(info, TupleStructInfo) and isinstance(tree, tuple):
        pairs = zip(info.fields, tree, strict=True)
        fields = tuple([_refine_info(solver, i, t, operand_vars) for i, t in pairs])
        return replace(info, fields=fields)
    if not isinstance(tree, Value) or not isinstance(info, TensorStructInfo):
        return info
    if type(info.dims) is tuple:
        return info
    axes = [_axis_over_operands(axis, operand_vars) for axis in as_axes(solver, tree)]
    return info if None in axes else tensor(tuple(axes), info.element, info.vdevice)


def _axis_over_operands(axis: Any, operand_vars: set[Any]) -> Any:
    """Returns an axis in terms of the operands; None for a row variable of none of them."""
    if type(axis) is RowVar:
        return axis if axis in operand_vars else None
    return AnySize() if type(axis) is Poly and not syms(axis) <= operand_vars else axis


def at_rank(args: tuple[Expr, ...], count: int) -> tuple[Expr, ...]:
    """Returns the arguments with each row variable replaced by `count` axes."""
    rows: dict[RowVar, Any] = {}

    def at(axis: Any) -> Any:
        if type(axis) is not RowVar:
            return axis
        return rows.setdefault(axis, tuple([sym(f"{axis.name}_{k}") for k in range(count)]))

    def arg_at(arg: Expr) -> Expr:
        info = arg.struct_info
        if isinstance(arg, Tuple):
            return replace(arg, fields=tuple(map(arg_at, arg.fields)))
        if not isinstance(info, TensorStructInfo) or info.axes is None or info.dims is not None:
            return arg
        return Var("", tensor(replace_axes(info.axes, at) or (), info.element, info.vdevice))

    return tuple(map(arg_at, args))
