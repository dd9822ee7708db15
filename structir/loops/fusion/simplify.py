"""Rewrites of scalar expressions that change a result by one or two roundings and save work.

Maps of a group that compute the same element are merged before, so that rewrites see both, as in
`1 + tanh(x)`.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TypeGuard

import attrs

from structir.ir.dtype import is_float
from structir.ir.scalar_functions import declared
from structir.loops.fusion.group import Group
from structir.loops.lower.rounding import rounded
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Expression,
    Load,
    Number,
    Operation,
    apply,
    bottom_up,
    load,
    loads_of,
    number,
    rebuilt,
)
from structir.loops.program.stage import Stage
from structir.projections.scalar_expr import OperandElement, fold


def simplified(expression: Expression) -> Expression:
    """Returns the expression with constants folded and costly forms replaced, bottom up."""
    return bottom_up(
        expression,
        lambda node, args: _rewritten(apply(node.fn, args, node.dtype, node.exact)),
    )


def _rewritten(node: Operation) -> Expression:
    if node.exact or not is_float(node.dtype) or len(node.args) != 2:
        return node
    if node.fn in ("add", "mul") and isinstance(node.args[0], Number):
        node = apply(node.fn, (node.args[1], node.args[0]), node.dtype)
    rules = {"add": _sum, "mul": _product}
    rule = rules.get(node.fn)
    return node if rule is None else rule(node, *node.args)


def _sum(node: Operation, left: Expression, right: Expression) -> Expression:
    """Returns the sum of 1 and a function, in the form of its declaration."""
    if not (isinstance(right, Number) and right.value == 1 and isinstance(left, Operation)):
        return node
    function, dtype = declared().get(left.fn), node.dtype
    rule = None if function is None else function.plus_one
    tree = None if rule is None else rule(OperandElement("x"), dtype)
    if tree is None:
        return node

    def build(fn: str, args: list[Expression]) -> Expression:
        return _rewritten(apply(fn, tuple(args), dtype))

    return fold(tree, {"x": left.args[0]}, lambda value: number(value, dtype), build)


def _product(node: Operation, left: Expression, right: Expression) -> Expression:
    """Merges products with constants, where no intermediate result overflows or underflows unless
    the original expression does."""
    dtype = node.dtype
    if isinstance(right, Number):
        if right.value == 1:
            return left
        if isinstance(left, Number):
            return number(left.value * right.value, dtype)
        inner = _constant_factor(left)
        if inner is not None and _is_normal(inner[1] * right.value, dtype):
            return apply("mul", (inner[0], number(inner[1] * right.value, dtype)), dtype)
        return node
    if _calls(right, "div") and isinstance(right.args[0], Number):  # a * (2 / c) is (a * 2) / c
        _, factor = _constant_factor(left) or (left, 1.0)
        if abs(factor * right.args[0].value) <= 1:
            over = _rewritten(apply("mul", (left, right.args[0]), dtype))
            return apply("div", (over, right.args[1]), dtype)
    return node


def _is_normal(value: float, dtype: str) -> bool:
    """Whether a constant is normal in a dtype."""
    least, most = (1.2e-38, 3.4e38) if dtype == "float32" else (2.3e-308, 1.7e308)
    return least <= abs(value) <= most


def _calls(node: Expression, fn: str) -> TypeGuard[Operation]:
    return isinstance(node, Operation) and node.fn == fn


def _constant_factor(node: Expression) -> tuple[Expression, float] | None:
    if isinstance(node, Operation) and node.fn == "mul" and isinstance(node.args[1], Number):
        return node.args[0], node.args[1].value
    return None


def with_inlined_values(group: Group) -> Group:
    """Returns a group in which values that one stage reads, once at its own point, are inlined."""
    reads = Counter(load.buffer for stage in group.stages for load in stage.loads)
    producers: dict[Buffer, Stage] = {}
    stages = list[Stage]()
    for stage in group.stages:
        for read in loads_of(stage.body):
            producer = producers.get(read.buffer)
            is_only = producer is not None and reads[read.buffer] == 1
            if producer is not None and is_only and _is_at_own_point(read, producer, stage):
                stage = _inlined(stage, read, producer)
                stages.remove(producer)
        stages.append(stage)
        if stage.direct and not stage.reduce and stage.out not in group.kept:
            producers[stage.out] = stage
    return group if len(stages) == len(group.stages) else attrs.evolve(group, stages=tuple(stages))


def _is_at_own_point(read: Load, producer: Stage, stage: Stage) -> bool:
    return (
        stage.otherwise is None
        and read.entries == producer.write
        and {*producer.axes} == {*stage.axes}
    )


def _inlined(stage: Stage, read: Load, producer: Stage) -> Stage:
    body = rebuilt(stage.body, partial(_with_value, read, producer))
    return attrs.evolve(stage, body=body)


def _with_value(read: Load, producer: Stage, node: Expression) -> Expression:
    """Returns a leaf of an expression with the body of the producer in the place of the read."""
    if node is read:
        return rounded(producer.body, producer.out.dtype)
    if not isinstance(node, Load):
        return node
    leaf = partial(_with_value, read, producer)
    entries = [rebuilt(e, leaf) if isinstance(e, Expression) else e for e in node.entries]
    return load(node.buffer, tuple(entries))
