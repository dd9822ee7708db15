"""Scalar functions: one declaration for each, and the tables that every layer reads."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from structir.ir.code_hash import code_hash, is_of_package
from structir.ir.dtype import DtypeVar, Element, is_float, is_int
from structir.lazy import provided_module

families = provided_module("scalar functions")


@attrs.frozen(eq=False)
class ScalarFunction:
    """A scalar function: an operator of the language, or a declared function of floats.

    In kernels, `kind` is that of its operands: "float", "int", "number", "bits", "bool", "any",
    "single" or "double" ("" if kernels cannot call it), `count` the number of operands (-1: two or
    more), and `test` whether the result is a bool. An operator has a `symbol` and a binding
    strength.

    In bodies of ops, `rule` is the dtype rule: promotion of all arguments (`same`; `quotient`, with
    booleans as floats), promotion to a float (`float`), bool (`compare`, `logic`, `test`),
    promotion of the second and third (`select`), or the requested dtype (`cast`). A function
    without a rule is one that only rewrites and kernels call. `numpy` is the name of the NumPy
    function, or a function of arrays. `slopes` holds the derivative by each argument, a function of
    all of them; an empty tuple means zero everywhere.

    Vector forms: `single` and `double` load the function that is compiled for float32 and float64.
    Without them a function has its `intrinsic` in LLVM, or a `body` of other functions, and a
    template of its `source` in kernels. The `body` of a function that kernels cannot call replaces
    it in the kernels of ops. `plus_one` is a cheaper form of 1 + f(x), or None, by
    dtype. `cost` is in additions. `domain` is the interval where the first argument has a real
    result, `parity` is "odd" or "even", and `monotone` "increasing" or "decreasing".
    """

    name: str
    kind: str = ""
    count: int = 1
    test: bool = False
    symbol: str = ""
    strength: int = 0
    rule: str = ""
    numpy: str | Callable[..., Any] = ""
    slopes: tuple[Callable[..., Any], ...] = ()
    single: Callable[[], Any] | None = None
    double: Callable[[], Any] | None = None
    intrinsic: str = ""
    body: Callable[..., Any] | None = None
    source: str = ""
    plus_one: Callable[[Any, str], Any] | None = None
    cost: float = 16
    domain: tuple[float, float] = (-math.inf, math.inf)
    parity: str = ""
    monotone: str = ""
    module: str = "structir"  # that declares it

    def takes(self, dtype: Element) -> bool:
        """Whether operands may have this dtype; a dtype variable may be any."""
        if type(dtype) is DtypeVar:
            return self.kind != "bool"
        floating, whole = is_float(dtype) or dtype == "float", is_int(dtype) or dtype == "int"
        is_bool = bool(dtype == "bool")
        match self.kind:
            case "float":
                return floating
            case "int":
                return whole
            case "number":
                return floating or whole
            case "bits":
                return whole or is_bool
            case "bool":
                return is_bool
            case "single" | "double":
                return bool(dtype == {"single": "float32", "double": "float64"}[self.kind])
        return True

    @property
    def is_inlined(self) -> bool:
        """Whether ops have this function and kernels its body."""
        return self.body is not None and bool(self.rule) and not self.kind

    def inlined(self, *args: Any) -> Any:
        """Returns the body for these arguments."""
        assert self.body is not None
        return self.body(*args)

    def form(self, dtype: str) -> Callable[[], Any] | None:
        """Returns the vector form for a dtype."""
        return {"float32": self.single, "float64": self.double}.get(dtype)

    def symbol_of(self, dtype: str) -> str:
        """Returns the name of the vector form in kernels.

        Compiled code is cached by the names in it. That of a form from outside of the package has a
        hash of its code, which may change between two runs.
        """
        form = self.form(dtype)
        if form is None or is_of_package(form):
            return f"{self.name}_{dtype}"
        return f"{self.name}_{code_hash(form())[:12]}_{dtype}"


_declared: dict[str, ScalarFunction] = {}


def declare(name: str, kind: str = "float", rule: str = "float", **fields: Any) -> ScalarFunction:
    """Declares a function under its name, after which every layer has it."""
    module = str(sys._getframe(1).f_globals.get("__name__"))
    function = _declared[name] = ScalarFunction(name, kind, rule=rule, module=module, **fields)
    return function


def declared() -> Mapping[str, ScalarFunction]:
    """Returns the declared functions by name."""
    families.load()
    return _declared


def hash_of_other_packages() -> str:
    """Returns a hash of all functions that other packages declare; empty without any."""
    functions = [f for f in declared().values() if f.module.partition(".")[0] != "structir"]
    return code_hash([attrs.astuple(f, recurse=False) for f in functions]) if functions else ""


def with_double() -> Mapping[str, ScalarFunction]:
    """Returns the functions of ops that have a float64 form; GPUs have a library function for
    each."""
    rows = declared().items()
    return {name: row for name, row in rows if row.double is not None and row.rule}


class FunctionTable(Mapping[str, ScalarFunction]):
    """The operators of a layer, and the declared functions that it has."""

    def __init__(
        self, operators: dict[str, ScalarFunction], has: Callable[[ScalarFunction], object]
    ) -> None:
        self.operators, self.has = operators, has

    def __getitem__(self, name: str) -> ScalarFunction:
        function = self.operators.get(name)
        if function is None:
            function = declared()[name]
            if not self.has(function):
                raise KeyError(name)
        return function

    def __iter__(self) -> Iterator[str]:
        yield from self.operators
        yield from [n for n, f in declared().items() if n not in self.operators and self.has(f)]

    def __len__(self) -> int:
        return sum(1 for _ in self)
