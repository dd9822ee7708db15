"""Exports the body of a function: bindings become nodes, private functions are inlined."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, NoReturn

import attrs
import numpy as np
from onnx import ValueInfoProto

from structir.errors import Diagnostic, DiagnosticError, Span
from structir.export.decomposition import decomposed
from structir.export.onnx.call import Names, OpCall
from structir.export.onnx.dtypes import UnsupportedDtype
from structir.export.onnx.graph import ModelNames, OnnxGraph
from structir.export.onnx.kernels import exports_extern, find_kernel_mapping
from structir.export.onnx.registry import mappings
from structir.export.onnx.sizes import SizeSource, SizeValues, UnboundSize
from structir.frontend.onnx.annotation.dim_names import DimNames
from structir.frontend.onnx.annotation.value_types import type_of_value
from structir.frontend.onnx.types import OnnxSymbols
from structir.ir.dtype import numpy_dtype
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
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
    leaf_infos,
)

MAX_DEPTH = 30  # nested calls of functions


class FunctionExporter:
    """Writes the nodes of a function into a graph."""

    def __init__(
        self,
        module: IRModule,
        graph: OnnxGraph,
        sizes: SizeValues,
        values: MutableMapping[Var, Names],
        dim_names: DimNames,
        depth: int = 0,
    ) -> None:
        self.module, self.graph, self.sizes = module, graph, sizes
        self.values, self.dim_names, self.depth = values, dim_names, depth
        self.span: Span | None = None
        self.stem = "value"

    # ---- scopes

    def nested(self) -> FunctionExporter:
        """Returns an exporter of a graph nested in this one."""
        graph = OnnxGraph(self.graph.names)
        sizes = self.sizes.nested(graph)
        values: MutableMapping[Var, Names] = ChainMap({}, self.values)
        inner = FunctionExporter(self.module, graph, sizes, values, self.dim_names, self.depth)
        inner.span = self.span
        return inner

    def nested_in(self, caller: FunctionExporter) -> FunctionExporter:
        """Returns an exporter of a graph nested in that of a caller, with the values of this
        scope."""
        inner = caller.nested()
        inner.values = ChainMap({}, self.values)
        inner.sizes.sources = ChainMap({}, self.sizes.sources)
        return inner

    def body_of(self, callee: Expr) -> tuple[FunctionExporter, Function]:
        """Returns an exporter of a nested graph for the body of a function, and the function."""
        function = self.module.functions.get(getattr(callee, "name", ""))
        if isinstance(callee, GlobalVar) and isinstance(function, Function):
            inner = self.nested()
            inner.values, inner.sizes = {}, SizeValues(inner.graph, {}, {})
            return inner, function
        closure = self.value(callee)
        if not isinstance(closure, LocalFunction):
            self.fail(f"expected a function of the program, found {callee}")
        return closure.exporter.nested_in(self), closure.function

    def bind_sizes(self, names: Names, info: StructInfo | None) -> None:
        """Records which sizes the axes of a value have."""
        if isinstance(info, TupleStructInfo):
            for name, field in zip(names, info.fields, strict=False):
                self.bind_sizes(name, field)
        elif isinstance(info, TensorStructInfo) and isinstance(info.dims, tuple):
            for axis, size in enumerate(info.dims):
                self.sizes.bind(size, SizeSource(names, axis))
        elif isinstance(info, ShapeStructInfo) and info.dims is not None:
            for axis, size in enumerate(info.dims):
                self.sizes.bind(size, SizeSource(names, axis, of_shape=False))
        elif isinstance(info, PrimStructInfo) and info.value is not None:
            self.sizes.bind(info.value, SizeSource(names, None))

    # ---- bindings

    def sequence(self, seq: SeqExpr) -> Names:
        """Writes the bindings of a sequence; returns its result."""
        for binding in seq.bindings():
            self.binding(binding)
        return self.value(seq.body)

    def binding(self, binding: Binding) -> None:
        """Writes one binding."""
        if conditions_of(binding):
            return  # a check of sizes has no ONNX form
        var = binding.var
        self.span = binding.span or getattr(binding.value, "span", None)
        self.stem = f"{var.name}_part"
        count = len(self.graph.nodes)
        names = self._renamed(self.value(binding.value), var.name, count)
        if isinstance(binding, MatchCast):
            self.bind_sizes(names, binding.struct_info)
        self.values[var] = names
        self._describe(names, var.struct_info)

    def _renamed(self, names: Names, name: str, count: int) -> Names:
        """Gives the result of the nodes after the first `count` the name of its variable."""
        nodes = self.graph.nodes[count:]
        shared = self.sizes.computed.values()
        if not isinstance(names, str) or names in shared:
            return names
        if not any(names in node.output for node in nodes):
            return names
        renamed = self.graph.names.take(name)
        self.graph.rename_after(count, names, renamed)
        return renamed

    def _describe(self, names: Names, info: StructInfo | None) -> None:
        """Records the type of a value in the graph."""
        if isinstance(names, str) and isinstance(info, TensorStructInfo):
            listed = self.graph.described
            if names in self.graph.produced and names not in listed:
                listed.add(names)
                self.graph.values.append(self.value_info(names, info))

    def value_info(self, name: str, info: StructInfo | None) -> ValueInfoProto:
        """Returns the declaration of a value."""
        self.record(name, info)
        return ValueInfoProto(
            name=name, type=type_of_value(tensor_info(info), None, self.dim_names)
        )

    # ---- expressions

    def value(self, expr: Expr) -> Names:
        """Returns the name of a value, or a list of names for a tuple."""
        export = EXPRESSIONS.get(type(expr).__name__)
        if export is None:
            self.fail(f"no ONNX form of {type(expr).__name__} {expr}")
        names = export(self, expr)
        self.record(names, expr.struct_info)
        return names

    def record(self, names: Names, info: StructInfo | None) -> None:
        """Records the dtypes of a value."""
        for name, field in zip(flat(names), leaf_infos(info), strict=False):
            if isinstance(name, str):
                self.graph.record(name, getattr(tensor_info(field), "dtype", None))

    def _var(self, var: Var) -> Names:
        return self.values[var]

    def _constant(self, expr: Constant) -> str:
        return self.graph.names.constant(expr.data)

    def _number(self, expr: PrimValue) -> str:
        info: Any = expr.struct_info
        if isinstance(expr.value, int | float):
            return self.graph.names.constant(np.array(expr.value, numpy_dtype(info.dtype)))
        return self._sizes(lambda: self.sizes.scalar(expr.value))  # type: ignore[arg-type]

    def _shape(self, expr: ShapeExpr) -> str:
        return self._sizes(lambda: self.sizes.vector(expr.dims))

    def _sizes(self, build: Callable[[], str]) -> str:
        try:
            return build()
        except UnboundSize as error:
            self.fail(
                f"the size {error} is no axis of an argument",
                "pass a tensor with an axis of exactly this size",
            )

    def _tuple(self, expr: Tuple) -> list[Names]:
        return [self.value(field) for field in expr.fields]

    def _item(self, expr: TupleGetItem) -> Names:
        return self.value(expr.tuple_value)[expr.index]

    def _if(self, expr: If) -> Names:
        condition = self.value(expr.cond)
        branches = [self._branch(b) for b in (expr.true_branch, expr.false_branch)]
        shape = structure(branches[0][1])
        graphs = []
        for inner, names in branches:
            outputs = [inner.output(n) for n in flat(names)]
            infos = [ValueInfoProto(name=n) for n in outputs]
            for info, each in zip(infos, leaf_infos(expr.struct_info), strict=True):
                info.CopyFrom(self.value_info(info.name, each))
            graphs.append(inner.graph.proto(self.graph.names.fresh("branch"), [], infos))
        results = self.graph.emit(
            "If",
            [condition],
            len(flat(branches[0][1])),
            self.stem,
            then_branch=graphs[0],
            else_branch=graphs[1],
        )
        return rebuilt(shape, iter(results))

    def _branch(self, seq: SeqExpr) -> tuple[FunctionExporter, Names]:
        inner = self.nested()
        return inner, inner.sequence(seq)

    def output(self, name: str) -> str:
        """Returns the name of a value that a node of this graph defines, to be an output of it."""
        return name if name in self.graph.produced else self.copy(name, f"{name}_out")

    def fresh_output(self, name: str) -> str:
        """Returns a copy of a value, to be an output of a nested graph: each needs its own name."""
        return self.copy(name, f"{name}_out")

    def copy(self, name: str, stem: str) -> str:
        """Returns a copy of a value under another name."""
        return self.graph.emit("Identity", [name], 1, stem)[0]

    def _closure(self, function: Function) -> Names:
        return LocalFunction(function, self)

    # ---- calls

    def _call(self, call: Call) -> Names:
        before, self.span = self.span, call.span or self.span
        try:
            if type(call.op) is Op:
                return self._op(call)
            return self._function(call)
        except UnsupportedDtype as error:
            self.fail(str(error), error.hint)
        finally:
            self.span = before

    def _op(self, call: Call) -> Names:
        name: str = call.op.name  # type: ignore[attr-defined]
        on_functions = exports_extern.get(name)
        if on_functions is not None:
            return on_functions(self, call)
        mapping = mappings.get(name)
        count = len(self.graph.nodes)
        fail: Callable[[str, str], NoReturn] = self.fail
        if mapping is not None:
            try:
                result = self._sizes(lambda: mapping(OpCall(self, call, self.stem)))
            except (LookupError, ValueError, OverflowError):  # an unknown rank, a large constant
                result = None
            except UnsupportedDtype as error:
                result, fail = None, self._rejected(name, error)
            if result is not None:
                return result
            self.sizes.forget(self.graph.remove_after(count))
        return self.value(decomposed(call, "ONNX", fail))

    def _rejected(self, name: str, error: UnsupportedDtype) -> Callable[[str, str], NoReturn]:
        """Returns the function that reports an op whose dtypes ONNX does not have."""
        return lambda *_: self.fail(f"{name}: no ONNX form of this op: {error}", error.hint)

    def _function(self, call: Call) -> Names:
        name = getattr(call.op, "name", "")
        callee = self.module.functions.get(name)
        mapping = exports_extern.get(getattr(call.op, "global_symbol", ""))
        if isinstance(callee, Kernel):
            mapping = find_kernel_mapping(callee)
        if mapping is not None:
            return mapping(self, call)
        if self.depth >= MAX_DEPTH:
            self.fail(f"{name}: recursion has no ONNX form")
        if isinstance(call.op, GlobalVar) and isinstance(callee, Function):
            return self._inlined(callee, call, self.sizes.of_function(), {})
        closure = self.values.get(call.op) if isinstance(call.op, Var) else None
        if not isinstance(closure, LocalFunction):
            self.fail(
                f"no ONNX form of a call of {call.op}",
                "express the function with ops: external functions and kernels are not exported",
            )
        outer = closure.exporter
        return self._inlined(closure.function, call, outer.sizes.nested(self.graph), outer.values)

    def _inlined(
        self,
        callee: Function,
        call: Call,
        sizes: SizeValues,
        outer: MutableMapping[Var, Names],
    ) -> Names:
        arguments = [self.value(arg) for arg in call.args]
        values: MutableMapping[Var, Names] = ChainMap({}, outer)
        values.update(zip(callee.params, arguments, strict=True))
        inner = FunctionExporter(
            self.module, self.graph, sizes, values, self.dim_names, self.depth + 1
        )
        inner.span = self.span
        for param, names in zip(callee.params, arguments, strict=True):
            inner.bind_sizes(names, param.struct_info)
        return inner.sequence(callee.body)

    # ---- errors

    def fail(self, message: str, hint: str | None = None) -> NoReturn:
        """Raises the error of the current binding."""
        raise DiagnosticError(Diagnostic(message, self.span, hint=hint, code="E0811"))


@attrs.frozen(eq=False)
class LocalFunction:
    """A function value and the scope of its definition."""

    function: Function
    exporter: FunctionExporter


EXPRESSIONS: dict[str, Callable[[Any, Any], Names]] = {
    "Var": FunctionExporter._var,
    "DataflowVar": FunctionExporter._var,
    "Constant": FunctionExporter._constant,
    "PrimValue": FunctionExporter._number,
    "ShapeExpr": FunctionExporter._shape,
    "Tuple": FunctionExporter._tuple,
    "TupleGetItem": FunctionExporter._item,
    "If": FunctionExporter._if,
    "Function": FunctionExporter._closure,
    "SeqExpr": FunctionExporter.sequence,
    "Call": FunctionExporter._call,
}


def tensor_info(info: StructInfo | None) -> StructInfo | None:
    """Returns the StructInfo of a value as a tensor: a shape is a vector, a number a scalar."""
    if isinstance(info, ShapeStructInfo):
        return TensorStructInfo(None if info.ndim is None else (info.ndim,), "int64")
    return TensorStructInfo((), info.element) if isinstance(info, PrimStructInfo) else info


def flat(names: Names) -> list[str]:
    """Returns the names of a value, nested tuples flattened."""
    return [n for each in names for n in flat(each)] if isinstance(names, list) else [names]


def structure(names: Names) -> Any:
    """Returns the nesting of a value."""
    return [structure(each) for each in names] if isinstance(names, list) else None


def rebuilt(shape: Any, names: Iterator[str]) -> Names:
    """Returns names in a nesting."""
    return next(names) if shape is None else [rebuilt(each, names) for each in shape]


def main_exporter(module: IRModule) -> FunctionExporter:
    """Returns the exporter of the main graph of a model."""
    graph = OnnxGraph(ModelNames())
    return FunctionExporter(module, graph, SizeValues(graph, {}, {}), {}, DimNames(OnnxSymbols()))


def named_outputs(
    exporter: FunctionExporter, names: Sequence[str], stems: Sequence[str]
) -> list[str]:
    """Returns outputs of the main graph, each the result of a node of its own."""
    outputs: list[str] = []
    for name, stem in zip(names, stems, strict=True):
        own = name in exporter.graph.produced and name not in outputs and name == stem
        if not own:
            copy = exporter.graph.names.take(stem)
            exporter.graph.append_copy(name, copy)
        outputs.append(name if own else copy)
    return outputs
