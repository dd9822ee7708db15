"""Kernel handles: the mutable state of a schedule, with a method for each primitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs

from structir.ir.kernel import Kernel
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.schedule.loop_tree import LoopTree, loop_tree, prepared
from structir.loops.schedule.refusal import ScheduleError


@attrs.frozen(eq=False)
class Step:
    """An applied primitive, and the kernel before it."""

    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]
    before: Kernel

    def __str__(self) -> str:
        arguments = [*map(_literal, self.args)]
        arguments += [f"{name}={_literal(value)}" for name, value in self.options.items()]
        return f"{self.name}({', '.join(arguments)})"

    __repr__ = __str__


class KernelHandle:
    """A kernel that is being scheduled.

    Each primitive is a method, which transforms the kernel and returns the handle; `handle["i"]` is
    a loop. `exact` refuses primitives that change rounding. A `partial` kernel does not initialise
    its results: elements that it does not write keep their values.
    """

    def __init__(self, kernel: Kernel, exact: bool = False, partial: bool = False) -> None:
        self.node, self.exact, self.partial = prepared(kernel), exact, partial
        self.steps: list[Step] = []

    def __getattr__(self, name: str) -> Callable[..., KernelHandle]:
        if name.startswith("_"):
            raise AttributeError(name)
        primitive = find_primitive(name)

        def apply(*args: Any, **options: Any) -> KernelHandle:
            new = primitive(self.node, *args, **{"exact": self.exact, **options})
            self.steps.append(Step(name, args, options, self.node))
            self.node = new
            return self

        apply.__name__, apply.__doc__ = name, primitive.__doc__
        return apply

    def __getitem__(self, loop: str) -> LoopHandle:
        loop_tree(self.node).loop(loop)
        return LoopHandle(self, loop)

    @property
    def tree(self) -> LoopTree:
        """The loops, names and accesses of the kernel."""
        return loop_tree(self.node)

    def attempt(self, name: str, *args: Any, **options: Any) -> bool:
        """Applies a primitive unless it is refused; returns whether it was applied.

        Raises UnknownPrimitiveError if there is no primitive of this name.
        """
        primitive = getattr(self, name)
        try:
            primitive(*args, **options)
        except ScheduleError:
            return False
        return True

    def is_changed(self) -> bool:
        """Whether a primitive was applied."""
        return bool(self.steps)

    def undo(self, count: int = 1) -> KernelHandle:
        """Undoes the last `count` primitives, or all if there are fewer."""
        for _ in range(min(count, len(self.steps))):
            self.node = self.steps.pop().before
        return self

    def loops(self) -> list[str]:
        """Returns the names of the loops, in order."""
        return list(self.tree.loops)

    def __str__(self) -> str:
        return self.node.script().rstrip()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Returns the HTML that a notebook displays."""
        return self.node._repr_html_()

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *primitive_names()})

    def _ipython_key_completions_(self) -> list[str]:
        return self.loops()


class LoopHandle:
    """A loop of a kernel: `handle["i"].split(64)` is `handle.split("i", 64)`."""

    def __init__(self, kernel: KernelHandle, name: str) -> None:
        self._kernel, self._name = kernel, name

    def __getattr__(self, name: str) -> Callable[..., KernelHandle]:
        apply = getattr(self._kernel, name)
        return lambda *args, **options: apply(self._name, *args, **options)

    def __str__(self) -> str:
        return str(loop_tree(self._kernel.node).loop(self._name))

    __repr__ = __str__

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *primitive_names()})


def _literal(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)
