"""Inlines a local array or an index: recomputes it at each read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from structir.ir.kernel import Assign, Element, Kernel, KernelStatement, Local
from structir.loops.schedule.edits import exchange_all, fresh_copy, substitute
from structir.loops.schedule.loop_tree import LoopTree, derive, loop_tree
from structir.loops.schedule.nests import following
from structir.loops.schedule.primitive import primitive
from structir.loops.schedule.producers import producer, refuse_changes, require_reads_after


@primitive
def inline(kernel: Kernel, memory: str) -> Kernel:
    """Removes a local array and its producer loops: each read computes the element instead.

    The array must have one store, indexed by its loop variables. Refused if an operand of the
    elements changes before they are read. Each read recomputes the value: do not inline the
    operands of matrix products.

    An index that is assigned once, from loop variables and sizes, is replaced by its value.
    """
    tree = loop_tree(kernel)
    if memory in tree.scalars and tree.values.get(tree.scalars[memory]) is not None:
        return _without_index(kernel, tree, tree.scalars[memory])
    scratch = tree.array(memory)
    array = scratch.array
    uses = [a for a in tree.uses(array) if a.statement != scratch]
    store, nest = producer(tree, array, uses)
    block = tree.block_of(nest)
    later = block[following(block, nest) + 1 :]
    require_reads_after(tree, array, uses, (nest, *later))
    refuse_changes(tree, store, uses, later)
    variables = store.target.indices  # type: ignore[union-attr]

    def read(part: Any) -> Any:
        if not isinstance(part, Element) or part.array is not array:
            return None
        indices = [substitute(index, read) for index in part.indices]
        return fresh_copy(None, store.value, dict(zip(variables, indices, strict=True)))

    exchanges: dict[KernelStatement, Sequence[KernelStatement]] = {nest: (), scratch: ()}
    exchanges |= {s: (substitute(s, read),) for s in later}
    return exchange_all(kernel, exchanges)


def _without_index(kernel: Kernel, tree: LoopTree, index: Local) -> Kernel:
    """Returns the kernel with the value of an index instead of its name."""
    uses = tree.uses(index)
    (assign,) = [a.statement for a in uses if a.is_write]
    assert isinstance(assign, Assign)
    value = assign.value

    def read(part: Any) -> Any:
        if part is assign:
            return part
        return fresh_copy(None, value) if part is index else None

    body = tuple([substitute(statement, read) for statement in kernel.body])
    new = derive(attrs.evolve(kernel, body=body), kernel)
    return exchange_all(new, {assign: ()})


inline.example(
    """
@I.kernel
def chain(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    row = T.empty((n,), "float32")
    for i in range(n):
        row[i] = 2.0 * x[i]
    for j in range(n):
        out[j] = row[j] + 1.0
""",
    "row",
)
inline.example(
    """
@I.kernel
def scale(x: R.Tensor(("n",), "float32"), out: R.Tensor(("n",), "float32")):
    n = T.int64()
    for i_0 in range(0, n, 64):
        end = min(i_0 + 64, n)
        for i in range(i_0, end):
            out[i] = 2.0 * x[i]
""",
    "end",
)
