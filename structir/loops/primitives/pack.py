"""Packs the elements that a loop accesses into a local array with another order of axes."""

from __future__ import annotations

from typing import Any

from structir.ir.expr import Var
from structir.ir.kernel import Element, Kernel, Scratch
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.loops.primitives import find_primitive
from structir.loops.schedule.edits import substitute
from structir.loops.schedule.loop_tree import derive, loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal


@primitive
def pack(kernel: Kernel, memory: str, loop: str, *order: int) -> Kernel:
    """Copies the block of an array that a loop accesses to a local array with its axes in another
    order, which the loop uses instead; copies it back if it is written.

    Axis `order[k]` of the array becomes axis `k` of the copy, so that the innermost loop reads
    neighbouring elements. The block must be bounded as for `stage`.
    """
    known = set(loop_tree(kernel).arrays)
    staged: Kernel = find_primitive("stage").transform(kernel, memory, loop)
    (name,) = loop_tree(staged).arrays.keys() - known
    copy = loop_tree(staged).arrays[name].array
    info: Any = copy.struct_info
    if sorted(map(str, order)) != sorted(map(str, range(len(info.dims)))):
        axes = ", ".join(map(str, range(len(info.dims))))
        raise refusal(
            "E1115",
            f"order: expected a permutation of the axes {axes} of `{memory}`, found {order}",
            ("loop", loop_tree(kernel).loop(loop)),
            help=f"name each axis once, such as `pack({memory}, {loop}, "
            f"{', '.join(map(str, reversed(range(len(info.dims)))))})`",
        )
    shape = tuple([info.dims[axis] for axis in order])
    packed = Var(name, TensorStructInfo(shape, info.dtype))

    def change(part: Any) -> Any:
        if isinstance(part, Scratch) and part.array is copy:
            return replace(part, array=packed)
        if isinstance(part, Element) and part.array is copy:
            indices = tuple([substitute(part.indices[axis], change) for axis in order])
            return replace(part, array=packed, indices=indices)
        return None

    body = tuple([substitute(statement, change) for statement in staged.body])
    return derive(replace(staged, body=body), kernel)


pack.example(
    """
@I.kernel
def product(
    a: R.Tensor(("n", 64), "float32"),
    b: R.Tensor((32, 64), "float32"),
    out: R.Tensor(("n", 32), "float32"),
):
    n = T.int64()
    for i_0 in range(0, n, 16):
        for i in range(i_0, min(i_0 + 16, n)):
            for k in range(64):
                for j in range(32):
                    out[i, j] = T.add_to(out[i, j], a[i, k] * b[j, k])
""",
    "b",
    "i_0",
    1,
    0,
)
