"""Replaces a local array by a scalar."""

from __future__ import annotations

from typing import Any

from structir.ir.expr import Var
from structir.ir.kernel import (
    VECTOR,
    Assign,
    Element,
    For,
    Kernel,
    KernelStatement,
    Local,
    LoopVariable,
    Scratch,
    computed_in,
)
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.loops.schedule.accesses import Access, expressions, is_same_element
from structir.loops.schedule.blocks import require_elements, with_block
from structir.loops.schedule.edits import Names, exchange_all, substitute
from structir.loops.schedule.initialisation import first_uninitialised_read
from structir.loops.schedule.legality import read_after
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.refusal import refusal
from structir.loops.schedule.regions import extent_from, region, written


@primitive
def shrink(kernel: Kernel, memory: str, loop: str = "") -> Kernel:
    """Replaces a local array by a scalar, or by the block that an iteration of `loop` accesses
    (array contraction).

    Without `loop`, each iteration of some loop must access only one element. An iteration must
    write all elements that it reads, and none may be read after the loop. This is typical after
    `fuse` of the producer and the consumer of the array.
    """
    tree = loop_tree(kernel)
    array = tree.array(memory).array
    if loop:
        return _with_block(tree, array, tree.loop(loop))
    dtype = str(array.struct_info.dtype)  # type: ignore[attr-defined]
    uses = tree.uses(array)
    scratches = {a.statement for a in uses if isinstance(a.statement, Scratch)}
    uses = [access for access in uses if access.statement not in scratches]
    common = _common_loop(tree, array, uses, dtype)
    _require_private(tree, array, uses, common)
    scalar = Local(Names(tree).fresh(f"{memory}_element"), dtype)

    def change(part: Any) -> Any:
        return scalar if isinstance(part, Element) and part.array is array else None

    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {s: () for s in scratches}
    return exchange_all(kernel, exchanges | {common: (substitute(common, change),)})


def _with_block(tree: LoopTree, array: Var, loop: For) -> Kernel:
    """Returns the kernel with a block of the array, which an iteration of the loop accesses."""
    uses = tree.uses(array)
    scratches = [a.statement for a in uses if isinstance(a.statement, Scratch)]
    uses = [a for a in uses if not isinstance(a.statement, Scratch)]
    inside = [a for a in uses if loop in a.loops]
    require_elements(array, inside, loop, "shrink")
    _require_block(tree, array, uses, scratches, loop)
    starts, extents = [], []
    for axis, bounds in enumerate(region(tree, inside, lambda a: _inside(a, loop))):
        sized = ((start, extent_from(tree, start, bounds.stops)) for start in bounds.starts)
        start, extent = next(((s, e) for s, e in sized if e is not None), (None, None))
        if start is None or extent is None:
            raise refusal(
                "E1116",
                f"expected accesses of `{array.name}` in a block of bounded extent along axis "
                f"{axis}",
                ("loop", loop),
                ("array", tree.array(array.name)),
                help="split the loop, so that its inner part accesses a block",
            )
        starts.append(written(tree, start))
        extents.append(extent)
    info = TensorStructInfo(tuple(extents), str(array.struct_info.dtype))  # type: ignore[attr-defined]
    block = Var(Names(tree).fresh(f"{array.name}_{loop.variable.name}"), info)
    exchanges: dict[KernelStatement, tuple[KernelStatement, ...]] = {
        s: (replace(s, array=block, zeros=False),) for s in scratches
    }
    return exchange_all(tree.kernel, exchanges | {loop: (with_block(loop, array, block, starts),)})


def _require_block(
    tree: LoopTree,
    array: Var,
    uses: list[Access],
    scratches: list[Scratch],
    loop: For,
) -> None:
    outside = next((a.statement for a in uses if loop not in a.loops), None)
    outside = outside or next((s for s in scratches if loop in tree.ancestors[s]), None)
    live = outside or first_uninitialised_read(tree, array, loop.body)
    if live is not None or loop.kind == VECTOR:
        raise refusal(
            "E1119",
            f"expected a plain loop that alone accesses `{array.name}`, each iteration of which "
            "writes the elements that it reads",
            ("access", live or loop),
            ("loop", loop),
            help="fuse the loops that write and read the array, and name the loop around both",
        )


def _inside(access: Access, loop: For) -> tuple[For, ...]:
    """Returns the enclosing loops of an access inside an outer loop."""
    return access.loops[access.loops.index(loop) + 1 :]


def _common_loop(tree: LoopTree, array: Var, uses: list[Access], dtype: str) -> For:
    """Returns the innermost loop on whose variable the element depends."""
    elements = [access.mention.element for access in uses]
    first = elements[0] if elements else None
    name = array.name
    if first is None or computed_in(dtype) != dtype or _depends_on_data(first):
        raise refusal(
            "E1116",
            f"expected accesses `{name}[i]` at indices of loops, and a dtype other than a 16-bit "
            "float",
            *[access.statement for access in uses[:1]] or [tree.array(name)],
            help="shrink an array whose elements are written and read in the same loop",
        )
    for access, element in zip(uses, elements, strict=True):
        if not is_same_element(first, element):
            raise refusal(
                "E1117",
                f"expected one element of `{name}` in each iteration, found two",
                ("one", uses[0].statement),
                ("another", access.statement),
                help="fuse the loops that write and read the array, so that their indices agree",
            )
    variables = {p for i in first.indices for p in expressions(i) if isinstance(p, LoopVariable)}
    return max(
        (loop for loop in uses[0].loops if loop.variable in variables),
        key=lambda loop: len(tree.ancestors[loop]),
    )


def _depends_on_data(element: Element) -> bool:
    parts = [part for index in element.indices for part in expressions(index)]
    is_data = any(
        isinstance(p, Element) or (isinstance(p, Local) and not isinstance(p, LoopVariable))
        for p in parts
    )
    return is_data or not any(isinstance(part, LoopVariable) for part in parts)


def _require_private(tree: LoopTree, array: Var, uses: list[Access], loop: For) -> None:
    first = uses[0].statement
    read = first_uninitialised_read(tree, array, loop.body) or read_after(tree, array, loop)
    is_direct = isinstance(first, Assign) and tree.ancestors[first][-1] is loop
    inside = (s for s in tree.within(loop.body) if isinstance(s, Scratch) and s.array is array)
    read = read or next(inside, None)  # an allocation in the loop would zero it in each iteration
    if read is not None or not is_direct or not uses[0].is_write:
        raise refusal(
            "E1119",
            f"expected each iteration of `{loop.variable.name}` to write `{array.name}` first",
            ("access", read or first),
            ("loop", loop),
            help=f"assign the element of `{array.name}` at the beginning of the loop",
        )


shrink.example(
    """
@I.kernel
def chain(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    row = T.empty((n,), "float32")
    for i in range(n):
        row[i] = 2.0 * x[i]
        out[i] = row[i] + row[i]
""",
    "row",
)
shrink.example(
    """
@I.kernel
def chain(x: R.Tensor(("n", 8), "float32"), out: R.Tensor(("n", 8), "float32")):
    n = T.int64()
    row = T.empty((n, 8), "float32")
    for i in range(n):
        for j in range(8):
            row[i, j] = 2.0 * x[i, j]
        for k in range(8):
            out[i, k] = row[i, k] + row[i, 7 - k]
""",
    "row",
    "i",
)
