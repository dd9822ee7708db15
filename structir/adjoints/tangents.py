"""Generates Jacobian-vector products of the functions of a module: forward-mode differentiation.

The tangent of an op's result is the transpose of the op's adjoint: the adjoint is linear in the
cotangent, so reverse mode over it, with the tangents of the operands as seeds, gives the tangent.
Every op with a gradient has a tangent by this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.adjoints import declared
from structir.adjoints.differentiable_leaves import (
    Path,
    differentiable_leaves,
    is_float_tensor,
    may_have_gradient,
)
from structir.adjoints.functions import Adjoints
from structir.adjoints.reverse import ReverseMode
from structir.analysis.deduction import callee_name
from structir.analysis.derivative_rules import derived_attributes, rule_names
from structir.analysis.internal_functions import PRIVATE
from structir.analysis.substitution import Substitution
from structir.analysis.variables import free_vars
from structir.build import BlockBuilder
from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.ir.expr import (
    Binding,
    Call,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    SeqExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.module import IRModule, numbered_name
from structir.ir.node import replace
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.opdef.adjoint_op import zeros

iterate = lazy_module("structir.adjoints.iterate")
Tangent = Any  # an Expr, a tuple of tangents for a tuple, or None where zero


class Tangents:
    """The Jacobian-vector products generated for one module."""

    def __init__(self, module: IRModule) -> None:
        self.module = module
        self.generated: dict[str, Function] = {}
        self.used_names = set(module.functions)
        self._callees: dict[Any, GlobalVar] = {}

    def add(self, name: str, of: str, parameters: Sequence[int]) -> None:
        """Generates the function `name`: the derivative of the function `of` along tangents.

        Its parameters are those of the function, then a tangent with the StructInfo of each of the
        `parameters`, which are indices. Its result is the result of the function and its tangent,
        of the same structure; tensors that are not floating point have zeros. Raises
        DiagnosticError where the function is not differentiable.
        """
        function = self.module[of]
        if not isinstance(function, Function):
            raise StructIRError(f"tangents: expected a function, found {of}")
        self.used_names.add(name)
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = [copier.bound(param) for param in function.params]
        tangents = [Var(f"{params[k].name}_tangent", params[k].struct_info) for k in parameters]
        builder = BlockBuilder()
        attributes = {**derived_attributes(function.attrs), PRIVATE: True}
        with builder.function(name, [*params, *tangents], pure=function.is_pure, attrs=attributes):
            scope = TangentScope(builder, self, copier)
            for k, tangent in zip(parameters, tangents, strict=True):
                scope.tangents[params[k]] = scope.differentiable(tangent)
            result, tangent = scope.run(function.body)
            builder.emit_func_output((result, scope.filled(result, tangent)))
        self.generated[name] = builder.finished(name)

    def callee(self, name: str, parameters: tuple[int, ...]) -> GlobalVar:
        """Returns the Jacobian-vector product of a function, which is generated once."""
        key = name, parameters
        if key not in self._callees:
            unique = self.unique_name(f"{name}_tangent")
            self.add(unique, name, parameters)
            self._callees[key] = GlobalVar(unique, self.generated[unique].struct_info)
        return self._callees[key]

    def loop_step(self, name: str, states: int, slices: int, active: tuple[int, ...]) -> GlobalVar:
        """Returns the step of a scan over values and tangents.

        Its parameters are states, tangents of states, slices, captured values, then the tangents of
        slices and captured values at the positions `active`.
        """
        key = name, states, slices, active
        if key not in self._callees:
            self._callees[key] = self._loop_step(name, states, active)
        return self._callees[key]

    def _loop_step(self, name: str, states: int, active: tuple[int, ...]) -> GlobalVar:
        function: Any = self.module[name]
        copier = Substitution(fresh=True)
        copier.new_dims([param.struct_info for param in function.params])
        params = [copier.bound(param) for param in function.params]
        floats = [k for k in range(states) if is_float_tensor(params[k].struct_info)]
        state_tangents = {k: _tangent_var(params[k]) for k in floats}
        others = {k: _tangent_var(params[k]) for k in active}
        slices = [*params[states:], *others.values()]
        unique = self.unique_name(f"{name}_tangent")
        builder = BlockBuilder()
        order = [*params[:states], *state_tangents.values(), *slices]
        with builder.function(unique, order, attrs={PRIVATE: True}):
            scope = TangentScope(builder, self, copier)
            for k, tangent in (*state_tangents.items(), *others.items()):
                scope.tangents[params[k]] = tangent
            result, tangent = scope.run(function.body)
            values = scope.fields(result)
            parts = scope.parts(tangent, len(values))
            filled = [scope.filled(v, t) for v, t in zip(values, parts, strict=True)]
            outputs = [
                k for k in range(states, len(values)) if is_float_tensor(values[k].struct_info)
            ]
            builder.emit_func_output(
                Tuple(
                    (
                        *values[:states],
                        *[filled[k] for k in floats],
                        *values[states:],
                        *[filled[k] for k in outputs],
                    )
                )
            )
        self.generated[unique] = builder.finished(unique)
        return GlobalVar(unique, self.generated[unique].struct_info)

    def declared(
        self,
        call: Call,
        function: Function,
        directions: dict[int, Expr],
        emit: Callable[[Expr], Expr],
    ) -> tuple[Expr, dict[Path, Expr]]:
        """Returns the result of a call and its tangents by the rule of the function."""
        adjoints = Adjoints(self.module)
        adjoints.used_names |= self.used_names
        pair = declared.tangents(adjoints, function, call, directions, emit)
        adjoints.generate_pending()
        self.used_names |= {*adjoints.generated}
        self.generated.update(adjoints.generated)
        return pair

    def unique_name(self, name: str) -> str:
        """Returns an unused name of a function, and reserves it."""
        unique = numbered_name(name, self.used_names)
        self.used_names.add(unique)
        return unique


def _tangent_var(var: Var) -> Var:
    return Var(f"{var.name}_tangent", var.struct_info)


def _bound(value: Any, emit: Callable[[Expr], Expr]) -> Any:
    """Returns cotangents as variables."""
    if isinstance(value, tuple):
        return tuple([_bound(part, emit) for part in value])
    return value if value is None else emit(value)


class TangentScope:
    """One scope: copies of its bindings, and the tangents of variables."""

    def __init__(self, builder: BlockBuilder, functions: Tangents, copier: Substitution) -> None:
        self.builder, self.functions, self.copier = builder, functions, copier
        self.tangents: dict[Var, Tangent] = {}
        self.closures: dict[Var, Function] = {}

    @property
    def emit(self) -> Callable[[Expr], Expr]:
        """Binds an expression to a variable."""
        return self.builder.emit

    def run(self, seq: SeqExpr) -> tuple[Expr, Tangent]:
        """Copies the bindings of a sequence; returns its result and the tangent of it."""
        for binding in seq.bindings():
            self.bind(binding)
        result: Expr = self.copier.part(seq.body)
        return result, self.tangent(result)

    def tangent(self, value: Expr) -> Tangent:
        """Returns the tangent of an atom or a tuple."""
        if isinstance(value, Var):
            return self.tangents.get(value)
        if isinstance(value, Tuple):
            parts = tuple([self.tangent(field) for field in value.fields])
            return None if all([part is None for part in parts]) else parts
        return None

    def bind(self, binding: Binding) -> None:
        """Copies one binding and emits the tangent of its variable."""
        value = binding.value
        if isinstance(value, Function):
            self.closures[binding.var] = value
        rule = self._rule(binding)
        if rule is not None:
            result, tangent = rule(self, self.copier.part(value))
            self.copier.variables[binding.var] = result
            if isinstance(result, Var):
                self.tangents[result] = tangent
            return
        copy = self.copier.binding(binding)
        self.builder.take(copy)
        if isinstance(copy, MatchCast):
            tangent = self.tangent(copy.value)
            if tangent is not None:
                self.tangents[copy.var] = self._cast(tangent, copy.struct_info)
            return
        self.tangents[copy.var] = self._tangent_of(copy)

    def _rule(self, binding: Binding) -> Any:
        """Returns the rule of a binding that is replaced, or None if it is copied."""
        value = binding.value
        if isinstance(value, If):
            active = [self.copier.variables.get(var, var) for var in free_vars(value)]
            return TangentScope.branch if any([self._is_active(v) for v in active]) else None
        if not isinstance(value, Call) or isinstance(binding, MatchCast):
            return None
        copies = [self.copier.part(arg) for arg in value.args]
        if not any([self._is_active(copy) for copy in copies]) and not self._captures(value):
            return None
        if isinstance(value.op, Op):
            is_loop = "loop" in getattr(value.op.definition, "hooks", ())
            return TangentScope.scan if is_loop else None
        if isinstance(value.op, Var) and value.op in self.closures:
            closure = self.closures[value.op]
            return lambda scope, call: scope.inlined(closure, call.args)
        if isinstance(value.op, GlobalVar):
            return TangentScope.function_call
        if isinstance(value.op, ExternFunc) and value.op.global_symbol == "loop.iterate":
            body = self.closures.get(value.args[0])  # type: ignore[call-overload]
            return lambda scope, call: iterate.iterate(scope, call, body)
        return TangentScope.opaque

    def _is_active(self, value: Expr) -> bool:
        return self.tangent(value) is not None

    def _captures(self, call: Call) -> bool:
        """Whether a closure among callee and arguments captures a value with a tangent."""
        names = [v for v in (call.op, *call.args) if isinstance(v, Var) and v in self.closures]
        inner = [var for name in names for var in free_vars(self.closures[name])]
        return any([self._is_active(self.copier.variables.get(v, v)) for v in inner])

    def _cast(self, tangent: Tangent, info: StructInfo) -> Tangent:
        if tangent is None:
            return None
        if isinstance(tangent, tuple):
            fields: Any = info.fields if isinstance(info, TupleStructInfo) else ()
            return tuple([self._cast(t, f) for t, f in zip(tangent, fields, strict=True)])
        return self.builder.match_cast(tangent, info)

    def _tangent_of(self, binding: Binding) -> Tangent:
        """Returns the tangent of a copied binding."""
        value: Any = binding.value
        if isinstance(value, TupleGetItem):
            source = self.tangent(value.tuple_value)
            return source[value.index] if isinstance(source, tuple) else None
        if isinstance(value, Call):
            return self._transposed(binding, value) if isinstance(value.op, Op) else None
        return self.tangent(value)

    def _transposed(self, binding: Binding, call: Any) -> Tangent:
        """Returns the tangent of an op's result: the transpose of its adjoint."""
        seeds = [self.tangent(arg) for arg in call.args]
        info = binding.var.struct_info
        if all([seed is None for seed in seeds]):
            return None
        if "no_gradient" in getattr(call.op.definition, "hooks", ()):
            return None
        if not differentiable_leaves(info):
            if may_have_gradient(info):
                raise self._error(call, f"the tangent of {info} is unknown")
            return None
        reverse = ReverseMode(self.builder, Adjoints(self.functions.module), (), recomputes=False)
        cotangent = self._placeholder(binding.var)
        for part in cotangent if isinstance(cotangent, tuple) else (cotangent,):
            if part is not None:
                reverse.cotangents.active.add(part)

        def emit(value: Expr) -> Expr:
            bindings = self.builder.scopes[-1].bindings
            before = len(bindings)
            var = self.builder.atom(value)
            for binding in bindings[before:]:  # nested expressions have several
                reverse._follow(binding)
            return var

        if not hasattr(call.op.definition, "adjoint"):
            raise self._error(call, "the op has no gradient rule")
        results = call.op.definition.adjoint(call, binding.var, cotangent, emit)
        for result, seed in zip(results, seeds, strict=True):
            self._seed(reverse, _bound(result, emit), seed)
        reverse.propagate()
        if isinstance(cotangent, tuple):
            parts = tuple([None if c is None else reverse.cotangents.at(c, ()) for c in cotangent])
            return None if all([part is None for part in parts]) else parts
        return reverse.cotangents.at(cotangent, ())

    def _placeholder(self, var: Expr) -> Any:
        """Returns variables for the cotangent of a result, of which the adjoint is a function."""
        info = var.struct_info
        if isinstance(info, TupleStructInfo):
            fields = [self.emit(var[k]) for k in range(len(info.fields))]
            floats = [is_float_tensor(field.struct_info) for field in fields]
            pairs = zip(fields, floats, strict=True)
            return tuple([self._placeholder(f) if floating else None for f, floating in pairs])
        return self.emit(zeros(var))

    def _seed(self, reverse: ReverseMode, result: Any, seed: Tangent) -> None:
        """Adds the tangent of an operand as cotangent of the operand's cotangent."""
        if result is None or seed is None:
            return
        if isinstance(result, tuple | Tuple) or isinstance(seed, tuple):
            parts = result.fields if isinstance(result, Tuple) else result
            if isinstance(parts, Expr):
                parts = [parts[k] for k in range(len(seed))]
            for part, inner in zip(parts, seed, strict=True):
                self._seed(reverse, part, inner)
            return
        reverse.cotangents.add(result, seed)

    # ---- structure

    def fields(self, value: Expr) -> list[Expr]:
        """Returns the fields of a tuple."""
        if isinstance(value, Tuple):
            return list(value.fields)
        return [self.emit(value[k]) for k in range(len(value.struct_info.fields))]

    def parts(self, tangent: Tangent, count: int) -> list[Tangent]:
        """Returns the tangents of the fields of a tuple."""
        if tangent is None:
            return [None] * count
        if isinstance(tangent, tuple):
            return list(tangent)
        return [*self.fields(tangent)]

    def filled(self, value: Expr, tangent: Tangent) -> Expr:
        """Returns a tangent with zeros where it is absent, in the structure of a value."""
        info = value.struct_info
        if isinstance(info, TupleStructInfo):
            fields = self.fields(value)
            pairs = zip(fields, self.parts(tangent, len(fields)), strict=True)
            return Tuple(tuple([self.filled(field, part) for field, part in pairs]), info.names)
        return self.emit(zeros(value)) if tangent is None else tangent

    def differentiable(self, tangent: Expr) -> Tangent:
        """Returns a tangent that is passed as a value: None for tensors without derivative."""
        info = tangent.struct_info
        if isinstance(info, TupleStructInfo):
            return tuple([self.differentiable(field) for field in self.fields(tangent)])
        return tangent if is_float_tensor(info) else None

    def _split(self, pair: Expr) -> tuple[Expr, Tangent]:
        """Returns the result and the tangent of a call of a Jacobian-vector product."""
        result, tangent = self.fields(pair)
        return result, self.differentiable(tangent)

    # ---- rules

    def opaque(self, call: Any) -> Any:
        """Raises: an external function has no derivative."""
        raise self._error(call, "it is an external function without a gradient rule")

    def _error(self, call: Call, reason: str) -> DiagnosticError:
        message = f"not differentiable: {reason}"
        return DiagnosticError(Diagnostic(message, call.span, callee_name(call), code="E0653"))

    def inlined(self, function: Function, args: Sequence[Expr]) -> tuple[Expr, Tangent]:
        """Returns the result of a local function, whose body is copied."""
        for param, arg in zip(function.params, args, strict=True):
            self.copier.variables[param] = arg
        return self.run(function.body)

    def function_call(self, call: Any) -> tuple[Expr, Tangent]:
        """Returns a call of the Jacobian-vector product of a function of the module."""
        active = tuple([k for k, arg in enumerate(call.args) if self._is_active(arg)])
        callee: Any = self.functions.module.functions.get(call.op.name)
        if rule_names(callee):
            return self._declared(call, callee, active)
        function = self.functions.callee(call.op.name, active)
        tangents = [self.filled(call.args[k], self.tangent(call.args[k])) for k in active]
        return self._split(self.emit(Call(function, (*call.args, *tangents), span=call.span)))

    def _declared(
        self, call: Call, function: Function, active: Sequence[int]
    ) -> tuple[Expr, Tangent]:
        """Returns the result of a call and its tangent by the rule of the function."""
        moved = {k: self.tangent(call.args[k]) for k in active}
        result, tangents = self.functions.declared(call, function, moved, self.emit)
        info = function.ret_struct_info
        if not isinstance(info, TupleStructInfo):
            return result, tangents.get(())
        return result, tuple([tangents.get((k,)) for k in range(len(info.fields))])

    def branch(self, value: Any) -> tuple[Expr, Tangent]:
        """Returns a conditional whose branches return a result and its tangent."""

        def side(branch: SeqExpr) -> Callable[[], Expr]:
            def build() -> Expr:
                inner = TangentScope(self.builder, self.functions, self.copier)
                inner.tangents, inner.closures = dict(self.tangents), dict(self.closures)
                result, tangent = inner.run(branch)
                return Tuple((result, inner.filled(result, tangent)))

            return build

        copier, self.copier = self.copier, Substitution()
        pair = self.builder.if_else(value.cond, side(value.true_branch), side(value.false_branch))
        self.copier = copier
        return self._split(pair)

    def scan(self, call: Any) -> tuple[Expr, Tangent]:
        """Returns a scan over values and tangents."""
        cell, states, x, *rest = call.args
        starts = self.fields(states)
        many = isinstance(x.struct_info, TupleStructInfo)
        sources = self.fields(x) if many else [x]
        captured = self.fields(rest[0]) if rest else []
        count, slices = len(starts), len(sources)
        floats = [k for k in range(count) if is_float_tensor(starts[k].struct_info)]
        state_parts = self.parts(self.tangent(states), count)
        x_parts = self.parts(self.tangent(x), slices) if many else [self.tangent(x)]
        rest_parts = self.parts(self.tangent(rest[0]), len(captured)) if rest else []
        active_x = [k for k in range(slices) if x_parts[k] is not None]
        active_rest = [k for k in range(len(captured)) if rest_parts[k] is not None]
        active = (*[count + k for k in active_x], *[count + slices + k for k in active_rest])
        step = self.functions.loop_step(cell.name, count, slices, active)
        begin = (*starts, *[self.filled(starts[k], state_parts[k]) for k in floats])
        scanned = (*sources, *[x_parts[k] for k in active_x])
        others = (*captured, *[rest_parts[k] for k in active_rest])
        step = self._reordered(step, len(begin), slices, len(captured), len(active_x))
        operands = [step, Tuple(begin), Tuple(scanned) if len(scanned) > 1 else scanned[0]]
        operands += [Tuple(others)] if others else []
        results = self.fields(self.emit(replace(call, args=tuple(operands), struct_info=None)))
        totals = len(begin)
        outputs = len(call.struct_info.fields) - count
        values = [*results[:count], *results[totals : totals + outputs]]
        tangents: list[Tangent] = [None] * len(values)
        for k, tangent in zip(floats, results[count:totals], strict=True):
            tangents[k] = tangent
        floating = [
            count + k for k in range(outputs) if is_float_tensor(values[count + k].struct_info)
        ]
        for k, tangent in zip(floating, results[totals + outputs :], strict=True):
            tangents[k] = tangent
        result = self.emit(Tuple(tuple(values)))
        return result, tuple(tangents)

    def _reordered(
        self, step: GlobalVar, states: int, slices: int, captured: int, active: int
    ) -> GlobalVar:
        """Places the tangents of slices after the slices, before the captured values."""
        function = self.functions.generated[step.name]
        params = function.params
        first, last = states + slices, states + slices + captured
        order = (
            *params[:first],
            *params[last : last + active],
            *params[first:last],
            *params[last + active :],
        )
        unique = self.functions.unique_name(step.name)
        self.functions.generated[unique] = moved = replace(function, params=order)
        return GlobalVar(unique, moved.struct_info)
