"""Regions: runs of bindings that become one plan, and their lowering to stages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import numpy as np

from structir.analysis.constant_values import ConstantValues
from structir.errors import DiagnosticError
from structir.ir import dims
from structir.ir.dims import Dim, Poly, Sym
from structir.ir.dtype import DTYPES, EXTENDED
from structir.ir.expr import (
    Binding,
    Call,
    Constant,
    DataflowVar,
    Expr,
    Function,
    GlobalVar,
    MatchCast,
    PrimValue,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Var,
)
from structir.ir.kernel import Kernel
from structir.ir.kernel_functions import EIGHTHS
from structir.ir.op import Op
from structir.ir.requirements import conditions_of
from structir.ir.struct_info import (
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.loops.lower.from_spec import stages_of
from structir.loops.lower.whole_axes import whole_axis_stages
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import Load, NoKernelError, cast, position
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.program.views import as_view
from structir.loops.regions.kernel_stages import LoweredCall, lowered_call
from structir.loops.regions.result_copies import with_copies
from structir.loops.regions.row_programs import ROW_HOOKS, rows_of_group, rows_of_op
from structir.loops.regions.scan_loops import scan_of_maps
from structir.opdef.define import shown_name
from structir.opdef.memo import Facts, derived, facts_of

Lowered = Any  # a Buffer, or a tuple of lowered values
UNSUPPORTED = EXTENDED - {"bfloat16", *EIGHTHS}


def host_routine(definition: Any) -> Callable[..., Any] | None:
    """Returns the CPU function of an op whose index signature does not define its values."""
    function: Callable[..., Any] | None = definition.hooks.get("kernel.cpu")
    return function


# maps the definition of an op to its CPU function
RoutineOf = Callable[[Any], Callable[..., Any] | None]


@attrs.frozen
class SizeCheck:
    """Two sizes that must be equal at run time; with `loose`, the first may also be 1."""

    left: Dim
    right: Dim
    loose: bool
    description: str  # the owner of the sizes; or the complete message, with {left} and {right}

    def holds(self, left: int, right: int) -> bool:
        """Returns whether the values of the two sizes pass."""
        return left == right or (self.loose and left == 1)


@attrs.frozen(eq=False)
class LoweredRegion:
    """A lowered run of bindings: its program, its inputs, and its assumptions. If it omits some of
    several equal layers, `complete` adds their kernels to a sequence of kernels; it receives the
    function that writes the kernels of a region, too."""

    program: LoopProgram
    inputs: tuple[Var, ...]
    outputs: tuple[Lowered, ...]
    checks: tuple[SizeCheck, ...]
    complete: Callable[[Any, Callable[[LoweredRegion], Any]], Any] | None = None


class RegionLowering:
    """Lowers bindings to stages, one after another."""

    def __init__(
        self,
        assumed: Mapping[Sym, Dim] | None = None,
        shapes: Mapping[Var, tuple[Dim, ...]] | None = None,
        kernels: Mapping[str, Kernel] | None = None,
        routine_of: RoutineOf = host_routine,
        functions: Mapping[str, Function] | None = None,
    ) -> None:
        self.kernels, self.functions = kernels or {}, functions or {}  # of the module
        self.routine_of = routine_of
        self.assumed = dict(assumed or {})
        self.shapes = dict(shapes or {})  # shapes of inputs from an earlier lowering
        self.values: dict[Var, Lowered] = {}
        self.inputs: dict[Var, Buffer] = {}
        self.constants: dict[int, Buffer] = {}
        self.bound_constants = ConstantValues()
        self.kept_alive: list[Any] = []
        self.stages: list[Stage] = []
        self.checks: dict[SizeCheck, None] = {}
        self.composite = ""  # the composite op whose decomposition is being lowered

    def add(self, binding: Binding) -> None:
        """Lowers one more binding; raises NoKernelError and changes nothing if it has no kernel
        form."""
        before = len(self.stages), len(self.inputs), len(self.checks)
        try:
            value = self.lowered(binding.value)
            if isinstance(binding, MatchCast):
                self._note_cast(binding, value)
            self.values[binding.var] = value
            self.bound_constants.bind(binding.var, binding.value)
            self.admit(before[1])
        except (NoKernelError, DiagnosticError) as error:
            self.values.pop(binding.var, None)
            del self.stages[before[0] :]
            for table, count in ((self.inputs, before[1]), (self.checks, before[2])):
                while len(table) > count:
                    table.popitem()
            raise NoKernelError(error.message) from error

    def admit(self, inputs: int) -> None:
        """Raises NoKernelError if the last binding is not permitted; `inputs` is the number of
        inputs before it."""

    def region(
        self,
        results: list[Var],
        donated: Mapping[Var, int] | None = None,
        copies: bool = False,
    ) -> LoweredRegion:
        """Returns everything that was added, as a region with these results; of a tuple, the field
        of this number may take the memory of a donated input. With `copies`, kernels copy results
        that are operands or occur twice, unless all are."""
        outputs = tuple([self.values[v] for v in results])
        roots = [buffer.root for buffer in buffers_of(outputs)]
        computed = {root for root in roots if root.origin == "value"}
        if copies and self.stages and len(computed) < len(roots):
            outputs = with_copies(outputs, self.stages)
        program = LoopProgram(
            tuple(self.inputs.values()),
            tuple(self.constants.values()),
            tuple(dict.fromkeys(b for o in outputs for b in buffers_of(o))),
            tuple(self.stages),
            tuple(self._donated(outputs[0], donated)) if donated else (),
        )
        return LoweredRegion(program, tuple(self.inputs), outputs, tuple(self.checks))

    def _donated(
        self, result: Lowered, donated: Mapping[Var, int]
    ) -> Iterator[tuple[Buffer, Buffer]]:
        fields = result if isinstance(result, tuple) else (result,)
        for var, index in donated.items():
            buffer = fields[index]
            if isinstance(buffer, Buffer) and var in self.inputs:
                yield buffer, self.inputs[var]

    def lowered(self, expr: Expr) -> Lowered:
        """Returns the buffer, or tuple of buffers, of an expression."""
        return self._lowered(expr, {})

    def _lowered(self, expr: Expr, memo: dict[int, Lowered]) -> Lowered:
        value = memo.get(id(expr))
        if value is None:
            value = memo[id(expr)] = self._lower_new(expr, memo)
        return value

    def _lower_new(self, expr: Expr, memo: dict[int, Lowered]) -> Lowered:
        match expr:
            case Var():
                return self._variable(expr)
            case Constant():
                return self._constant(expr)
            case Tuple(fields):
                return tuple([self._lowered(f, memo) for f in fields])
            case TupleGetItem(value, index):
                return self._lowered(value, memo)[index]
            case Call(Op()):
                return self._call(expr, memo)
            case Call(GlobalVar(name)) if name in self.kernels:
                return self._kernel_call(expr, self.kernels[name], memo)
        raise NoKernelError(f"{type(expr).__name__} runs on the host")

    def _variable(self, var: Var) -> Lowered:
        value = self.values.get(var)
        return value if value is not None else self._input(var)

    def _input(self, var: Var) -> Buffer:
        if var not in self.inputs:
            info = var.struct_info
            if not isinstance(info, TensorStructInfo):
                raise NoKernelError(f"{var.name} is not a tensor")
            self.inputs[var] = self._input_buffer(var, info)
        return self.inputs[var]

    def _input_buffer(self, var: Var, info: TensorStructInfo) -> Buffer:
        if info.dtype is None or info.ndim is None or not is_supported(info.dtype):
            raise NoKernelError("the rank or the dtype is known only at run time")
        shape = self.shapes.get(var, info.dims)
        if isinstance(shape, Var):
            shape_info = shape.struct_info
            shape = shape_info.dims if isinstance(shape_info, ShapeStructInfo) else None
        if shape is None:
            shape = tuple([dims.sym(f"{var.name}{k}") for k in range(info.ndim)])
        dims_of_buffer = tuple([dims.substitute(d, self.assumed) for d in shape])
        return Buffer(dims_of_buffer, info.dtype, "input", name=var.name)

    def _constant(self, constant: Constant) -> Buffer:
        key = id(constant.data)
        if key not in self.constants:
            data = constant.data
            dtype = data.dtype.name
            if not is_supported(dtype):
                raise NoKernelError(f"kernels do not support {dtype}")
            self.kept_alive.append(data)
            shape = tuple(data.shape)
            self.constants[key] = Buffer(shape, dtype, "constant", data=data)
        return self.constants[key]

    def _kernel_call(self, call: Call, kernel: Kernel, memo: dict[int, Lowered]) -> Lowered:
        if kernel.part is not None and self.routine_of is not host_routine:
            raise NoKernelError("a kernel with `T.part` is for the CPU")
        pairs = zip(kernel.operands, call.args, strict=True)
        operands = [self._kernel_operand(param.struct_info, arg, memo) for param, arg in pairs]
        infos: list[Any] = [info for info in call.sinfo_args]
        shapes = [tuple([dims.substitute(d, self.assumed) for d in info.dims]) for info in infos]
        origin = kernel.name if call.span is None else f"{kernel.name} at {call.span}"
        kernel_stages = lowered_call(kernel, operands, shapes, origin)
        self.stages += kernel_stages.stages
        self.checks |= dict.fromkeys(checks_of(kernel, kernel_stages))
        return (
            tuple(kernel_stages.results)
            if len(kernel_stages.results) > 1
            else kernel_stages.results[0]
        )

    def _kernel_operand(
        self, param: StructInfo, arg: Expr, memo: dict[int, Lowered]
    ) -> Buffer | Dim:
        """Returns an operand of a kernel: an integer as a size, anything else as a buffer."""
        if isinstance(param, TensorStructInfo):
            operand = self._lowered(arg, memo)
        else:
            value = self._placeholder(arg, memo).expr
            if not isinstance(value, PrimValue):
                raise NoKernelError("a number known only at run time")
            is_size = isinstance(param, PrimStructInfo) and param.dtype == "int64"
            operand = value.value if is_size else self._operand(value, {})
        if not isinstance(operand, Buffer | Poly | int):
            raise NoKernelError("not an operand of a kernel")
        return operand

    def _call(self, call: Call, memo: dict[int, Lowered]) -> Lowered:
        op = call.op
        assert isinstance(op, Op)
        definition: Any = op.definition
        row_function = definition.hooks.get("row_function")
        if row_function is not None:
            parts = [self._lowered(arg, memo) for arg in call.args]
            return rows_of_group(self, call, row_function(call), parts, origin_of(call))
        scanned = self._scanned_function(call)
        if scanned is not None:
            parts = [self._lowered(arg, memo) for arg in call.args[1:]]
            return scan_of_maps(self, call, scanned, parts, origin_of(call))
        placeholders = [self._placeholder(a, memo) for a in call.args]
        args = tuple([s.expr for s in placeholders])
        attributes = {k: self._assumed_in(v) for k, v in call.attrs.items()}
        assumed_call = Call(op, args, attributes, call.sinfo_args, None, call.span)
        buffers = {v: b for s in placeholders for v, b in s.buffers.items()}
        if getattr(definition, "reads_indices", False):
            exact = tuple(map(_with_constants, self.bound_constants.in_call(call).args, args))
            self._note_assumptions(Call(op, exact, attributes, call.sinfo_args, None, call.span))
        has_routine = self.routine_of(definition) is not None
        decomposition = None if has_routine else definition.decompose(assumed_call)
        if decomposition is not None:
            self._note_assumptions(assumed_call)
            self.values.update(buffers)
            return self._decomposition(decomposition, self.composite or origin_of(assumed_call))
        return self._op(assumed_call, buffers)

    def _scanned_function(self, call: Call) -> Function | None:
        """Returns the body of a scan, if it is a function of the module."""
        is_scan = call.op.definition.hooks.get("scan_of_maps")  # type: ignore[attr-defined]
        body = call.args[0] if is_scan and self.routine_of is host_routine else None
        return self.functions.get(body.name) if isinstance(body, GlobalVar) else None

    def _decomposition(self, parts: Expr, composite: str) -> Lowered:
        before, self.composite = self.composite, composite
        try:
            return self.lowered(parts)
        finally:
            self.composite = before

    def _op(self, call: Call, buffers: dict[Var, Buffer]) -> Lowered:
        definition: Any = call.op.definition  # type: ignore[attr-defined]
        function = self.routine_of(definition)
        facts = facts_of(call)
        spec = derived(facts, _spec, call) if definition.pure else None
        if spec is None:
            raise NoKernelError("an effect, or the op has no loop form")
        if "reference" in definition.hooks and function is None:
            is_exact = spec.computes and not derived(facts, _assumptions, call)
            if not is_exact:
                raise NoKernelError("a value without a loop form for all sizes")
        operands = [self._operand(_at(call, o.path), buffers) for o in spec.operands]
        if not all(is_supported(r.dtype) for r in spec.results):
            raise NoKernelError("a dtype that kernels do not support")
        origin = self.composite or origin_of(call)
        if self.composite and shown_name(definition) == definition.name:
            origin = f"{origin}: {definition.name}"
        by_rows = None
        if self.routine_of is host_routine and not definition.hooks.keys().isdisjoint(ROW_HOOKS):
            by_rows = rows_of_op(self, definition, spec, operands, origin)
        if by_rows is not None:
            results, stages = by_rows
        elif function is None:
            results, stages = stages_of(spec, operands, origin)
        else:
            numbers = definition.resolve(call).attributes
            error = definition.hooks.get("rejects_values")
            results, stages = whole_axis_stages(function, spec, operands, numbers, origin, error)
        self._note_assumptions(call, facts)
        is_tuple = isinstance(derived(facts, definition.deduce, call), TupleStructInfo)
        for stage in stages:
            view = as_view(stage) if isinstance(stage.body, Load) else None
            if view is None:
                self.stages.append(stage)
            else:
                results = [view if r is stage.out else r for r in results]
        return tuple(results) if is_tuple else results[0]

    def _operand(self, arg: Expr, buffers: Mapping[Var, Buffer]) -> Buffer:
        """Returns the buffer of an operand; a plain number becomes a buffer of rank 0."""
        if not isinstance(arg, PrimValue):
            if arg not in buffers:
                raise NoKernelError("a number known only at run time")
            return buffers[arg]  # type: ignore[index]
        info = arg.struct_info
        assert isinstance(info, PrimStructInfo)
        if not isinstance(arg.value, Poly):
            return self._constant(Constant(np.asarray(arg.value, info.dtype)))
        buffer = Buffer((), str(info.dtype))
        value = cast(position(arg.value, "int64"), buffer.dtype)
        self.stages.append(Stage(buffer, (), (), {}, value, ()))
        return buffer

    def _note_assumptions(self, call: Call, facts: Facts | None = None) -> None:
        facts = facts_of(call) if facts is None else facts
        for assumption in derived(facts, _assumptions, call):
            is_condition = assumption.right == 1 and dims.is_comparison(assumption.left)
            reason = "" if is_condition else f": {assumption.text}"  # the message has a condition
            description = _name_at(call) + reason
            check = SizeCheck(assumption.left, assumption.right, assumption.broadcasts, description)
            self.checks[check] = None

    def _placeholder(self, arg: Expr, memo: dict[int, Lowered]) -> Placeholder:
        """Returns an argument as a variable with the StructInfo of its buffer."""
        if isinstance(arg, ShapeExpr):
            return Placeholder(
                ShapeExpr(tuple([dims.substitute(d, self.assumed) for d in arg.dims]))
            )
        if isinstance(arg, PrimValue):
            value = arg.value
            substituted = dims.substitute(value, self.assumed) if isinstance(value, Poly) else value
            return Placeholder(arg.with_value(substituted))
        info = arg.struct_info
        if isinstance(info, ShapeStructInfo):
            if info.dims is None:
                raise NoKernelError("a shape known only at run time")
            return Placeholder(
                ShapeExpr(tuple([dims.substitute(d, self.assumed) for d in info.dims]))
            )
        if isinstance(info, PrimStructInfo) and info.value is not None:
            return Placeholder(PrimValue(dims.substitute(info.value, self.assumed)))
        if not isinstance(info, TensorStructInfo | TupleStructInfo | type(None)):
            return Placeholder(arg)
        return placeholder_of(self._lowered(arg, memo))

    def _note_cast(self, cast: MatchCast, value: Lowered) -> None:
        """Records the sizes that a cast of a tensor asserts, and those that it defines."""
        info = cast.struct_info
        if not isinstance(value, Buffer) or not isinstance(info, TensorStructInfo):
            raise NoKernelError("a cast of a value that is not a tensor")
        shape = info.dims
        if not isinstance(shape, tuple) or conditions_of(cast):
            raise NoKernelError("a cast that asserts more than sizes")
        if info.dtype not in (None, value.dtype) or len(shape) != len(value.shape):
            raise NoKernelError("a cast that fails")
        determined = {s for b in self.inputs.values() for d in b.shape for s in dims.syms(d)}
        new: dict[Sym, Dim] = {}
        for axis, (declared, actual) in enumerate(zip(shape, value.shape, strict=True)):
            size = dims.substitute(declared, {**self.assumed, **new})
            symbol = dims.as_sym(size)
            if symbol is not None and symbol not in determined:
                new[symbol] = actual
            elif not dims.syms(size) <= determined:
                raise NoKernelError("a size that no earlier value determines")
            elif size != actual:
                name = f"{dims.text(declared)} = " if dims.syms(declared) else ""
                prefix = f"match_cast of {cast.var.name}: axis {axis}: expected {name}"
                self.checks[
                    SizeCheck(size, actual, False, f"{prefix}{{left}}, found {{right}}")
                ] = None
        self.assumed |= new

    def _assumed_in(self, value: Any) -> Any:
        if isinstance(value, Poly):
            return dims.substitute(value, self.assumed)
        if isinstance(value, tuple):
            return tuple([self._assumed_in(v) for v in value])
        return value


@attrs.frozen(eq=False)
class Placeholder:
    """A placeholder of an argument while the loops of its op are generated."""

    expr: Expr
    buffers: dict[Var, Buffer] = attrs.Factory(dict)


def placeholder_of(lowered: Lowered) -> Placeholder:
    """Returns the placeholder of a lowered value: a variable for each buffer, in the same
    tuples."""
    if isinstance(lowered, tuple):
        fields = [placeholder_of(item) for item in lowered]
        buffers = {v: b for f in fields for v, b in f.buffers.items()}
        return Placeholder(Tuple(tuple([f.expr for f in fields])), buffers)
    var = DataflowVar(repr(lowered), TensorStructInfo(lowered.shape, lowered.dtype))
    return Placeholder(var, {var: lowered})


def checks_of(kernel: Kernel, call: LoweredCall) -> tuple[SizeCheck, ...]:
    """Returns the conditions on the sizes of a kernel call."""
    name = kernel.name
    checks = [SizeCheck(e.declared, e.actual, False, f"{name}: {e.where}") for e in call.equations]
    return tuple(checks)


def origin_of(call: Call) -> str:
    """Returns the op of a call, and the location."""
    return f"R.{_name_at(call)}"


def _name_at(call: Call) -> str:
    name = shown_name(call.op.definition)  # type: ignore[attr-defined]
    return name if call.span is None else f"{name} at {call.span}"


def _spec(call: Call) -> Any:
    return call.op.definition.index_spec(call)  # type: ignore[attr-defined]


def _assumptions(call: Call) -> Any:
    return call.op.definition.assumptions(call)  # type: ignore[attr-defined]


def _with_constants(arg: Expr, placeholder: Expr) -> Expr:
    """Returns a placeholder with the constants of the argument, whose elements are assumed on."""
    if type(arg) is Constant:
        return arg
    if type(arg) is Tuple and type(placeholder) is Tuple:
        return Tuple(tuple(map(_with_constants, arg.fields, placeholder.fields)))
    return placeholder


def _at(call: Call, path: tuple[int, ...]) -> Any:
    value: Any = call.args[path[0]]
    for step in path[1:]:
        value = value.fields[step]
    return value


def is_supported(dtype: str | None) -> bool:
    """Whether kernels support elements of a dtype."""
    return dtype in DTYPES and dtype not in UNSUPPORTED


def buffers_of(lowered: Lowered) -> list[Buffer]:
    """Returns the buffers of a lowered value, in order."""
    if isinstance(lowered, tuple):
        return [b for item in lowered for b in buffers_of(item)]
    return [lowered]
