"""The namespace T: symbolic sizes and their functions."""

from __future__ import annotations

from typing import Any

from structir.ir.dims import as_dim
from structir.lazy import lazy_module
from structir.printer.parser.sizes import SIZE_FUNCTIONS

symbolic = lazy_module("structir.ir.symbolic")


class SizeLanguage:
    """The language of sizes.

    In a program, `n = T.int64()` declares a dim. In Python, `T.int64("n")` creates one.
    """

    def int64(self, name: str = "n") -> Any:
        """Returns a new symbolic dim."""
        return symbolic.SymVar(name)

    def dynamic(self, name: str, dtype: str = "int64") -> Any:
        """Returns a new symbolic dim, in TVM's spelling."""
        return self.int64(name)

    def __getattr__(self, name: str) -> Any:
        function = SIZE_FUNCTIONS.get(name)
        if function is None:
            raise AttributeError(f"unknown size function `T.{name}`; T has {', '.join(dir(self))}")

        def apply(*sizes: Any) -> Any:
            result = function(*[as_dim(size) for size in sizes])
            return symbolic.to_sympy(result)

        return apply

    def __dir__(self) -> list[str]:
        return sorted({"int64", "dynamic", *SIZE_FUNCTIONS})


T = SizeLanguage()
