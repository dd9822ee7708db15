"""Prints any node as source that the parser accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from structir.ir.expr import (
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    MatchCast,
    SeqExpr,
    VarBinding,
)
from structir.ir.kernel import Kernel, KernelStatement, Scalar
from structir.ir.module import IRModule
from structir.ir.node import Node
from structir.ir.struct_info import StructInfo
from structir.printer.expr_printer import ExprPrinter
from structir.printer.kernel_printer import kernel_text, scalar_text, statement_text
from structir.printer.program_printer import (
    block_text,
    function_text,
    if_text,
    module_text,
    sequence_text,
)

_PROGRAMS: dict[type, Callable[[Any], str]] = {
    IRModule: module_text,
    Function: function_text,
    Kernel: kernel_text,
    SeqExpr: sequence_text,
    If: if_text,
    BindingBlock: block_text,
    DataflowBlock: block_text,
    VarBinding: lambda binding: block_text(BindingBlock((binding,))),
    MatchCast: lambda binding: block_text(BindingBlock((binding,))),
}


def text_of(node: Node) -> str:
    """Returns the source of a node."""
    rule = _PROGRAMS.get(type(node))
    if rule is not None:
        return rule(node)
    if isinstance(node, KernelStatement):
        return statement_text(node)
    if isinstance(node, Scalar):
        return scalar_text(node)
    printer = ExprPrinter()
    if isinstance(node, StructInfo):
        return printer.info(node)
    return printer.expr(node)  # type: ignore[arg-type]
