"""Well-formedness of kernels: results last, dims bound, names bound before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from structir.analysis.synchronized_loops import synchronized_violations
from structir.errors import Diagnostic
from structir.ir.binding_dims import bound_dims
from structir.ir.dims import syms
from structir.ir.expr import Var
from structir.ir.kernel import (
    KERNEL_DTYPES,
    WARP,
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
    Local,
    Part,
    Prefetch,
    Scalar,
    Scratch,
    Size,
    While,
    nodes_of,
    written_elements,
)
from structir.ir.kernel_functions import OF_LANES
from structir.ir.node import Node
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo

BoundNames = frozenset[Var | Local]


def kernel_violations(kernel: Kernel) -> Iterator[Diagnostic]:
    """Yields every violation of the rules of kernels."""
    for param in kernel.params:
        if not is_of_kernels(param.struct_info):
            message = (
                f"parameter {param.name}: expected a tensor of known rank and dtype or a scalar"
            )
            hint = 'annotate it with R.Tensor(("n",), "float32") or R.Prim("int64")'
            yield _with_infos(
                [param], Diagnostic(message, param.span, kernel.name, hint=hint, code="E0510")
            )
            return
    nodes = list(nodes_of(kernel))
    yield from _dims(kernel, nodes)
    yield from _results(kernel)
    yield from _threads(kernel, nodes)
    yield from synchronized_violations(kernel, nodes)
    yield from _NameChecker(kernel).violations()


def is_of_kernels(info: StructInfo) -> bool:
    """Returns whether a kernel parameter can have this StructInfo."""
    if isinstance(info, PrimStructInfo):
        return info.dtype_var is not None or info.dtype in KERNEL_DTYPES
    if not isinstance(info, TensorStructInfo) or isinstance(info.dims, Var):
        return False
    has_dtype = info.dtype_var is not None or info.dtype in KERNEL_DTYPES
    return info.ndim is not None and has_dtype


def _with_infos(variables: Iterable[Var], diagnostic: Diagnostic) -> Diagnostic:
    for var in variables:
        diagnostic = diagnostic.note(f"{var.name}: {var.struct_info}", var.span)
    return diagnostic


def _results(kernel: Kernel) -> Iterator[Diagnostic]:
    written = {target.array: target for target in written_elements(kernel)}
    if not kernel.results:
        hint = "write to the last parameter: `out[i] = ...`"
        message = "the kernel writes to no parameter"
        yield _with_infos(
            kernel.params, Diagnostic(message, kernel.span, kernel.name, hint=hint, code="E0510")
        )
    for param in kernel.results:
        if param in written:
            continue
        first = written[kernel.results[0]]
        name = first.array.name
        message = (
            f"results must be the last parameters: {name} is written, {param.name} after it is not"
        )
        hint = f"move {param.name} before {name}"
        diagnostic = Diagnostic(message, first.span, kernel.name, hint=hint, code="E0510")
        yield _with_infos([first.array, param], diagnostic)
        return


def _dims(kernel: Kernel, nodes: Sequence[Node]) -> Iterator[Diagnostic]:
    bound = bound_dims([param.struct_info for param in kernel.params])
    for param in kernel.params:
        dims: Any = getattr(param.struct_info, "dims", None) or ()
        unknown = sorted({s.name for dim in dims for s in syms(dim) if s not in bound})
        if unknown:
            message = f"parameter {param.name}: dim {unknown[0]} is not bound"
            prim = f'size: R.Prim("int64", value="{unknown[0]}")'
            hint = f"add a parameter that binds it: `{prim}`"
            yield _with_infos(
                [param], Diagnostic(message, param.span, kernel.name, hint=hint, code="E0510")
            )
    sizes = [node for node in nodes if isinstance(node, Size)]
    for size in sizes:
        if syms(size.dim) - bound:
            message = f"the size {size.dim} is bound by no parameter"
            yield _with_infos(
                kernel.params[:1], Diagnostic(message, size.span, kernel.name, code="E0510")
            )


def _threads(kernel: Kernel, nodes: Sequence[Node]) -> Iterator[Diagnostic]:
    """Checks that lane functions run in whole warps."""
    lane_functions = {function.name for function in OF_LANES}
    lane_calls = [n for n in nodes if isinstance(n, Apply) and n.fn in lane_functions]
    if lane_calls and kernel.threads % WARP:
        message = (
            f"T.{lane_calls[0].fn}: expected a multiple of {WARP} threads, found {kernel.threads}"
        )
        hint = f"threads={-(-kernel.threads // WARP) * WARP}"
        yield Diagnostic(message, lane_calls[0].span, kernel.name, hint=hint, code="E0510")


class _NameChecker:
    """Checks that every name is bound on all paths to its reads."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.diagnostics: list[Diagnostic] = []

    def violations(self) -> list[Diagnostic]:
        self.check_block(self.kernel.body, frozenset(self.kernel.params))
        return self.diagnostics

    def check_block(
        self, statements: Sequence[KernelStatement], bound: BoundNames | None
    ) -> BoundNames | None:
        """Checks statements; returns the names bound after them, or None if that is unreachable."""
        for statement in statements:
            if bound is None:
                return None
            bound = self.check_statement(statement, bound)
        return bound

    def check_statement(self, statement: KernelStatement, bound: BoundNames) -> BoundNames | None:
        match statement:
            case Assign(target, value):
                self.check_reads([value, target] if isinstance(target, Element) else [value], bound)
                if statement.symbol:
                    self.check_reads([target], bound)
                return bound | {target} if isinstance(target, Local) else bound
            case Scratch(array):
                return bound | {array}
            case Part(low, high):
                return bound | {low, high}
            case LibraryCall(_, args):
                self.check_reads(args, bound)
            case Prefetch(_, indices):
                self.check_reads(indices, bound)
            case For(variable, start, stop, _, body):
                self.check_reads([start, stop], bound)
                self.check_block(body, bound | {variable})
            case While(test, body):
                self.check_reads([test], bound)
                self.check_block(body, bound)
            case Branch(test, then, otherwise):
                self.check_reads([test], bound)
                ends = [self.check_block(then, bound), self.check_block(otherwise, bound)]
                reaching = [end for end in ends if end is not None]
                return frozenset.intersection(*reaching) if reaching else None
            case Break() | Continue():
                return None
        return bound

    def check_reads(self, scalars: Iterable[Scalar], bound: BoundNames) -> None:
        """Reports the unbound names of expressions."""
        todo: list[Scalar] = list(scalars)
        while todo:
            scalar = todo.pop()
            for name in _mentioned(scalar):
                if name not in bound:
                    message = f"{name.name} is not bound on every path to this read"
                    diagnostic = Diagnostic(message, scalar.span, self.kernel.name, code="E0510")
                    self.diagnostics.append(_with_infos(self.kernel.params[:1], diagnostic))
            todo += getattr(scalar, "args", getattr(scalar, "indices", ()))


def _mentioned(scalar: Scalar) -> tuple[Var | Local, ...]:
    match scalar:
        case Local():
            return (scalar,)
        case Argument(var):
            return (var,)
        case Extent(array) | Element(array):
            return (array,)
    return ()
