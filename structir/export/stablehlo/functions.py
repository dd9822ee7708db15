"""Exports the body of a function: bindings become operations, calls of functions are inlined."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from typing import Any, NoReturn

import attrs
import numpy as np

from structir.analysis.calls import Binder
from structir.analysis.substitution import Substitution
from structir.errors import Diagnostic, DiagnosticError, Span
from structir.export.decomposition import decomposed
from structir.export.stablehlo.block import HloBlock, HloRegion, HloUnboundSize
from structir.export.stablehlo.call import HloCall
from structir.export.stablehlo.elements import LoopGrid
from structir.export.stablehlo.registry import exports_function, mappings
from structir.export.stablehlo.specs import lowered
from structir.export.stablehlo.tensors import HloTensor
from structir.export.stablehlo.values import (
    HloShape,
    HloValue,
    as_tensor,
    bind_sizes,
    flat,
    rebuilt,
    with_info,
)
from structir.ir.dims import Poly
from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    Expr,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import StructInfo, TensorStructInfo
from structir.projections.spec import IndexSpec

MAX_DEPTH = 30  # nested calls of functions


@attrs.frozen(eq=False)
class HloClosure:
    """A function value, and the values of the scope of its definition."""

    function: Function
    values: MutableMapping[Var, HloValue]


class HloExporter:
    """Writes the operations of a function into a block."""

    def __init__(self, module: IRModule, block: HloBlock) -> None:
        self.module, self.block = module, block
        self.values: MutableMapping[Var, HloValue] = {}
        self.span: Span | None = None
        self.depth = 0

    @contextmanager
    def inside(self, block: HloBlock) -> Iterator[None]:
        """Writes operations into the block of a region."""
        outer, values = self.block, self.values
        self.block, self.values = block, ChainMap({}, values)
        try:
            yield
        finally:
            self.block, self.values = outer, values

    # ---- bindings

    def sequence(self, seq: SeqExpr) -> HloValue:
        """Writes the bindings of a sequence; returns its result."""
        for binding in seq.bindings():
            self.binding(binding)
        return self.value(seq.body)

    def binding(self, binding: Binding) -> None:
        """Writes one binding; checks of sizes are omitted."""
        if conditions_of(binding):
            return
        self.span = binding.span or getattr(binding.value, "span", None)
        self.block.stem = binding.var.name
        value = self.value(binding.value)
        if isinstance(binding, MatchCast):
            bind_sizes(self.block, value, binding.struct_info)
        self.values[binding.var] = self._sizes(
            lambda: with_info(self.block, value, binding.var.struct_info)
        )

    # ---- expressions

    def value(self, expr: Expr) -> HloValue:
        """Returns the value of an expression."""
        export = EXPRESSIONS.get(type(expr).__name__)
        if export is None:
            self.fail(f"no StableHLO form of {type(expr).__name__} {expr}")
        return export(self, expr)

    def tensor(self, expr: Expr) -> HloTensor:
        """Returns the value of an expression as a tensor."""
        (tensor,) = self.tensors(self.value(expr))
        return tensor

    def tensors(self, value: HloValue) -> list[HloTensor]:
        """Returns the tensors of a value, nested tuples flattened."""
        result: list[HloTensor] = self._sizes(lambda: [self._as_tensor(v) for v in flat(value)])
        return result

    def _as_tensor(self, value: HloValue) -> HloTensor:
        if isinstance(value, HloClosure):
            self.fail("no StableHLO form of a function as a value", "call it where it is defined")
        return as_tensor(self.block, value)

    def _var(self, var: Var) -> HloValue:
        return self.values[var]

    def _constant(self, expr: Constant) -> HloTensor:
        return self.block.array(np.asarray(expr.data))

    def _number(self, expr: PrimValue) -> HloTensor:
        info: Any = expr.struct_info
        value: Any = expr.value
        if isinstance(value, Poly):
            size = self._sizes(lambda: LoopGrid(self.block).size(value))
            return self.block.convert(size, info.dtype)
        return self.block.number(value, info.dtype)

    def _shape(self, expr: ShapeExpr) -> HloShape:
        return HloShape(expr.dims)

    def _sizes(self, build: Callable[[], Any]) -> Any:
        try:
            return build()
        except HloUnboundSize as error:
            self.fail(
                f"no StableHLO form: the size {error} depends on elements of a tensor",
                "mask the elements that are not wanted instead, so that sizes depend on sizes only",
            )

    def _tuple(self, expr: Tuple) -> list[HloValue]:
        return [self.value(field) for field in expr.fields]

    def _item(self, expr: TupleGetItem) -> HloValue:
        value = self.value(expr.tuple_value)
        if not isinstance(value, list):
            self.fail(f"no StableHLO form of {expr.tuple_value}: its fields are unknown")
        return value[expr.index]

    def _if(self, expr: If) -> HloValue:
        condition = self.value(expr.cond)
        shapes: list[HloValue] = []
        infos: list[Any] = []

        def branch(seq: SeqExpr) -> HloRegion:
            def body(block: HloBlock, _: list[HloTensor]) -> list[HloTensor]:
                with self.inside(block):
                    result = self.sequence(seq)
                    typed = self._sizes(lambda: with_info(block, result, expr.struct_info))
                    shapes.append(typed)
                    tensors = self.tensors(typed)
                infos.append([(t.dims, t.dtype) for t in tensors])
                return tensors

            return self.block.region([], body)

        regions = [branch(expr.true_branch), branch(expr.false_branch)]
        types = [[HloTensor("", tuple(s), d).type for s, d in each] for each in infos]
        if types[0] != types[1]:
            self.fail(f"no StableHLO form of branches with results of types {types[0]}, {types[1]}")
        results = self.block.emit_many("if", [condition], infos[0], {}, regions)
        return rebuilt(shapes[0], iter(results))

    def _closure(self, function: Function) -> HloClosure:
        return HloClosure(function, self.values)

    # ---- calls

    def _call(self, call: Call) -> HloValue:
        before, self.span = self.span, call.span or self.span
        try:
            if type(call.op) is Op:
                return self._sizes(lambda: self._op(call))
            return self._function(call)
        finally:
            self.span = before

    def _op(self, call: Call) -> HloValue:
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        on_functions = exports_function.get(definition.name)
        if on_functions is not None:
            return on_functions(self, call)
        mapping = mappings.get(definition.name)
        result = None if mapping is None else mapping(HloCall(self, call))
        if result is not None:
            return result
        spec = definition.index_spec(call) if hasattr(definition, "index_spec") else None
        if spec is not None and spec.computes and _has_known_sizes(spec):
            return self._derived(call, spec)
        return self.value(decomposed(call, "StableHLO", self.fail))

    def _derived(self, call: Call, spec: IndexSpec) -> HloValue:
        operands = [self._at(call, operand.path) for operand in spec.operands]
        results = lowered(self.block, spec, operands)
        return results[0] if isinstance(call.struct_info, TensorStructInfo) else results

    def _at(self, call: Call, path: tuple[int, ...]) -> HloTensor:
        value = self.value(call.args[path[0]])
        for member in path[1:]:
            value = value[member]
        return self._as_tensor(value)

    def _function(self, call: Call) -> HloValue:
        mapping = exports_function.get(getattr(call.op, "global_symbol", ""))
        if mapping is not None:
            return mapping(self, call)
        closure = self.callee(call.op)
        arguments = [self.value(arg) for arg in call.args]
        infos = [arg.struct_info for arg in call.args]
        return self.inlined(closure, arguments, infos)

    def callee(self, op: Expr) -> HloClosure:
        """Returns a function of the module, or a local one with its scope."""
        function = self.module.functions.get(getattr(op, "name", ""))
        if isinstance(op, GlobalVar) and isinstance(function, Function):
            return HloClosure(function, {})
        closure = self.values.get(op) if isinstance(op, Var) else None
        if not isinstance(closure, HloClosure):
            self.fail(
                f"no StableHLO form of a call of {op}",
                "express the function with ops: external functions and kernels are not exported",
            )
        return closure

    def inlined(
        self, closure: HloClosure, arguments: list[HloValue], infos: list[StructInfo | None]
    ) -> HloValue:
        """Writes the body of a function for arguments; its dims become those of the arguments."""
        if self.depth >= MAX_DEPTH:
            self.fail("no StableHLO form of a recursive function")
        binder = Binder(closure.function.struct_info)
        for param, info in zip(closure.function.params, infos, strict=True):
            if info is not None:
                binder.bind(param.struct_info, info)
        function = Substitution(dims=binder.bindings, fresh=True).function(closure.function)
        values, stem, span = self.values, self.block.stem, self.span
        scope: MutableMapping[Var, HloValue] = ChainMap({}, closure.values)
        for param, argument in zip(function.params, arguments, strict=True):
            bind_sizes(self.block, argument, param.struct_info)
            scope[param] = with_info(self.block, argument, param.struct_info)
        self.values, self.depth = scope, self.depth + 1
        try:
            return self.sequence(function.body)
        finally:
            self.values, self.depth = values, self.depth - 1
            self.block.stem, self.span = stem, span

    # ---- errors

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raises the error of the current binding."""
        raise DiagnosticError(Diagnostic(message, self.span, hint=hint, code="E0812"))


def _has_known_sizes(spec: IndexSpec) -> bool:
    shapes = [*[o.dims for o in spec.operands], *[r.dims for r in spec.results]]
    return all(isinstance(shape, tuple) for shape in shapes)


EXPRESSIONS: dict[str, Callable[[Any, Any], HloValue]] = {
    "Var": HloExporter._var,
    "DataflowVar": HloExporter._var,
    "Constant": HloExporter._constant,
    "PrimValue": HloExporter._number,
    "ShapeExpr": HloExporter._shape,
    "Tuple": HloExporter._tuple,
    "TupleGetItem": HloExporter._item,
    "If": HloExporter._if,
    "Function": HloExporter._closure,
    "SeqExpr": HloExporter.sequence,
    "Call": HloExporter._call,
}
