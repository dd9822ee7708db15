"""A square of elements turned over in registers: as many lines as a register has lanes."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

WORD, INDEX = ir.IntType(64), ir.IntType(32)


def write_transpose(module: ir.Module, name: str, element: Any, lanes: int) -> None:
    """name(to, to_line, source, source_line): to[t, j] = source[j, t] for a square of `lanes`."""
    pointer, vector = element.as_pointer(), ir.VectorType(element, lanes)
    kind = ir.FunctionType(ir.VoidType(), [pointer, WORD, pointer, WORD])
    function = ir.Function(module, kind, name)
    to, to_line, source, source_line = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def place(start: Any, step: Any, number: int) -> Any:
        found = builder.gep(start, [builder.mul(step, ir.Constant(WORD, number))])
        return builder.bitcast(found, vector.as_pointer())

    lines = [builder.load(place(source, source_line, k), align=4) for k in range(lanes)]
    for k, line in enumerate(turned(builder, lines)):
        builder.store(line, place(to, to_line, k), align=4)
    builder.ret_void()


def turned(builder: Any, lines: list[Any]) -> list[Any]:
    """The columns of some lines in registers, one after the other; as many lines as lanes, or a
    half, or a quarter..."""
    count = left = len(lines)
    while left > 1:  # as often as it takes to halve the lines down to one
        lines = [line for k in range(count // 2) for line in _dealt(builder, lines, k)]
        left //= 2
    return lines


def _dealt(builder: Any, lines: list[Any], k: int) -> list[Any]:
    """A line and the one half of all further on, element by element in turn, as two lines."""
    first, second = lines[k], lines[k + len(lines) // 2]
    lanes = first.type.count
    orders = [
        [(start + i // 2) + (i % 2) * lanes for i in range(lanes)] for start in (0, lanes // 2)
    ]
    kind = ir.VectorType(INDEX, lanes)
    return [builder.shuffle_vector(first, second, ir.Constant(kind, order)) for order in orders]
