"""What must hold of a kernel as a whole: results last, every dim bound, every name bound before it
is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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
    Scalar,
    Scratch,
    Size,
    While,
    nodes_of,
    written_elements,
)
from structir.ir.kernel_functions import OF_LANES
from structir.ir.struct_info import PrimStructInfo, StructInfo, TensorStructInfo

Known = frozenset[Var | Local]


def kernel_violations(kernel: Kernel) -> Iterator[Diagnostic]:
    """Every breach of the rules of kernels."""
    for param in kernel.params:
        if not is_of_kernels(param.struct_info):
            message = f"parameter {param.name} is no tensor of known rank and dtype, and no number"
            hint = 'a kernel takes R.Tensor(("n",), "float32") and R.Prim("int64")'
            yield _about([param], Diagnostic(message, param.span, kernel.name, hint=hint))
            return
    yield from _dims(kernel)
    yield from _results(kernel)
    yield from _threads(kernel)
    yield from _BoundNames(kernel).violations()


def is_of_kernels(info: StructInfo) -> bool:
    """Whether a parameter of a kernel can be of this kind."""
    if isinstance(info, PrimStructInfo):
        return info.dtype in KERNEL_DTYPES
    if not isinstance(info, TensorStructInfo) or isinstance(info.dims, Var):
        return False
    return info.ndim is not None and info.dtype in KERNEL_DTYPES


def _about(variables: Iterable[Var], diagnostic: Diagnostic) -> Diagnostic:
    for var in variables:
        diagnostic = diagnostic.note(f"{var.name}: {var.struct_info}", var.span)
    return diagnostic


def _results(kernel: Kernel) -> Iterator[Diagnostic]:
    written = {target.array: target for target in written_elements(kernel)}
    if not kernel.results:
        hint = "a kernel writes to its last parameters: out[i] = ..."
        message = "it writes to no parameter"
        yield _about(kernel.params, Diagnostic(message, kernel.span, kernel.name, hint=hint))
    for param in kernel.results:
        if param in written:
            continue
        first = written[kernel.results[0]]
        name = first.array.name
        message = f"{name} is written to, but {param.name} after it is only read"
        hint = f"results come last: is {name} an input, or does {param.name} stand too late?"
        diagnostic = Diagnostic(message, first.span, kernel.name, hint=hint)
        yield _about([first.array, param], diagnostic)
        return


def _dims(kernel: Kernel) -> Iterator[Diagnostic]:
    bound = bound_dims([param.struct_info for param in kernel.params])
    for param in kernel.params:
        dims: Any = getattr(param.struct_info, "dims", None) or ()
        unknown = sorted({s.name for dim in dims for s in syms(dim) if s not in bound})
        if unknown:
            message = f"nothing binds {unknown[0]} of parameter {param.name}"
            prim = f'size: R.Prim("int64", value="{unknown[0]}")'
            hint = f"let it stand alone as a size, or add a number: {prim}"
            yield _about([param], Diagnostic(message, param.span, kernel.name, hint=hint))
    sizes = [found for found in nodes_of(kernel) if isinstance(found, Size)]
    for size in sizes:
        if syms(size.dim) - bound:
            message = "a size that no parameter binds"
            yield _about(kernel.params[:1], Diagnostic(message, size.span, kernel.name))


def _threads(kernel: Kernel) -> Iterator[Diagnostic]:
    """Lanes hand each other values in whole warps."""
    lanes = {row.name for row in OF_LANES}
    handed = [n for n in nodes_of(kernel) if isinstance(n, Apply) and n.fn in lanes]
    if handed and kernel.threads % WARP:
        message = f"T.{handed[0].fn} in blocks of {kernel.threads} threads"
        hint = f"lanes hand each other values in warps of {WARP}: let threads be a multiple"
        yield Diagnostic(message, handed[0].span, kernel.name, hint=hint)


class _BoundNames:
    """What is bound on every way that leads to a place."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.found: list[Diagnostic] = []

    def violations(self) -> list[Diagnostic]:
        self.block(self.kernel.body, frozenset(self.kernel.params))
        return self.found

    def block(self, statements: Sequence[KernelStatement], known: Known | None) -> Known | None:
        """What is bound after statements; None where nothing comes after them."""
        for statement in statements:
            if known is None:
                return None
            known = self.statement(statement, known)
        return known

    def statement(self, statement: KernelStatement, known: Known) -> Known | None:
        match statement:
            case Assign(target, value):
                self.read([value, target] if isinstance(target, Element) else [value], known)
                if statement.symbol:
                    self.read([target], known)
                return known | {target} if isinstance(target, Local) else known
            case Scratch(array):
                return known | {array}
            case Part(low, high):
                return known | {low, high}
            case LibraryCall(_, args):
                self.read(args, known)
            case For(variable, start, stop, _, body):
                self.read([start, stop], known)
                self.block(body, known | {variable})
            case While(test, body):
                self.read([test], known)
                self.block(body, known)
            case Branch(test, then, otherwise):
                self.read([test], known)
                ends = [self.block(then, known), self.block(otherwise, known)]
                reaching = [end for end in ends if end is not None]
                return frozenset.intersection(*reaching) if reaching else None
            case Break() | Continue():
                return None
        return known

    def read(self, scalars: Iterable[Scalar], known: Known) -> None:
        """Everything that expressions mention must be bound."""
        todo: list[Scalar] = list(scalars)
        while todo:
            scalar = todo.pop()
            for name in _mentioned(scalar):
                if name not in known:
                    message = f"{name.name} is not bound on every way that leads here"
                    diagnostic = Diagnostic(message, scalar.span, self.kernel.name)
                    self.found.append(_about(self.kernel.params[:1], diagnostic))
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
