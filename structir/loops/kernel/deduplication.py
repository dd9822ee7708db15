"""Kernels by recipe of one program that differ only in numbers: one machine code, which reads these
numbers from its table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress

import attrs

from structir.loops.emit.code import KernelCode
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import with_inlined_values
from structir.loops.kernel.as_kernel import ShownKernel
from structir.loops.kernel.by_recipe import recipe_kernel, scheduled_blocks
from structir.loops.kernel.kernel_key import KernelKey
from structir.loops.kernel.library_nodes import code_of_group, text_of
from structir.loops.kernel.schedule_memo import GroupKey
from structir.loops.lower.as_scalar import NotShown
from structir.loops.program.kernel_text import KernelText

EVERY_PLACE = range(1 << 62)  # of an integer in a code
KINDS = frozenset({"columns", "nest", "rows", "padding", "planes", "windows"})


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
            if group.kind not in KINDS:
                continue
            _, key = self._keys[id(group)] = _with_key(group)
            classes[key.value].append(key)
        for value, keys in classes.items():
            columns = enumerate(zip(*[key.numbers for key in keys], strict=True))
            self._varying[value] = frozenset([c for c, column in columns if len({*column}) > 1])

    def _compare_products(self) -> None:
        """Finds groups with products that differ only in some integers of their code."""
        distinct = defaultdict[Hashable, list[Group]](list)
        for group in self._products:
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
