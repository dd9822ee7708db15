"""Prints expressions and StructInfos, on one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Any

from structir.analysis.purity import is_pure_call
from structir.ir.axes import Labelled, Ragged, RowVar
from structir.ir.dims import Poly, Sym, substitute, syms, text
from structir.ir.expr import (
    Call,
    Constant,
    DataflowVar,
    Expr,
    ExternFunc,
    GlobalVar,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.op import Op
from structir.ir.struct_info import KernelStructInfo, StructInfo
from structir.printer.constants import constant_text
from structir.printer.names import NameScope
from structir.printer.syntax import (
    ANY_SIZE,
    CALL_KERNEL,
    CALL_PACKED,
    CALL_PURE_PACKED,
    FORM_OF_NODE,
    OUT_SINFO,
    SIG,
    SyntaxForm,
    info_form_of,
)

NOTHING = "()"  # an operand that is not given, before one that is


class ExprPrinter:
    """Writes expressions and StructInfos under one set of names, each info and each size once."""

    inside = False  # a program, where variables are in sight

    def __init__(self, names: NameScope | None = None) -> None:
        self.names = names or NameScope()
        self._infos: dict[StructInfo, str] = {}
        self._dims: dict[Poly, str] = {}
        self._quoted = False  # sizes as strings, as signatures have them

    # ---- StructInfo

    def info(self, info: StructInfo) -> str:
        """Returns a StructInfo as source, sizes as expressions."""
        known = self._infos.get(info)
        if known is None:
            known = self._infos[info] = self.form(info_form_of(type(info)), info)
        return known

    def signature_info(self, info: StructInfo) -> str:
        """Returns a StructInfo as written in a signature: sizes with variables are strings."""
        self._quoted, outside = True, self._infos
        self._infos = {}
        try:
            return self.info(info)
        finally:
            self._quoted, self._infos = False, outside

    def form(self, form: SyntaxForm, node: Any) -> str:
        """A node by its row of the table."""
        if form.rest:
            shown = [self.info(item) for item in getattr(node, form.fields[0].name)]
            return f"R.{form.name}({', '.join(shown)})"
        shown = []
        by_keyword = False
        for field in form.fields:
            value = getattr(node, field.name)
            if field.fuller:
                value = getattr(node, field.fuller) or value
            if field.shown(value, node, self.inside):
                by_keyword = by_keyword or field.by_keyword
                argument = _FIELDS[field.kind](self, value)
                shown.append(f"{field.keyword}={argument}" if by_keyword else argument)
            else:
                by_keyword = True
        bare = not shown and issubclass(form.node, StructInfo)
        return f"R.{form.name}" if bare else f"R.{form.name}({', '.join(shown)})"

    # ---- sizes

    def sym(self, sym: Sym) -> str:
        """The name of a symbolic dim."""
        return self.names.sym(sym)

    def size(self, dim: Any) -> str:
        """A size."""
        if type(dim) is int:
            return str(dim)
        if type(dim) is not Poly:
            return f'"{self._axis(dim)}"'
        known = self._dims.get(dim)
        if known is None:
            known = self._dims[dim] = self._in_order(dim)
        return f'"{known}"' if self._quoted else known

    def _axis(self, axis: Any) -> str:
        """An axis that is no plain size, or one within a label."""
        match axis:
            case RowVar():
                return self.names.row(axis)
            case Ragged(name):
                return f"*:{name}" if name else "*"
            case Labelled(size, label):
                return f"{self._axis(size)}:{label}"
            case Poly():
                return self._in_order(axis)
            case int():
                return str(axis)
        return ANY_SIZE

    def _in_order(self, dim: Poly) -> str:
        """Returns a size whose terms are in the order in which the source names its variables."""
        own = sorted(syms(dim), key=lambda sym: sym.order)
        names = [self.sym(sym) for sym in own]
        if len(names) == 1:
            return text(dim, self.names.of.__getitem__)
        twins = self.names.twins
        return text(substitute(dim, {sym: twins[sym] for sym in own}))

    def sizes(self, dims: Any) -> str:
        """Sizes in brackets."""
        return f"[{', '.join([self.size(dim) for dim in dims])}]"

    def shape(self, dims: Any) -> str:
        """Sizes in parentheses, or the variable that holds a shape."""
        if isinstance(dims, Var):
            return self.names.var(dims)
        inside = ", ".join([self.size(dim) for dim in dims])
        return f"({inside},)" if len(dims) == 1 else f"({inside})"

    def number(self, value: Any) -> str:
        """A scalar: a size, a float or a bool."""
        return literal(value) if type(value) in (float, bool) else self.size(value)

    def infos(self, infos: Any) -> str:
        """Struct infos in parentheses."""
        inside = ", ".join([self.info(info) for info in infos])
        return f"({inside},)" if len(infos) == 1 else f"({inside})"

    # ---- expressions

    def global_var(self, var: GlobalVar) -> str:
        """A function of the module."""
        return f"cls.{var.name}"

    def expr(self, expr: Expr) -> str:
        """An expression on one line."""
        rule = _EXPRS.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        return self.form(FORM_OF_NODE[type(expr)], expr)

    def call(self, call: Call) -> str:
        """A call: operands in order, attributes by keyword, only those given."""
        callee = call.op
        if type(callee) is Op:
            return self.op_call(callee, call)
        arguments = [self.expr(arg) for arg in call.args]
        if type(callee) is ExternFunc and call.attrs:
            options = {"signature": "", "function": callee.global_symbol, **call.attrs}
            stated = [f"{k}={literal(v)}" for k, v in options.items() if v and k != "signature"]
            head = ", ".join([literal(options["signature"]), *stated])
            return f"R.{SIG}({head})({', '.join(arguments)})"
        if type(callee) is ExternFunc:
            word = CALL_PURE_PACKED if is_pure_call(call) else CALL_PACKED
            arguments.insert(0, literal(callee.global_symbol))
            if call.sinfo_args:
                arguments.append(f"sinfo_args={self.stated(call)}")
            return f"R.{word}({', '.join(arguments)})"
        if isinstance(callee.struct_info, KernelStructInfo) and call.sinfo_args:
            given = f"({arguments[0]},)" if len(arguments) == 1 else f"({', '.join(arguments)})"
            return f"R.{CALL_KERNEL}({self.expr(callee)}, {given}, {OUT_SINFO}={self.stated(call)})"
        return f"{self.expr(callee)}({', '.join(arguments)})"

    def stated(self, call: Call) -> str:
        """The results that a call states: one, or several in parentheses."""
        stated = [self.info(info) for info in call.sinfo_args]
        return stated[0] if len(stated) == 1 else f"({', '.join(stated)})"

    def op_call(self, op: Op, call: Call) -> str:
        """A call of an op; what follows an attribute in the signature goes by keyword."""
        names = self.names.of
        definition = op.definition
        leading = definition.leading
        arguments = []
        for position, arg in enumerate(call.args):
            written = names.get(arg)
            if written is None:
                written = self.sizes_or_expr(arg, definition.of_sizes[position])
            if written == NOTHING and position + 1 < len(call.args) and type(arg) is Tuple:
                leading = position
            elif position < leading:
                arguments.append(written)
            else:
                arguments.append(f"{definition.argument_names[position]}={written}")
        if call.attrs:
            arguments += [f"{name}={attribute(value)}" for name, value in call.attrs.items()]
        return f"R.{op.name}({', '.join(arguments)})"

    def sizes_or_expr(self, arg: Expr, of_sizes: bool) -> str:
        """An argument: sizes as a bare tuple where the op takes sizes."""
        if of_sizes and type(arg) is ShapeExpr:
            return self.shape(arg.dims)
        if of_sizes and type(arg) is PrimValue and type(arg.value) in (int, Poly):
            return self.size(arg.value)
        return self.expr(arg)

    def tuple(self, value: Tuple) -> str:
        """A tuple, as Python writes it."""
        fields = [self.expr(field) for field in value.fields]
        return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"


def attribute(value: Any) -> str:
    """Returns an attribute of an op as source; tuples are written in brackets."""
    if isinstance(value, list | tuple):
        return f"[{', '.join([attribute(item) for item in value])}]"
    return literal(value)


def literal(value: Any) -> str:
    """A static value as Python writes it, strings in double quotes."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
    if isinstance(value, tuple):
        inside = ", ".join([literal(item) for item in value])
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, list):
        return f"[{', '.join([literal(item) for item in value])}]"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{literal(k)}: {literal(v)}' for k, v in value.items()])}}}"
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    return repr(value)


SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which no file can hold
_FIELDS: dict[str, Callable[[ExprPrinter, Any], str]] = {
    "dim": ExprPrinter.size,
    "number": ExprPrinter.number,
    "sizes": ExprPrinter.sizes,
    "shape": ExprPrinter.shape,
    "info": ExprPrinter.info,
    "infos": ExprPrinter.infos,
    "static": lambda _writer, value: literal(value),
}

_EXPRS: dict[type, Callable[[ExprPrinter, Any], str]] = {
    Var: lambda writer, var: writer.names.var(var),
    DataflowVar: lambda writer, var: writer.names.var(var),
    GlobalVar: lambda writer, var: writer.global_var(var),
    Constant: lambda _writer, constant: constant_text(constant.data),
    Call: ExprPrinter.call,
    Tuple: ExprPrinter.tuple,
    TupleGetItem: lambda writer, item: f"{writer.expr(item.tuple_value)}[{item.index}]",
    Op: lambda _writer, op: f"R.{op.name}",
}
