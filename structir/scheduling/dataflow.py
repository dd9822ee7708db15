"""The kernels and ops of lowered functions: which one reads another, and why they are not fused."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from structir.analysis.variables import variables_in, walk
from structir.ir.expr import (
    Binding,
    BindingBlock,
    Call,
    Expr,
    Function,
    GlobalVar,
    TupleGetItem,
)
from structir.lazy import lazy_module
from structir.scheduling.explanation import FusionExplanation, KernelReason

if TYPE_CHECKING:
    from structir.loops.fusion.log import FusionBoundary

fusion_log = lazy_module("structir.loops.fusion.log")
source = lazy_module("structir.runtime.source")


def called_kernel(value: Any, kernels: Collection[str]) -> str | None:
    """Returns the kernel that a value calls; None if it calls none of these."""
    is_call = isinstance(value, Call) and isinstance(value.op, GlobalVar)
    return value.op.name if is_call and value.op.name in kernels else None


def call_values(functions: Sequence[Function], call: Binding) -> list[str]:
    """Returns the names of the values that a call computes."""
    fields = [
        each.var.name
        for block in _blocks(functions)
        for each in block
        if isinstance(each.value, TupleGetItem) and each.value.tuple_value is call.var
    ]
    return [call.var.name, *fields]


def kernel_values(functions: Sequence[Function], kernels: Collection[str]) -> dict[str, list[str]]:
    """Returns the names of the values that each kernel computes."""
    values: dict[str, list[str]] = {name: [] for name in kernels}
    for block in _blocks(functions):
        homes: dict[Expr, str] = {}  # of tuples of results
        for binding in block:
            name = called_kernel(binding.value, kernels)
            if isinstance(binding.value, TupleGetItem):
                name = homes.get(binding.value.tuple_value)
            if name is not None:
                homes[binding.var] = name
                values[name].append(binding.var.name)
    return values


def explain(functions: Sequence[Function], kernels: Collection[str], log: Any) -> FusionExplanation:
    """Returns the explanation of the kernels of lowered functions, from the log of lowering."""
    values = kernel_values(functions, kernels)
    used = [name for name in values if values[name] or not functions]
    reasons = [
        KernelReason(name, tuple(values[name]), ops_of(log, name), _reason(log, name))
        for name in used
    ]
    boundaries = dict.fromkeys(
        [each for each in log.boundaries() if {each.producer, each.reader} <= {*used}]
    )
    decided = {(each.producer, each.reader) for each in boundaries}
    unfused = _Unfused(kernels, log)
    for block in _blocks(functions):
        for each in unfused.of_block(block):
            if (each.producer, each.reader) not in decided:
                boundaries[each] = None
    calls = [each for each in log.remaining if isinstance(each[0].value, Call)]
    ops = [each for each in calls if not called_kernel(each[0].value, kernels)]
    remaining = tuple([(origin(binding), reason) for binding, reason in ops])
    inlined = tuple(source.origins(log.inlined))
    return FusionExplanation(tuple(reasons), tuple(boundaries), inlined, remaining)


def ops_of(log: Any, name: str) -> tuple[str, ...]:
    """Returns the ops of a kernel, with locations."""
    return tuple(source.origins(log.origins(name)))


def _reason(log: Any, name: str) -> str:
    return log.reason(name) if name in log.groups else "written as one kernel"


def _blocks(functions: Sequence[Function]) -> Iterator[tuple[Binding, ...]]:
    for function in functions:
        yield from [node.bindings for node in walk(function) if isinstance(node, BindingBlock)]


class _Unfused:
    """The pairs of kernels and ops of which one reads the other, unless both are ops."""

    def __init__(self, kernels: Collection[str], log: Any) -> None:
        self.kernels, self.log = kernels, log
        self.why = {binding.var: reason for binding, reason in log.remaining}
        # the block and the index of the binding that computes a value, or the tuple that it is from
        self.producers: dict[Expr, tuple[Sequence[Binding], int]] = {}

    def of_block(self, block: Sequence[Binding]) -> Iterator[FusionBoundary]:
        """Yields the pairs whose reader is in a block."""
        for index, binding in enumerate(block):
            field = binding.value
            if isinstance(field, TupleGetItem) and field.tuple_value in self.producers:
                self.producers[binding.var] = self.producers[field.tuple_value]
                continue
            for var in dict.fromkeys(variables_in(binding.value)):
                if var in self.producers:
                    home, place = self.producers[var]
                    if self._kernel(home[place]) or self._kernel(binding):
                        between = block[place : index + 1] if home is block else ()
                        yield self._boundary(home[place], binding, between)
            self.producers[binding.var] = block, index

    def _kernel(self, binding: Binding) -> str | None:
        return called_kernel(binding.value, self.kernels)

    def _boundary(
        self, producer: Binding, reader: Binding, between: Sequence[Binding]
    ) -> FusionBoundary:
        ends = producer, reader
        names = [self._kernel(each) or origin(each) for each in ends]
        ops = [
            "\n".join(ops_of(self.log, self._kernel(each) or "")) or origin(each) for each in ends
        ]
        boundary: FusionBoundary = fusion_log.FusionBoundary(*names, *ops, self._reason(between))
        return boundary

    def _reason(self, between: Sequence[Binding]) -> str:
        if not between:
            return "they are in different blocks of the program"
        last = next((each for each in between if each.var in self.why), None)
        if last is None:
            return "an op without a kernel was between them"
        if self._kernel(last):
            return "a kernel that the program calls stays as it is written"
        return f"{origin(last)} is not part of a kernel: {self.why[last.var]}"


def origin(binding: Binding) -> str:
    """Returns the op or function that a binding calls, with its location."""
    value: Any = binding.value
    head = str(value.op) if isinstance(value, Call) else binding.var.name
    span = value.span or binding.span
    return head if span is None else f"{head} at {span}"
