"""IRModule: the functions and kernels of a program, by name."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import chain, count
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from structir.counterparts import unknown_attribute
from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.ir.expr import NO_ATTRS, Attrs, Function
from structir.ir.node import NOT_COMPILED, Node, node


@node
class IRModule(Node):
    """An ordered mapping from names to functions and kernels, with module attributes."""

    functions: Mapping[str, Node] = attrs.Factory(dict)
    attrs: Attrs = NO_ATTRS
    name: str = "Module"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a module cannot be pickled: use `structir.save(module, path)` or `module.script()`"
        )

    def __deepcopy__(self, memo: Any) -> IRModule:
        return self  # immutable

    def __copy__(self) -> IRModule:
        return self

    def __attrs_post_init__(self) -> None:
        for name in self.functions:
            if not name.isidentifier() or iskeyword(name):
                text = f"invalid function name {name!r}: expected a Python identifier"
                raise DiagnosticError(Diagnostic(text, hint="rename the function: `main`"))

    def __getitem__(self, name: str) -> Function:
        function = self.functions.get(name)
        if function is None:
            names = ", ".join(self.functions)
            raise StructIRError(f"no function `{name}` in module; available: {names}", code="E1002")
        return function  # type: ignore[return-value]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("__") and name in self.functions:
                kind = type(self).__name__
                message = f"{kind!r} object has no attribute {name!r}"
                raise AttributeError(f'{message}; help: `module["{name}"]`')
            raise unknown_attribute(type(self), name)

    def __call__(self, *_args: Any, **_names: Any) -> NoReturn:
        raise TypeError(NOT_COMPILED)

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def with_functions(self, functions: Mapping[str, Node]) -> IRModule:
        """Returns a module with these functions and the same name and attributes; the module itself
        if these are its functions."""
        same = list(functions) == list(self.functions) and all(
            [functions[name] is function for name, function in self.functions.items()]
        )
        return self if same else IRModule(functions, self.attrs, self.name)

    def script(self) -> str:
        """Returns the source of the module; `structir.parse` parses it."""
        return str(self)

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.functions)


def as_module(program: Any, caller: str) -> IRModule:
    """Returns a module unchanged, or a module whose `main` is the function.

    Raises StructIRError for any other value; `caller` begins the message.
    """
    if isinstance(program, IRModule):
        return program
    if isinstance(program, Function):
        return IRModule({"main": program})
    kind = type(program).__name__
    hint = "; help: `structir.parse(text)`" if isinstance(program, str) else ""
    raise StructIRError(f"{caller}: expected a module or a function, found {kind}{hint}")


def numbered_name(name: str, used: Container[str]) -> str:
    """Returns a name that is not in use: this one, or with the first number that makes it so."""
    names = chain((name,), (f"{name}_{number}" for number in count(1)))
    return next(unused for unused in names if unused not in used)
