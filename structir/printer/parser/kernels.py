"""From the `ast` of a function under @I.kernel to a kernel, and calls of kernels."""

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
    """Whether a statement is a function under @I.kernel."""
    if not isinstance(node, ast.FunctionDef):
        return False
    return any(path_of(_called(item)) == f"I.{KERNEL}" for item in node.decorator_list)


def _called(node: ast.expr) -> ast.expr:
    return node.func if isinstance(node, ast.Call) else node


def read_kernel(context: Context, node: ast.FunctionDef) -> Kernel:
    """The kernel of a function; what is wrong in its body is kept in the context."""
    scope = KernelScope(context, node.name)
    given = node.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.defaults or given.posonlyargs:
        raise scope.unsupported(node, 'parameters are plain: x: R.Tensor(("n",), "float32")')
    if len(node.decorator_list) != 1:
        raise scope.wrong(node, "a kernel stands under @I.kernel, and nothing else", "take it out")
    params = _params(scope, node)
    blocks, threads = _launch(scope, node.decorator_list[0])
    scope.has_threads = blocks is not None
    body = read_block(scope, node.body)
    kernel = Kernel(params, body, node.name, scope.span(node), blocks, threads)
    if not context.errors:
        context.errors += kernel_violations(kernel)
    return kernel


def _launch(scope: KernelScope, node: ast.expr) -> tuple[Size | None, int]:
    """In how many blocks of how many threads a kernel for a card runs."""
    if not isinstance(node, ast.Call):
        return None, 0
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if node.args or given.keys() != {TARGET, BLOCKS, THREADS}:
        raise scope.wrong(node, "a kernel for a card says in how many threads it runs", LAUNCH_HINT)
    target = static_of(scope.context, given[TARGET])
    if target != CUDA:
        raise scope.wrong(node, f"there are no kernels for {target!r}", LAUNCH_HINT)
    threads = static_of(scope.context, given[THREADS])
    if type(threads) is not int or not 1 <= threads <= MAX_THREADS:
        message = f"a block has 1 to {MOST_THREADS} threads"
        raise scope.wrong(given[THREADS], message, LAUNCH_HINT)
    dim = size_of(scope.context, given[BLOCKS])
    return Size(dim, span=scope.span(given[BLOCKS])), threads


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
    hint = f'{node.arg}: R.Tensor(("n",), "float32"), or R.Prim("int64")'
    if node.annotation is None:
        raise scope.wrong(node, f"parameter {node.arg} has no struct info", hint)
    info = info_of(scope.context, node.annotation)
    if not is_of_kernels(info):
        message = (
            f"parameter {node.arg} of a kernel is a tensor of known rank and dtype, or a number"
        )
        raise _with_info_note(scope.wrong(node, message, hint), info)
    if node.arg in KERNEL_NAMES or scope.dim(node.arg) is not None:
        raise scope.wrong(node, f"{node.arg} has a meaning already", "use another name")
    var = scope.vars[node.arg] = Var(node.arg, info, scope.span(node))
    scope.mark_bound(node.arg)
    return var


def _with_info_note(error: ParseError, info: StructInfo) -> ParseError:
    return ParseError(error.diagnostics[0].note(f"it is {info}"))


# ---- calls


def read_kernel_call(context: Context, node: ast.Call) -> Call:
    """`R.call_kernel(kernel, (x, y), out_sinfo=...)`."""
    given = dict(zip(("kernel", "args", OUT_SINFO), node.args, strict=False))
    given |= {keyword.arg or "": keyword.value for keyword in node.keywords}
    if given.keys() != {"kernel", "args", OUT_SINFO} or len(node.args) > 3:
        hint = f'write R.{CALL_KERNEL}(cls.f, (x,), {OUT_SINFO}=R.Tensor((n,), "float32"))'
        message = f"R.{CALL_KERNEL} takes a kernel, a tuple of operands, and what comes out"
        raise context.error(node, message, hint)
    callee = _callee(context, given["kernel"])
    args = argument(context, given["args"])
    items = args.fields if isinstance(args, Tuple) else args if isinstance(args, tuple) else (args,)
    nodes = getattr(given["args"], "elts", [given["args"]] * len(items))
    operands = [context.expr(item, part) for item, part in zip(items, nodes, strict=True)]
    return kernel_call(callee, tuple(operands), _declared_results(context, given[OUT_SINFO]), node, context)


def _callee(context: Context, node: ast.expr) -> GlobalVar:
    """A kernel of the text, as `cls.f` or by its bare name."""
    found: Any = None
    if isinstance(node, ast.Name) and node.id not in context.names and context.module is not None:
        found = context.module.kernel_of(context, node.id, node)
    if found is None:
        found = argument(context, node)
    if not isinstance(found, GlobalVar) or not isinstance(found.struct_info, KernelStructInfo):
        info = getattr(found, "struct_info", None)
        error = context.error(
            node, f"{ast.unparse(node)} is no kernel", "kernels stand under @I.kernel"
        )
        diagnostic = attrs.evolve(error.diagnostics[0], op=CALL_KERNEL)
        raise ParseError(diagnostic if info is None else diagnostic.note(f"it is {info}"))
    return found


def _declared_results(context: Context, node: ast.expr) -> tuple[StructInfo, ...]:
    if is_info(node):
        return (info_of(context, node),)
    items = getattr(node, "elts", None)
    if items is None:
        hint = f'{OUT_SINFO}=R.Tensor((n,), "float32"), or several in parentheses'
        raise context.error(node, f"{OUT_SINFO} states the StructInfo of each result", hint)
    return tuple([info_of(context, item) for item in items])


def kernel_call(
    callee: GlobalVar,
    operands: tuple[Expr, ...],
    stated: tuple[StructInfo, ...],
    node: ast.Call | None = None,
    context: Context | None = None,
) -> Call:
    """A call in destination-passing style: operands, then new arrays for the stated results."""
    span = None if node is None or context is None else context.source_map.span(node)
    call = Call(callee, operands, sinfo_args=stated, span=span)
    return Call(callee, operands, sinfo_args=stated, struct_info=deduce(call), span=span)
