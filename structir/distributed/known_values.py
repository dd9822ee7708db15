"""Evaluates the part of a function that depends on the rows of its ragged parameters only."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, symbols_in
from structir.errors import StructIRError
from structir.interpret import interpret
from structir.ir.bodies import bindings_of
from structir.ir.dims import Sym
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    If,
    MatchCast,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.struct_info import (
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module

np = lazy_module("numpy")
Array = Any
Arrays = dict[Any, Array]  # by key of a tensor of a program
Path = tuple[int, ...]


class KnownValues:
    """The values of a function that follow from some known tensors.

    `arrays` has the operands of ops on rows, and `sizes` the symbolic dims that match_casts bind.
    """

    def __init__(
        self, function: Function, arrays: Mapping[Any, Array], sizes: Mapping[Sym, int]
    ) -> None:
        self.arrays: Arrays = dict(arrays)
        self.sizes = dict(sizes)
        self.paths: dict[Var, tuple[Var, Path]] = {p: (p, ()) for p in function.params}
        self.params: dict[Var, Array] = {
            p: arrays[p, ()] for p in function.params if (p, ()) in arrays
        }
        self.bindings: list[Binding] = []
        self.known: set[Var] = set(self.params)
        self.new_sizes: set[Sym] = set()
        for binding in function.body.bindings():
            self._visit(binding)
        self._evaluate(_row_operands(function))

    def _visit(self, binding: Binding) -> None:
        """Adds a binding whose value is known."""
        var, value = binding.var, binding.value
        if isinstance(value, TupleGetItem) and value.tuple_value in self.paths:
            owner, path = self.paths[value.tuple_value]  # type: ignore[index]
            self.paths[var] = owner, (*path, value.index)
            if self.paths[var] in self.arrays:
                self.params[var] = self.arrays[self.paths[var]]
                self.known.add(var)
            return
        if isinstance(value, If):
            self._visit_branches(var, value)
        simple = isinstance(value, Var | Tuple | TupleGetItem | ShapeExpr)
        if not simple and not (isinstance(value, Call) and isinstance(value.op, Op)):
            return
        sizes = self.sizes.keys() | self.new_sizes
        if set(free_vars(value)) <= self.known and set(symbols_in(value)) <= sizes:
            self.known.add(var)
            self.bindings.append(binding)
            if isinstance(binding, MatchCast):
                self.new_sizes |= set(symbols_in(binding.struct_info)) - sizes

    def _visit_branches(self, var: Var, value: If) -> None:
        """Adds the fields of a conditional that are equal known tensors in both branches."""
        branches = [self._fields(seq) for seq in (value.true_branch, value.false_branch)]
        for index, paths in enumerate(zip(*branches, strict=False)):
            first, second = map(self.arrays.get, paths)
            if first is not None and second is not None and np.array_equal(first, second):
                self.arrays[var, (index,)] = first
                self.paths[var] = var, ()

    def _fields(self, seq: SeqExpr) -> list[Any]:
        """Returns the paths of the fields that a branch returns; None for computed ones."""
        bound: dict[Any, Any] = {b.var: b.value for b in seq.bindings()}
        result = bound.get(seq.body, seq.body)
        fields = result.fields if isinstance(result, Tuple) else ()
        return [self._path(field, bound) for field in fields]

    def _path(self, value: Any, bound: Mapping[Any, Any]) -> Any:
        value = bound.get(value, value) if isinstance(value, Var) else value
        if isinstance(value, TupleGetItem):
            outer = self._path(value.tuple_value, bound)
            return outer and (outer[0], (*outer[1], value.index))
        return self.paths.get(value) if isinstance(value, Var) else None

    def _evaluate(self, wanted: set[Expr]) -> None:
        variables = [v for v in self.known - self.params.keys() if v in wanted]
        symbols = sorted(self.new_sizes, key=lambda s: s.order)
        if not variables and not symbols:
            return
        values = self._run(variables, symbols)
        self.sizes.update(zip(symbols, values[-1], strict=True))
        self.arrays.update({(v, ()): a for v, a in zip(variables, values, strict=False)})

    def _run(self, variables: list[Var], symbols: list[Sym]) -> Any:
        """Runs the bindings that some variables and sizes depend on."""
        used: set[Any] = set(variables)
        kept: list[Binding] = []
        for binding in reversed(self.bindings):
            if binding.var in used or isinstance(binding, MatchCast):
                kept.append(binding)
                used.update(free_vars(binding.value))
        result = Tuple((*variables, ShapeExpr(tuple(symbols))))  # type: ignore[arg-type]
        body = SeqExpr((BindingBlock(tuple(reversed(kept))),) if kept else (), result)
        params = tuple([p for p in self.params if p in used])
        infos: Any = result.struct_info
        function = Function(params, body, without_sizes(infos))
        concrete = Substitution(dims=dict(self.sizes)).function(function)
        arguments = [self.params[p] for p in params]
        return interpret(IRModule({"main": concrete}), "main", *arguments)


def without_sizes(info: Any) -> StructInfo:
    """Returns a StructInfo without symbolic dims, which may be bound inside of a function."""
    if isinstance(info, TupleStructInfo):
        return TupleStructInfo(tuple(map(without_sizes, info.fields)), info.names)
    if isinstance(info, TensorStructInfo):
        return TensorStructInfo(dtype=info.dtype, ndim=info.ndim)
    return ShapeStructInfo(ndim=info.ndim) if isinstance(info, ShapeStructInfo) else info


def _row_operands(function: Function) -> set[Expr]:
    """Returns the operands with positions: row starts and limits, and indices."""
    operands: set[Expr] = set()
    for binding in bindings_of(function):
        call = binding.value
        if isinstance(call, Call) and isinstance(call.op, Op):
            definition: Any = call.op.definition
            blocks = getattr(definition, "hooks", {}).get("row_blocks")
            positions = set(blocks.positions if blocks is not None else ())
            if getattr(definition, "reads_indices", False):
                positions |= set(range(len(call.args)))
            operands |= {call.args[k] for k in positions if 0 <= k < len(call.args)}
    return operands


def known_values(
    function: Function, arrays: Mapping[Hashable, Array], sizes: Mapping[Sym, int]
) -> tuple[Arrays, dict[Sym, int]]:
    """Returns the known tensors and sizes, with those that follow from them."""
    try:
        values = KnownValues(function, arrays, sizes)
    except StructIRError:  # a run of the function raises it
        return dict(arrays), dict(sizes)
    return values.arrays, values.sizes
