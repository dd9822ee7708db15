"""Ranks of row variables that arguments do not determine, as those of `("*a", "*b")`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from structir.errors import StructIRError
from structir.ir.axes import RowVar
from structir.ir.expr import Function, Var
from structir.runtime.function_forms import OfForm, form_variables

Form = Mapping[Any, int | str]


def undetermined_ranks(
    function: Function,
    form: Form,
    values: Sequence[Any],
    check: Callable[[Sequence[Var]], object],
) -> dict[Any, int]:
    """Returns the first ranks of the other row variables of a function with which its parameters
    match `values`.

    A run that does not determine them gives the same result for all ranks. `check` raises
    StructIRError for parameters that do not match.
    """
    missing = [v for v in form_variables(function) if type(v) is RowVar and v not in form]
    most = max(_ranks(tuple(values)), default=0)
    for ranks in product(range(most + 1), repeat=len(missing)) if missing else ():
        candidate = dict(zip(missing, ranks, strict=True))
        instance = OfForm({**form, **candidate})
        infos = [instance.info(param.struct_info) for param in function.params]
        pairs = zip(function.params, infos, strict=True)
        try:
            check([Var(param.name, info, param.span) for param, info in pairs])
        except StructIRError:
            continue
        return candidate
    return {}


def _ranks(value: Any) -> Iterator[int]:
    """Yields the ranks of the tensors of a value."""
    if isinstance(value, tuple):
        for field in value:
            yield from _ranks(field)
    elif hasattr(value, "shape"):
        yield len(value.shape)
