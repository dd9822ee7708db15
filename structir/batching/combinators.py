"""Replaces calls of combinators: maps by batched ops, folds by reductions and loops.

A map whose operands have unknown ranks remains, as does one that cannot be batched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from structir.analysis.closures import Scope, scopes_of, with_captured
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.loop_view import LoopView, slice_info
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars, names_in, walk_values
from structir.batching.expansion_values import (
    UnknownRankError,
    field_of,
    leaves_of,
    member_of,
    moved,
    nested,
    normalised,
    without_dataflow,
    without_unused_closures,
)
from structir.batching.functions import Batching
from structir.batching.instances import BodyInstance, unchanged
from structir.batching.refinement import Refinement
from structir.batching.scope import BatchedScope
from structir.build import BlockBuilder
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.binding_dims import bound_dims, row_size_of
from structir.ir.bodies import bindings_of
from structir.ir.dims import Sym, as_dim
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    ShapeExpr,
    Tuple,
    Var,
    VarBinding,
)
from structir.ir.module import IRModule
from structir.ir.node import Node, replace
from structir.ir.op import Op
from structir.ir.struct_info import FuncStructInfo, TensorStructInfo, TupleStructInfo, leaf_infos
from structir.opdef.batched_op import apply
from structir.printer.parser.function_operands import COMBINATOR

# the reduction of each associative op, where all axes are one
REDUCTIONS = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
}


def _calls_any(module: IRModule, expands: Callable[[Expr], bool]) -> bool:
    functions = [f for f in module.functions.values() if isinstance(f, Function)]
    return any([expands(binding.value) for f in functions for binding in bindings_of(f)])


def is_combinator(value: Expr) -> bool:
    """Whether a value is a call of a combinator, or passes a function to one of the module."""
    if not isinstance(value, Call):
        return False
    if isinstance(value.op, Op):
        return COMBINATOR in getattr(value.op.definition, "hooks", ())
    return isinstance(value.op, GlobalVar) and any(map(_is_function, value.args))


def is_expandable(value: Expr) -> bool:
    """Whether a value is a call of a combinator, or a loop over a closure."""
    return is_combinator(value) or _is_loop_over_closure(value)


def _is_loop_over_closure(value: Expr) -> bool:
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return False
    hooks = getattr(value.op.definition, "hooks", {})
    return "loop" in hooks and COMBINATOR not in hooks and isinstance(value.args[0], Var)


def _is_function(arg: Expr) -> bool:
    return isinstance(arg, GlobalVar) or isinstance(arg.struct_info, FuncStructInfo)


def expanded(module: IRModule, expands: Callable[[Expr], bool] = is_combinator) -> IRModule:
    """Returns the module without those combinators that batched ops and loops can replace.

    With `is_expandable`, bodies of loops become functions of the module: what they capture is an
    operand of the loop then, which has a gradient.
    """
    return _Expansion(module, expands).module() if _calls_any(module, expands) else module


def mentioned(functions: Mapping[str, Node]) -> set[str]:
    """Returns the names of the functions that functions refer to."""
    values = [v for f in functions.values() if isinstance(f, Function) for v in walk_values(f)]
    return {value.name for value in values if isinstance(value, GlobalVar)}


class _Expansion:
    """The expansion of one module: the functions so far, with those that were generated."""

    def __init__(self, module: IRModule, expands: Callable[[Expr], bool]) -> None:
        self.source, self.expands = module, expands
        self.batching = Batching(module)
        self.scope: Scope = {}  # of the combinator that is expanded

    def module(self) -> IRModule:
        """Returns the module with every function expanded."""
        functions: dict[str, Node] = {}
        for name, function in self.source.functions.items():
            needed = isinstance(function, Function) and any(
                [self.expands(binding.value) for binding in bindings_of(function)]
            )
            functions[name] = self.function(function) if needed else function  # type: ignore[arg-type]
        functions |= self.batching.generated
        unused = mentioned(self.source.functions) - mentioned(functions)
        private = {n for n in unused if getattr(functions.get(n), "attrs", {}).get(PRIVATE)}
        return self.source.with_functions({n: f for n, f in functions.items() if n not in private})

    def function(self, function: Function) -> Function:
        """Returns a function with its combinators expanded."""
        function = without_dataflow(function)
        closures = {b.var: b.value for b in bindings_of(function) if isinstance(b.value, Function)}
        expanded = _ExpandedFunction(self, scopes_of(function), closures).function(function)
        return without_unused_closures(expanded)

    def binding(
        self, binding: Binding, scope: Scope, closures: Mapping[Var, Function], values: Substitution
    ) -> Sequence[Binding]:
        """Returns the bindings that replace one; `values` has those of variables of closures."""
        if not self.expands(binding.value):
            return (binding,)
        builder, before = BlockBuilder(), set(self.batching.generated)
        instance = BodyInstance(builder, self.functions, self.rule)
        self.scope = {name: values.part(value) for name, value in scope.items()}
        instance.copier = Substitution(values.variables, unchanged(scope))
        instance.closures.update({var: (f, instance) for var, f in closures.items()})
        try:
            with builder.function("expansion"):
                value: Any = self.rule(instance, binding.value)  # type: ignore[arg-type]
                if value is None:  # a loop over a function that only the run knows
                    raise UnknownRankError
                builder.emit_func_output(value)
        except (DiagnosticError, UnknownRankError):
            for name in self.batching.generated.keys() - before:
                del self.batching.generated[name]
            return (binding,)
        body = builder.finished("expansion")
        last = VarBinding(binding.var, body.body.body, binding.span)
        return (*body.bindings(), last)

    @property
    def functions(self) -> dict[str, Node]:
        """The functions of the module, and the generated ones."""
        return {**self.source.functions, **self.batching.generated}

    def rule(self, instance: BodyInstance, call: Call) -> Expr | None:
        """Emits the expansion of a combinator, or a loop over a body of known StructInfo; None for
        other calls."""
        if not is_combinator(call):
            return self._typed_loop(instance, call)
        if not isinstance(call.op, Op):
            return instance.apply(call.op, call.args, call.span)
        view: LoopView = call.op.definition.hooks["loop"](call)  # type: ignore[attr-defined]
        operands = [call.args[s.path[0]] for s in view.operands]
        if view.states:
            return _Fold(self, instance, view, operands).emit()
        axes = [list(normalised(s.axes, x)) for s, x in zip(view.operands, operands, strict=True)]

        def body(inner: BodyInstance, elements: Sequence[Expr]) -> Expr:
            return inner.apply(view.body, elements, call.span)

        return self.mapped(instance, body, operands, axes, list(view.stacked))

    def _typed_loop(self, instance: BodyInstance, call: Call) -> Expr | None:
        """Emits a loop over a copy of its body for these operands; None for other calls."""
        hooks = getattr(call.op.definition, "hooks", {}) if isinstance(call.op, Op) else {}
        if "loop" not in hooks or instance.called(call.args[0]) is None:
            return None
        view: LoopView = hooks["loop"](call)
        operands = [member_of(instance.builder, call, s.path) for s in view.operands]
        step, captured = typed_body(self, instance, view, operands)
        states, slices = (
            operands[: view.states],
            [x for x, s in zip(operands, view.operands, strict=True) if s.axes],
        )
        others = operands[len(states) + len(slices) :]
        groups = [Tuple(tuple(group)) for group in (states, slices, [*others, *captured])]
        op: Any = call.op
        return instance.builder.emit(op(step, *groups))

    def mapped(
        self,
        instance: BodyInstance,
        body: Callable[[BodyInstance, Sequence[Expr]], Expr],
        operands: Sequence[Expr],
        axes: list[list[int]],
        stacked: list[int],
    ) -> Expr:
        """Emits a function mapped over axes, the first one outermost."""
        if not stacked:
            return body(instance, operands)
        rest = [_after(each) for each in axes]

        def inner(scope: BodyInstance, elements: Sequence[Expr]) -> Expr:
            return self.mapped(scope, body, elements, rest, _after(stacked))

        first = [each[0] if each else None for each in axes]
        return _OneAxis(self, instance, operands, first).emit(inner, stacked[0])


class _ExpandedFunction(Refinement):
    """Rebuilds a function binding by binding: an expansion sees what is known of the values of
    those before it."""

    def __init__(
        self, expansion: _Expansion, scopes: dict[Var, Scope], closures: dict[Var, Function]
    ) -> None:
        super().__init__()
        self.expansion, self.scopes, self.closures = expansion, scopes, closures

    def block(self, block: BindingBlock) -> BindingBlock:
        """Returns a block with the expansions of its bindings."""
        bindings: list[Binding] = []
        for binding in block.bindings:
            refined = self.binding(binding)
            if binding.var in self.closures:
                self.closures[refined.var] = self.closures[binding.var]
            scope = self.scopes[binding.var]
            new = self.expansion.binding(refined, scope, self.closures, self)
            last = refined if new[-1] is refined else self.binding(new[-1])
            if last.var is not binding.var:
                self.variables[binding.var] = last.var
            bindings += [*new[:-1], last]
        return replace(block, bindings=tuple(bindings))


def _after(axes: Sequence[int]) -> list[int]:
    """Returns the other axes of a slice without the first one."""
    return [axis - (axis > axes[0]) for axis in axes[1:]]


class _OneAxis:
    """A function mapped over one axis of some operands."""

    def __init__(
        self,
        expansion: _Expansion,
        instance: BodyInstance,
        operands: Sequence[Expr],
        axes: Sequence[int | None],
    ) -> None:
        self.expansion, self.instance, self.builder = expansion, instance, instance.builder
        self.operands, self.axes = operands, axes
        self.fronts: list[tuple[Var, Expr]] = []  # elements, and tensors with the axis in front
        self.size: Any = None

    def emit(self, body: Callable[[BodyInstance, Sequence[Expr]], Expr], out: int) -> Expr:
        """Emits the results, with the axis at `out`."""
        elements = [
            x if axis is None else self._element(x, axis)
            for x, axis in zip(self.operands, self.axes, strict=True)
        ]
        sequence = self._body(body, elements)
        batching = self.expansion.batching
        batching.module = batching.module.with_functions(self.expansion.functions)
        copier = Substitution(dims=self.instance.variables, fresh=True)
        scope = BatchedScope(self.builder, batching, self.size, copier)
        for element, front in self.fronts:
            scope.define(element, front, True)
        value, flags = scope.run(sequence)
        return self._stacked(scope.spread(value, flags), out)

    def _element(self, value: Expr, axis: int) -> Expr:
        """Returns the element of an operand, and records the operand with the axis in front."""
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            fields = [
                self._element(field_of(self.builder, value, k), axis)
                for k in range(len(info.fields))
            ]
            return Tuple(tuple(fields), info.names)
        sizes = info.dims if isinstance(info, TensorStructInfo) else None
        if not isinstance(sizes, tuple):
            raise UnknownRankError
        front = moved(self.builder, value, axis, 0)
        first = sizes[axis]
        self.size = first if self.size is None else self.size
        if dims.equal(first, self.size) is not True:
            others = sizes[:axis] + sizes[axis + 1 :]
            front = self.builder.match_cast(
                front, TensorStructInfo((self.size, *others), info.element)
            )
        element = Var("element", slice_info(info, (axis,)))
        self.fronts.append((element, front))
        return element

    def _body(
        self, body: Callable[[BodyInstance, Sequence[Expr]], Expr], elements: list[Expr]
    ) -> Any:
        """Returns the body for one element, as a sequence."""
        builder = BlockBuilder()
        inner = BodyInstance(
            builder, self.instance.functions, self.instance.rule, self.instance, self.instance.depth
        )
        inner.closures = {var: (f, inner) for var, (f, _) in self.instance.closures.items()}
        with builder.function("element"):
            builder.emit_func_output(body(inner, elements))
        return builder.finished("element").body

    def _stacked(self, value: Expr, axis: int) -> Expr:
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            fields = [
                self._stacked(field_of(self.builder, value, k), axis)
                for k in range(len(info.fields))
            ]
            return Tuple(tuple(fields), info.names)
        return moved(self.builder, value, 0, axis)


class _Fold:
    """A fold over the first axis of its last operand."""

    def __init__(
        self,
        expansion: _Expansion,
        instance: BodyInstance,
        view: LoopView,
        operands: Sequence[Expr],
    ) -> None:
        self.expansion, self.instance, self.view = expansion, instance, view
        self.builder, (self.init, self.x) = instance.builder, operands

    def emit(self) -> Expr:
        """Emits the folded value: by the reduction of an op, or by a loop."""
        name = self._reduction()
        return self._loop() if name is None else self._reduced(name)

    def _reduction(self) -> tuple[str, str] | None:
        """Returns the names of the only op of the function, and of its reduction."""
        called = self.instance.called(self.view.body)
        bindings: Sequence[Binding] = called[0].bindings() if called is not None else ()
        value = bindings[0].value if len(bindings) == 1 else None
        if called is None or not isinstance(value, Call) or not isinstance(value.op, Op):
            return None
        is_result = called[0].body.body is bindings[0].var
        takes_both = {*value.args} == {*called[0].params} and len(value.args) == 2
        name = REDUCTIONS.get(value.op.name)
        element = slice_info(self.x.struct_info, (0,))
        same = element == self.init.struct_info and getattr(element, "dtype", "bool") != "bool"
        return (value.op.name, name) if name and is_result and takes_both and same else None

    def _reduced(self, names: tuple[str, str]) -> Expr:
        op, reduction = names
        total = self.builder.emit(apply(reduction, self.x, axis=[0]))
        return self.builder.emit(apply(op, self.init, total))

    def _loop(self) -> Expr:
        starts, slices = leaves_of(self.builder, self.init), leaves_of(self.builder, self.x)
        step, captured = typed_body(self.expansion, self.instance, self.view, [self.init, self.x])
        operands = [step, Tuple(tuple(starts)), Tuple(tuple(slices))]
        if captured:
            operands.append(Tuple(tuple(captured)))
        results = self.builder.emit(apply("scan", *operands))
        values = [self.builder.emit(results[k]) for k in range(len(starts))]
        return nested(self.init.struct_info, values)


def typed_body(
    expansion: _Expansion, instance: BodyInstance, view: LoopView, operands: Sequence[Expr]
) -> tuple[GlobalVar, list[Expr]]:
    """Defines the body of a loop for these operands, with a parameter for each tensor.

    Returns it with the values that it captures, which are further arguments.
    """
    builder = BlockBuilder()
    infos = [
        slice_info(x.struct_info, s.axes) for x, s in zip(operands, view.operands, strict=True)
    ]
    params = [[Var("p", leaf) for leaf in leaf_infos(info)] for info in infos]
    flat = [Var(f"p{k}", p.struct_info) for k, p in enumerate(chain.from_iterable(params))]
    remaining = iter(flat)
    args = [
        nested(info, [next(remaining) for _ in group])
        for info, group in zip(infos, params, strict=True)
    ]
    scope = BodyInstance(builder, instance.functions, instance.rule, instance, instance.depth)
    count = sum([len(group) for group in params[: view.states]])
    with builder.function("step", flat):
        after = leaves_of(builder, scope.apply(view.body, args))
        for k, start in enumerate(flat[:count]):
            if after[k].struct_info != start.struct_info:
                after[k] = builder.match_cast(after[k], start.struct_info)
        builder.emit_func_output(Tuple(tuple(after)))
    step = without_unused_closures(builder.finished("step"))
    captured = free_vars(step)
    used = names_in((step, tuple(captured))).symbols
    captured += _binders(expansion, instance, [*step.params, *captured], used)
    casts = [b.struct_info for b in bindings_of(step) if isinstance(b, MatchCast)]
    bound = bound_dims(casts) - instance.variables.keys()
    bound |= bound_dims([v.struct_info for v in (*step.params, *captured)])
    sizes = [s for s in used if type(s) is Sym and s not in bound]
    shapes = [ShapeExpr(tuple(map(as_dim, sizes)))] if sizes else []
    function = Substitution(fresh=True).function(with_captured(step, captured, shapes))
    name = f"{getattr(view.body, 'name', 'fold')}_step"
    return expansion.batching.define(name, function), [*captured, *shapes]


def _binders(
    expansion: _Expansion, instance: BodyInstance, values: Sequence[Var], used: Iterable[Any]
) -> list[Var]:
    """Returns values that bind the row and dtype variables of the scope of a loop, where its
    operands do not."""
    binders: list[Var] = []
    in_scope = instance.variables
    for variable in used:
        if variable not in in_scope:
            continue
        row_size = row_size_of(variable) if type(variable) is Sym else None
        row = variable if row_size is None else row_size[1]
        if type(row) is Sym or row in bound_dims([v.struct_info for v in (*values, *binders)]):
            continue
        value = expansion.scope.get(row)
        if value is None:
            raise UnknownRankError
        binders.append(value)
    return binders
