"""Groups compiled by a recipe: from the naive kernel of a group to its scheduled kernel.

It is used for the kinds of groups that `with_recipes` names, an internal setting; others have
generators.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from structir.backend.emit.code import code_of
from structir.backend.loops.as_kernel import ShownKernel, shown_kernel
from structir.backend.loops.as_scalar import NotShown
from structir.backend.loops.buffer import Buffer
from structir.backend.loops.group import Group
from structir.backend.loops.writer import KernelText
from structir.ir.expr import Var
from structir.ir.kernel import Kernel
from structir.loops.handle import KernelHandle
from structir.loops.recipes import find_recipe

_recipes: ContextVar[frozenset[str]] = ContextVar("recipes", default=frozenset())


@contextmanager
def with_recipes(*names: str) -> Iterator[None]:
    """Compiles the groups that these recipes suit by them."""
    token = _recipes.set(frozenset(names))
    try:
        yield
    finally:
        _recipes.reset(token)


def recipes_used() -> list[str]:
    """Returns the names of the recipes that groups are compiled by, sorted."""
    return sorted(_recipes.get())


def recipe_of(group: Group) -> str:
    """Returns the name of the recipe that suits a group of rows."""
    return "rows" if any(stage.reduce for stage in group.stages) else "maps"


def recipe_kernel(group: Group) -> KernelText | None:
    """Returns the kernel of a group by its recipe; None if the recipe is not used, or the group has
    no naive kernel."""
    name = recipe_of(group)
    if name not in _recipes.get():
        return None
    try:
        naive = shown_kernel([group], "kernel")
    except NotShown:
        return None
    handle = KernelHandle(naive.kernel, partial=True)
    find_recipe(name)(handle)
    return _text(naive, handle.node, group)


def _text(naive: ShownKernel, kernel: Kernel, group: Group) -> KernelText:
    """The scheduled kernel, over the buffers of the group."""
    params: dict[Var, Buffer] = dict(
        zip(naive.kernel.operands, (*naive.reads, *naive.numbers), strict=True)  # type: ignore[arg-type]
    )
    params |= dict(zip(naive.kernel.results, naive.fills, strict=True))
    written = [buffer.root for buffer in naive.fills]
    is_apart = len({*written}) == len(written) and not {b.root for b in naive.reads} & {*written}
    code = code_of(kernel, is_generated=True, is_apart=is_apart)
    pointers, scratch = list[Buffer](), list[Buffer]()
    for array in code.arrays:
        buffer = params[array].root if array in params else _scratch(array)
        pointers.append(buffer)
        scratch += [] if array in params else [buffer]
    part = kernel.part
    return KernelText(
        code.source,
        tuple(pointers),
        code.sizes,
        1 if part is None else part.extent,
        tuple(scratch),
        group.origins,
        names=code.names,
        assembled=code.assembled,
    )


def _scratch(array: Var) -> Buffer:
    info = array.struct_info
    return Buffer(tuple(info.dims), info.dtype, "scratch")  # type: ignore[attr-defined]
