"""Interprets kernels on NumPy scalars; every operation rounds to its own dtype."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import numpy as np

from structir.analysis.arguments import check_call
from structir.analysis.kernel_dtypes import kernel_at, kernel_dtype_vars
from structir.errors import Diagnostic, DiagnosticError, ShapeMismatchError, Span
from structir.interpret.argument_checks import match
from structir.interpret.kernel_memory import run_on_memory
from structir.interpret.scope import Activation, Value
from structir.interpret.threads import Thread, run_blocks
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Var
from structir.ir.kernel import (
    SHARED,
    Apply,
    Argument,
    Assign,
    Branch,
    Break,
    Continue,
    Element,
    Extent,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    LoopVariable,
    Part,
    Prefetch,
    Scalar,
    Scratch,
    Size,
    Sync,
    While,
    assigned_value,
)
from structir.ir.kernel_functions import LIBRARY, NARROW, OF_LANES, OF_THREADS, ROUND
from structir.ir.scalar_functions import declared
from structir.projections.scalar_expr import FUNCTIONS
from structir.projections.values import ufunc

Run = Callable[[Kernel, Sequence[Value], Activation], None]
Evaluate = Callable[["KernelFrame"], Any]
Step = Callable[["KernelFrame"], Any]
LEAVE, AGAIN = object(), object()  # returned by statements that end a loop, or an iteration


@attrs.frozen(eq=False)
class KernelValue:
    """A kernel of the module as a value, with the function that runs it. A call fills the arrays of
    the results."""

    kernel: Kernel
    run: Run

    def __call__(self, *values: Value) -> None:
        """Checks the arguments and runs the kernel; the last arguments are the arrays of the
        results. An operand that shares memory with a result is copied first."""
        params = self.kernel.params
        check_call(self.kernel.name, params, values)
        scope = Activation({}, {})
        declared = [
            (param.struct_info, value, f"{self.kernel.name}: parameter {param.name}")
            for param, value in zip(params, values, strict=True)
        ]
        match(declared, scope)
        dtypes = [scope.sizes[variable].dtype for variable in kernel_dtype_vars(self.kernel)]
        kernel = kernel_at(self.kernel, *dtypes) if dtypes else self.kernel
        results = values[len(self.kernel.operands) :]
        operands = [_apart_from(results, v) for v in values[: len(self.kernel.operands)]]
        self.run(kernel, (*operands, *results), scope)

    def results(self, operands: Sequence[Value], forms: Sequence[tuple[Any, str]]) -> list[Value]:
        """Returns new arrays of these shapes and dtypes, computed from the operands."""
        outputs = [np.empty(shape, numpy_dtype(dtype)) for shape, dtype in forms]
        self(*operands, *outputs)
        return outputs


def _apart_from(results: Sequence[Value], operand: Value) -> Value:
    shared = [
        r for r in results if isinstance(operand, np.ndarray) and np.may_share_memory(operand, r)
    ]
    return operand.copy() if shared else operand


@attrs.frozen(eq=False)
class KernelFrame:
    """The values of variables and sizes during a run of a kernel."""

    values: dict[Var | Local, Any]
    scope: Activation
    thread: Any = None  # the GPU thread that executes, if the kernel has threads


def run_kernel(kernel: Kernel, values: Sequence[Value], scope: Activation) -> None:
    """Runs a kernel on the values of its parameters; result arrays are set to zero first."""
    for array in values[len(kernel.operands) :]:
        array[...] = 0
    bindings: dict[Var | Local, Any] = dict(zip(kernel.params, values, strict=True))
    step = block(kernel, kernel.body)

    def run(thread: Thread | None = None) -> None:
        with np.errstate(all="ignore"):
            step(KernelFrame(dict(bindings), scope, thread))

    if kernel.blocks is None:
        run()
    else:
        run_blocks(kernel, scope.size(kernel.blocks.dim), run)


@attrs.frozen(eq=False)
class Observed(Scalar):
    """A function application whose arguments are passed to a Python function at each evaluation."""

    apply: Apply
    see: Callable[..., None]
    dtype: str
    span: Span | None = None


def index_error(
    kernel: Kernel, element: Element, axis: int, index: int, size: int
) -> DiagnosticError:
    """Returns the error of an index out of range."""
    name = element.array.name
    where = f"{name}.flat" if element.flat else f"axis {axis} of {name}"
    diagnostic = Diagnostic(
        f"index {index} is out of range for {where}, which has size {size}",
        element.span or kernel.span,
        kernel.name,
        code="E0707",
    ).note(f"{name}: {element.array.struct_info}", element.array.span)
    hint = "indices count from 0; a negative one does not count from the end"
    return DiagnosticError(diagnostic.hinted(hint))


def negative_size_error(kernel: Kernel, array: Var, axis: int, size: int) -> ShapeMismatchError:
    """Returns the error of an array with a negative size."""
    text = f"{kernel.name}: axis {axis} of {array.name}: expected size >= 0, found {size}"
    return ShapeMismatchError(text)


def evaluator(kernel: Kernel, scalar: Scalar) -> Evaluate:
    """Compiles a scalar expression to a function of the frame."""
    return _SCALARS[type(scalar)](kernel, scalar)


def number_type(dtype: str) -> Callable[[Any], Any]:
    """Returns the NumPy scalar type of a dtype."""
    kind: Callable[[Any], Any] = numpy_dtype(dtype).type
    return kind


def _literal(kernel: Kernel, literal: Literal) -> Evaluate:
    value = number_type(literal.dtype)(literal.value)
    return lambda frame: value


def _local(kernel: Kernel, local: Local) -> Evaluate:
    return lambda frame: frame.values[local]


def _size(kernel: Kernel, size: Size) -> Evaluate:
    return lambda frame: np.int64(frame.scope.size(size.dim))


def _argument(kernel: Kernel, argument: Argument) -> Evaluate:
    kind, var = number_type(argument.dtype), argument.var
    return lambda frame: kind(frame.values[var])


def _extent(kernel: Kernel, extent: Extent) -> Evaluate:
    return lambda frame: np.int64(frame.values[extent.array].shape[extent.axis])


def indices_of(kernel: Kernel, element: Element) -> Evaluate:
    """Compiles the indices of an element; each is checked as soon as it is evaluated."""
    indices = [evaluator(kernel, index) for index in element.indices]
    if element.flat:
        return _flat_index(kernel, element, indices[0])

    def checked_indices(frame: KernelFrame) -> tuple[int, ...]:
        shape = frame.values[element.array].shape
        result = []
        for axis, index in enumerate(indices):
            position = int(index(frame))
            if not 0 <= position < shape[axis]:
                raise index_error(kernel, element, axis, position, shape[axis])
            result.append(position)
        return tuple(result)

    return checked_indices


def _flat_index(kernel: Kernel, element: Element, index: Evaluate) -> Evaluate:
    def checked_index(frame: KernelFrame) -> int:
        position, size = int(index(frame)), frame.values[element.array].size
        if not 0 <= position < size:
            raise index_error(kernel, element, 0, position, size)
        return position

    return checked_index


def _element(kernel: Kernel, element: Element) -> Evaluate:
    indices, kind = indices_of(kernel, element), number_type(element.dtype)
    if element.flat:
        return lambda frame: kind(frame.values[element.array].flat[indices(frame)])
    return lambda frame: kind(frame.values[element.array][indices(frame)])


def _apply(kernel: Kernel, apply: Apply) -> Evaluate:
    args = [evaluator(kernel, arg) for arg in apply.args]
    lazy = _LAZY.get(apply.fn)
    if lazy is not None:
        return lazy(args)
    if apply.fn == "cast":
        return _cast(args[0], apply.args[0].dtype, apply.dtype)
    kind = number_type(apply.dtype)
    function = _OPERATORS.get(apply.fn) or _numpy_function(apply.fn)
    if len(args) == 1:
        only = args[0]
        return lambda frame: kind(function(only(frame)))
    lhs, rhs = args
    return lambda frame: kind(function(lhs(frame), rhs(frame)))


def _observed(kernel: Kernel, observed: Observed) -> Evaluate:
    args = [evaluator(kernel, arg) for arg in observed.apply.args]
    value = evaluator(kernel, observed.apply)

    def evaluate(frame: KernelFrame) -> Any:
        observed.see(*[arg(frame) for arg in args])
        return value(frame)

    return evaluate


def _numpy_function(name: str) -> Callable[..., Any]:
    return ufunc((declared().get(name) or FUNCTIONS[name]).numpy)


def _and(args: list[Evaluate]) -> Evaluate:
    return lambda frame: args[0](frame) and args[1](frame)


def _or(args: list[Evaluate]) -> Evaluate:
    return lambda frame: args[0](frame) or args[1](frame)


def _select(args: list[Evaluate]) -> Evaluate:
    return lambda frame: args[1](frame) if args[0](frame) else args[2](frame)


def _min(args: list[Evaluate]) -> Evaluate:
    return lambda frame: min([arg(frame) for arg in args])


def _max(args: list[Evaluate]) -> Evaluate:
    return lambda frame: max([arg(frame) for arg in args])


def _rounding(dtype: str) -> Callable[[Any], Any]:
    """Returns the rounding of a float32 to the numbers of a dtype."""
    return lambda value: value.astype(numpy_dtype(dtype))


def _to_odd(value: Any) -> Any:
    """Returns a float64 if float32 has it, else the float32 beside it whose last bit is 1."""
    nearest = np.float32(value)
    if value != value or nearest == value:
        return nearest
    bits = nearest.view(np.int32) - np.int32(abs(np.float64(nearest)) > abs(value))
    return np.int32(bits | 1).view(np.float32)


def _of_thread(name: str) -> Callable[[list[Evaluate]], Evaluate]:
    return lambda args: lambda frame: np.int64(getattr(frame.thread, name))


def _of_lane(name: str) -> Callable[[list[Evaluate]], Evaluate]:
    def lower(args: list[Evaluate]) -> Evaluate:
        value, lane = args
        return lambda frame: frame.thread.shuffled(name, value(frame), int(lane(frame)))

    return lower


_LAZY: dict[str, Callable[[list[Evaluate]], Evaluate]]
_LAZY = {"and": _and, "or": _or, "select": _select, "min": _min, "max": _max}
_LAZY |= {row.name: _of_thread(row.name) for row in OF_THREADS}
_LAZY |= {row.name: _of_lane(row.name.removeprefix("shuffle_")) for row in OF_LANES}
_OPERATORS: dict[str, Callable[..., Any]] = {
    "maximum": np.maximum,
    "minimum": np.minimum,
    "add_to": operator.add,
    "multiply_to": operator.mul,
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "abs": operator.abs,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "not": operator.not_,
    "to_odd": _to_odd,
    **{f"{ROUND}{dtype}": _rounding(dtype) for dtype in NARROW},
}


def _cast(value: Evaluate, source: str, target: str) -> Evaluate:
    kind = number_type(target)
    whole_from_float = source.startswith("float") and "int" in target
    if target == "bool":
        return lambda frame: np.bool_(value(frame) != 0)
    if not whole_from_float:
        return lambda frame: value(frame).astype(kind)
    limits = np.iinfo(target)

    def truncated(frame: KernelFrame) -> Any:
        number = float(value(frame))
        if number != number:
            return kind(0)
        bounded = min(max(number, float(limits.min)), float(limits.max))
        return kind(min(max(int(bounded), limits.min), limits.max))

    return truncated


_SCALARS: dict[type, Callable[[Kernel, Any], Evaluate]] = {
    Literal: _literal,
    Local: _local,
    LoopVariable: _local,
    Size: _size,
    Argument: _argument,
    Extent: _extent,
    Element: _element,
    Apply: _apply,
    Observed: _observed,
}


def block(kernel: Kernel, statements: Sequence[KernelStatement]) -> Step:
    """Compiles statements; the step returns LEAVE or AGAIN if a statement ends the loop body."""
    steps = [_STATEMENTS[type(s)](kernel, s) for s in statements]

    def run(frame: KernelFrame) -> Any:
        for step in steps:
            ended = step(frame)
            if ended is not None:
                return ended
        return None

    return run


def _assign(kernel: Kernel, assign: Assign) -> Step:
    value, target = evaluator(kernel, assigned_value(assign)), assign.target
    if isinstance(target, Local):

        def bind(frame: KernelFrame) -> None:
            frame.values[target] = value(frame)

        return bind
    indices = indices_of(kernel, target)

    def store(frame: KernelFrame) -> None:
        number = value(frame)
        array = frame.values[target.array]
        (array.flat if target.flat else array)[indices(frame)] = number

    return store


def _scratch(kernel: Kernel, scratch: Scratch) -> Step:
    info: Any = scratch.array.struct_info
    dtype = numpy_dtype(info.dtype)

    def make(frame: KernelFrame) -> None:
        shape = [frame.scope.size(dim) for dim in info.dims]
        for axis, size in enumerate(shape):
            if size < 0:
                raise negative_size_error(kernel, scratch.array, axis, size)
        frame.values[scratch.array] = np.zeros(shape, dtype)

    def share(frame: KernelFrame) -> None:
        frame.values[scratch.array] = frame.thread.shared(scratch.array, info.dims, dtype)

    return share if scratch.space == SHARED else make


def _part(kernel: Kernel, part: Part) -> Step:
    def bind(frame: KernelFrame) -> None:
        frame.values[part.low] = np.int64(0)
        frame.values[part.high] = np.int64(frame.scope.size(part.extent))

    return bind


def _library_call(kernel: Kernel, call: LibraryCall) -> Step:
    function = LIBRARY[call.fn]
    count = len(function.regions)
    integers = [evaluator(kernel, arg) for arg in call.args[count:]]
    elements = [arg for arg in call.args[:count] if isinstance(arg, Element)]
    starts = [evaluator(kernel, element.indices[0]) for element in elements]

    def run(frame: KernelFrame) -> None:
        values = [int(integer(frame)) for integer in integers]
        memories = [np.ascontiguousarray(frame.values[e.array]).reshape(-1) for e in elements]
        indices = (int(start(frame)) for start in starts)
        sizes = dict(zip(function.integers, values, strict=True))
        wrong = run_on_memory(call.fn, memories, indices, sizes)
        if wrong is not None:
            region, index, size = wrong
            raise index_error(kernel, elements[region], 0, index, size)
        frame.values[call.written.array].flat = memories[function.written]

    return run


def _prefetch(kernel: Kernel, prefetch: Prefetch) -> Step:
    indices = [evaluator(kernel, index) for index in prefetch.indices]

    def run(frame: KernelFrame) -> None:
        for index in indices:
            index(frame)

    return run


def _for(kernel: Kernel, loop: For) -> Step:
    start, stop = evaluator(kernel, loop.start), evaluator(kernel, loop.stop)
    body = block(kernel, loop.body)

    def run(frame: KernelFrame) -> None:
        for position in range(int(start(frame)), int(stop(frame)), loop.step):
            frame.values[loop.variable] = np.int64(position)
            if body(frame) is LEAVE:
                break

    return run


def _while(kernel: Kernel, loop: While) -> Step:
    test, body = evaluator(kernel, loop.test), block(kernel, loop.body)

    def run(frame: KernelFrame) -> None:
        while test(frame) and body(frame) is not LEAVE:
            pass

    return run


def _branch(kernel: Kernel, branch: Branch) -> Step:
    test = evaluator(kernel, branch.test)
    then, otherwise = block(kernel, branch.then), block(kernel, branch.otherwise)
    return lambda frame: then(frame) if test(frame) else otherwise(frame)


_STATEMENTS: dict[type, Callable[[Kernel, Any], Step]] = {
    Assign: _assign,
    Scratch: _scratch,
    Part: _part,
    LibraryCall: _library_call,
    Prefetch: _prefetch,
    For: _for,
    While: _while,
    Branch: _branch,
    Break: lambda kernel, statement: lambda frame: LEAVE,
    Continue: lambda kernel, statement: lambda frame: AGAIN,
    Sync: lambda kernel, statement: lambda frame: frame.thread.wait(statement),
}
