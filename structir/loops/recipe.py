"""Recipes: functions that schedule a kernel for a target, with tunable numbers."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from structir.errors import Diagnostic
from structir.loops.handle import KernelHandle
from structir.loops.schedule.refusal import ScheduleError


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
