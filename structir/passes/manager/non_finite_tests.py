"""Finds whether a rewrite may change how a program treats infinities and NaNs.

A rewrite that is correct for all finite inputs, such as one that folds a scale into a kernel, often
differs for infinite ones. These matter where programs test for them: by `isnan` and the like, or
where the rewrite changes selections, comparisons, minima or maxima.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from structir.analysis.variables import walk_values
from structir.ir.expr import Call
from structir.ir.module import IRModule
from structir.ir.op import Op
from structir.opdef.memo import spec_of
from structir.passes.decompose import decompose
from structir.projections.scalar_expr import ScalarOp, distinct_nodes

EXPLICIT = frozenset({"isnan", "isinf", "isfinite"})
FUNCTIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "min", "max", "select", "sign"})
MOVES = ("sum", None)  # combine all elements, or none


def tests_non_finite(before: IRModule, after: IRModule) -> bool:
    """Whether one of two programs tests numbers explicitly, or tests others than the other one."""
    tests = [_tests(decompose.transform(module)) for module in (before, after)]
    return tests[0] != tests[1] or any(name in EXPLICIT for name, _ in tests[0])


def _tests(module: IRModule) -> Counter[tuple[str, str]]:
    """Returns how often a module has each call that may treat infinities and NaNs specially."""
    return Counter(
        (node.op.name, str(node.attrs))
        for node in walk_values(module)
        if type(node) is Call and isinstance(node.op, Op) and _may_test(node, node.op)
    )


def _may_test(call: Call, op: Op) -> bool:
    if op.name in EXPLICIT:
        return True
    spec: Any = spec_of(call)
    if spec is None or not spec.computes:
        return True
    values = [write.value for each in spec.statements for write in each.writes]
    fns = {e.fn for value in values for e in distinct_nodes(value) if isinstance(e, ScalarOp)}
    return bool(fns & FUNCTIONS) or any(each.monoid not in MOVES for each in spec.statements)
