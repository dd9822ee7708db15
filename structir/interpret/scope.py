"""Run-time scopes: the values of the variables and the symbolic dims of an activation."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from typing import Any

import attrs

from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.interpret.out_of_memory import within_memory
from structir.ir import dims
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
            raise StructIRError(
                f"cannot evaluate the size {dims.text(dim)}: unbound {', '.join(sorted(unknown))}"
            )
        if any([type(self.sizes[s]) is dims.Poly for s in dims.syms(dim)]):
            return dims.substitute(dim, self.sizes)
        return dims.evaluate(dim, self.sizes)


@attrs.frozen(eq=False)
class Closure:
    """A function as a value: its code, its enclosing scope, and its name in messages."""

    function: Function
    outer: Activation | None
    name: str
    call: Callable[..., Value]
    loop: Callable[..., Any] | None = None  # runs a whole loop over the function, if supported

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        if names:
            args = arguments_of(self.name, self.function.params, args, names)
        with within_memory(self.name):
            return self.call(self, args)


def arguments_of(
    name: str, params: Sequence[Var], args: Sequence[Value], names: Mapping[str, Value]
) -> tuple[Value, ...]:
    """Returns the arguments of a call in the order of the parameters: `args` by position, `names`
    by keyword.

    Raises DiagnosticError unless each parameter has one argument.
    """
    if not names and len(args) == len(params):
        return tuple(args)
    order = [param.name for param in params]
    for keyword in names:
        if order.count(keyword) != 1:
            raise _unexpected_name(name, keyword, order)
        if keyword in order[: len(args)]:
            message = f"parameter `{keyword}`: expected one argument, found two"
            raise _wrong_call(name, message, f"remove `{keyword}=...`, or name more arguments")
    missing = [param for param in order[len(args) :] if param not in names]
    if missing or len(args) > len(params):
        raise _wrong_count(name, order, len(args) + len(names), missing if names else [])
    return (*args, *[names[param] for param in order[len(args) :]])


def check_call(name: str, params: Sequence[Var], args: Sequence[Value]) -> None:
    """Raises DiagnosticError unless each parameter has one positional argument."""
    if len(args) != len(params):
        raise _wrong_count(name, [param.name for param in params], len(args), [])


def _unexpected_name(name: str, keyword: str, order: Sequence[str]) -> DiagnosticError:
    """Returns the error of a keyword that names no parameter, or several."""
    message = f"unexpected keyword argument `{keyword}`"
    if keyword == "out":
        return _wrong_call(name, f"{message}: results are always new arrays", "remove `out=...`")
    if order.count(keyword) > 1:
        hint = f"pass arguments by position: `{name}({', '.join(order)})`"
        return _wrong_call(name, f"{message}: {order.count(keyword)} parameters have it", hint)
    matches = get_close_matches(keyword, order, 1)
    hint = f"did you mean `{matches[0]}`?" if matches else f"write `{name}({', '.join(order)})`"
    expected = f": expected one of {', '.join(order)}" if order else ""
    return _wrong_call(name, message + expected, hint)


def _wrong_count(
    name: str, order: Sequence[str], count: int, missing: Sequence[str]
) -> DiagnosticError:
    """Returns the error of missing or surplus arguments."""
    expected = "1 argument" if len(order) == 1 else f"{len(order)} arguments"
    absent = f": missing {', '.join([f'`{param}`' for param in missing])}" if missing else ""
    hint = f"write `{name}({', '.join(order)})`"
    return _wrong_call(name, f"expected {expected}, found {count}{absent}", hint)


def _wrong_call(name: str, message: str, hint: str) -> DiagnosticError:
    return DiagnosticError(Diagnostic(message, op=name, hint=hint, code="E0704"))
