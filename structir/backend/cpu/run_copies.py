"""Copies of runs of elements in whole vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from structir.backend.cpu.vectors_of_ir import element_size, emit_loop, lanes_of, limited, word

COPIED = 4  # vectors per iteration of a copy


def _copy_elements(builder: Any, places: Sequence[Any], counts: tuple[Any, Any], step: int) -> Any:
    """Emits a loop that copies elements from the last address to the others, `step` at a time, from
    the first count on; returns the number of copied elements."""
    (*to, source), (first, last) = places, counts
    size, width = element_size(source), min(step, lanes_of(element_size(source)))
    pointer = ir.VectorType(source.type.pointee, width).as_pointer()

    def chunk(index: Any, carried: Any) -> list[Any]:
        at = builder.add(first, builder.mul(index, word(step)))
        runs = [
            [builder.bitcast(builder.gep(p, [builder.add(at, word(k))]), pointer) for p in places]
            for k in range(0, step, width)
        ]
        values = [builder.load(run[-1], align=size) for run in runs]
        for k in range(len(to)):
            for run, value in zip(runs, values, strict=True):
                builder.store(value, run[k], align=size)
        return []

    chunks = builder.lshr(builder.sub(last, first), word(step.bit_length() - 1))
    emit_loop(builder, chunks, [], chunk)
    return builder.add(first, builder.mul(chunks, word(step)))


@intrinsic
def _copy(typing_context: Any, to: Any, source: Any, count: Any, room: Any) -> Any:
    """Copies `count` elements, and up to a chunk behind them if `room` elements may be copied."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *places, count, room = args
        step = COPIED * lanes_of(element_size(places[0]))
        up = builder.and_(builder.add(count, word(step - 1)), word(-step))
        fits = builder.icmp_signed("<=", up, room)
        end = builder.select(fits, up, count)
        done = _copy_elements(builder, places, (word(0), end), step)
        _copy_elements(builder, places, (limited(builder, "smin", done, count), count), 1)
        return context.get_dummy_value()

    return types.void(to, source, types.int64, types.int64), generate


@intrinsic
def _copy_twice(typing_context: Any, to: Any, second: Any, source: Any, count: Any) -> Any:
    """Copies `count` elements to two addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        *places, count = args
        width = lanes_of(element_size(places[0]))
        done = word(0)
        for step in (COPIED * width, width, 1):
            done = _copy_elements(builder, places, (done, count), step)
        return context.get_dummy_value()

    return types.void(to, second, source, types.int64), generate


COPY, COPY_TWICE = "copy_run", "copy_twice"
COPY_FUNCTIONS: dict[str, Any] = {COPY: _copy, COPY_TWICE: _copy_twice}
