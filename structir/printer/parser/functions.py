"""Parses functions to IR: decorator, signature, declared dims, attributes, result."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import attrs

from structir.analysis.arguments import default_of
from structir.analysis.deduction import annotate, callee_name, deduce, result_info
from structir.build import BuilderScope
from structir.errors import DiagnosticError
from structir.ir.dims import Poly
from structir.ir.expr import DEFAULTS, NO_ATTRS, Call, Expr, Function, Var
from structir.ir.struct_info import OBJECT, FuncStructInfo, PrimStructInfo, StructInfo
from structir.printer.parser.context import Context
from structir.printer.parser.forms import info_of, static_of
from structir.printer.parser.tvm_spellings import dtype_of_scalar
from structir.printer.parser.unannotated import UNKNOWN_TENSOR, info_of_uses
from structir.printer.parser.values import argument, path_of
from structir.printer.syntax import FUNC_ATTR, FUNCTION, OPAQUE_RESULT, PRIVATE, SYMBOL_DTYPES
from structir.solver.program.refine_policy import POLICIES, REFINE

ReadBody = Callable[[Context, list[ast.stmt]], Expr]
IGNORED_OPTIONS = frozenset({"check_well_formed"})
RESULT_DECLARATIONS = ("R.func_ret_struct_info", "R.func_ret_ty", "R.func_ret_type")
TYPE_VAR = "TypeVar"  # TVM prints `n = TypeVar("n")` above a function


@attrs.frozen
class FunctionSignature:
    """The signature of a function: parameters, declared result, purity, attributes."""

    name: str
    params: tuple[Var, ...]
    ret: StructInfo | None  # None: not declared
    pure: bool
    attrs: dict[str, Any]
    node: ast.FunctionDef

    def info(self) -> FuncStructInfo:
        """Returns the StructInfo that a caller infers from the signature alone."""
        infos = tuple([p.struct_info for p in self.params])
        return FuncStructInfo(infos, OBJECT if self.ret is None else self.ret, self.pure)


def is_declaration(node: ast.expr) -> bool:
    """Whether `n = <node>` declares a symbolic dim.

    It does as `T.int64()`, `T.int64`, `T.Var("n", "int64")`, `T.dynamic("n")`, `TypeVar("n")`.
    """
    is_call = type(node) is ast.Call
    func = node.func if type(node) is ast.Call else node
    if type(func) is not ast.Attribute:
        return is_call and type(func) is ast.Name and func.id == TYPE_VAR
    base = func.value
    if type(base) is not ast.Name or base.id != "T" or func.attr not in SYMBOL_DTYPES:
        return False
    if type(node) is not ast.Call:
        return True
    return not node.args or isinstance(getattr(node.args[0], "value", None), str)


def is_function(node: ast.stmt) -> bool:
    """Whether a statement is a function decorated with @R.function."""
    return isinstance(node, ast.FunctionDef) and _decorator(node) is not None


def _decorator(node: ast.FunctionDef) -> ast.expr | None:
    for item in node.decorator_list:
        if path_of(item.func if isinstance(item, ast.Call) else item) == f"R.{FUNCTION}":
            return item
    return None


def read_signature(context: Context, node: ast.FunctionDef) -> FunctionSignature:
    """Parses parameters, return annotation and options; dims written as strings are declared."""
    options = _options(context, node)
    args = node.args
    if args.vararg or args.kwarg or args.kwonlyargs or args.posonlyargs:
        hint = 'write every parameter as `name: R.Tensor((n, 4), "float32")`'
        location = args.args[0] if args.args else node
        message = f"{node.name}: `*` and `/` are not supported in parameters"
        raise context.error(location, message, hint, "E0124")
    names = [item.arg for item in args.args]
    for k, name in enumerate(names):
        if name in names[:k]:
            message = f"duplicate parameter `{name}`"
            raise context.error(args.args[k], message, f"rename one: `{name}_1`", "E0124")
    context.declares_strings = True
    try:
        for item in node.body:
            if isinstance(item, ast.Assign) and is_declaration(item.value):
                _declare(context, item)
        with context.binding_sizes():
            params = tuple([_parameter(context, item, node) for item in args.args])
        returns = node.returns or _declared_result(node)
        ret = None if returns is None else info_of(context, returns)
    finally:
        context.declares_strings = False
    attributes = _attributes(context, node)
    if args.defaults:
        attributes[DEFAULTS] = _defaults(context, node.args, params)
    if options.get(PRIVATE):
        attributes[PRIVATE] = True
    if REFINE in options:
        attributes[REFINE] = options[REFINE]
    if options.get(OPAQUE_RESULT):
        ret = _opaque_result(context, node, ret)
    elif ret == OBJECT:
        ret = None
    return FunctionSignature(node.name, params, ret, options.get("pure", True), attributes, node)


def is_result_declaration(node: ast.expr) -> bool:
    """Whether a call is `R.func_ret_struct_info(info)`, or its later spelling."""
    return isinstance(node, ast.Call) and path_of(node.func) in RESULT_DECLARATIONS


def _declared_result(node: ast.FunctionDef) -> ast.expr | None:
    """Returns the annotation that `R.func_ret_struct_info(info)` declares in the body."""
    for item in node.body:
        call = item.value if isinstance(item, ast.Expr) else None
        if isinstance(call, ast.Call) and is_result_declaration(call) and len(call.args) == 1:
            return call.args[0]
    return None


def _opaque_result(
    context: Context, node: ast.FunctionDef, annotation: StructInfo | None
) -> StructInfo:
    """Returns R.Object as the declared result, which the body does not refine."""
    if annotation not in (None, OBJECT):
        message = f"{OPAQUE_RESULT}: expected the result R.Object, found {annotation}"
        hint = f"write `-> R.Object`, or remove `{OPAQUE_RESULT}=True`"
        raise context.error(node.returns, message, hint, "E0124")
    return OBJECT


def _declare(context: Context, node: ast.Assign) -> None:
    """Declares a dim of a nested function, which may shadow an outer one."""
    target = node.targets[0]
    if isinstance(target, ast.Name) and target.id not in context.declared_dims:
        context.declare(target.id)


def _options(context: Context, node: ast.FunctionDef) -> dict[str, Any]:
    decorator = _decorator(node)
    if decorator is None or len(node.decorator_list) != 1:
        names = " and ".join(f"@{ast.unparse(item)}" for item in node.decorator_list)
        message = f"expected @R.function as the only decorator, found {names}"
        raise context.error(node, message, "remove the other decorators", "E0124")
    options: dict[str, Any] = {}
    for keyword in getattr(decorator, "keywords", ()):
        if keyword.arg not in ("pure", PRIVATE, OPAQUE_RESULT, REFINE, *IGNORED_OPTIONS):
            hint = f'use `pure=False`, `private=True` or `refine="{POLICIES[0]}"`'
            raise context.error(keyword, f"R.function has no option `{keyword.arg}`", hint, "E0124")
        value = options[keyword.arg] = static_of(context, keyword.value)
        if keyword.arg == REFINE:
            if value not in POLICIES:
                message = f"{REFINE}: expected one of {', '.join(POLICIES)}, found {value!r}"
                hint = f'write `{REFINE}="{POLICIES[0]}"`'
                raise context.error(keyword, message, hint, "E0124")
        elif type(value) is not bool:
            message = f"{keyword.arg}: expected True or False, found {value!r}"
            hint = f"write `{keyword.arg}=True` or `{keyword.arg}=False`"
            raise context.error(keyword, message, hint, "E0124")
    return options


def _parameter(context: Context, node: ast.arg, function: ast.FunctionDef) -> Var:
    if node.annotation is None:
        info = info_of_uses(node.arg, function, getattr(context.module, "nodes", {}))
    elif dtype := dtype_of_scalar(node.annotation):
        return _dim_parameter(context, node, dtype)
    else:
        info = info_of(context, node.annotation)
    dim = context.names.get(node.arg)
    if isinstance(info, PrimStructInfo) and info.value is not None and info.value == dim:
        return Var(node.arg, info, context.source_map.span(node))  # the name denotes the dim
    if type(dim) is Poly and node.arg in context.declared_dims:
        message = f"`{node.arg}` is both a parameter and a symbolic dim"
        raise context.error(node, message, "rename the parameter or the dim", "E0124")
    var = Var(node.arg, info, context.source_map.span(node))
    context.define(node.arg, var)
    return var


def _dim_parameter(context: Context, node: ast.arg, dtype: str) -> Var:
    """Parses the parameter `n: T.int64`: the name denotes the dim with its value."""
    dim = context.names.get(node.arg)
    if type(dim) is not Poly:
        dim = context.declare(node.arg)
    return Var(node.arg, PrimStructInfo(dtype, dim), context.source_map.span(node))


def _defaults(context: Context, args: ast.arguments, params: tuple[Var, ...]) -> dict[str, Expr]:
    """Parses the defaults of the last parameters, which are constants."""
    defaults: dict[str, Expr] = {}
    first = len(params) - len(args.defaults)
    for param, node in zip(params[first:], args.defaults, strict=True):
        default = default_of(param, argument(context, node))
        if default is None:
            message = f"the default of `{param.name}`: expected a constant of {param.struct_info}"
            hint = _hint_of_default(param, node)
            raise context.error(node, f"{message}, found {ast.unparse(node)}", hint, "E0124")
        defaults[param.name] = default
    return defaults


def _hint_of_default(param: Var, node: ast.expr) -> str:
    text = ast.unparse(node)
    if param.struct_info == UNKNOWN_TENSOR and isinstance(node, ast.Constant):
        dtype = "int64" if type(node.value) is int else "float32"
        return f'write the dtype: `{param.name}=R.const({text}, "{dtype}")`'
    return 'write a number, or `R.const([1, 2], "float32")`'


def _attributes(context: Context, node: ast.FunctionDef) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for item in node.body:
        call = item.value if isinstance(item, ast.Expr) else None
        if isinstance(call, ast.Call) and path_of(call.func) == f"R.{FUNC_ATTR}":
            value = static_of(context, call.args[0]) if len(call.args) == 1 else None
            if not isinstance(value, dict):
                text = ", ".join(map(ast.unparse, call.args)) or "no arguments"
                message = f"R.func_attr: expected a dict, found {text}"
                raise context.error(call, message, '`R.func_attr({"name": 1})`', "E0106")
            attributes |= value
    return attributes


def read_function(context: Context, signature: FunctionSignature, read_body: ReadBody) -> Function:
    """Parses the body of a function whose signature was parsed in this context."""
    outer, outer_unifies = context.scope, context.unifies
    scope = context.scope = BuilderScope(outer)
    context.unifies = outer_unifies or REFINE in signature.attrs
    try:
        for param in signature.params:
            scope.define(param.struct_info)
        result = read_body(context, signature.node.body)
        info = result_info(deduce(result), signature.params, scope.outer_symbols)
        if signature.ret is not None:
            span = context.source_map.span(signature.node.returns or signature.node)
            name = f"the result of {signature.name}"
            try:
                annotate(signature.ret, info, name, span, result)
            except DiagnosticError as error:
                raise _attribute_to_op(error, result, scope) from None
            info = signature.ret
        body = scope.sequence(result)
    finally:
        context.scope, context.unifies = outer, outer_unifies
    attributes = signature.attrs or NO_ATTRS
    span = context.source_map.span(signature.node)
    return Function(signature.params, body, info, signature.pure, attributes, span)


def _attribute_to_op(error: DiagnosticError, result: Expr, scope: BuilderScope) -> DiagnosticError:
    """Returns the error of a result with the op that computes the result."""
    values = [b.value for block in scope.blocks for b in block.bindings if b.var is result]
    values += [b.value for b in scope.bindings if b.var is result]
    names = [callee_name(value) for value in values if isinstance(value, Call)]
    if not names:
        return error
    return type(error)([attrs.evolve(d, op=names[-1]) for d in error.diagnostics])


def local_function(context: Context, node: ast.FunctionDef, read_body: ReadBody) -> Var:
    """Parses a nested function and binds it; with a return annotation it may call itself."""
    declared = context.declared(node.name)
    kind, span = context.variable_class(node.name), context.source_map.span(node)
    mark, outer_dims, outputs = context.mark(), context.declared_dims, context.outputs
    context.declared_dims, context.outputs = set(), None
    with context.nested(node):
        try:
            signature = read_signature(context, node)
            var = None
            if signature.ret is not None:
                info = declared or signature.info()
                var = kind(node.name, info, span)
                context.define(node.name, var)
                context.signatures[var] = signature
            function = read_function(context, signature, read_body)
        finally:
            context.declared_dims, context.outputs = outer_dims, outputs
            message = "`{name}` is only visible in its nested function"
            context.leave(mark, message, "return it from the nested function: `return {name}`")
    var = context.emit_function(function, node.name, node, var, declared)
    context.signatures[var] = signature
    return var
