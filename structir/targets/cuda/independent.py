"""Loops of kernels with independent iterations, which may run in any order or in parallel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from structir.ir.expr import Var
from structir.ir.kernel import (
    Assign,
    Branch,
    Break,
    Element,
    For,
    Kernel,
    KernelStatement,
    LibraryCall,
    Local,
    Scalar,
    Scratch,
    While,
    nodes_of,
)
from structir.ir.node import Node


def independent_loop(kernel: Kernel) -> For | None:
    """Returns the loop that is the whole body of a kernel, if its iterations are independent."""
    loop = kernel.body[0] if len(kernel.body) == 1 else None
    if any(isinstance(n, LibraryCall) or getattr(n, "flat", False) for n in nodes_of(kernel)):
        return None  # their elements have no axis
    if not isinstance(loop, For) or loop.step != 1:
        return None
    inside = [node for statement in loop.body for node in nodes_of(statement)]
    sealed = not any(isinstance(node, Scratch) for node in inside) and not _ends(loop.body)
    own = sealed and not _assigns(inside, loop.variable.name) and _apart(inside, loop.variable.name)
    return loop if own and _reads_its_own(loop) else None


def _ends(body: Sequence[KernelStatement]) -> bool:
    """Whether a statement leaves the enclosing loop; inner loops are skipped."""
    for statement in body:
        if isinstance(statement, Break):
            return True
        if isinstance(statement, Branch) and (_ends(statement.then) or _ends(statement.otherwise)):
            return True
    return False


def _assigns(nodes: Iterable[Node], name: str) -> bool:
    targets = [node.target for node in nodes if isinstance(node, Assign)]
    targets += [node.variable for node in nodes if isinstance(node, For)]
    return any(isinstance(target, Local) and target.name == name for target in targets)


def _apart(nodes: Sequence[Node], name: str) -> bool:
    """Whether each written array is accessed, along one of its axes, only at the loop's own
    index."""
    written = {
        node.target.array
        for node in nodes
        if isinstance(node, Assign) and isinstance(node.target, Element)
    }
    return all(_own_axis(array, nodes, name) for array in written)


def _own_axis(array: Var, nodes: Sequence[Node], name: str) -> bool:
    seen = [n.indices for n in nodes if isinstance(n, Element) and n.array is array]
    axes = range(len(seen[0]))
    return any(all(_is_local(indices[axis], name) for indices in seen) for axis in axes)


def _is_local(index: Scalar, name: str) -> bool:
    return isinstance(index, Local) and index.name == name


def _reads_its_own(loop: For) -> bool:
    """Whether every value that an iteration reads was computed in the same one."""
    return _made(loop.body, {loop.variable.name}) is not None


def _made(body: Sequence[KernelStatement], known: set[str]) -> set[str] | None:
    """Returns the names that are defined after some statements, or None if one is read before."""
    known = set(known)
    for statement in body:
        after = _after(statement, known)
        if after is None:
            return None
        known = after
    return known


def _after(statement: KernelStatement, known: set[str]) -> set[str] | None:
    match statement:
        case Assign(target, value):
            places = target.indices if isinstance(target, Element) else ()
            again = (target,) if statement.symbol and isinstance(target, Local) else ()
            if not _are_known((value, *places, *again), known):
                return None
            return known | {target.name} if isinstance(target, Local) else known
        case For(variable, start, stop):
            inner = _made(statement.body, known | {variable.name})
            return known if _are_known((start, stop), known) and inner is not None else None
        case While(test, inner_body):
            inner = _made(inner_body, known)
            return known if _are_known((test,), known) and inner is not None else None
        case Branch(test, then, otherwise):
            both = _made(then, known), _made(otherwise, known)
            if not _are_known((test,), known) or both[0] is None or both[1] is None:
                return None
            return both[0] & both[1]
    return known


def _are_known(scalars: Iterable[Scalar], known: set[str]) -> bool:
    return all(
        node.name in known
        for scalar in scalars
        for node in nodes_of(scalar)
        if isinstance(node, Local)
    )
