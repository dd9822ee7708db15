"""Kernels by recipe of one program that differ only in numbers: one machine code, which reads these
numbers from its table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

import attrs

from structir.backend.loops.by_recipe import recipe_kernel
from structir.backend.loops.group import Group
from structir.backend.loops.inlined_values import with_inlined_values
from structir.backend.loops.kernel_key import KernelKey, ProductKey
from structir.backend.loops.writer import KernelText

KINDS = frozenset({"columns", "nest", "rows", "padding", "planes", "windows"})


class SharedNumbers:
    """The numbers that become parameters of the kernels of a program: those in which groups differ
    that are otherwise equal."""

    def __init__(self) -> None:
        # by the id of groups: these with values inlined, and their keys
        self._keys: dict[int, tuple[Group, KernelKey]] = {}
        self._varying: dict[Hashable, frozenset[int]] = {}
        self._products: set[int] = set()  # the ids of groups with products that differ in numbers

    def add(self, groups: Sequence[Group]) -> None:
        """Adds the groups of the program."""
        self._add_products([group for group in groups if group.kind == "blocks"])
        classes = defaultdict[Hashable, list[KernelKey]](list)
        for group in groups:
            if group.kind not in KINDS:
                continue
            _, key = self._keys[id(group)] = _with_key(group)
            classes[key.value].append(key)
        for value, keys in classes.items():
            columns = enumerate(zip(*[key.numbers for key in keys], strict=True))
            self._varying[value] = frozenset([c for c, column in columns if len({*column}) > 1])

    def _add_products(self, groups: Sequence[Group]) -> None:
        classes = defaultdict[Hashable, dict[int, Hashable]](dict)
        for group in groups:
            key = ProductKey(group)
            classes[key.value][id(group)] = tuple(key.integers), tuple(key.numbers)
        for members in classes.values():
            if len({*members.values()}) > 1:
                self._products |= members.keys()

    def are_shared(self, group: Group) -> bool:
        """Whether another group of the program differs from this one in numbers."""
        if id(group) in self._products:
            return True
        known = self._keys.get(id(group))
        return known is not None and bool(self._varying[known[1].value])

    def kernel(self, group: Group) -> KernelText | None:
        """Returns the kernel of a group of rows by its recipe, if it has one."""
        inlined, key = self._keys.get(id(group)) or _with_key(group)
        varying = self._varying.get(key.value)
        kernel = recipe_kernel(inlined, key, varying) if varying else None
        kernel = kernel or recipe_kernel(inlined, key)
        return None if kernel is None else attrs.evolve(kernel, origins=group.origins)


def _with_key(group: Group) -> tuple[Group, KernelKey]:
    inlined = with_inlined_values(group)
    return inlined, KernelKey(inlined)
