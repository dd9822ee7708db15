"""Modules with ragged tensors: whether there are any, and all functions lowered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import ref

from structir.errors import Diagnostic, StructInfoError
from structir.ir.bodies import bindings_of
from structir.ir.expr import Binding, Call, Expr, Function, GlobalVar, If, Tuple, TupleGetItem
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.lazy import lazy_module, provided_module
from structir.ops.ragged import has_ragged_axis
from structir.ragged.lowering import RaggedLowering

expr_printer = lazy_module("structir.printer.expr_printer")
passes = provided_module("ragged pass")
PARTS = frozenset(
    [f"ragged.{n}" for n in ("values", "row_starts", "row_limits", "from_values", "same_rows")]
)
MEMO_SIZE = 64
_MEMO: dict[int, Any] = {}  # by the id of a module: a reference, and the lowered one or None


def is_ragged(info: StructInfo | None) -> bool:
    """Returns whether a StructInfo, or a field of it, is that of a ragged tensor."""
    if isinstance(info, TupleStructInfo):
        return any(map(is_ragged, info.fields))
    return has_ragged_axis(info)


def has_ragged_values(module: IRModule) -> bool:
    """Returns whether a function of a module has a ragged tensor."""
    return any([_has_ragged(f) for f in module.functions.values() if isinstance(f, Function)])


def _has_ragged(function: Function) -> bool:
    return any([is_ragged(param.struct_info) for param in function.params]) or any(
        [is_ragged(binding.var.struct_info) for binding in bindings_of(function)]
    )


def lowered_functions(module: IRModule) -> IRModule:
    """Returns a module whose functions have no ops on ragged tensors, except on their parts."""
    functions: dict[str, Any] = dict(module.functions)
    for name, function in module.functions.items():
        if isinstance(function, Function) and needs_lowering(module, function):
            functions[name] = RaggedLowering(module).function(name, function)
    return module.with_functions(functions)


def needs_lowering(module: IRModule, function: Function) -> bool:
    """Returns whether a function has ops on ragged tensors, other than those on their parts, or
    builds a tensor with unchecked rows that it reads or returns to another function."""
    bindings = [*bindings_of(function)]
    if any([_is_op_on_ragged(binding.value) for binding in bindings]):
        return True
    built = _unchecked(bindings)
    if function.body.body in built and _is_called(module, function):
        return True
    calls = [binding.value for binding in bindings if isinstance(binding.value, Call)]
    return any([not built.isdisjoint(call.args) for call in calls])


def _unchecked(bindings: Sequence[Binding]) -> set[Expr]:
    """Returns the variables of ragged tensors, and of tuples of them, with unchecked rows."""
    sources = dict[Expr, Expr]()  # of reshaped tensors
    checked = dict[Expr, tuple[int, int]]()  # the limits and values that row starts belong to
    built = set[Expr]()
    for binding in bindings:
        value = binding.value
        name = getattr(value.op, "name", "") if isinstance(value, Call) else ""
        args: Any = value.args if isinstance(value, Call) else ()
        if name == "reshape":
            sources[binding.var] = sources.get(args[0], args[0])
        elif name == "ragged.contiguous_rows":
            checked[binding.var] = id(sources.get(args[1], args[1])), id(args[2])
        elif name == "ragged.from_values":
            values, starts, limits = args[0], *[sources.get(a, a) for a in args[1:]]
            if checked.get(starts) != (id(limits), id(values)):
                built.add(binding.var)
    count = -1
    while built and count != len(built):  # a branch is after the binding of its choice
        count = len(built)
        built |= {b.var for b in bindings if not built.isdisjoint(_aliased(b.value))}
    return built


def _aliased(value: Any) -> tuple[Expr, ...]:
    """Returns the values that a value is, or has as fields."""
    if isinstance(value, If):
        return value.true_branch.body, value.false_branch.body
    if isinstance(value, TupleGetItem):
        return (value.tuple_value,)
    return value.fields if isinstance(value, Tuple) else (value,)


def _is_called(module: IRModule, function: Function) -> bool:
    """Returns whether a function of the module calls another one."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    values: list[Any] = [binding.value for f in functions for binding in bindings_of(f)]
    calls = filter(_is_module_call, values)
    return any([module.functions.get(call.op.name) is function for call in calls])


def _is_op_on_ragged(value: Any) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op) or value.op.name in PARTS:
        return False
    return any([is_ragged(v.struct_info) for v in (value, *value.args)])


def check_calls(module: IRModule) -> None:
    """Raises where a function of the module takes a ragged tensor as a tensor without one."""
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    values: list[Any] = [binding.value for f in functions for binding in bindings_of(f)]
    for call in values:
        callee = module[call.op.name] if _is_module_call(call) else None
        if not isinstance(callee, Function):
            continue
        for param, arg in zip(callee.params, call.args, strict=False):
            declared, info = param.struct_info, arg.struct_info
            if type(declared) is TensorStructInfo and is_ragged(info) and not is_ragged(declared):
                message = f"parameter {param.name}: expected a dense tensor, found {info}"
                shown = expr_printer.ExprPrinter().signature_info(info)
                hint = f"annotate the parameter: `{param.name}: {shown}`"
                name = call.op.name
                raise StructInfoError(Diagnostic(message, call.span, name, hint=hint, code="E0219"))


def _is_module_call(value: Any) -> bool:
    return isinstance(value, Call) and isinstance(value.op, GlobalVar)


def ragged_form(module: IRModule) -> IRModule | None:
    """Returns a module with ragged tensors in the form that runs, and None for other modules.

    Memoized, as programs are run several times.
    """
    known = _MEMO.get(id(module))
    if known is not None and known[0]() is module:
        return known[1]  # type: ignore[no-any-return]
    form: IRModule | None = None
    if has_ragged_values(module):
        check_calls(module)
        form = passes.lower_ragged.transform(module)
    if len(_MEMO) >= MEMO_SIZE:
        _MEMO.clear()
    _MEMO[id(module)] = (ref(module), form)
    return form


def lowered(module: IRModule) -> IRModule:
    """Returns a module in the form that runs."""
    form = ragged_form(module)
    return module if form is None else form
