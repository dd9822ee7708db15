"""What is known while a function runs: the values of its variables and of its symbolic sizes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.ir import dims
from structir.ir.dims import Dim
from structir.ir.expr import Function, Var

Value = Any  # a NumPy array, a tuple, a tuple of ints (a shape), a number, a text, a function


class ForeignTensor:
    """A tensor that does not lie in NumPy's memory: all that is asked of it here is its form."""

    __slots__ = ()
    shape: Any
    dtype: Any

    @property
    def ndim(self) -> int:
        """How many axes it has."""
        return len(self.shape)


@attrs.frozen(eq=False)
class Scope:
    """Variables and sizes of one activation; a closure's activation sees those around its
    definition."""

    values: MutableMapping[Var, Value]
    sizes: MutableMapping[Any, Any]  # symbolic variables to numbers, row variables to shapes

    @staticmethod
    def inside(outer: Scope | None) -> Scope:
        """A new scope within another one, or on its own."""
        if outer is None:
            return Scope({}, {})
        return Scope(ChainMap({}, outer.values), ChainMap({}, outer.sizes))

    def value(self, var: Var) -> Value:
        """What a variable holds."""
        if var not in self.values:
            raise StructIRError(f"{var.name} is used before it is bound")
        return self.values[var]

    def size(self, dim: Dim) -> int:
        """A size as a number."""
        if isinstance(dim, int):
            return dim
        unknown = [s.name for s in dims.syms(dim) if s not in self.sizes]
        if unknown:
            raise StructIRError(
                f"nothing binds {', '.join(sorted(unknown))} of the size {dims.text(dim)}"
            )
        return dims.evaluate(dim, self.sizes)


@attrs.frozen(eq=False)
class Closure:
    """A function as a value: its code, the scope around it, and the name that errors call it by."""

    function: Function
    outer: Scope | None
    name: str
    call: Callable[..., Value]
    loop: Callable[..., Any] | None = None  # makes all steps of a loop over it, where it can

    def __call__(self, *args: Value) -> Value:
        return self.call(self, args)
