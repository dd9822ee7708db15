"""The namespace T: symbolic sizes and their functions."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from structir.ir.dims import as_dim
from structir.ir.dtype import DTYPES
from structir.lazy import lazy_module
from structir.printer.parser.sizes import SIZE_FUNCTIONS
from structir.script.source import is_member, kernel_of

symbolic = lazy_module("structir.ir.symbolic")


class SizeLanguage:
    """The language of sizes.

    In a program, `n = T.int64()` declares a dim. In Python, `T.int64("n")` creates one.
    """

    def int64(self, name: Any = "n") -> Any:
        """Returns a new symbolic dim; of a number, the number."""
        return symbolic.SymVar(name) if isinstance(name, str) else name

    def dynamic(self, name: str, dtype: str = "int64") -> Any:
        """Returns a new symbolic dim, in TVM's spelling."""
        return self.int64(name)

    Var = SizeVar = dynamic

    def prim_func(self, function: FunctionType | None = None, **_options: Any) -> Any:
        """Decorates a function in the syntax of TVM's TIR, which is parsed as a kernel."""
        if function is None:
            return self.prim_func
        return function if is_member(function) else kernel_of(function, sys._getframe(1))

    def Buffer(self, *_shape_and_dtype: Any, **_options: Any) -> None:
        """Annotates a parameter of such a function; the parser reads it from the text."""

    def __getattr__(self, name: str) -> Any:
        function = SIZE_FUNCTIONS.get(name)
        if name in DTYPES or name == "handle":
            return lambda value=None: value
        if function is None:
            raise AttributeError(f"unknown size function `T.{name}`; T has {', '.join(dir(self))}")

        def apply(*sizes: Any) -> Any:
            result = function(*[as_dim(size) for size in sizes])
            return symbolic.to_sympy(result)

        return apply

    def __dir__(self) -> list[str]:
        return sorted({"int64", "dynamic", *SIZE_FUNCTIONS})


T = SizeLanguage()
