"""Keys of groups whose kernels share one machine code: names, sizes and numbers do not count."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from structir.ir.dims import Opaque, Sym
from structir.loops.fusion.group import Group
from structir.loops.fusion.simplify import simplified
from structir.loops.kernel.schedule_memo import GroupKey
from structir.loops.lower.as_scalar import LEAST
from structir.loops.program.expression import Expression
from structir.loops.program.stage import Stage


class KernelKey(GroupKey):
    """The key of a group, the sizes of the program that it mentions, and its numbers: integers and
    float32 constants.

    Numbers of equal groups are equal where the group has the same one. Small integers, divisors
    and constants of other dtypes are in the key, data of constants are not.
    """

    def __init__(self, group: Group) -> None:
        self.sizes: dict[Sym, int] = {}
        self.numbers: dict[int | tuple[str, str], int] = {}
        self._functions = 0  # of sizes, around what is being visited
        super().__init__(group)

    def _body(self, stage: Stage) -> Expression:
        return simplified(stage.body)  # which depends on the numbers

    def _function(self, atom: Opaque) -> Hashable:
        self._functions += 1
        facts = super()._function(atom)
        self._functions -= 1
        return facts

    def _size(self, size: Sym) -> Hashable:
        self.sizes.setdefault(size, len(self.sizes))
        return "size"

    def _integer(self, value: int) -> Hashable:
        if abs(value) < LEAST or self._functions:
            return value
        return "integer", value < 0, self.numbers.setdefault(abs(value), len(self.numbers))

    def _number(self, value: Any, dtype: str) -> Hashable:
        if dtype != "float32":
            return repr(value)
        return "single", self.numbers.setdefault((repr(value), dtype), len(self.numbers))

    def _data(self, data: Any) -> Hashable:
        return None
