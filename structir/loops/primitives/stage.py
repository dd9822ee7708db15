"""Stages the elements that a loop accesses in a local array."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Var
from structir.ir.kernel import (
    REGISTERS,
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    LoopVariable,
    Scalar,
    Scratch,
    computed_in,
)
from structir.ir.struct_info import TensorStructInfo
from structir.loops.schedule.blocks import require_elements, with_block
from structir.loops.schedule.bounds import extremes
from structir.loops.schedule.edits import Names, calculate, exchange
from structir.loops.schedule.initialisation import first_uninitialised_read
from structir.loops.schedule.loop_tree import LoopTree, derive, loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import AxisBounds, extent_from, extremum, region, written

SPACES = ("", REGISTERS)


@primitive
def stage(kernel: Kernel, memory: str, loop: str, space: str = "") -> Kernel:
    """Copies the block of an array that a loop accesses to a local array, which the loop uses
    instead; copies it back after the loop if it is written.

    The extents of the block must be bounded by sizes. The whole block must be in bounds for all
    sizes. With `space="registers"`, the copy is `T.registers`, and its extents must be constants.
    """
    tree = loop_tree(kernel)
    array, target = _array(tree, memory), tree.loop(loop)
    if space not in SPACES:
        message = f'space: expected "" or "{REGISTERS}", found {space!r}'
        raise refusal("E1115", message, target, help=f'write `space="{REGISTERS}"`')
    accesses = [a for a in tree.accesses((target,)) if a.memory is array]
    require_elements(array, accesses, target, "stage")
    writes = [access for access in accesses if access.is_write]
    if writes and kernel.part is not None:
        raise refusal(
            "E1119",
            f"expected a kernel without parts: another part may write `{array.name}` between both "
            "copies",
            ("write", writes[0].statement),
            ("parts", kernel.part),
            help="stage the array before `parallel`",
        )
    bounds = region(tree, accesses, lambda a: a.loops[a.loops.index(target) :])
    blocks = [_axis(tree, array, k, target, each) for k, each in enumerate(bounds)]
    info = TensorStructInfo(tuple([b.extent for b in blocks]), _dtype(array))
    copy = Var(Names(tree).fresh(f"{memory}_{loop}"), info)
    if space and not all(isinstance(block.extent, int) for block in blocks):
        message = f"expected constant extents in {space}, found {info.dims}"
        help = f'split the loop by a constant, or omit `space="{space}"`'
        raise refusal("E1116", message, accesses[0].statement, target, help=help)
    inner = with_block(target, array, copy, [block.start for block in blocks])
    names = Names(tree)
    names.used.add(copy.name)
    back = (_copying(names, array, copy, blocks, back=True),) if writes else ()
    scratch = Scratch(copy, zeros=False, space=space)
    new = _with_scratch(exchange(kernel, target, inner, *back), scratch)
    tree_of_new = loop_tree(derive(new, kernel))
    if writes and first_uninitialised_read(tree_of_new, copy, (inner, *back)) is None:
        return new  # the loop writes the whole copy before it reads it
    first = _copying(names, array, copy, blocks)
    return _with_scratch(exchange(kernel, target, first, inner, *back), scratch)


@attrs.frozen
class _StagedAxis:
    """The accessed range along an axis: from `start` to the smallest of `stops`, at most `extent`
    positions."""

    start: Scalar
    stops: Sequence[Scalar]
    extent: Dim


def _array(tree: LoopTree, name: str) -> Var:
    params = {p.name: p for p in tree.kernel.params if isinstance(p.struct_info, TensorStructInfo)}
    return params[name] if name in params else tree.array(name).array


def _dtype(array: Var) -> str:
    return str(array.struct_info.dtype)  # type: ignore[attr-defined]


def _axis(tree: LoopTree, array: Var, axis: int, loop: For, bounds: AxisBounds) -> _StagedAxis:
    """Returns the accessed range along an axis; raises ScheduleError unless it is bounded, and in
    bounds for all sizes."""
    shape = array.struct_info.dims  # type: ignore[attr-defined]
    around = tree.loops_around(loop)
    for start in bounds.starts if shape is not None else ():
        extent = extent_from(tree, start, bounds.stops)
        low = any(dims.at_least(e, 0) for e in extremes(tree, start, around, False))
        high = any(
            dims.at_least(shape[axis], end)
            for stop in bounds.stops
            for end in extremes(tree, stop, around, True)
        )
        if extent is not None and low and high:
            limits = [written(tree, s) for s in bounds.stops]
            return _StagedAxis(written(tree, start), limits, extent)
    raise refusal(
        "E1116",
        f"expected accesses of `{array.name}` in a block of bounded extent along axis {axis}, in "
        "range for all sizes",
        ("loop", loop),
        ("array", array),
        help="split the loop, so that its inner part accesses a block, or name an inner loop",
    )


def _copying(
    names: Names, array: Var, copy: Var, blocks: Sequence[_StagedAxis], back: bool = False
) -> KernelStatement:
    """Returns the loops that copy the block to the local array, or back."""
    variables = [LoopVariable(names.fresh("c"), "int64") for _ in blocks]
    dtype = computed_in(_dtype(array))
    positions = [
        calculate("sub", v, block.start) for v, block in zip(variables, blocks, strict=True)
    ]
    outside, inside = (
        Element(array, tuple(variables), dtype),
        Element(copy, tuple(positions), dtype),
    )
    body: KernelStatement = Assign(outside, inside) if back else Assign(inside, outside)
    for variable, block in list(zip(variables, blocks, strict=True))[::-1]:
        body = For(variable, block.start, extremum("min", block.stops), 1, (body,))
    return body


def _with_scratch(kernel: Kernel, scratch: Scratch) -> Kernel:
    return attrs.evolve(kernel, body=(scratch, *kernel.body))


stage.example(
    """
@I.kernel
def total(
    x: R.Tensor(("n", 8), "float32"), w: R.Tensor((8,), "float32"), out: R.Tensor(("n",), "float32")
):
    n = T.int64()
    for i_0 in range(0, n, 4):
        for k in range(8):
            for i in range(i_0, min(i_0 + 4, n)):
                out[i] = out[i] + x[i, k] * w[k]
""",
    "out",
    "k",
    space="registers",
)
