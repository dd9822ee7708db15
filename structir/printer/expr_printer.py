"""Prints expressions and StructInfos, on one line each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from structir.analysis.purity import is_pure_call
from structir.ir.axes import Labelled, Ragged, RowVar
from structir.ir.dims import Poly, Sym, substitute, syms, text
from structir.ir.dtype import DtypeVar
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
from structir.ir.struct_info import KernelStructInfo, Names, StructInfo
from structir.ir.vdevice import VDevice
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
    TUPLE,
    SyntaxForm,
    info_form_of,
    is_word,
)

NOTHING = "()"  # an omitted optional operand before a present one


class ExprPrinter:
    """Prints expressions and StructInfos in one name scope; memoizes StructInfos and sizes."""

    inside = False  # whether the node is part of a program, with variables in scope

    def __init__(self, names: NameScope | None = None) -> None:
        self.names = names or NameScope()
        self._infos: dict[StructInfo, str] = {}
        self._dims: dict[Poly, str] = {}
        self._quoted = False  # sizes as strings, as in signatures

    # ---- StructInfo

    def info(self, info: StructInfo) -> str:
        """Prints a StructInfo, with sizes as expressions."""
        source = self._infos.get(info)
        if source is None:
            source = self._infos[info] = self.form(info_form_of(type(info)), info)
        return source

    def signature_info(self, info: StructInfo) -> str:
        """Prints a StructInfo of a signature, where sizes with variables are strings."""
        self._quoted, outside = True, self._infos
        self._infos = {}
        try:
            return self.info(info)
        finally:
            self._quoted, self._infos = False, outside

    def form(self, form: SyntaxForm, node: Any) -> str:
        """Prints a node by its syntax form."""
        if form.rest:
            arguments = [self.info(item) for item in getattr(node, form.fields[0].name)]
            return f"R.{form.name}({', '.join(field_texts(self.field_names(node), arguments))})"
        arguments = []
        by_keyword = False
        for field in form.fields:
            value = getattr(node, field.name)
            if field.refined_by:
                value = getattr(node, field.refined_by) or value
            if field.shown(value, node, self.inside):
                by_keyword = by_keyword or field.by_keyword
                argument = _FIELDS[field.kind](self, value)
                arguments.append(f"{field.keyword}={argument}" if by_keyword else argument)
            else:
                by_keyword = True
        bare = not arguments and issubclass(form.node, StructInfo)
        return f"R.{form.name}" if bare else f"R.{form.name}({', '.join(arguments)})"

    def vdevice(self, vdevice: VDevice) -> str:
        """Prints a vdevice as a string."""
        return f'"{vdevice}"'

    # ---- sizes

    def sym(self, sym: Sym) -> str:
        """Returns the name of a symbolic dim."""
        return self.names.sym(sym)

    def size(self, dim: Any) -> str:
        """Prints a size."""
        if type(dim) is int:
            return str(dim)
        if type(dim) is not Poly:
            return f'"{self._axis(dim)}"'
        source = self._dims.get(dim)
        if source is None:
            source = self._dims[dim] = self._in_order(dim)
        return f'"{source}"' if self._quoted else source

    def _axis(self, axis: Any) -> str:
        """Prints an axis of any class, or the size of a labelled one."""
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
        """Prints a size with its terms in the order in which the source names the variables."""
        variables = sorted(syms(dim), key=lambda sym: sym.order)
        names = [self.sym(sym) for sym in variables]
        if len(names) == 1:
            return text(dim, self.names.of.__getitem__)
        twins = self.names.twins
        copies = substitute(dim, {sym: twins[sym] for sym in variables})
        return text(copies, lambda copy: copy.name)

    def sizes(self, dims: Any) -> str:
        """Prints sizes in brackets."""
        return f"[{', '.join([self.size(dim) for dim in dims])}]"

    def shape(self, dims: Any) -> str:
        """Prints sizes in parentheses, or the variable of a shape."""
        if isinstance(dims, Var):
            return self.names.var(dims)
        inside = ", ".join([self.size(dim) for dim in dims])
        return f"({inside},)" if len(dims) == 1 else f"({inside})"

    def dtype(self, dtype: str | DtypeVar) -> str:
        """Prints a dtype or a dtype variable."""
        return literal(self.names.dtype(dtype) if type(dtype) is DtypeVar else dtype)

    def number(self, value: Any) -> str:
        """Prints a scalar: a size, a float or a bool."""
        return literal(value) if type(value) in (float, bool) else self.size(value)

    def infos(self, infos: Any) -> str:
        """Prints StructInfos in parentheses."""
        inside = ", ".join([self.info(info) for info in infos])
        return f"({inside},)" if len(infos) == 1 else f"({inside})"

    # ---- expressions

    def global_var(self, var: GlobalVar) -> str:
        """Prints a reference to a function of the module."""
        return f"cls.{var.name}"

    def expr(self, expr: Expr) -> str:
        """Prints an expression on one line."""
        rule = _EXPRS.get(type(expr))
        if rule is not None:
            return rule(self, expr)
        return self.form(FORM_OF_NODE[type(expr)], expr)

    def call(self, call: Call) -> str:
        """Prints a call: operands in order, then the present attributes by keyword."""
        callee = call.op
        if type(callee) is Op:
            return self.op_call(callee, call)
        arguments = [self.expr(arg) for arg in call.args]
        if type(callee) is ExternFunc and "signature" in call.attrs:
            options = {"signature": "", "function": callee.global_symbol, **call.attrs}
            keywords = [f"{k}={literal(v)}" for k, v in options.items() if v and k != "signature"]
            declaration = ", ".join([literal(options["signature"]), *keywords])
            return f"R.{SIG}({declaration})({', '.join(arguments)})"
        if type(callee) is ExternFunc:
            form = CALL_PURE_PACKED if is_pure_call(call) else CALL_PACKED
            arguments.insert(0, literal(callee.global_symbol))
            if call.sinfo_args:
                arguments.append(f"sinfo_args={self.declared_results(call)}")
            arguments += [f"{name}={literal(value)}" for name, value in call.attrs.items()]
            return f"R.{form}({', '.join(arguments)})"
        if isinstance(callee.struct_info, KernelStructInfo) and call.sinfo_args:
            operands = f"({arguments[0]},)" if len(arguments) == 1 else f"({', '.join(arguments)})"
            results = self.declared_results(call)
            return f"R.{CALL_KERNEL}({self.expr(callee)}, {operands}, {OUT_SINFO}={results})"
        return f"{self.expr(callee)}({', '.join(arguments)})"

    def declared_results(self, call: Call) -> str:
        """Prints the results that a call declares: one, or several in parentheses."""
        infos = [self.info(info) for info in call.sinfo_args]
        return infos[0] if len(infos) == 1 else f"({', '.join(infos)})"

    def op_call(self, op: Op, call: Call) -> str:
        """Prints a call of an op; operands after an attribute of the signature are keywords."""
        names = self.names.of
        definition = op.definition
        leading = definition.leading
        arguments = []
        for position, arg in enumerate(call.args):
            source = names.get(arg)
            if source is None:
                source = self.sizes_or_expr(arg, definition.of_sizes[position])
            if source == NOTHING and position + 1 < len(call.args) and type(arg) is Tuple:
                leading = position
            elif position < leading:
                arguments.append(source)
            else:
                arguments.append(f"{definition.argument_names[position]}={source}")
        if "curried" in definition.hooks:  # type: ignore[attr-defined]
            return self.curried_call(op, call, arguments)
        if call.attrs:
            arguments += [f"{name}={attribute(value)}" for name, value in call.attrs.items()]
        return f"R.{op.name}({', '.join(arguments)})"

    def curried_call(self, op: Op, call: Call, arguments: list[str]) -> str:
        """Prints a call in two steps: the function with the options, then the operands."""
        options = [f"{name}={literal(value)}" for name, value in call.attrs.items()]
        first = ", ".join([arguments[0], *options])
        return f"R.{op.name}({first})({', '.join(arguments[1:])})"

    def sizes_or_expr(self, arg: Expr, of_sizes: bool) -> str:
        """Prints an argument; sizes are a bare tuple if the op expects sizes."""
        if of_sizes and type(arg) is ShapeExpr:
            return self.shape(arg.dims)
        if of_sizes and type(arg) is PrimValue and type(arg.value) in (int, Poly):
            return self.size(arg.value)
        return self.expr(arg)

    def field_names(self, whole: Any) -> Names | None:
        """Returns the printed names of the fields of a tuple or of its StructInfo."""
        names: Names | None = getattr(whole, "names", None)
        return names

    def tuple(self, value: Tuple) -> str:
        """Prints a tuple."""
        fields = [self.expr(field) for field in value.fields]
        names = self.field_names(value)
        if names is not None:
            return f"R.{TUPLE}({', '.join(field_texts(names, fields))})"
        return f"({fields[0]},)" if len(fields) == 1 else f"({', '.join(fields)})"

    def item(self, item: TupleGetItem) -> str:
        """Prints a field of a tuple, by its name if it has one."""
        names = self.field_names(item.tuple_value.struct_info)
        whole = self.expr(item.tuple_value)
        if names is None:
            return f"{whole}[{item.index}]"
        key = names[item.index]
        return f"{whole}.{key}" if is_word(key) else f"{whole}[{literal(key)}]"


def field_texts(names: Names | None, texts: list[str]) -> list[str]:
    """Returns the source of the fields of a tuple as arguments: `w=x`, or `**{"in": x}`."""
    if names is None:
        return texts
    pairs = zip(names, texts, strict=True)
    return [f"{n}={text}" if is_word(n) else f"**{{{literal(n)}: {text}}}" for n, text in pairs]


def attribute(value: Any) -> str:
    """Prints an attribute of an op; tuples are printed in brackets."""
    if isinstance(value, list | tuple):
        return f"[{', '.join([attribute(item) for item in value])}]"
    return literal(value)


def literal(value: Any) -> str:
    """Prints a static value as a Python literal, strings in double quotes."""
    if isinstance(value, str):
        text = _quoted(value)
        return (
            text if text.isascii() else SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text)
        )
    if isinstance(value, tuple):
        inside = ", ".join([literal(item) for item in value])
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    if isinstance(value, list):
        return f"[{', '.join([literal(item) for item in value])}]"
    if isinstance(value, dict):
        return f"{{{', '.join([f'{literal(k)}: {literal(v)}' for k, v in value.items()])}}}"
    if isinstance(value, float) and not isfinite(value):
        return f'float("{value}")'
    if isinstance(value, np.generic):
        return literal(value.item())
    return repr(value)


_quoted = json.JSONEncoder(ensure_ascii=False).encode
SURROGATE = re.compile("[\ud800-\udfff]")  # unpaired surrogates, which UTF-8 cannot encode
_FIELDS: dict[str, Callable[[ExprPrinter, Any], str]] = {
    "dim": ExprPrinter.size,
    "number": ExprPrinter.number,
    "sizes": ExprPrinter.sizes,
    "shape": ExprPrinter.shape,
    "info": ExprPrinter.info,
    "infos": ExprPrinter.infos,
    "dtype": ExprPrinter.dtype,
    "static": lambda _writer, value: literal(value),
    "value": lambda printer, value: printer.expr(value),
    "vdevice": lambda printer, value: printer.vdevice(value),
}

_EXPRS: dict[type, Callable[[ExprPrinter, Any], str]] = {
    Var: lambda printer, var: printer.names.var(var),
    DataflowVar: lambda printer, var: printer.names.var(var),
    GlobalVar: lambda printer, var: printer.global_var(var),
    Constant: lambda _writer, constant: constant_text(constant.data),
    Call: ExprPrinter.call,
    Tuple: ExprPrinter.tuple,
    TupleGetItem: ExprPrinter.item,
    Op: lambda _writer, op: f"R.{op.name}",
}
