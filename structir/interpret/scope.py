"""What is known while a function runs: the values of its variables and of its symbolic sizes."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from typing import Any

import attrs

from structir.errors import StructIRError
from structir.interpret.out_of_memory import within_memory
from structir.ir import dims
from structir.ir.dims import Dim, as_sym
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


class ScopeChain(ChainMap[Any, Any]):
    """What is known inside, then what is known around it; asked for one thing it is quick."""

    def __getitem__(self, key: Any) -> Any:
        inner, outer = self.maps
        try:
            return inner[key]
        except KeyError:
            return outer[key]

    def __contains__(self, key: object) -> bool:
        inner, outer = self.maps
        return key in inner or key in outer

    def get(self, key: Any, default: Any = None) -> Any:
        """What is known of a key, or the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """What is known of a key; if nothing is, the default becomes known inside."""
        try:
            return self[key]
        except KeyError:
            self.maps[0][key] = default
            return default


@attrs.frozen(eq=False)
class Activation:
    """Variables and sizes of one activation; a closure's activation sees those around its
    definition."""

    values: MutableMapping[Var, Value]
    sizes: MutableMapping[Any, Any]  # symbolic variables to numbers, row variables to shapes

    @staticmethod
    def inside(outer: Activation | None) -> Activation:
        """A new scope within another one, or on its own."""
        if outer is None:
            return Activation({}, {})
        return Activation(ScopeChain({}, outer.values), ScopeChain({}, outer.sizes))

    def value(self, var: Var) -> Value:
        """What a variable holds."""
        try:
            return self.values[var]
        except KeyError:
            raise StructIRError(f"{var.name} is used before it is bound") from None

    def size(self, dim: Dim) -> int:
        """A size as a number."""
        if isinstance(dim, int):
            return dim
        symbol = as_sym(dim)
        if symbol is not None and symbol in self.sizes:
            return int(self.sizes[symbol])
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
    outer: Activation | None
    name: str
    call: Callable[..., Value]
    loop: Callable[..., Any] | None = None  # makes all steps of a loop over it, where it can

    def __call__(self, *args: Value, **names: Value) -> Value:
        if names:
            check_call(self.name, self.function.params, args, names)
        with within_memory(self.name):
            return self.call(self, args)


def check_call(
    name: str, params: Sequence[Var], args: Sequence[Value], names: Iterable[str] = ()
) -> None:
    """Raise unless each parameter has its argument, by position and not by name."""
    for given in names:
        if given == "out":
            raise StructIRError(f"{name} always gives new results: it takes no out=")
        order = f"{name}({', '.join([param.name for param in params])})"
        raise StructIRError(f"{name} takes its arguments by position, {order}, not {given}=")
    if len(args) != len(params):
        count = "1 argument" if len(params) == 1 else f"{len(params)} arguments"
        are = "is" if len(args) == 1 else "are"
        raise StructIRError(f"{name} takes {count}, but {len(args)} {are} given", code="E0704")
