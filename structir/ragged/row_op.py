"""The op `ragged.rows`: a function of one row, computed for every row of ragged tensors.

Its operands are values (of which a row has its own), tensors with one slice per row, and tensors
that all rows share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from structir.adjoints.differentiable_leaves import is_float_tensor
from structir.adjoints.functions import Adjoints
from structir.build import BlockBuilder
from structir.errors import Diagnostic, StructInfoError
from structir.interpret import interpret
from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Call, Expr, Function, Tuple, TupleGetItem
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import Cotangent, Emit
from structir.ops.layout import expand_dims
from structir.ops.ragged import ragged_op
from structir.ops.reduce import sum_

parser = lazy_module("structir.printer.parser.parser")
np = lazy_module("numpy")
OWN_AXES = {"values": 2, "rows": 1, "shared": 0}  # of the operands of a row, by their kind


@lru_cache(maxsize=256)
def row_function(text: str) -> Function:
    """Returns the function of one row."""
    return parser.parse(text, "<row>").functions["main"]  # type: ignore[no-any-return]


def _rows_info(operands: Any, starts: Any, limits: Any, row: str, kinds: Any, results: Any) -> Any:
    function = row_function(row)
    returned: Any = function.ret_struct_info
    total = next(
        o.dims[0] for o, kind in zip(operands.fields, kinds, strict=True) if kind == "values"
    )
    fields = []
    sizes = _sizes_of(function, operands, kinds)
    for info, kind in zip(returned.fields, results, strict=True):
        shape = tuple([dims.substitute(d, sizes) for d in info.dims])
        first = total if kind == "values" else starts.dims[0]
        fields.append(TensorStructInfo((first, *shape[OWN_AXES[kind] :]), info.element))
    return TupleStructInfo(tuple(fields))


def _sizes_of(function: Function, operands: Any, kinds: Any) -> dict[Sym, Dim]:
    """Returns the sizes of the program that the sizes of the function of one row stand for."""
    sizes: dict[Sym, Dim] = {}
    for param, operand, kind in zip(function.params, operands.fields, kinds, strict=True):
        info: Any = param.struct_info
        own = OWN_AXES[kind]
        actual = operand.dims[min(own, 1) :]
        for declared, size in zip(info.dims[own:], actual, strict=True):
            symbol = dims.as_sym(declared)
            if symbol is not None:
                sizes.setdefault(symbol, size)
    return sizes


def _adjoint(call: Call, result: Expr, cotangent: Cotangent, emit: Emit) -> list[Cotangent]:
    """Computes the pullback of the function for every row; cotangents of operands that all rows
    share are added up."""
    operands: Any = call.args[0]
    kinds, results = call.attrs["kinds"], call.attrs["results"]
    paths = [k for k, part in enumerate(cotangent) if part is not None]
    floats = [k for k, x in enumerate(operands.fields) if is_float_tensor(x.struct_info)]
    module = parser.parse(call.attrs["row"], "<row>")
    functions = Adjoints(module)
    pullback: Any = functions.pullback("main", floats, [(k,) for k in paths])
    functions.generate_pending()
    own = functions.generated.pop(pullback[0].name)
    own = _with_leading_axes(own, [kinds[k] for k, _ in pullback[1]])
    others = {**module.functions, **functions.generated}
    used = {n: f for n, f in others.items() if n != "main"}
    attributes = {
        "row": IRModule({**used, "main": own}).script(),
        "kinds": (*kinds, *[results[k] for k in paths]),
        "results": tuple(["values" if kinds[k] == "values" else "rows" for k, _ in pullback[1]]),
    }
    args = Tuple((*operands.fields, *[cotangent[k] for k in paths]))
    back = Call(call.op, (args, *call.args[1:]), attributes)
    values = emit(replace(back, struct_info=call.op.definition.deduce(back)))  # type: ignore[attr-defined]
    cotangents: list[Cotangent] = [None] * len(kinds)
    for n, (k, _) in enumerate(pullback[1]):
        field = emit(TupleGetItem(values, n))
        cotangents[k] = emit(sum_(field, axis=[0])) if kinds[k] == "shared" else field
    return [tuple(cotangents), None, None]


def _with_leading_axes(function: Function, kinds: list[str]) -> Function:
    """Returns a function whose results of shared operands have an axis for the row."""
    builder = BlockBuilder()
    with builder.function("main", function.params):
        for binding in function.body.bindings():
            builder.take(binding)
        result: Any = function.body.body
        fields = []
        for k, kind in enumerate(kinds):
            field = builder.emit(TupleGetItem(result, k))
            fields.append(builder.emit(expand_dims(field, 0)) if kind == "shared" else field)
        builder.emit_func_output(Tuple(tuple(fields)))
    return builder.finished("main")


@ragged_op(_rows_info, "rows", _adjoint)
def rows(operands: Any, starts: Any, limits: Any, *, row: str, kinds: Any, results: Any) -> Any:
    """Computes a function of one row for every row."""
    module = parser.parse(row, "<row>")
    outputs: list[list[Any]] = [[] for _ in results]
    count = len(starts)
    if not count:  # the row that is computed only has the sizes of results
        starts, limits = np.zeros((2, 1), "int64")
        empty = [
            np.zeros((1, *o.shape[1:]), o.dtype) if kind == "rows" else o
            for o, kind in zip(operands, kinds, strict=True)
        ]
        operands = tuple(empty)
    for k, (start, limit) in enumerate(zip(starts, limits, strict=True)):
        args = [
            {"values": o[None, start:limit], "rows": o[k : k + 1]}[kind] if kind != "shared" else o
            for o, kind in zip(operands, kinds, strict=True)
        ]
        for collected, value in zip(outputs, interpret(module, "main", *args), strict=True):
            collected.append(value)
    total = len(operands[kinds.index("values")])
    return tuple(
        [
            _scattered([part[0] for part in parts], starts, total)
            if kind == "values"
            else np.concatenate([part[:count] for part in parts])
            for kind, parts in zip(results, outputs, strict=True)
        ]
    )


def _scattered(parts: list[Any], starts: Any, total: int) -> Any:
    """Returns the values of all rows, each at its start; values that belong to no row are 0."""
    values = np.zeros((total, *parts[0].shape[1:]), parts[0].dtype)
    for start, part in zip(starts, parts, strict=True):
        values[start : start + len(part)] = part
    return values


_DEFINITION: Any = rows.definition
_DEFINITION.hooks["row_function"] = lambda call: row_function(call.attrs["row"])


# ---- its calls


def row_call(
    function: Function,
    operands: Sequence[Expr],
    kinds: tuple[str, ...],
    of_rows: Sequence[Expr],
    others: Mapping[str, Any] | None = None,
) -> Call:
    """Returns the call of a function of one row for every row, with the starts and limits of rows.

    `others` are the functions that it calls. Raises StructInfoError for a result that no tensor of
    all rows has.
    """
    text = IRModule({**(others or {}), "main": _with_tuple(function)}).script()
    results = _result_kinds(row_function(text), kinds)
    attributes = {"row": text, "kinds": kinds, "results": results}
    call = Call(rows, (Tuple(tuple(operands)), *of_rows), attributes)
    definition: Any = rows.definition
    return replace(call, struct_info=definition.deduce(call))


def _with_tuple(function: Function) -> Function:
    """Returns a function whose result is a tuple."""
    if isinstance(function.ret_struct_info, TupleStructInfo):
        return function
    builder = BlockBuilder()
    with builder.function("main", function.params):
        for binding in function.body.bindings():
            builder.take(binding)
        builder.emit_func_output(Tuple((function.body.body,)))
    return builder.finished("main")


def _result_kinds(function: Any, kinds: Sequence[str]) -> tuple[str, ...]:
    """Returns the kinds of results, from their StructInfo in the program of one row.

    Raises StructInfoError for one that has the length of the row on another axis than the first of
    the row.
    """
    fields = function.ret_struct_info.fields
    row = function.params[kinds.index("values")].struct_info
    unknown = next((str(info) for info in (row, *fields) if info.dims is None), None)
    if unknown is not None:
        hint = 'annotate the ragged tensor with dims: `R.Tensor(("n", "*", "m"), ...)`'
        message = f"expected known or symbolic sizes of a row, found {unknown}"
        raise StructInfoError(Diagnostic(message, hint=hint, code="E0219"))
    length = row.dims[1]
    results = []
    for info in fields:
        others = [d for d in info.dims[2:] if dims.syms(length) & dims.syms(d)]
        is_longer = len(info.dims) > 1 and dims.syms(length) & dims.syms(info.dims[1])
        if others or (is_longer and info.dims[1] != length):
            message = f"expected the length of the row as the first axis of a result, found {info}"
            raise StructInfoError(Diagnostic(message, code="E0219"))
        results.append("values" if is_longer else "rows")
    return tuple(results)
