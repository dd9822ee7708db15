"""In-register transposes of squares, with as many lines as a register has lanes, as LLVM IR."""

from __future__ import annotations

from typing import Any

from llvmlite import ir

WORD, INDEX = ir.IntType(64), ir.IntType(32)


def write_transpose(module: ir.Module, name: str, element: Any, lanes: int) -> None:
    """Emits name(to, to_line, source, source_line): to[t, j] = source[j, t], for `lanes` lines.

    `to_line` and `source_line` are strides in elements.
    """
    pointer, vector = element.as_pointer(), ir.VectorType(element, lanes)
    kind = ir.FunctionType(ir.VoidType(), [pointer, WORD, pointer, WORD])
    function = ir.Function(module, kind, name)
    to, to_line, source, source_line = function.args
    builder = ir.IRBuilder(function.append_basic_block("entry"))

    def place(start: Any, step: Any, number: int) -> Any:
        address = builder.gep(start, [builder.mul(step, ir.Constant(WORD, number))])
        return builder.bitcast(address, vector.as_pointer())

    lines = [builder.load(place(source, source_line, k), align=4) for k in range(lanes)]
    for k, line in enumerate(transpose_lines(builder, lines)):
        builder.store(line, place(to, to_line, k), align=4)
    builder.ret_void()


def transpose_lines(builder: Any, lines: list[Any]) -> list[Any]:
    """Emits the transpose of lines in registers; returns their columns, consecutively.

    The number of lines is the number of lanes divided by a power of two.
    """
    count = left = len(lines)
    while left > 1:  # log2(number of lines) rounds
        lines = [line for k in range(count // 2) for line in _interleaved(builder, lines, k)]
        left //= 2
    return lines


def _interleaved(builder: Any, lines: list[Any], k: int) -> list[Any]:
    """Interleaves line `k` with the line half of all lines later; returns two lines."""
    first, second = lines[k], lines[k + len(lines) // 2]
    lanes = first.type.count
    orders = [
        [(start + i // 2) + (i % 2) * lanes for i in range(lanes)] for start in (0, lanes // 2)
    ]
    kind = ir.VectorType(INDEX, lanes)
    return [builder.shuffle_vector(first, second, ir.Constant(kind, order)) for order in orders]
