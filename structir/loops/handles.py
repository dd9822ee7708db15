"""Handles of kernels and loops: primitives as methods, which change the kernel of the handle."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from functools import partial
from typing import Any

from structir.ir.kernel import Kernel
from structir.loops.loop_tree import LoopTree, loop_tree, prepared
from structir.loops.primitive import Primitive
from structir.loops.primitives import find_primitive, primitive_names
from structir.loops.refusal import refusal


class KernelHandle:
    """A kernel that is being scheduled: `handle.split("i", 64).vectorise("i")`.

    Each primitive is a method that changes the kernel and returns the handle. `handle["i"]` is the
    loop over `i`. `steps` lists the primitives that were applied.
    """

    def __init__(self, kernel: Kernel, exact: bool = False) -> None:
        self.kernel, self.exact = prepared(kernel), exact
        self.steps: list[str] = []

    @property
    def loops(self) -> list[str]:
        """The names of the loops, in order."""
        return list(self._tree.loops)

    @property
    def arrays(self) -> list[str]:
        """The names of the local arrays."""
        return list(self._tree.arrays)

    @property
    def scalars(self) -> list[str]:
        """The names of the assigned scalars."""
        return list(self._tree.scalars)

    @property
    def _tree(self) -> LoopTree:
        return loop_tree(self.kernel)

    def apply(self, primitive: Primitive, *args: Any, **keywords: Any) -> KernelHandle:
        """Applies a primitive to the kernel; returns the handle.

        Raises ScheduleError where the primitive is refused. The kernel is unchanged then.
        """
        self.kernel = primitive(self.kernel, *args, **{"exact": self.exact, **keywords})
        arguments = [*map(repr, args), *[f"{k}={v!r}" for k, v in keywords.items()]]
        self.steps.append(f"{primitive.name}({', '.join(arguments)})")
        return self

    def __getattr__(self, name: str) -> Callable[..., KernelHandle]:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self.apply, primitive_named(name))

    def __getitem__(self, name: str) -> LoopHandle:
        self._tree.loop(name)
        return LoopHandle(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *primitive_names()})

    def _ipython_key_completions_(self) -> list[str]:
        return self.loops

    def __str__(self) -> str:
        return str(self.kernel)

    def __repr__(self) -> str:
        return f"<kernel {self.kernel.name}: loops {', '.join(self.loops) or 'none'}>"


class LoopHandle:
    """A loop of a kernel by name: `handle["i"].split(64)` is `handle.split("i", 64)`."""

    def __init__(self, handle: KernelHandle, name: str) -> None:
        self.handle, self.name = handle, name

    def __getattr__(self, name: str) -> Callable[..., KernelHandle]:
        if name.startswith("_"):
            raise AttributeError(name)
        return partial(self.handle.apply, primitive_named(name), self.name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *primitive_names()})

    def __str__(self) -> str:
        return str(loop_tree(self.handle.kernel).loop(self.name))

    def __repr__(self) -> str:
        return f"<loop {self.name} of kernel {self.handle.kernel.name}>"


def primitive_named(name: str) -> Primitive:
    """Returns the primitive of a name; raises ScheduleError with the closest one if none is."""
    if name in primitive_names():
        return find_primitive(name)  # type: ignore[no-any-return]
    close = difflib.get_close_matches(name, primitive_names(), 1)
    help = f"did you mean `{close[0]}`?" if close else f"use one of {', '.join(primitive_names())}"
    raise refusal("E1115", f"expected the name of a primitive, found `{name}`", help=help)
