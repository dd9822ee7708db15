"""Margins of decisions that kernels make by data.

They are the comparisons, minima and roundings of numbers that depend on elements or on scalar
arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from structir.interpret.kernels import Observed, run_kernel
from structir.interpret.scope import Activation
from structir.ir.dtype import is_float, is_int
from structir.ir.expr import Call, GlobalVar
from structir.ir.kernel import Apply, Argument, Assign, Element, Kernel, Local, Scalar, nodes_of
from structir.ir.module import IRModule
from structir.ir.node import Node, rebuild
from structir.passes.manager.margins import COMPARISON, MARGINS, ROUNDING, Array, Margin

# Conditions are not among them: their second argument may have an index out of range.
DECISIONS = {fn: rows for fn, rows in MARGINS.items() if fn not in ("and", "or", "xor", "select")}
DECISIONS = {**DECISIONS, "maximum": COMPARISON, "minimum": COMPARISON}


def called_kernel(module: IRModule, call: Call) -> Kernel | None:
    """Returns the kernel of the module that a call runs, if it runs one."""
    callee = module.functions.get(call.op.name) if isinstance(call.op, GlobalVar) else None
    return callee if isinstance(callee, Kernel) else None


def kernel_margins(kernel: Kernel) -> tuple[Margin, ...]:
    """Returns the margins of the decisions of a kernel by data; none if it has GPU threads."""
    return tuple(
        [Margin(each, of, signs) for each in _decisions(kernel) for of, signs in _rows(each)]
    )


def _rows(apply: Apply) -> Sequence[tuple[Any, tuple[int, ...]]]:
    if apply.fn == "cast":
        truncates = is_float(apply.args[0].dtype) and is_int(apply.dtype)
        return ROUNDING if truncates else ()
    return DECISIONS.get(apply.fn, ())


def _decisions(kernel: Kernel) -> list[Apply]:
    """Returns the decisions of a kernel in the order of its nodes."""
    if kernel.blocks is not None:
        return []
    nodes = list(nodes_of(kernel))
    applied = [each for each in nodes if isinstance(each, Apply) and _rows(each)]
    locals_of_data = _locals_of_data(nodes) if applied else set()
    return [each for each in applied if _depends_on_data(each, locals_of_data)]


def _locals_of_data(nodes: Sequence[Node]) -> set[Local]:
    """Returns the local variables that may depend on elements or scalar arguments."""
    assigned = [(n.target, n) for n in nodes if isinstance(n, Assign)]
    known = set[Local]()
    count = -1
    while len(known) > count:
        count = len(known)
        for target, assign in assigned:
            if isinstance(target, Local) and _depends_on_data(assign.value, known):
                known.add(target)
    return known


def _depends_on_data(scalar: Scalar, known: set[Local]) -> bool:
    return any(
        isinstance(each, Element | Argument) or (isinstance(each, Local) and each in known)
        for each in nodes_of(scalar)
    )


def run_with_margins(
    kernel: Kernel, values: Sequence[Any], scope: Activation
) -> Iterator[Array | None]:
    """Runs a kernel on the values of its parameters; returns the values of its margins."""
    decisions = _decisions(kernel)
    seen: dict[int, list[tuple[Any, ...]]] = {id(each): [] for each in decisions}

    def observed(node: Any) -> Any:
        if not isinstance(node, Node):
            return node
        new: Any = rebuild(node, observed)
        if id(node) not in seen:
            return new
        return Observed(new, lambda *args: seen[id(node)].append(args), new.dtype, new.span)

    run_kernel(rebuild(kernel, observed), values, scope)
    margins = [(row, of) for each in decisions for row in [seen[id(each)]] for of, _ in _rows(each)]
    return (_margin(of, rows) for rows, of in margins)


def _margin(of: Any, rows: list[tuple[Any, ...]]) -> Array | None:
    with np.errstate(all="ignore"):
        return of(*map(np.array, zip(*rows, strict=True))) if rows else None
