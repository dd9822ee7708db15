"""Exponentials of differences to a maximum of the same values: they do not overflow."""

from __future__ import annotations

from collections import defaultdict

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.kernel_functions import ROUND
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Expression,
    Load,
    Operation,
    apply,
    bottom_up,
    loads_of,
    substituted,
)
from structir.loops.program.stage import LoopProgram, Stage
from structir.loops.rewrite.view_inlining import value_at


def with_nonpositive_exponentials(program: LoopProgram) -> LoopProgram:
    """Returns a program with the faster `exp_nonpositive` where the operand of an exponential is an
    element of a tensor minus its maximum."""
    differences = _Differences(program.stages)
    stages = tuple([differences.rewritten(stage) for stage in program.stages])
    return attrs.evolve(program, stages=stages)


class _Differences:
    """The stages by results, in which differences to a maximum are found."""

    def __init__(self, stages: tuple[Stage, ...]) -> None:
        writers = defaultdict[Buffer, list[Stage]](list)
        for stage in stages:
            writers[stage.out.root].append(stage)
        alone = [writing[0] for writing in writers.values() if len(writing) == 1]
        self.producers = {stage.out: stage for stage in alone if stage.direct}

    def rewritten(self, stage: Stage) -> Stage:
        """Returns a stage with its exponentials replaced."""

        def replaced(node: Operation, args: tuple[Expression, ...]) -> Expression:
            is_replaced = node.fn == "exp" and not node.exact
            is_replaced = is_replaced and self._is_nonpositive(node.args[0], stage)
            fn = "exp_nonpositive" if is_replaced else node.fn
            return apply(fn, args, node.dtype, node.exact)

        body = bottom_up(stage.body, replaced)
        return stage if body is stage.body else attrs.evolve(stage, body=body)

    def _is_nonpositive(self, operand: Expression, stage: Stage) -> bool:
        """Whether an operand is a difference to a maximum; roundings keep its sign."""
        operand = self._computed(operand)
        while isinstance(operand, Operation) and operand.fn.startswith(ROUND):
            operand = self._computed(operand.args[0])
        if not isinstance(operand, Operation) or operand.fn != "sub":
            return False
        element, maximum = operand.args[0], self._computed(operand.args[1])
        return isinstance(maximum, Load) and self._is_maximum(maximum, element, stage)

    def _computed(self, value: Expression) -> Expression:
        """Returns a value as the map computes it that stores it."""
        while isinstance(value, Load):
            producer = self.producers.get(value.buffer)
            if producer is None or producer.reduce:
                break
            computed = value_at(producer, value.entries)
            if computed is None:
                break
            value = computed
        return value

    def _is_maximum(self, maximum: Load, element: Expression, stage: Stage) -> bool:
        """Whether a load is that of a maximum over values of which another one is `element`."""
        producer = self.producers.get(maximum.buffer)
        if producer is None or producer.monoid != "max":
            return False
        at: dict[Sym, Dim] = {}
        for written, entry in zip(producer.write, maximum.entries, strict=True):
            _bind(at, written, entry, producer.parallel)
        for own, read in zip(loads_of(producer.body), loads_of(element), strict=False):
            for inner, entry in zip(own.entries, read.entries, strict=False):
                _bind(at, inner, entry, producer.reduce)
        places = [(dims.as_sym(at[axis]) if axis in at else None, axis) for axis in producer.reduce]
        is_inside = all(
            place is not None and stage.extents.get(place) == producer.extents[axis]
            for place, axis in places
        )
        return is_inside and substituted(producer.body, at) is element


def _bind(at: dict[Sym, Dim], inner: object, entry: object, axes: tuple[Sym, ...]) -> None:
    """Adds the index at which an access has one of some axes."""
    if isinstance(inner, Expression) or isinstance(entry, Expression):
        return
    axis = dims.as_sym(inner)  # type: ignore[arg-type]
    if axis in axes:
        at.setdefault(axis, entry)  # type: ignore[arg-type]
