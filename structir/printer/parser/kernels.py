"""Parses functions decorated with @I.kernel to kernels, and calls of kernels."""

from __future__ import annotations

import ast
from typing import Any

import attrs

from structir.analysis.deduction import deduce
from structir.analysis.kernels import is_of_kernels, kernel_violations
from structir.errors import ParseError
from structir.ir.expr import Call, Expr, GlobalVar, Tuple, Var
from structir.ir.kernel import Kernel, Size
from structir.ir.struct_info import KernelStructInfo, StructInfo
from structir.printer.parser.context import Context
from structir.printer.parser.forms import info_of, is_info, size_of, static_of
from structir.printer.parser.functions import is_declaration
from structir.printer.parser.kernel_scope import LAUNCH_HINT, KernelScope
from structir.printer.parser.kernel_statements import read_block
from structir.printer.parser.values import argument, path_of
from structir.printer.syntax import (
    BLOCKS,
    CALL_KERNEL,
    CUDA,
    KERNEL,
    KERNEL_NAMES,
    OUT_SINFO,
    TARGET,
    THREADS,
)

MAX_THREADS = 1024  # of a block


def is_kernel(node: ast.stmt) -> bool:
    """Whether a statement is a function decorated with @I.kernel."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(path_of(_called(item)) == f"I.{KERNEL}" for item in node.decorator_list)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def read_kernel(context: Context, node: ast.FunctionDef, promotes: bool = False) -> Kernel:
    """Parses a kernel; errors in its body are recorded in the context.

    With `promotes`, operands are converted to a common dtype, as in functions of TVM.
    """
    scope = KernelScope(context, node.name)
    scope.promotes = promotes
    args = node.args
    if args.vararg or args.kwarg or args.kwonlyargs or args.defaults or args.posonlyargs:
        hint = 'write every parameter as `x: R.Tensor(("n",), "float32")`'
        message = "defaults, `*` and `/` are not supported in parameters"
        raise scope.wrong(node, message, hint, code="E0124")
    if len(node.decorator_list) != 1:
        names = " and ".join(f"@{ast.unparse(item)}" for item in node.decorator_list)
        message = f"expected @I.kernel as the only decorator, found {names}"
        raise scope.wrong(node, message, "remove the other decorators", code="E0124")
    params = _params(scope, node)
    blocks, threads = _launch(scope, node.decorator_list[0])
    scope.has_threads = blocks is not None
    body = read_block(scope, node.body)
    kernel = Kernel(params, body, node.name, scope.span(node), blocks, threads)
    if not context.errors:
        context.errors += kernel_violations(kernel)
    return kernel


def _launch(scope: KernelScope, node: ast.expr) -> tuple[Size | None, int]:
    """Parses the launch configuration of a GPU kernel: number of blocks, threads per block."""
    if not isinstance(node, ast.Call):
        return None, 0
    options = {keyword.arg: keyword.value for keyword in node.keywords}
    if node.args or options.keys() != {TARGET, BLOCKS, THREADS}:
        text = ", ".join(ast.unparse(item) for item in (*node.args, *node.keywords)) or "none"
        message = f"@I.kernel: expected the options {TARGET}, {BLOCKS} and {THREADS}, found {text}"
        raise scope.wrong(node, message, LAUNCH_HINT, code="E0131")
    target = static_of(scope.context, options[TARGET])
    if target != CUDA:
        message = f"{TARGET}: expected {CUDA!r}, found {target!r}"
        raise scope.wrong(node, message, LAUNCH_HINT, code="E0131")
    threads = static_of(scope.context, options[THREADS])
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        message = f"{THREADS}: expected an integer from 1 to {MAX_THREADS}, found {threads!r}"
        raise scope.wrong(options[THREADS], message, LAUNCH_HINT, code="E0131")
    dim = size_of(scope.context, options[BLOCKS])
    return Size(dim, span=scope.span(options[BLOCKS])), threads


def _params(scope: KernelScope, node: ast.FunctionDef) -> tuple[Var, ...]:
    context = scope.context
    context.declares_strings = True
    try:
        for item in node.body:
            if isinstance(item, ast.Assign) and is_declaration(item.value):
                for target in item.targets:
                    if isinstance(target, ast.Name):
                        context.declare(target.id)
        return tuple([_param(scope, item) for item in node.args.args])
    finally:
        context.declares_strings = False


def _param(scope: KernelScope, node: ast.arg) -> Var:
    hint = f'`{node.arg}: R.Tensor(("n",), "float32")` or `{node.arg}: R.Prim("int64")`'
    if node.annotation is None:
        message = f"parameter `{node.arg}` has no annotation"
        raise scope.wrong(node, message, hint, code="E0124")
    info = info_of(scope.context, node.annotation)
    if not is_of_kernels(info):
        message = f"parameter `{node.arg}`: expected a tensor of known rank and dtype, or a scalar"
        raise _with_info_note(scope.wrong(node, message, hint, code="E0124"), info)
    if node.arg in KERNEL_NAMES or scope.dim(node.arg) is not None:
        raise scope.already_defined(node, node.arg)
    var = scope.vars[node.arg] = Var(node.arg, info, scope.span(node))
    scope.mark_bound(node.arg)
    return var


def _with_info_note(error: ParseError, info: StructInfo) -> ParseError:
    return ParseError(error.diagnostics[0].note(f"found {info}"))


# ---- calls


def read_kernel_call(context: Context, node: ast.Call) -> Call:
    """Parses `R.call_kernel(kernel, (x, y), out_sinfo=...)`."""
    arguments = dict(zip(("kernel", "args", OUT_SINFO), node.args, strict=False))
    arguments |= {keyword.arg or "": keyword.value for keyword in node.keywords}
    if arguments.keys() != {"kernel", "args", OUT_SINFO} or len(node.args) > 3:
        hint = f'`R.{CALL_KERNEL}(cls.f, (x,), {OUT_SINFO}=R.Tensor((n,), "float32"))`'
        message = f"R.{CALL_KERNEL}: expected a kernel, a tuple of operands and {OUT_SINFO}"
        raise context.error(node, message, hint, "E0132")
    callee = _callee(context, arguments["kernel"])
    args = argument(context, arguments["args"])
    items = args.fields if isinstance(args, Tuple) else args if isinstance(args, tuple) else (args,)
    nodes = getattr(arguments["args"], "elts", [arguments["args"]] * len(items))
    operands = [context.expr(item, part) for item, part in zip(items, nodes, strict=True)]
    results = _declared_results(context, arguments[OUT_SINFO])
    return kernel_call(callee, tuple(operands), results, node, context)


def _callee(context: Context, node: ast.expr) -> GlobalVar:
    """Resolves a kernel of the text, written `cls.f` or by its bare name."""
    callee: Any = None
    if isinstance(node, ast.Name) and node.id not in context.names and context.module is not None:
        callee = context.module.kernel_of(context, node.id, node)
    if callee is None:
        callee = argument(context, node)
    if not isinstance(callee, GlobalVar) or not isinstance(callee.struct_info, KernelStructInfo):
        info = getattr(callee, "struct_info", None)
        message = f"expected a kernel, found `{ast.unparse(node)}`"
        hint = "decorate the function with `@I.kernel`, or call it: `cls.f(x)`"
        error = context.error(node, message, hint, "E0132")
        diagnostic = attrs.evolve(error.diagnostics[0], op=CALL_KERNEL)
        raise ParseError(diagnostic if info is None else diagnostic.note(f"found {info}"))
    return callee


def _declared_results(context: Context, node: ast.expr) -> tuple[StructInfo, ...]:
    if is_info(context, node):
        return (info_of(context, node),)
    items = getattr(node, "elts", None)
    if items is None:
        hint = f'`{OUT_SINFO}=R.Tensor((n,), "float32")`, or a tuple of them'
        message = f"{OUT_SINFO}: expected the StructInfo of each result, found {ast.unparse(node)}"
        raise context.error(node, message, hint, "E0132")
    return tuple([info_of(context, item) for item in items])


def kernel_call(
    callee: GlobalVar,
    operands: tuple[Expr, ...],
    results: tuple[StructInfo, ...],
    node: ast.Call | None = None,
    context: Context | None = None,
) -> Call:
    """Returns a call in destination-passing style: operands, then new arrays for the results."""
    span = None if node is None or context is None else context.source_map.span(node)
    call = Call(callee, operands, sinfo_args=results, span=span)
    return Call(callee, operands, sinfo_args=results, struct_info=deduce(call), span=span)
