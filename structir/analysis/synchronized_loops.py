"""Checks of synchronized loops: all parts of a kernel begin an iteration together, and any thread
may run a part of an iteration, so nothing but parameters keeps its value between iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from structir.errors import Diagnostic
from structir.ir.expr import Var
from structir.ir.kernel import (
    SYNCHRONIZED,
    Apply,
    Assign,
    Branch,
    Break,
    Element,
    Extent,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Literal,
    Local,
    Part,
    Scratch,
    Size,
    nodes_of,
)
from structir.ir.node import Node

CODE = "E0510"


def synchronized_violations(kernel: Kernel, nodes: Sequence[Node]) -> Iterator[Diagnostic]:
    """Yields the violations of the synchronized loops of a kernel with these nodes."""
    loops = [n for n in nodes if isinstance(n, For) and n.kind == SYNCHRONIZED]
    if not loops:
        return
    loop = kernel.synchronized
    for other in loops:
        if other is not loop:
            message = "expected a synchronized loop as the last statement of a kernel with T.part"
            hint = f"`for {other.variable.name} in range(...):`"
            yield Diagnostic(message, other.span, kernel.name, hint=hint, code=CODE)
    if loop is None:
        return
    if not _is_over_a_size(loop):
        message = "expected a synchronized loop over all iterations up to a size"
        hint = "`T.synchronized(n)`, or `T.synchronized(n - 1, -1, -1)`"
        yield Diagnostic(message, loop.span, kernel.name, hint=hint, code=CODE)
    if (leaves := _break_of(loop.body)) is not None:
        message = "`break` cannot leave a synchronized loop: all parts run all iterations"
        hint = "remove the `break`; put the statements after it under an `if`"
        yield Diagnostic(message, leaves.span, kernel.name, hint=hint, code=CODE)
    yield from _shared_names(kernel, loop)


def _is_over_a_size(loop: For) -> bool:
    """Whether a loop goes from 0 up to a size, or from the last index down to 0."""
    ends = (loop.start, loop.stop)[:: 1 if loop.step > 0 else -1]
    first = {1: 0, -1: -1}.get(loop.step)
    is_whole = isinstance(ends[0], Literal) and ends[0].value == first
    return is_whole and all(_is_of_sizes(node) for node in nodes_of(ends[1]))


def _is_of_sizes(node: Node) -> bool:
    return isinstance(node, Literal | Size | Extent) or (
        isinstance(node, Apply) and node.fn in ("add", "sub", "mul")
    )


def _break_of(statements: Sequence[KernelStatement]) -> KernelStatement | None:
    """Returns a `break` of a loop with this body; None if there is none."""
    for statement in statements:
        match statement:
            case Break():
                return statement
            case Branch(_, then, otherwise):
                leaves = _break_of(then) or _break_of(otherwise)
                if leaves is not None:
                    return leaves
    return None


def _shared_names(kernel: Kernel, loop: For) -> Iterator[Diagnostic]:
    """Yields the variables and local arrays that statements before the loop set, and it uses."""
    before = [n for s in kernel.body[:-1] if not isinstance(s, Part | Scratch) for n in nodes_of(s)]
    inside = list(nodes_of(loop))
    local_arrays = {s.array for s in kernel.body if isinstance(s, Scratch)}
    assigned = {n.target for n in before if isinstance(n, Assign) and isinstance(n.target, Local)}
    written = {n.target for n in before if isinstance(n, Assign) and isinstance(n.target, Element)}
    written |= {n.written for n in before if isinstance(n, LibraryCall)}
    arrays = {element.array for element in written} & local_arrays
    for node in _first_uses(inside, assigned, arrays):
        name = node.array.name if isinstance(node, Element) else node.name
        message = f"`{name}` is set before the synchronized loop, which does not keep its value"
        hint = f"set `{name}` inside of the loop, or keep it in a result"
        yield Diagnostic(message, node.span, kernel.name, hint=hint, code=CODE)


def _first_uses(
    nodes: Sequence[Node], variables: set[Local], arrays: set[Var]
) -> list[Local | Element]:
    """Returns the first use of each variable and local array among nodes."""
    uses: dict[object, Local | Element] = {}
    targets = [n.target for n in nodes if isinstance(n, Assign)]
    for node in [*nodes, *[t for t in targets if isinstance(t, Local)]]:
        if isinstance(node, Local) and node in variables:
            uses.setdefault(node, node)
        elif isinstance(node, Element) and node.array in arrays:
            uses.setdefault(node.array, node)
    return list(uses.values())
