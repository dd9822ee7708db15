"""The text of kernels: their statements as Python writes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
    Part,
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
    CUDA,
    EMPTY,
    KERNEL,
    KERNEL_NAMES,
    PART,
    SHARED,
    SYNC,
    TARGET,
    THREADS,
    ZEROS,
)

INDENT = "    "
Piece = tuple[str, int]  # a text, and how strongly it binds


def kernel_lines(kernel: Kernel, name: str, indent: str, module: str | None) -> list[str]:
    """A kernel of a module, or alone."""
    taken = KERNEL_NAMES if module is None else KERNEL_NAMES | {module}
    return KernelPrinter(taken).kernel(kernel, name, indent)


def kernel_text(kernel: Kernel) -> str:
    """A kernel alone, under its own name."""
    return "\n".join([*kernel_lines(kernel, kernel.name, "", None), ""])


def statement_text(statement: KernelStatement) -> str:
    """A statement alone."""
    return "\n".join(KernelPrinter(KERNEL_NAMES).statement(statement, ""))


def scalar_text(scalar: Scalar) -> str:
    """An expression alone."""
    return KernelPrinter(KERNEL_NAMES).scalar(scalar)


class KernelPrinter(ExprPrinter):
    """Writes one kernel under names of its own."""

    def __init__(self, taken: frozenset[str]) -> None:
        super().__init__(NameScope(taken))

    def kernel(self, kernel: Kernel, name: str, indent: str) -> list[str]:
        """The lines of a kernel with its decorator."""
        params = [
            f"{self.names.var(p)}: {self.signature_info(p.struct_info)}" for p in kernel.params
        ]
        head = [
            f"{indent}@I.{KERNEL}{self.launch(kernel)}",
            f"{indent}def {name}({', '.join(params)}):",
        ]
        return head + self.block(kernel.body, indent + INDENT)

    def launch(self, kernel: Kernel) -> str:
        """On which target, in how many blocks of how many threads, if it is for one."""
        if kernel.blocks is None:
            return ""
        blocks = self.size(kernel.blocks.dim)
        blocks = blocks if isinstance(kernel.blocks.dim, int) else literal(blocks)
        return f'({TARGET}="{CUDA}", {BLOCKS}={blocks}, {THREADS}={kernel.threads})'

    def block(self, statements: Sequence[KernelStatement], indent: str) -> list[str]:
        """Statements in order; none are `pass`."""
        lines = [line for s in statements for line in self.statement(s, indent)]
        return lines or [f"{indent}pass"]

    def statement(self, statement: KernelStatement, indent: str) -> list[str]:
        """The lines of a statement."""
        return _STATEMENTS[type(statement)](self, statement, indent)

    def assign(self, assign: Assign, indent: str) -> list[str]:
        """`target = value`, `target += value`."""
        value = self.scalar(assign.value)
        return [f"{indent}{self.scalar(assign.target)} {assign.symbol}= {value}"]

    def scratch(self, scratch: Scratch, indent: str) -> list[str]:
        """An array of the kernel's own."""
        info: Any = scratch.array.struct_info
        name = self.names.var(scratch.array)
        word = SHARED if scratch.shared else ZEROS if scratch.zeros else EMPTY
        made = f"T.{word}({self.shape(info.dims)}, {literal(info.dtype)})"
        return [f"{indent}{name} = {made}"]

    def part(self, part: Part, indent: str) -> list[str]:
        """A part of what is to be done."""
        names = f"{self.local(part.low)}, {self.local(part.high)}"
        return [f"{indent}{names} = T.{PART}({self.size(part.extent)})"]

    def library_call(self, call: LibraryCall, indent: str) -> list[str]:
        """A function of the library."""
        return [f"{indent}T.{call.fn}({', '.join([self.scalar(arg) for arg in call.args])})"]

    def loop(self, loop: For, indent: str) -> list[str]:
        """A counting loop; what is 0 or 1 by default is left out."""
        bounds = [self.scalar(loop.start), self.scalar(loop.stop), str(loop.step)]
        if loop.step == 1:
            del bounds[2]
            if isinstance(loop.start, Literal) and loop.start.value == 0:
                del bounds[0]
        head = f"{indent}for {self.local(loop.variable)} in range({', '.join(bounds)}):"
        return [head, *self.block(loop.body, indent + INDENT)]

    def repeat(self, loop: While, indent: str) -> list[str]:
        """`while test`."""
        return [f"{indent}while {self.scalar(loop.test)}:", *self.block(loop.body, indent + INDENT)]

    def branch(self, branch: Branch, indent: str, word: str = "if") -> list[str]:
        """`if test`; an `else` that is a choice again is an `elif`."""
        lines = [f"{indent}{word} {self.scalar(branch.test)}:"]
        lines += self.block(branch.then, indent + INDENT)
        other = branch.otherwise
        if len(other) == 1 and isinstance(other[0], Branch):
            return lines + self.branch(other[0], indent, "elif")
        if other:
            lines += [f"{indent}else:", *self.block(other, indent + INDENT)]
        return lines

    # ---- expressions

    def scalar(self, scalar: Scalar, strength: int = CHOICE) -> str:
        """An expression, in parentheses where it binds less strongly than asked."""
        text, own = _SCALARS[type(scalar)](self, scalar)
        return text if own >= strength else f"({text})"

    def local(self, local: Local) -> str:
        """The name of a local number."""
        known = self.names.of.get(local)
        return self.names.var(local) if known is None else known  # type: ignore[arg-type]

    def array(self, array: Var) -> str:
        """The name of an array."""
        return self.names.var(array)

    def element(self, element: Element) -> Piece:
        """`x[i, j]`."""
        indices = [self.scalar(index) for index in element.indices]
        name = self.array(element.array) + (".flat" if element.flat else "")
        return f"{name}[{', '.join(indices) or '()'}]", ATOM

    def apply(self, apply: Apply) -> Piece:
        """An operator between its operands, or a function before them."""
        if apply.fn == "select":
            test, then, otherwise = apply.args
            first, second = self.scalar(then, OR), self.scalar(test, OR)
            return f"{first} if {second} else {self.scalar(otherwise)}", CHOICE
        row = SCALAR_FUNCTIONS.get(apply.fn)
        if row is not None and row.symbol:
            return self.operator(row.symbol, row.strength, apply.args)
        name = (
            apply.fn
            if apply.fn in OF_PYTHON
            else f"T.{apply.fn if apply.fn in OF_T else apply.dtype}"
        )
        return f"{name}({', '.join([self.scalar(arg) for arg in apply.args])})", ATOM

    def operator(self, symbol: str, strength: int, args: Sequence[Scalar]) -> Piece:
        """Operators of one strength are grouped as Python groups them."""
        if len(args) == 1:
            own = NOT if strength == NOT else SIGN
            return f"{symbol}{self.scalar(args[0], own)}", own
        left = strength + 1 if strength in (POWER, COMPARE) else strength
        right = SIGN if strength == POWER else strength + 1
        return f"{self.scalar(args[0], left)} {symbol} {self.scalar(args[1], right)}", strength


def _number(value: Any) -> Piece:
    text = literal(value)
    return text, SIGN if text.startswith("-") else ATOM


_SCALARS: dict[type, Callable[[KernelPrinter, Any], Piece]] = {
    Literal: lambda writer, number: _number(number.value),
    Local: lambda writer, local: (writer.local(local), ATOM),
    Size: lambda writer, size: (writer.size(size.dim), ATOM),
    Argument: lambda writer, argument: (writer.array(argument.var), ATOM),
    Extent: lambda writer, extent: (f"{writer.array(extent.array)}.shape[{extent.axis}]", ATOM),
    Element: KernelPrinter.element,
    Apply: KernelPrinter.apply,
}
_STATEMENTS: dict[type, Callable[[KernelPrinter, Any, str], list[str]]] = {
    Assign: KernelPrinter.assign,
    Scratch: KernelPrinter.scratch,
    Part: KernelPrinter.part,
    LibraryCall: KernelPrinter.library_call,
    For: KernelPrinter.loop,
    While: KernelPrinter.repeat,
    Branch: KernelPrinter.branch,
    Break: lambda writer, statement, indent: [f"{indent}break"],
    Continue: lambda writer, statement, indent: [f"{indent}continue"],
    Sync: lambda writer, statement, indent: [f"{indent}T.{SYNC}()"],
}
