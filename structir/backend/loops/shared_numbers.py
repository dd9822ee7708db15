"""Kernels by recipe of one program that differ in numbers only: one machine code, which reads these
numbers from its table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence

from structir.backend.loops.by_recipe import recipe_kernel, recipe_of
from structir.backend.loops.group import Group
from structir.backend.loops.kernel_key import KernelKey
from structir.backend.loops.writer import KernelText


def with_shared_numbers(
    groups: Sequence[Group], kernels: Sequence[KernelText]
) -> tuple[KernelText, ...]:
    """Returns the kernels of groups; those of maps that differ in numbers only have one code.
    Numbers that they have in common remain constants."""
    maps = [k for k, group in enumerate(groups) if _is_map_by_recipe(group, kernels[k])]
    if len({kernels[k].text for k in maps}) < 2:
        return tuple(kernels)
    result, classes = list(kernels), defaultdict[Hashable, list[tuple[int, KernelKey]]](list)
    for k in maps:
        key = KernelKey(groups[k])
        classes[key.value].append((k, key))
    for members in classes.values():
        columns = zip(*[key.numbers for _, key in members], strict=True)
        varying = frozenset([c for c, column in enumerate(columns) if len({*column}) > 1])
        for k, _ in members if varying else ():
            result[k] = recipe_kernel(groups[k], varying) or kernels[k]
    return tuple(result)


def _is_map_by_recipe(group: Group, kernel: KernelText) -> bool:
    # kernels of reductions count terms with products of sizes, which are not among the numbers
    return kernel.assembled is not None and group.kind == "rows" and recipe_of(group) == "maps"
