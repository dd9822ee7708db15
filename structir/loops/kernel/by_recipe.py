"""Groups compiled by a recipe: from the naive kernel of a group to its scheduled kernel.

Groups that differ only in buffers, axes and sizes of the program have one kernel in a process:
`_templates` holds them. Groups of one program that differ only in numbers have one machine code,
which reads these numbers from its table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress

import attrs
import numpy as np

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.expr import Var
from structir.ir.struct_info import PrimStructInfo
from structir.loops.emit.code import KernelCode, code_of
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import with_inlined_values
from structir.loops.handle import KernelHandle, Recipe
from structir.loops.kernel.as_kernel import ShownKernel, shown_kernel
from structir.loops.kernel.block_nodes import block_nodes
from structir.loops.kernel.kernel_key import KernelKey
from structir.loops.kernel.library_nodes import arrays_together, code_of_group, text_of
from structir.loops.kernel.schedule_memo import GroupKey
from structir.loops.lower.as_scalar import KernelParameters, NotShown
from structir.loops.lower.rounding import are_skipped
from structir.loops.program.buffer import Buffer
from structir.loops.program.cost import estimate_of
from structir.loops.program.expression import Operation, walk
from structir.loops.program.kernel_text import KernelText
from structir.loops.recipes.blocks import blocks
from structir.loops.recipes.columns import columns
from structir.loops.recipes.maps import maps
from structir.loops.recipes.rows import rows

_templates: dict[Hashable, _KernelTemplate] = {}
MOST_TEMPLATES = 1024
EVERY_PLACE = range(1 << 62)  # of an integer in a code
NUMBERED = frozenset({"columns", "nest", "rows", "padding", "planes", "windows"})


def recipe_of(group: Group) -> Recipe:
    """Returns the recipe that suits a group."""
    if group.kind in ("columns", "blocks"):
        return columns if group.kind == "columns" else blocks
    return rows if any(stage.reduce for stage in group.stages) else maps


def recipe_kernel(
    group: Group, key: KernelKey, varying: frozenset[int] = frozenset()
) -> KernelText:
    """Returns the kernel of a group by its recipe; raises NotShown if it has no naive kernel. The
    `varying` numbers of its key are in the table, not in the code."""
    constants = tuple([n for n, number in key.numbers.items() if number not in varying])
    template_key = recipe_of(group).name, key.value, varying, constants, are_skipped()
    if template_key not in _templates:
        if len(_templates) >= MOST_TEMPLATES:
            _templates.clear()
        _templates[template_key] = _template(group, key, varying)
    return _templates[template_key].kernel(key)


def kernel_by_recipe(group: Group, name: str) -> ShownKernel:
    """Returns a group that a recipe schedules as a kernel of the program, over its own sizes."""
    inlined = with_inlined_values(group)
    return scheduled_by_recipe(shown_kernel([inlined], name), inlined)


def scheduled_blocks(group: Group, name: str) -> ShownKernel:
    """Returns the scheduled kernel of a group with products."""
    return scheduled_by_recipe(block_nodes(group, name), group)


def scheduled_by_recipe(naive: ShownKernel, group: Group) -> ShownKernel:
    """Returns the kernel of a group with its recipe applied."""
    bodies = [node for stage in group.stages for node in walk(stage.body)]
    is_exact = any(isinstance(node, Operation) and node.exact for node in bodies)
    handle = KernelHandle(naive.kernel, is_exact, partial=True)
    recipe_of(group)(handle)
    return attrs.evolve(naive, kernel=handle.node)


@attrs.frozen(eq=False)
class _KernelTemplate:
    """A scheduled kernel over numbered buffers, and over symbols for sizes and numbers."""

    text: KernelText
    pointers: tuple[int | Buffer, ...]  # indices of buffers of the group, or scratch memory
    sizes: tuple[Dim, ...]
    range: Dim
    symbols: tuple[Sym, ...]  # the sizes of the key
    integers: dict[Sym, int]  # the numbers of the key, by symbols,
    singles: tuple[int, ...]  # and those whose bits follow the sizes

    def kernel(self, key: KernelKey) -> KernelText:
        """Returns the kernel of a group."""
        numbers, buffers = list(key.numbers), [b.root for b in key.buffers]
        values: dict[Sym, Dim] = {
            symbol: dims.as_dim(size) for symbol, size in zip(self.symbols, key.sizes, strict=True)
        }
        values |= {symbol: int(numbers[k]) for symbol, k in self.integers.items()}  # type: ignore[arg-type]
        pointers = [
            buffers[p] if isinstance(p, int) else _renewed(p, values) for p in self.pointers
        ]
        sizes = [dims.substitute(size, values) for size in self.sizes]
        length = dims.substitute(self.range, values)
        return attrs.evolve(
            self.text,
            pointers=tuple(pointers),
            sizes=(*sizes, *[_bits(float(numbers[k][0])) for k in self.singles]),  # type: ignore[index]
            range=length,
            scratch=tuple([b for b in pointers if b.origin == "scratch"]),
            estimate=estimate_of(self.text.code.kernel, values, sizes, length),
        )


def _renewed(buffer: Buffer, values: dict[Sym, Dim]) -> Buffer:
    shape = tuple([dims.substitute(size, values) for size in buffer.shape])
    return Buffer(shape, buffer.dtype, buffer.origin)


def _bits(value: float) -> int:
    """Returns the bits of a float32, as a word of a table."""
    with np.errstate(over="ignore"):
        return int(np.float32(value).view(np.int32))


def _template(group: Group, key: KernelKey, varying: frozenset[int]) -> _KernelTemplate:
    symbols = tuple([Sym(f"n{k}") for k in range(len(key.sizes))])
    integers = {k: Sym(f"m{k}") for n, k in key.numbers.items() if isinstance(n, int)}
    singles = {
        n: Var(f"c{k}", PrimStructInfo("float32"))
        for n, k in key.numbers.items()
        if k in varying and not isinstance(n, int)
    }
    parameters = KernelParameters(
        dict(zip(key.sizes, symbols, strict=True)),
        {
            n: integers[k] if k in varying else n
            for n, k in key.numbers.items()
            if isinstance(n, int)
        },
        singles,
    )
    naive = shown_kernel([group], "kernel", parameters)
    code, params = _compiled(scheduled_by_recipe(naive, group))
    pointers = tuple([key.buffers[params[a]] if a in params else _scratch(a) for a in code.arrays])
    part, count = code.kernel.part, len(code.sizes) - len(code.singles)
    varying_singles = {var: key.numbers[n] for n, var in singles.items()}
    return _KernelTemplate(
        KernelText(
            code.key,
            (),
            (),
            0,
            code=code,
            singles=len(code.singles),
        ),
        pointers,
        code.sizes[:count],
        1 if part is None else part.extent,
        symbols,
        {symbol: k for k, symbol in integers.items()},
        tuple([varying_singles[number] for number in code.singles]),
    )


def _compiled(scheduled: ShownKernel) -> tuple[KernelCode, dict[Var, Buffer]]:
    """Returns the code of a kernel, and the buffers of its parameters."""
    kernel, reads, fills = scheduled.kernel, scheduled.reads, scheduled.fills
    params: dict[Var, Buffer] = dict(zip(kernel.operands, reads, strict=False))
    params |= dict(zip(kernel.results, fills, strict=True))
    return code_of(kernel, is_generated=True, together=arrays_together(scheduled)), params


def _scratch(array: Var) -> Buffer:
    info = array.struct_info
    return Buffer(tuple(info.dims), info.dtype, "scratch")  # type: ignore[attr-defined]


class NumberParameters:
    """The numbers that become parameters of the kernels of a program: those in which groups differ
    that are otherwise equal."""

    def __init__(self) -> None:
        # by the id of groups: these with values inlined, and their keys
        self._keys: dict[int, tuple[Group, KernelKey]] = {}
        self._varying: dict[Hashable, frozenset[int]] = {}
        self._products: list[Group] = []  # groups with products that are not compared yet,
        # and by the id of the others their nodes, and the places of integers that differ
        self._shown: dict[int, ShownKernel] = {}
        self._places: dict[int, frozenset[int]] = {}

    def add(self, groups: Sequence[Group]) -> None:
        """Adds the groups of the program."""
        self._products += [group for group in groups if group.kind == "blocks"]
        classes = defaultdict[Hashable, list[KernelKey]](list)
        for group in groups:
            if group.kind not in NUMBERED:
                continue
            _, key = self._keys[id(group)] = _with_key(group)
            classes[key.value].append(key)
        for value, keys in classes.items():
            columns = enumerate(zip(*[key.numbers for key in keys], strict=True))
            self._varying[value] = frozenset([c for c, column in columns if len({*column}) > 1])

    def _compare_products(self) -> None:
        """Finds groups with products that differ only in some integers of their code."""
        distinct = defaultdict[Hashable, list[Group]](list)
        for group in self._products if len(self._products) > 1 else ():
            distinct[GroupKey(group).value].append(group)
        self._products = []
        if len(distinct) < 2:
            return
        codes = defaultdict[str, list[tuple[KernelCode, list[Group]]]](list)
        for equal in distinct.values():
            shown = self._shown[id(equal[0])] = scheduled_blocks(equal[0], "kernel")
            code = code_of_group(shown, False, EVERY_PLACE)
            codes[code.assembled.text].append((code, equal))
        for alike in codes.values():
            places = alike[0][0].places
            numbers = zip(*[c.sizes[len(c.sizes) - len(places) :] for c, _ in alike], strict=True)
            varying = [p for p, column in zip(places, numbers, strict=True) if len({*column}) > 1]
            for group in [group for _, equal in alike for group in equal] if varying else ():
                self._places[id(group)] = frozenset(varying)

    def kernel_of(self, group: Group, nodes: Callable[[Group, str], ShownKernel]) -> KernelText:
        """Returns the kernel of a group from its nodes."""
        if group.kind == "blocks":
            self._compare_products()
        shown = self._shown.get(id(group)) or nodes(group, "kernel")
        return text_of(shown, group, self.are_shared(group), self._places.get(id(group)))

    def are_shared(self, group: Group) -> bool:
        """Whether another group of the program differs from this one in numbers."""
        known = self._keys.get(id(group))
        return known is not None and bool(self._varying[known[1].value])

    def kernel(self, group: Group) -> KernelText:
        """Returns the kernel of a group of rows by its recipe; raises NotShown for other groups."""
        inlined, key = self._keys.get(id(group)) or _with_key(group)
        varying = self._varying.get(key.value)
        if varying:
            with suppress(NotShown):  # a number that is in the code
                return attrs.evolve(recipe_kernel(inlined, key, varying), origins=group.origins)
        return attrs.evolve(recipe_kernel(inlined, key), origins=group.origins)


def _with_key(group: Group) -> tuple[Group, KernelKey]:
    inlined = with_inlined_values(group)
    return inlined, KernelKey(inlined)
