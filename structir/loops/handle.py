"""Kernel handles: the mutable state of a schedule, with a method for each primitive. Recipes:
functions that schedule the kernel of a handle for a target, with tunable numbers."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic
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


@attrs.frozen
class TargetInfo:
    """The parameters of a CPU: float32 lanes per vector, vector registers, and the cache sizes of a
    core in bytes, L1 first."""

    lanes: int = 8
    registers: int = 16
    caches: tuple[int, ...] = (1 << 15, 1 << 20, 1 << 25)


@attrs.frozen(eq=False)
class Recipe:
    """A function that applies primitives to the kernel of a handle.

    Its parameters are the handle, the target, and tunable numbers with defaults.
    """

    name: str
    function: Callable[..., None]

    def __call__(
        self, handle: KernelHandle, target: TargetInfo | None = None, **numbers: float
    ) -> KernelHandle:
        """Applies the recipe; undoes all its steps if a primitive is refused."""
        unknown = next((name for name in numbers if name not in self.config()), None)
        if unknown is not None:
            close = difflib.get_close_matches(unknown, self.config(), 1)
            names = ", ".join(f"`{name}={value}`" for name, value in self.config().items())
            help = f"did you mean `{close[0]}`?" if close else f"the numbers are: {names or 'none'}"
            message = f"the recipe has no number `{unknown}`"
            raise ScheduleError(Diagnostic(message, None, self.name, hint=help, code="E1115"))
        count = len(handle.steps)
        try:
            self.function(handle, TargetInfo() if target is None else target, **numbers)
        except ScheduleError:
            handle.undo(len(handle.steps) - count)
            raise
        return handle

    def config(self) -> Mapping[str, Any]:
        """Returns the numbers of the recipe, with their defaults."""
        parameters = list(inspect.signature(self.function).parameters.values())[2:]
        return {p.name: p.default for p in parameters}

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return inspect.getdoc(self.function) or ""


def recipe(function: Callable[..., None]) -> Recipe:
    """Declares a recipe from a function `name(kernel, target, number=8)` that applies primitives to
    the handle `kernel`."""
    return Recipe(function.__name__, function)
