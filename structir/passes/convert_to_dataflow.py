"""Groups consecutive pure bindings into dataflow blocks."""

from __future__ import annotations

from itertools import groupby
from operator import is_

from structir.analysis.dataflow_outputs import with_local_values
from structir.analysis.purity import is_pure_value
from structir.ir.expr import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    If,
    SeqExpr,
)
from structir.ir.node import replace
from structir.passes.base import Positive, function_pass


@function_pass(aliases=("to_dataflow",), preserves=("normalise",))
def convert_to_dataflow(function: Function, *, min_size: Positive = 2) -> Function:
    """Converts runs of at least `min_size` pure bindings without branches to dataflow blocks.

    A run next to a dataflow block extends it. Branches and nested functions are converted as well.
    Values without uses outside their block become local to it.
    """
    body = _convert(function.body, min_size)
    return function if body is function.body else replace(function, body=body)


def _convert(seq: SeqExpr, min_size: int) -> SeqExpr:
    blocks: list[BindingBlock] = []
    for block in seq.blocks:
        converted = _with_nested(block, min_size)
        is_dataflow = isinstance(converted, DataflowBlock)
        blocks += [converted] if is_dataflow else _split(converted, min_size)
    blocks = _merge_blocks(blocks)
    if all(map(is_, blocks, seq.blocks)) and len(blocks) == len(seq.blocks):
        return seq
    old = set(seq.blocks)
    new = [block for block in blocks if block not in old]
    return with_local_values(replace(seq, blocks=tuple(blocks)), new)


def _with_nested(block: BindingBlock, min_size: int) -> BindingBlock:
    """Converts the branches and functions in a block."""
    bindings = tuple([_convert_nested(binding, min_size) for binding in block.bindings])
    return block if all(map(is_, bindings, block.bindings)) else replace(block, bindings=bindings)


def _convert_nested(binding: Binding, min_size: int) -> Binding:
    value = binding.value
    if isinstance(value, Function):
        body = _convert(value.body, min_size)
        return binding if body is value.body else replace(binding, value=replace(value, body=body))
    if not isinstance(value, If):
        return binding
    then, other = (_convert(side, min_size) for side in (value.true_branch, value.false_branch))
    if then is value.true_branch and other is value.false_branch:
        return binding
    return replace(binding, value=replace(value, true_branch=then, false_branch=other))


def _merge_blocks(blocks: list[BindingBlock]) -> list[BindingBlock]:
    """Merges adjacent dataflow blocks, and extends a block by adjacent pure bindings."""
    joined: list[BindingBlock] = []
    for block in blocks:
        last = joined[-1] if joined else None
        if last is None or DataflowBlock not in (type(last), type(block)):
            joined.append(block)
            continue
        before, after = list(last.bindings), list(block.bindings)
        if not isinstance(last, DataflowBlock):
            moved = _pure_suffix(before)
            before, after = before[: len(before) - moved], [*before[len(before) - moved :], *after]
        elif not isinstance(block, DataflowBlock):
            moved = _pure_suffix(after[::-1])
            before, after = [*before, *after[:moved]], after[moved:]
        else:
            moved, before, after = len(after), [*before, *after], []
        if moved:
            ends = [replace(last, bindings=tuple(before)), replace(block, bindings=tuple(after))]
            joined[-1:] = [end for end in ends if end.bindings]
        else:
            joined.append(block)
    return joined


def _pure_suffix(bindings: list[Binding]) -> int:
    """Returns the number of bindings at the end that may be in a dataflow block."""
    count = next((k for k, b in enumerate(reversed(bindings)) if not _is_dataflow(b)), None)
    return len(bindings) if count is None else count


def _split(block: BindingBlock, min_size: int) -> list[BindingBlock]:
    """Splits a plain block; the long runs of pure bindings become dataflow blocks."""
    parts: list[tuple[bool, list[Binding]]] = []
    for pure, run in groupby(block.bindings, key=_is_dataflow):
        bindings = list(run)
        long = pure and len(bindings) >= min_size
        if parts and not long and not parts[-1][0]:
            parts[-1][1].extend(bindings)
        else:
            parts.append((long, bindings))
    if not any(long for long, _ in parts):
        return [block]
    return [(DataflowBlock if long else BindingBlock)(tuple(run)) for long, run in parts]


def _is_dataflow(binding: Binding) -> bool:
    value = binding.value
    return not isinstance(value, If | Function) and is_pure_value(value)
