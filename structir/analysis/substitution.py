"""Substitution of variables and symbolic dims in programs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import is_
from typing import Any

from structir.analysis.erasure import erase
from structir.analysis.variables import variables_in
from structir.ir.binding_dims import renamed, row_size_of, row_size_values, standing_alone
from structir.ir.dims import Poly, as_sym, substitute, syms
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Var,
    VarBinding,
)
from structir.ir.node import rebuild
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, StructInfo, TensorStructInfo, TupleStructInfo

# A StructInfo never mentions variables of these.
_UNMENTIONED = frozenset({TensorStructInfo, TupleStructInfo, FuncStructInfo})


class Substitution:
    """Rebuilds parts of a program with variables and symbolic dims replaced.

    `fresh` renames every variable and dim that the part itself binds, as a second copy needs. Parts
    without replacements are returned unchanged.
    """

    def __init__(
        self,
        variables: Mapping[Var, Expr] | None = None,
        dims: Mapping[Any, Any]
        | None = None,  # row variables map to axes, dtype variables to dtypes
        fresh: bool = False,
    ) -> None:
        self.variables: dict[Var, Any] = dict(variables or {})
        self.dims: dict[Any, Any] = dict(dims or {})
        self.fresh = fresh
        self.infos: dict[StructInfo, StructInfo | None] = {}  # None: without replacements

    def info(self, info: StructInfo) -> StructInfo:
        """Returns a StructInfo with its sizes replaced."""
        if not self.dims and not self.variables:
            return info
        replaced = self.infos.get(info, info)
        if replaced is info:
            replaced = self._plain_tensor(info)
            if replaced is None:
                replaced = erase(info, lambda s: self.dims.get(s, s), _Shapes(self.variables))
                replaced = info if replaced == info else replaced
            replaced = self.infos[info] = None if replaced is info else replaced
        return replaced or info  # preserves the identity of equal ones

    def _plain_tensor(self, info: StructInfo) -> StructInfo | None:
        """Returns a tensor with its sizes replaced; None if one is not a number or a single dim."""
        if type(info) is not TensorStructInfo or info.dtype_var is not None:
            return None
        if info.axes is not None or type(info.dims) is not tuple:
            return info if info.axes is info.dims is None else None
        dims = []
        for dim in info.dims:
            if type(dim) is Poly:
                symbol = as_sym(dim)
                if symbol is None or row_size_of(symbol) is not None:
                    return None
                dim = self.dims.get(symbol, dim)
                if type(dim) is not Poly and type(dim) is not int:
                    return None
            dims.append(dim)
        same = all(map(is_, dims, info.dims))
        return info if same else TensorStructInfo(tuple(dims), info.dtype, vdevice=info.vdevice)

    def part(self, part: Any) -> Any:
        """Returns any part of a program with replacements."""
        kind = type(part)
        if kind is Var or kind is DataflowVar:
            return self.variables.get(part, part)
        if kind is Call:
            return self.call(part)
        if kind is Poly:
            return self._size(part) if self.dims else part
        if isinstance(part, StructInfo):
            return self.info(part)
        if kind is Function:
            return self.function(part)
        if kind is SeqExpr:
            return self.sequence(part)
        if kind is PrimValue or kind is ShapeExpr:
            return self.sizes(part)
        if not isinstance(part, Expr) or kind is Op or kind is Constant:
            return part
        return rebuild(part, self.part)

    def call(self, call: Call) -> Call:
        """Returns a call with its callee, operands and StructInfos replaced."""
        return self.call_of(call.op, call.args, call)

    def call_of(self, op: Expr, args: Sequence[Expr], call: Call) -> Call:
        """Returns a call with this callee and these operands in place of its own, replaced."""
        variables = self.variables
        args = [variables.get(a, a) if type(a) is Var else self.part(a) for a in args]
        op = op if type(op) is Op else self.callee(op)
        sinfo_args = tuple(map(self.info, call.sinfo_args)) if call.sinfo_args else ()
        info = call.struct_info and self.info(call.struct_info)
        same = info is call.struct_info and op is call.op and len(args) == len(call.args)
        same = same and all(map(is_, args, call.args))
        if same and all(map(is_, sinfo_args, call.sinfo_args)):
            return call
        return Call(op, tuple(args), call.attrs, sinfo_args, info, call.span)

    def callee(self, callee: Expr) -> Any:
        """Returns a callee that is not an op."""
        return self.part(callee)

    def _size(self, size: Poly) -> Any:
        """Returns a size with its variables replaced, those of replaced row variables included."""
        of_rows = row_size_values(syms(size), self.dims)
        return substitute(size, {**self.dims, **of_rows} if of_rows else self.dims)

    def sizes(self, part: Any) -> Any:
        """Returns a shape or a scalar with its sizes replaced."""
        if type(part) is PrimValue:
            new = self.part(part.value)
            return part if new is part.value else part.with_value(new)
        dims = tuple([self.part(dim) for dim in part.dims])
        same = all(map(is_, dims, part.dims))
        return part if same else ShapeExpr(dims, span=part.span)

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        """Returns a sequence with its bindings replaced in order."""
        blocks = [self.block(block) for block in seq.blocks]
        body, info = self.part(seq.body), seq.struct_info and self.info(seq.struct_info)
        same = all(map(is_, blocks, seq.blocks))
        if same and body is seq.body and info is seq.struct_info:
            return seq
        return SeqExpr(tuple(blocks), body, info, seq.span)

    def block(self, block: BindingBlock) -> BindingBlock:
        """Returns a block with its bindings replaced in order."""
        bindings = tuple([self.binding(binding) for binding in block.bindings])
        same = all(map(is_, bindings, block.bindings))
        return block if same else type(block)(bindings, block.span)

    def binding(self, binding: Binding) -> Binding:
        """Returns a binding; its variable is new if its StructInfo changes or with `fresh`."""
        value = self.part(binding.value)
        if isinstance(binding, MatchCast):
            self.new_dims([binding.struct_info])
            cast = self.info(binding.struct_info)
            var = self.bound(binding.var)
            same = value is binding.value and var is binding.var and cast is binding.struct_info
            return binding if same else MatchCast(var, value, cast, binding.span)
        var = self.closure(binding, value) or self.bound(binding.var)
        same = value is binding.value and var is binding.var
        return binding if same else VarBinding(var, value, binding.span)

    def closure(self, binding: Any, value: Expr) -> Var | None:
        """Returns the variable of a rebuilt function with the StructInfo of the new one; None for
        other values, for a function that calls itself, and where another StructInfo is declared
        that has the same parameters."""
        old, var = binding.value, binding.var
        if type(value) is not Function or value is old:
            return None
        before, after = old.struct_info, value.struct_info
        same_params = var.struct_info != before and before.params == after.params
        if same_params or var in variables_in(value):
            return None
        new: Var = type(var)(var.name, after, var.span)
        self.variables[var] = new
        return new

    def bound(self, var: Var) -> Var:
        """Returns the variable that a binding or a parameter list defines instead."""
        info = self.info(var.struct_info)
        if info is var.struct_info and not self.fresh:
            return var
        new = self.variables[var] = type(var)(var.name, info, var.span)
        if type(var.struct_info) not in _UNMENTIONED:  # a StructInfo may mention a shape
            self.infos.clear()
        return new

    def new_dims(self, infos: Iterable[StructInfo]) -> None:
        """Renames the dims that these StructInfos bind, with `fresh`."""
        if self.fresh:
            for dim in standing_alone(infos):
                self.dims.setdefault(dim, renamed(dim))
            self.infos.clear()

    def function(self, function: Function) -> Function:
        """Returns a function with its parameters and body replaced."""
        self.new_dims([param.struct_info for param in function.params])
        params = tuple([self.bound(param) for param in function.params])
        body, result = self.sequence(function.body), self.info(function.ret_struct_info)
        same = all(map(is_, params, function.params))
        if same and body is function.body and result is function.ret_struct_info:
            return function
        return Function(params, body, result, function.is_pure, function.attrs, function.span)


class _Shapes(dict[Var, Any]):
    """Maps shape variables to their replacements, others to themselves."""

    def __init__(self, variables: Mapping[Var, Any]) -> None:
        super().__init__(variables)

    def get(self, key: Var, default: Any = None) -> Any:
        return super().get(key, key)
