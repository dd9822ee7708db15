"""The registry of external functions, by the names in programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from structir.errors import StructIRError
from structir.ir.dtype import numpy_dtype
from structir.ops.sort import sortable

_functions: dict[str, Callable[..., Any]] = {}
_by_form: set[str] = set()


def register_extern(
    name: str, function: Callable[..., Any] | None = None, by_form: bool = False
) -> Callable[..., Any]:
    """Registers a Python function for `R.call_packed` and `R.call_pure_packed`; returns it.

    Without a function it is a decorator: `@register_extern("name")`. The function receives and
    returns run-time values: NumPy arrays, tuples, tuples of ints for shapes, plain numbers. A
    function registered with `by_form` has no side effects and only moves values, without reading
    elements; the compiler may call it once for all values of the same shapes and dtypes.
    """
    if not isinstance(name, str):
        hint = f"help: `register_extern({getattr(name, '__name__', 'name')!r}, function)`"
        raise StructIRError(f"register_extern: expected a name, found {name!r}; {hint}")
    if function is None:
        return lambda decorated: register_extern(name, decorated, by_form)
    if not callable(function):
        raise StructIRError(f"register_extern: expected a function, found {function!r}")
    _functions[name] = function
    (_by_form.add if by_form else _by_form.discard)(name)
    return function


def is_by_form(name: str) -> bool:
    """Whether a function depends only on shapes and dtypes of its arguments."""
    return name in _by_form


def find_extern(name: str) -> Callable[..., Any]:
    """Returns the function registered under a name."""
    if not name:
        raise StructIRError(
            'R.sig without a function cannot run; help: `R.sig("...", function="name")`'
        )
    function = _functions.get(name)
    if function is None:
        hint = f"help: `structir.interpret.register_extern({name!r}, function)`"
        raise StructIRError(f"unknown external function {name!r}; {hint}")
    return function


def _print(template: str, *values: Any) -> tuple[()]:
    """Prints values, formatted by a template such as `"x: {}"` if it is not empty."""
    print(template.format(*values) if template else " ".join(map(str, values)))
    return ()


def _assert(condition: Any, template: str, values: Any = ()) -> tuple[()]:
    """Raises StructIRError if a condition is false."""
    if not condition:
        items = values if isinstance(values, tuple) else (values,)
        message = f": {template.format(*items)}" if template else ""
        raise StructIRError(f"R.assert_op: the condition is false{message}")
    return ()


def _unique(values: Any, *options: Any) -> Any:
    """Returns the sorted unique elements; `options` are those of `R.unique`, and an axis."""
    index, inverse, counts, *axis = options[1:]  # the first is `sorted`; they always are
    results = np.unique(sortable(values), index, inverse, counts, *axis)
    parts = list(results) if isinstance(results, tuple) else [results]
    parts[0] = parts[0].astype(values.dtype)
    return parts[0] if len(parts) == 1 else tuple(parts)


def _call_dps(name: str, operands: Any, *results: Any) -> Any:
    """Calls a function that writes to new arrays, of the shapes and dtypes in `results`."""
    args = operands if isinstance(operands, tuple) else (operands,)
    pairs = zip(results[::2], results[1::2], strict=True)
    arrays = tuple([np.empty(shape, numpy_dtype(dtype)) for shape, dtype in pairs])
    find_extern(name)(*args, *arrays)
    return arrays[0] if len(arrays) == 1 else arrays


def _call_inplace(name: str, *args: Any) -> Any:
    """Calls a function that may write to its arguments with copies of them."""
    return find_extern(name)(*[arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args])


register_extern("structir.call_dps", _call_dps)
register_extern("structir.call_inplace", _call_inplace)
register_extern("structir.print", _print)
register_extern("structir.assert_op", _assert)

# Functions that a program calls after TVM's LegalizeOps.
register_extern("relax.run.print", lambda template, *values: _print(template, *values))
register_extern("relax.run.assert_op", lambda test, text, *values: _assert(test, text, values))
register_extern("relax.run.nonzero", lambda x: np.stack(np.nonzero(np.atleast_1d(x))))
register_extern("relax.run.unique", _unique)
