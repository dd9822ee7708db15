"""Names of ragged axes: a result has the name of an operand's axis only if it has the same rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from structir.errors import DiagnosticError
from structir.ir.axes import AnySize, Axes, Ragged, RowVar, size_in
from structir.ir.dims import as_dim, as_sym, sym
from structir.ir.expr import Call, Expr, Tuple, Var
from structir.ir.node import replace
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo, leaf_infos
from structir.projections.spec import IndexSpec, Statement


def with_known_rows(call: Call, info: StructInfo, declared: StructInfo | None = None) -> StructInfo:
    """Returns a result of a call without names of ragged axes that have other rows.

    The index signature shows it: each element of the result is computed from the same row of an
    operand whose ragged axis has the name. `declared` has names that are kept in any case.
    """
    if not any(map(_name_in, leaf_infos(info))):
        return info
    named: StructInfo = _with_rows(info, declared, iter(_same_rows(call)))
    return named


def _with_rows(info: Any, declared: Any, same: Iterator[set[str]]) -> Any:
    if isinstance(info, TupleStructInfo):
        is_tuple = isinstance(declared, TupleStructInfo)
        others = declared.fields if is_tuple else [None for _ in info.fields]
        pairs = zip(info.fields, others, strict=True)
        return replace(info, fields=tuple([_with_rows(a, b, same) for a, b in pairs]))
    if not isinstance(info, TensorStructInfo):
        return info
    names, name = next(same, set()), _name_in(info)
    if not name or name in names or name == _name_in(declared):
        return info
    axes = [Ragged() if type(size_in(a)) is Ragged else a for a in info.axes or ()]
    return replace(info, axes=tuple(axes))


def _name_in(info: Any) -> str:
    """Returns the name of the first ragged axis of a tensor; an empty string without one."""
    axes: Axes = getattr(info, "axes", None) or ()
    return next((s.name for a in axes if type(s := size_in(a)) is Ragged and s.name), "")


def _same_rows(call: Call) -> list[set[str]]:
    """Returns, for each result of a call, the names of ragged axes whose rows it has."""
    sizes: dict[Any, Any] = {}
    args = tuple([_dense(arg, sizes) for arg in call.args])
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    try:
        dense = replace(call, args=args, struct_info=None)
        dense = replace(dense, struct_info=definition.deduce(dense))
        spec = definition.index_spec(dense)
    except DiagnosticError:
        return []
    if spec is None:
        return []
    names = {as_sym(size): axis.name for axis, size in sizes.items() if type(axis) is Ragged}
    return [_names_of_result(spec, k, names) for k in range(len(spec.results))]


def _names_of_result(spec: IndexSpec, result: int, names: Mapping[Any, str]) -> set[str]:
    """Returns the names whose rows each statement that writes a result reads from an operand."""
    common: set[str] | None = None
    for statement in spec.statements:
        for write in statement.writes:
            if write.result == result:
                sizes = spec.results[result].dims
                if statement.reads:
                    read = set(_names_of_reads(spec, statement, write.entries, sizes, names))
                else:  # of the shape of an operand only, such as zeros_like
                    read = set(_names_of_shapes(spec, sizes, names))
                common = read if common is None else common & read
    return common or set()


def _names_of_reads(
    spec: IndexSpec, statement: Statement, written: Any, result: Any, names: Mapping[Any, str]
) -> Iterator[str]:
    for read in statement.reads:
        pairs = zip(spec.operands[read.operand].dims, result, strict=False)
        for position, (size, own) in enumerate(pairs):
            name = names.get(as_sym(size))
            rows = zip(read.entries[:position], written[:position], strict=True)
            if name and size == own and all([_is_same(a, b) for a, b in rows]):
                yield name


def _names_of_shapes(spec: IndexSpec, result: Any, names: Mapping[Any, str]) -> Iterator[str]:
    for operand in spec.operands:
        for position, (size, own) in enumerate(zip(operand.dims, result, strict=False)):
            name = names.get(as_sym(size))
            if name and size == own and operand.dims[:position] == result[:position]:
                yield name


def _is_same(read: Any, written: Any) -> bool:
    """Whether two indices are the same index variable, one element at a time."""
    plain = not (read.whole or written.whole) and read.data is None and written.data is None
    return plain and as_sym(read.index) is not None and read.index == written.index


def _dense(arg: Expr, sizes: dict[Any, Any]) -> Expr:
    """Returns an argument with dense axes in place of ragged and unknown ones."""
    if isinstance(arg, Tuple):
        return Tuple(tuple([_dense(field, sizes) for field in arg.fields]))
    info: Any = arg.struct_info
    if type(info) is not TensorStructInfo or info.axes is None or info.dims is not None:
        return arg
    return Var("operand", TensorStructInfo(tuple(_sizes(info.axes, sizes)), info.element))


def _sizes(axes: Iterable[Any], sizes: dict[Any, Any]) -> Iterator[Any]:
    for axis in map(size_in, axes):
        if type(axis) is AnySize or (type(axis) is Ragged and not axis.name):
            yield as_dim(sym("size"))
        elif type(axis) in (Ragged, RowVar):
            yield sizes.setdefault(axis, as_dim(sym("size")))
        else:
            yield axis
