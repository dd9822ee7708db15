"""Sizes and dtype variables as strings in Python: `TensorStructInfo(("n", "n + 1"), "'T")`.

A name denotes the same dim in every string, as in the signature of a function.
"""

from __future__ import annotations

import re
from typing import Any

from structir.ir.axes import AnySize
from structir.ir.dtype import DtypeVar
from structir.printer.parser.parser import parse_struct_info

_NAMES: dict[str, Any] = {}  # the dims, row variables and dtype variables of all strings


def axis_of(text: str) -> Any:
    """Returns the axis that a string denotes: a size, a row variable, or an unknown size."""
    names = {prefix + word for word in re.findall(r"\w+", text) for prefix in ("", "*")}
    symbols = {name: _NAMES[name] for name in names if name in _NAMES}
    info: Any = parse_struct_info(f"R.Tensor(({text!r},))", symbols)
    _NAMES.update((name, symbols[name]) for name in names if name in symbols)
    if info.axes is None and info.dims is None:
        return AnySize()
    return (info.axes or info.dims)[0]


def dtype_var_of(text: str) -> DtypeVar:
    """Returns the dtype variable that a string such as `'T` denotes."""
    variable: DtypeVar = _NAMES.setdefault(text, DtypeVar(text[1:]))
    return variable
