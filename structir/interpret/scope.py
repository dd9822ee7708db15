"""Run-time scopes: the values of the variables and the symbolic dims of an activation."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, MutableMapping
from functools import partial
from typing import Any

import attrs

from structir.analysis.arguments import arguments_of, default_values
from structir.errors import StructIRError
from structir.interpret.out_of_memory import within_memory
from structir.ir import dims
from structir.ir.binding_dims import bind_row_sizes
from structir.ir.dims import Dim, as_sym
from structir.ir.expr import Function, Var

Value = Any  # a NumPy array, a tuple, a tuple of ints (a shape), a number, a string, a function


class ForeignTensor:
    """A tensor outside of NumPy's memory, of which only shape and dtype are used."""

    __slots__ = ()
    shape: Any
    dtype: Any

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)


class ScopeChain(ChainMap[Any, Any]):
    """A chain of scopes, innermost first, with a fast lookup."""

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
        """Returns the value of a key, or the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Returns the value of a key; sets the default in the innermost scope if missing."""
        try:
            return self[key]
        except KeyError:
            self.maps[0][key] = default
            return default


@attrs.frozen(eq=False)
class Activation:
    """Variables and sizes of one activation; a closure also has those of its definition."""

    values: MutableMapping[Var, Value]
    sizes: MutableMapping[Any, Any]  # symbolic variables to numbers, row variables to shapes

    @staticmethod
    def inside(outer: Activation | None) -> Activation:
        """Returns a new scope, nested in `outer` if any."""
        if outer is None:
            return Activation({}, {})
        return Activation(ScopeChain({}, outer.values), ScopeChain({}, outer.sizes))

    def value(self, var: Var) -> Value:
        """Returns the value of a variable."""
        try:
            return self.values[var]
        except KeyError:
            raise StructIRError(f"{var.name} is used before it is bound") from None

    def size(self, dim: Dim) -> Any:
        """Evaluates a size: an integer; a dim if the sizes of the scope are dims."""
        if isinstance(dim, int):
            return dim
        symbol = as_sym(dim)
        if symbol is not None and symbol in self.sizes:
            size = self.sizes[symbol]
            return size if type(size) is dims.Poly else int(size)
        unknown = [s.name for s in dims.syms(dim) if s not in self.sizes]
        if unknown:
            bind_row_sizes(dims.syms(dim), self.sizes)
            unknown = [s.name for s in dims.syms(dim) if s not in self.sizes]
        if unknown:
            raise StructIRError(
                f"cannot evaluate the size {dims.text(dim)}: unbound {', '.join(sorted(unknown))}"
            )
        if any([type(self.sizes[s]) is dims.Poly for s in dims.syms(dim)]):
            return dims.substitute(dim, self.sizes)
        return dims.evaluate(dim, self.sizes)


@attrs.frozen(eq=False, repr=False)
class Closure:
    """A function as a value: its code, its enclosing scope, and its name in messages."""

    function: Function
    outer: Activation | None
    name: str
    call: Callable[..., Value]
    loop: Callable[..., Any] | None = None  # runs a whole loop over the function, if supported

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.struct_info}" for p in self.function.params)
        return f"<Closure {self.name}({params})>"

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        params = self.function.params
        if names or len(args) < len(params):
            defaults = partial(default_values, self.function)
            args = arguments_of(self.name, params, args, names, defaults)
        with within_memory(self.name):
            return self.call(self, args)
