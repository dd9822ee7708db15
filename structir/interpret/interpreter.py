"""The reference interpreter: evaluates bindings in order, on a stack independent of Python's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import numpy as np

from structir.analysis.arguments import check_call
from structir.analysis.constant_values import ConstantValues
from structir.errors import DiagnosticError, ShapeMismatchError, StructIRError
from structir.interpret.argument_checks import described, match
from structir.interpret.argument_conversion import argument_value, with_bound_dtypes
from structir.interpret.constant_indices import check_constant_indices, has_unknown_sizes
from structir.interpret.extern import find_extern
from structir.interpret.kernels import KernelValue, run_kernel
from structir.interpret.scope import Activation, Closure, Value
from structir.ir import dims
from structir.ir.dim_text import display_name, one_message
from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    DataflowVar,
    DataTypeImm,
    Expr,
    ExternFunc,
    Function,
    GlobalVar,
    If,
    MatchCast,
    PrimValue,
    SeqExpr,
    ShapeExpr,
    StringImm,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.ir.plain_arrays import plain_values
from structir.ir.requirements import condition_text, conditions_of
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.lazy import lazy_module, provided_module

signed = lazy_module("structir.solver.program.signature_calls")
lowering = provided_module("ragged lowering")
forms = provided_module("function forms")

RECURSION_LIMIT = 100_000  # nested sequences; infinite recursion reaches it within seconds


@attrs.define(eq=False)
class Frame:
    """A sequence under evaluation: the remaining bindings, and the checks of its result."""

    bindings: Iterator[Binding]
    body: Expr
    scope: Activation
    finish: Callable[[Value], Value] | None = None  # the check of a function's result
    waiting: Binding | None = None  # the binding whose value another frame computes
    finished: bool = False
    result: Value = None


def frame_of(
    seq: SeqExpr, scope: Activation, finish: Callable[[Value], Value] | None = None
) -> Frame:
    """Returns a frame at the start of a sequence."""
    return Frame((b for block in seq.blocks for b in block.bindings), seq.body, scope, finish)


def _too_deep(frame: Frame) -> StructIRError:
    """Returns the error of a call that exceeds the recursion limit."""
    call = frame.body if frame.waiting is None else frame.waiting.value
    name = f" in {_callee_name(call.op)}" if isinstance(call, Call) else ""
    return StructIRError(f"recursion limit ({RECURSION_LIMIT}) exceeded{name}{_location(call)}")


def _sizes_text(dim: dims.Dim, scope: Activation) -> str:
    """Returns the sizes in a dim with their values and axes: `n = 3 (axis 0 of x), m = 4`."""
    symbols = sorted(dims.syms(dim), key=lambda symbol: symbol.order)
    texts = [f"{display_name(s)} = {scope.sizes[s]}{_axis_text(s, scope)}" for s in symbols]
    return ", ".join(texts)


def _axis_text(symbol: dims.Sym, scope: Activation) -> str:
    for var in scope.values:
        sizes = var.struct_info.dims if isinstance(var.struct_info, TensorStructInfo) else None
        for axis, size in enumerate(sizes if isinstance(sizes, tuple) else ()):
            if dims.as_sym(size) is symbol:
                return f" (axis {axis} of {var.name})"
    return ""


def _location(expr: Expr) -> str:
    return "" if expr.span is None else f" at {expr.span}"


def _runnable(module: IRModule) -> IRModule:
    """Returns a module without ops on ragged tensors."""
    runnable: IRModule = lowering.lowered(module)
    return runnable


Boundary = tuple[str, list[tuple[Any, str]], str]


@attrs.frozen(eq=False)
class Interpreter:
    """Runs the functions of one module."""

    module: IRModule = attrs.field(converter=_runnable)
    assumptions: dict[int, tuple[Any, ...]] = attrs.field(
        factory=dict, init=False
    )  # by the id of the call
    open_calls: dict[int, Call | None] = attrs.field(
        factory=dict, init=False
    )  # by the id of a call: itself with its constants, if sizes of its operands are unknown
    bound_constants: list[ConstantValues] = attrs.field(factory=list, init=False)  # of the module
    boundaries: dict[int, tuple[Function, Boundary]] = attrs.field(factory=dict, init=False)

    def match(self, declared: Iterable[tuple[StructInfo, Value, str]], scope: Activation) -> None:
        """Checks values against their StructInfo; binds new sizes in the scope."""
        match(declared, scope)

    def check_assumptions(self, op: Op, call: Call, scope: Activation) -> None:
        """Checks the equations that inference assumed."""
        if id(call) not in self.assumptions:
            exact = self.with_constants(call) if _checks_indices(op) else call
            self.assumptions[id(call)] = _assumptions(op.definition, exact)
        for assumed in self.assumptions[id(call)]:
            if all(s in scope.sizes for d in (assumed.left, assumed.right) for s in dims.syms(d)):
                lhs, rhs = scope.size(assumed.left), scope.size(assumed.right)
                if not assumed.holds(lhs, rhs):
                    if assumed.right == 1 and dims.is_comparison(assumed.left):
                        with one_message():
                            where = f"{op.name}{_location(call)}"
                            sizes = _sizes_text(assumed.left, scope)
                            text = f"{where}: expected {dims.text(assumed.left)}, found {sizes}"
                        raise ShapeMismatchError(text, code="E0721")
                    relation = "broadcast" if assumed.broadcasts else "be equal"
                    sizes = f"{dims.text(assumed.left)} and {dims.text(assumed.right)}"
                    raise ShapeMismatchError(
                        f"{op.name}{_location(call)}: expected {sizes} to {relation} "
                        f"({assumed.text}), found {lhs} and {rhs}"
                    )

    def check_indices(self, call: Call, args: Sequence[Value]) -> None:
        """Checks constant indices against sizes that the StructInfo of the operands leaves open."""
        if id(call) not in self.open_calls:
            exact = self.with_constants(call)
            self.open_calls[id(call)] = exact if has_unknown_sizes(exact) else None
        if (exact_call := self.open_calls[id(call)]) is not None:
            check_constant_indices(exact_call, args)

    def with_constants(self, call: Call) -> Call:
        """Returns a call with the constants that its arguments are bound to."""
        return self.constant_values().in_call(call)

    def constant_values(self) -> ConstantValues:
        """Returns the constants of the module."""
        if not self.bound_constants:
            self.bound_constants.append(ConstantValues.of(self.module))
        return self.bound_constants[0]

    def run(self, frame: Frame) -> Value:
        """Runs a frame and everything that it calls; returns its result."""
        stack = [frame]
        while True:
            top = stack[-1]
            inner = self._advance(top)
            if inner is not None:
                if len(stack) == RECURSION_LIMIT:
                    raise _too_deep(top)
                stack.append(inner)
                continue
            stack.pop()
            value = top.result if top.finish is None else top.finish(top.result)
            if not stack:
                return value
            self._deliver(stack[-1], value)

    def _advance(self, frame: Frame) -> Frame | None:
        """Advances a frame until it is finished (None) or needs the result of another one."""
        for binding in frame.bindings:
            try:
                value = self.evaluate(binding.value, frame.scope)
            except ShapeMismatchError:
                ranked = of_known_ranks(binding, frame.scope)
                if ranked is None:
                    raise
                value = self.evaluate(ranked, frame.scope)
            if isinstance(value, Frame):
                frame.waiting = binding
                return value
            self._bind(binding, value, frame.scope)
        if not frame.finished:
            frame.finished = True
            value = self.evaluate(frame.body, frame.scope)
            if isinstance(value, Frame):
                return value
            frame.result = value
        return None

    def _deliver(self, frame: Frame, value: Value) -> None:
        if frame.waiting is None:
            frame.result = value
        else:
            self._bind(frame.waiting, value, frame.scope)
            frame.waiting = None

    def _bind(self, binding: Binding, value: Value, scope: Activation) -> None:
        if isinstance(binding, MatchCast):
            self.check_conditions(binding, scope)
            self.match([(binding.struct_info, value, f"match_cast of {binding.var.name}")], scope)
        elif isinstance(value, Closure) and not value.name:
            value = attrs.evolve(value, name=binding.var.name)
        scope.values[binding.var] = value

    def check_conditions(self, binding: MatchCast, scope: Activation) -> None:
        """Checks the conditions of `R.require` on the actual sizes."""
        for condition in conditions_of(binding):
            if scope.size(condition) != 1:
                with one_message():
                    sizes = _sizes_text(condition, scope)
                    expected = condition_text(binding, condition)
                    text = f"R.require: expected {expected}, found {sizes}"
                raise ShapeMismatchError(text, code="E0706")

    def evaluate(self, expr: Expr, scope: Activation) -> Value | Frame:
        """Returns the value of an expression, or the frame that computes it."""
        return EVALUATORS[type(expr)](self, expr, scope)

    def value(self, expr: Expr, scope: Activation) -> Value:
        """Evaluates an expression."""
        if isinstance(expr, Var):
            return scope.value(expr)
        result = self.evaluate(expr, scope)
        return self.run(result) if isinstance(result, Frame) else result

    def closure(self, function: Function, outer: Activation | None, name: str) -> Closure:
        """Returns a function as a value."""
        return Closure(function, outer, name, lambda me, args: self.run(self.entered(me, args)))

    def entered(self, closure: Closure, args: tuple[Value, ...]) -> Frame:
        """Returns the frame of a call; checks the arguments and binds sizes."""
        function = closure.function
        name, params, result = self.boundary(function, closure.name or "function")
        check_call(name, function.params, args)
        scope = Activation.inside(closure.outer)
        arguments = [
            self.as_argument(p, a, name) for p, a in zip(function.params, args, strict=True)
        ]
        scope.values.update(zip(function.params, arguments, strict=True))
        self.match([(i, v, where) for (i, where), v in zip(params, arguments, strict=True)], scope)
        for param, argument in zip(function.params, arguments, strict=True):
            scope.values[param] = with_bound_dtypes(param.struct_info, argument, scope.sizes)

        def finish(value: Value) -> Value:
            self.match([(function.ret_struct_info, value, result)], scope)
            return value

        return frame_of(function.body, scope, finish)

    def boundary(self, function: Function, name: str) -> Boundary:
        """Returns the StructInfo of a function's parameters, with their names in messages."""
        entry = self.boundaries.get(id(function))
        if entry is None or entry[1][0] != name:
            params = [(p.struct_info, f"{name}: parameter {p.name}") for p in function.params]
            boundary: Boundary = (name, params, f"{name}: result")
            entry = self.boundaries[id(function)] = (function, boundary)
        return entry[1]

    def as_argument(self, param: Var, value: Value, function: str) -> Value:
        """Converts an argument of a call to a run-time value."""
        return argument_value(param, value, function)

    def kernel(self, kernel: Kernel) -> KernelValue:
        """Returns a kernel of the module as a value."""
        return KernelValue(kernel, run_kernel)

    def global_function(self, name: str) -> Any:
        """Returns a function of the module as a value."""
        function: Any = self.module[name]
        if isinstance(function, Kernel):
            return self.kernel(function)
        if not isinstance(function, Function):
            raise StructIRError(f"cannot interpret {name}: expected a graph function")
        return self.closure(function, None, name)


def _variable(interpreter: Interpreter, var: Var, scope: Activation) -> Value:
    return scope.value(var)


def _global(interpreter: Interpreter, var: GlobalVar, scope: Activation) -> Value:
    return interpreter.global_function(var.name)


def _constant(interpreter: Interpreter, constant: Constant, scope: Activation) -> Value:
    return constant.data


def _prim(interpreter: Interpreter, prim: PrimValue, scope: Activation) -> Value:
    value = prim.value
    if isinstance(value, bool | float):
        return value
    return bool(scope.size(value)) if dims.is_condition(value) else scope.size(value)


def _immediate(interpreter: Interpreter, expr: StringImm | DataTypeImm, scope: Activation) -> Value:
    return expr.value


def _shape(interpreter: Interpreter, shape: ShapeExpr, scope: Activation) -> Value:
    return tuple([scope.size(d) for d in shape.dims])


def _tuple(interpreter: Interpreter, expr: Tuple, scope: Activation) -> Value:
    return tuple([interpreter.value(field, scope) for field in expr.fields])


def _field(interpreter: Interpreter, expr: TupleGetItem, scope: Activation) -> Value:
    value = interpreter.value(expr.tuple_value, scope)
    if not isinstance(value, tuple) or expr.index >= len(value):
        raise ShapeMismatchError(f"tuple index {expr.index} out of range for {described(value)}")
    return value[expr.index]


def _sequence(interpreter: Interpreter, seq: SeqExpr, scope: Activation) -> Frame:
    return frame_of(seq, scope)


def _conditional(interpreter: Interpreter, expr: If, scope: Activation) -> Frame:
    cond = interpreter.value(expr.cond, scope)
    if getattr(cond, "shape", None) != () or cond.dtype != np.bool_:
        _check_condition(expr, cond)
    return frame_of(expr.true_branch if cond else expr.false_branch, scope)


def _check_condition(expr: If, cond: Value) -> None:
    """Rejects a condition of unknown StructInfo that is not a bool."""
    if not isinstance(cond, bool):
        where = f" at {expr.span}" if expr.span is not None else ""
        expected = "expected a bool tensor of rank 0"
        raise ShapeMismatchError(f"`if`{where}: {expected}, found {described(cond)}")


def _function(interpreter: Interpreter, function: Function, scope: Activation) -> Value:
    return interpreter.closure(function, scope, "")


def _extern(interpreter: Interpreter, function: ExternFunc, scope: Activation) -> Value:
    return find_extern(function.global_symbol)


def _call(interpreter: Interpreter, call: Call, scope: Activation) -> Value | Frame:
    args = tuple([interpreter.value(a, scope) for a in call.args])
    if isinstance(call.op, Op):
        interpreter.check_assumptions(call.op, call, scope)
        if _checks_indices(call.op):
            interpreter.check_indices(call, args)
        return applied(call.op.definition, call, args)
    callee = interpreter.value(call.op, scope)
    if isinstance(callee, Closure):
        return interpreter.entered(callee, args)
    if isinstance(callee, KernelValue):
        return call_kernel(call, callee, args, scope)
    if not callable(callee):
        name = _callee_name(call.op)
        raise StructIRError(f"`{name}` is not callable: it is {described(callee)}")
    value = plain_values(callee(*args))
    if "signature" in call.attrs:
        _check_signature(call, args, value)
    if call.sinfo_args:
        infos = call.sinfo_args
        info = infos[0] if len(infos) == 1 else TupleStructInfo(tuple(infos))
        interpreter.match([(info, value, f"result of {_callee_name(call.op)}")], scope)
    return value


def call_kernel(
    call: Call, kernel: KernelValue, args: tuple[Value, ...], scope: Activation
) -> Value:
    """Runs a kernel on new arrays of the declared sizes; returns its results."""
    forms = []
    for info in call.sinfo_args:
        declared: Any = info
        shape = tuple([scope.size(d) for d in declared.dims])
        if any(size < 0 for size in shape):
            raise ShapeMismatchError(f"{kernel.kernel.name}: invalid result shape {shape}")
        forms.append((shape, declared.dtype or scope.sizes[declared.dtype_var].dtype))
    results = kernel.results(args, forms)
    return results[0] if len(results) == 1 else tuple(results)


def of_known_ranks(binding: Binding, scope: Activation) -> Call | None:
    """Returns a call with the ranks of axis packs that the row variables of its operands and its
    result determine; None if these determine no more than the values."""
    call, op = binding.value, getattr(binding.value, "op", None)
    if "with_result" not in getattr(getattr(op, "definition", None), "hooks", ()):
        return None
    ranked: Call | None = forms.call_of_ranks(call, binding.var.struct_info, scope.sizes)
    return ranked


def _checks_indices(op: Op) -> bool:
    return bool(getattr(op.definition, "reads_indices", False))


def _assumptions(definition: Any, call: Call) -> tuple[Any, ...]:
    """Returns the assumptions of a call; none if all sizes are constant or no rule exists."""
    symbolic = any(
        not isinstance(d, int) for arg in call.args for d in _known_dims(arg.struct_info)
    )
    assumptions = getattr(definition, "assumptions", None)
    return tuple(assumptions(call)) if symbolic and assumptions is not None else ()


def _known_dims(info: Any) -> list[Any]:
    """Returns the known sizes of an argument, constant or symbolic."""
    if isinstance(info, TupleStructInfo):
        return [dim for field in info.fields for dim in _known_dims(field)]
    if isinstance(info, PrimStructInfo):
        return [] if info.value is None else [info.value]
    has_dims = isinstance(info, TensorStructInfo | ShapeStructInfo) and isinstance(info.dims, tuple)
    return list(info.dims) if has_dims else []


RUN_TIME_CODES = ("E0310", "E1135")  # of errors that are found only when a call is evaluated


def applied(definition: Any, call: Call, args: tuple[Value, ...]) -> Value:
    """Applies an op to values."""
    try:
        return definition.reference(call, args)
    except DiagnosticError as error:
        where = f" at {call.span}" if call.span is not None else ""
        if any([isinstance(arg, np.ndarray) and arg.dtype.kind in "OSU" for arg in args]):
            message = f"{_callee_name(call.op)}{where}: expected numbers, found strings or objects"
            edit = "pass numbers for them: `np.unique(x, return_inverse=True)[1]`"
            raise ShapeMismatchError(f"{message}\nhelp: {edit}", code="E0703") from error
        code = error.diagnostics[0].code
        code = code if code in RUN_TIME_CODES else ""
        raise ShapeMismatchError(f"at run time{where}: {error}", code=code) from error


def _check_signature(call: Call, args: tuple[Value, ...], value: Value) -> None:
    """Checks the result of an opaque call against its shape signature."""
    signature = call.attrs["signature"]
    results = value if isinstance(value, tuple) else (value,)
    arrays = [np.asarray(v) for v in (*args, *results)]
    shapes = [array.shape for array in arrays]
    violation = signed.violation_of(signature, shapes[: len(args)], shapes[len(args) :])
    if violation is not None:
        where = f" at {call.span}" if call.span is not None else ""
        raise ShapeMismatchError(f"{_callee_name(call.op)}{where}: not {signature!r}: {violation}")


def _callee_name(callee: Any) -> str:
    return str(getattr(callee, "global_symbol", None) or getattr(callee, "name", "the call"))


EVALUATORS: dict[type, Callable[[Interpreter, Any, Activation], Any]] = {
    Var: _variable,
    DataflowVar: _variable,
    GlobalVar: _global,
    Constant: _constant,
    PrimValue: _prim,
    StringImm: _immediate,
    DataTypeImm: _immediate,
    ShapeExpr: _shape,
    Tuple: _tuple,
    TupleGetItem: _field,
    SeqExpr: _sequence,
    If: _conditional,
    Function: _function,
    ExternFunc: _extern,
    Call: _call,
}
