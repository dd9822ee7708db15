"""Versions a kernel for one value of a size."""

from __future__ import annotations

from typing import Any

import attrs

from structir.ir import dims
from structir.ir.kernel import Apply, Branch, Extent, Kernel, Part, Scratch, Size
from structir.ir.node import rebuild
from structir.loops.schedule.edits import Names, fold_apply, fresh_copy, integer, substitute
from structir.loops.schedule.loop_tree import LoopTree, loop_tree
from structir.loops.schedule.primitive import positive, primitive
from structir.loops.schedule.refusal import refusal


@primitive
def specialise(kernel: Kernel, size: str, value: int) -> Kernel:
    """Versions a kernel: one copy for a constant value of a size, and one for all others.

    In the first copy the size is a constant, so that `split(..., tail="exact")` and `unroll` apply
    to loops over it. Its loops keep their names; those of the second copy get new ones.
    """
    tree = loop_tree(kernel)
    positive(value, "value")
    symbol = _symbol(tree, size)

    def change(part: Any) -> Any:
        if isinstance(part, Apply):
            return fold_apply(rebuild(part, lambda arg: substitute(arg, change)))
        if not isinstance(part, Size | Extent):
            return None
        dim = dims.substitute(_dim_of(part), {symbol: value})
        return integer(dim) if isinstance(dim, int) else Size(dim, part.dtype, part.span)

    head = [s for s in kernel.body if isinstance(s, Scratch | Part)]
    rest = [s for s in kernel.body if not isinstance(s, Scratch | Part)]
    names, copies = Names(tree), dict[Any, Any]()
    others = tuple([fresh_copy(names, statement, copies) for statement in rest])
    test = Apply("eq", (Size(dims.as_dim(symbol)), integer(value)), "bool")
    branch = Branch(test, tuple([substitute(statement, change) for statement in rest]), others)
    return attrs.evolve(kernel, body=(*head, branch))


def _dim_of(scalar: Size | Extent) -> dims.Dim:
    if isinstance(scalar, Size):
        return scalar.dim
    info: Any = scalar.array.struct_info
    dim: dims.Dim = info.dims[scalar.axis]
    return dim


def _symbol(tree: LoopTree, name: str) -> dims.Sym:
    """Returns the size of this name; raises ScheduleError if the kernel has none."""
    infos: list[Any] = [param.struct_info for param in tree.kernel.params]
    sizes = [dim for info in infos for dim in getattr(info, "dims", None) or ()]
    symbols = {symbol.name: symbol for dim in sizes for symbol in dims.syms(dim)}
    if name not in symbols:
        listed = ", ".join(f"`{known}`" for known in symbols) or "none"
        message = f"expected the name of a size, found `{name}`"
        raise refusal("E1115", message, help=f"the sizes of the kernel are {listed}")
    return symbols[name]


specialise.example(
    """
@I.kernel
def scale(x: R.Tensor(("n", "m"), "float32"), out: R.Tensor(("n", "m"), "float32")):
    n = T.int64()
    m = T.int64()
    for i in range(n):
        for j in range(m):
            out[i, j] = 2.0 * x[i, j]
""",
    "m",
    64,
)
