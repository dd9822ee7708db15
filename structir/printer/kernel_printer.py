"""Prints kernels, their statements and their scalar expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structir.ir.dtype import DtypeVar
from structir.ir.expr import Var
from structir.ir.kernel import (
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
)
from structir.ir.kernel_functions import (
    ATOM,
    CHOICE,
    COMPARE,
    NOT,
    OF_PYTHON,
    OF_T,
    OR,
    POWER,
    SCALAR_FUNCTIONS,
    SIGN,
)
from structir.printer.expr_printer import ExprPrinter, literal
from structir.printer.names import NameScope
from structir.printer.syntax import (
    BLOCKS,
    CAST,
    CUDA,
    EMPTY,
    KERNEL,
    KERNEL_NAMES,
    NON_TEMPORAL,
    PART,
    PREFETCH,
    SYNC,
    TARGET,
    THREADS,
    ZEROS,
)

INDENT = "    "
Operand = tuple[str, int]  # the source of an expression and its binding strength


def kernel_lines(kernel: Kernel, name: str, indent: str, module: str | None) -> list[str]:
    """Returns the source lines of a kernel; `module` is the name of its module, if any."""
    reserved = KERNEL_NAMES if module is None else KERNEL_NAMES | {module}
    return KernelPrinter(reserved).kernel(kernel, name, indent)


def kernel_text(kernel: Kernel) -> str:
    """Returns the source of a kernel outside a module."""
    return "\n".join([*kernel_lines(kernel, kernel.name, "", None), ""])


def statement_text(statement: KernelStatement) -> str:
    """Returns the source of a statement."""
    return "\n".join(KernelPrinter(KERNEL_NAMES).statement(statement, ""))


def scalar_text(scalar: Scalar) -> str:
    """Returns the source of a scalar expression."""
    return KernelPrinter(KERNEL_NAMES).scalar(scalar)


class KernelPrinter(ExprPrinter):
    """Prints one kernel in a name scope of its own."""

    def __init__(self, reserved: frozenset[str]) -> None:
        super().__init__(NameScope(reserved))

    def kernel(self, kernel: Kernel, name: str, indent: str) -> list[str]:
        """Returns the source lines of a kernel with its decorator."""
        params = [
            f"{self.names.var(p)}: {self.signature_info(p.struct_info)}" for p in kernel.params
        ]
        head = [
            f"{indent}@I.{KERNEL}{self.launch(kernel)}",
            f"{indent}def {name}({', '.join(params)}):",
        ]
        return head + self.block(kernel.body, indent + INDENT)

    def launch(self, kernel: Kernel) -> str:
        """Prints the launch configuration of a GPU kernel; an empty string for other kernels."""
        if kernel.blocks is None:
            return ""
        blocks = self.size(kernel.blocks.dim)
        blocks = blocks if isinstance(kernel.blocks.dim, int) else literal(blocks)
        return f'({TARGET}="{CUDA}", {BLOCKS}={blocks}, {THREADS}={kernel.threads})'

    def block(self, statements: Sequence[KernelStatement], indent: str) -> list[str]:
        """Returns the lines of statements, or `pass`."""
        lines = [line for s in statements for line in self.statement(s, indent)]
        return lines or [f"{indent}pass"]

    def statement(self, statement: KernelStatement, indent: str) -> list[str]:
        """Returns the lines of a statement."""
        return _STATEMENTS[type(statement)](self, statement, indent)

    def assign(self, assign: Assign, indent: str) -> list[str]:
        """Prints `target = value` or `target += value`."""
        value = self.scalar(assign.value)
        value = f"T.{NON_TEMPORAL}({value})" if assign.non_temporal else value
        return [f"{indent}{self.scalar(assign.target)} {assign.symbol}= {value}"]

    def scratch(self, scratch: Scratch, indent: str) -> list[str]:
        """Prints the allocation of a local array."""
        info: Any = scratch.array.struct_info
        name = self.names.var(scratch.array)
        function = scratch.space or (ZEROS if scratch.zeros else EMPTY)
        allocation = f"T.{function}({self.shape(info.dims)}, {self.dtype(info.element)})"
        return [f"{indent}{name} = {allocation}"]

    def part(self, part: Part, indent: str) -> list[str]:
        """Prints `low, high = T.part(extent)`."""
        names = f"{self.local(part.low)}, {self.local(part.high)}"
        return [f"{indent}{names} = T.{PART}({self.size(part.extent)})"]

    def library_call(self, call: LibraryCall, indent: str) -> list[str]:
        """Prints a library call."""
        return [f"{indent}T.{call.fn}({', '.join([self.scalar(arg) for arg in call.args])})"]

    def prefetch(self, prefetch: Prefetch, indent: str) -> list[str]:
        """Prints `T.prefetch(x[i])`."""
        element = Element(prefetch.array, prefetch.indices, "", flat=prefetch.flat)
        return [f"{indent}T.{PREFETCH}({self.scalar(element)})"]

    def loop(self, loop: For, indent: str) -> list[str]:
        """Prints a `for` loop; omits the default start 0 and step 1."""
        bounds = [self.scalar(loop.start), self.scalar(loop.stop), str(loop.step)]
        if loop.step == 1:
            del bounds[2]
            if isinstance(loop.start, Literal) and loop.start.value == 0:
                del bounds[0]
        function = f"T.{loop.kind}" if loop.kind else "range"
        head = f"{indent}for {self.local(loop.variable)} in {function}({', '.join(bounds)}):"
        return [head, *self.block(loop.body, indent + INDENT)]

    def repeat(self, loop: While, indent: str) -> list[str]:
        """Prints a `while` loop."""
        return [f"{indent}while {self.scalar(loop.test)}:", *self.block(loop.body, indent + INDENT)]

    def branch(self, branch: Branch, indent: str, word: str = "if") -> list[str]:
        """Prints an `if`; an `else` that consists of an `if` becomes `elif`."""
        lines = [f"{indent}{word} {self.scalar(branch.test)}:"]
        lines += self.block(branch.then, indent + INDENT)
        otherwise = branch.otherwise
        if len(otherwise) == 1 and isinstance(otherwise[0], Branch):
            return lines + self.branch(otherwise[0], indent, "elif")
        if otherwise:
            lines += [f"{indent}else:", *self.block(otherwise, indent + INDENT)]
        return lines

    # ---- expressions

    def scalar(self, scalar: Scalar, strength: int = CHOICE) -> str:
        """Prints an expression, in parentheses if its binding strength is less than `strength`."""
        source, own_strength = _SCALARS[type(scalar)](self, scalar)
        return source if own_strength >= strength else f"({source})"

    def local(self, local: Local) -> str:
        """Returns the name of a local scalar variable."""
        name = self.names.of.get(local)
        return self.names.var(local) if name is None else name  # type: ignore[arg-type]

    def array(self, array: Var) -> str:
        """Returns the name of an array."""
        return self.names.var(array)

    def element(self, element: Element) -> Operand:
        """Prints `x[i, j]` or `x.flat[i]`."""
        indices = [self.scalar(index) for index in element.indices]
        name = self.array(element.array) + (".flat" if element.flat else "")
        return f"{name}[{', '.join(indices) or '()'}]", ATOM

    def apply(self, apply: Apply) -> Operand:
        """Prints an operator or a function call."""
        if apply.fn == "select":
            test, then, otherwise = apply.args
            first, second = self.scalar(then, OR), self.scalar(test, OR)
            return f"{first} if {second} else {self.scalar(otherwise)}", CHOICE
        function = SCALAR_FUNCTIONS.get(apply.fn)
        if function is not None and function.symbol:
            return self.operator(function.symbol, function.strength, apply.args)
        dtype: str | DtypeVar = apply.dtype
        if type(dtype) is DtypeVar and apply.fn == "cast":
            return f"T.{CAST}({self.scalar(apply.args[0])}, {self.dtype(dtype)})", ATOM
        name = (
            apply.fn
            if apply.fn in OF_PYTHON
            else f"T.{apply.fn if apply.fn in OF_T else apply.dtype}"
        )
        return f"{name}({', '.join([self.scalar(arg) for arg in apply.args])})", ATOM

    def operator(self, symbol: str, strength: int, args: Sequence[Scalar]) -> Operand:
        """Prints an operator, with the associativity of Python."""
        if len(args) == 1:
            own_strength = NOT if strength == NOT else SIGN
            return f"{symbol}{self.scalar(args[0], own_strength)}", own_strength
        lhs_strength = strength + 1 if strength in (POWER, COMPARE) else strength
        rhs_strength = SIGN if strength == POWER else strength + 1
        return (
            f"{self.scalar(args[0], lhs_strength)} {symbol} {self.scalar(args[1], rhs_strength)}",
            strength,
        )


def _number(value: Any) -> Operand:
    source = literal(value)
    return source, SIGN if source.startswith("-") else ATOM


_SCALARS: dict[type, Callable[[KernelPrinter, Any], Operand]] = {
    Literal: lambda printer, number: _number(number.value),
    Local: lambda printer, local: (printer.local(local), ATOM),
    LoopVariable: lambda printer, local: (printer.local(local), ATOM),
    Size: lambda printer, size: (printer.size(size.dim), ATOM),
    Argument: lambda printer, argument: (printer.array(argument.var), ATOM),
    Extent: lambda printer, extent: (f"{printer.array(extent.array)}.shape[{extent.axis}]", ATOM),
    Element: KernelPrinter.element,
    Apply: KernelPrinter.apply,
}
_STATEMENTS: dict[type, Callable[[KernelPrinter, Any, str], list[str]]] = {
    Assign: KernelPrinter.assign,
    Scratch: KernelPrinter.scratch,
    Part: KernelPrinter.part,
    LibraryCall: KernelPrinter.library_call,
    Prefetch: KernelPrinter.prefetch,
    For: KernelPrinter.loop,
    While: KernelPrinter.repeat,
    Branch: KernelPrinter.branch,
    Break: lambda printer, statement, indent: [f"{indent}break"],
    Continue: lambda printer, statement, indent: [f"{indent}continue"],
    Sync: lambda printer, statement, indent: [f"{indent}T.{SYNC}()"],
}
