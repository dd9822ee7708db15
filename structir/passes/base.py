"""What a pass is: a function from program to program, with its keyword parameters as options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from structir.errors import StructIRError
from structir.ir.expr import Function
from structir.ir.module import IRModule

Program = TypeVar("Program", IRModule, Function)


@attrs.frozen(eq=False)
class Pass:
    """A transformation of modules; on a single function it gives a single function."""

    name: str
    transform: Callable[..., IRModule]
    options: Mapping[str, Any] = attrs.Factory(dict)

    def __call__(self, program: Program) -> Program:
        """The transformed program; what was given stays as it is."""
        if isinstance(program, IRModule):
            return self.transform(program, **self.options)
        lone = IRModule({"main": program})
        return self.transform(lone, **self.options).functions["main"]  # type: ignore[return-value]

    def with_options(self, **options: Any) -> Pass:
        """The same pass under other options; raises StructIRError for one that it does not have."""
        known = [p.name for p in self.parameters()]
        for name in options:
            if name not in known:
                has = ", ".join(known) or "none"
                raise StructIRError(f"the pass {self.name} has no option {name!r}; it has: {has}")
        return attrs.evolve(self, options={**self.options, **options})

    def parameters(self) -> list[inspect.Parameter]:
        """The options: keyword parameters of the function, with their annotations and defaults."""
        signature = inspect.signature(self.transform)
        return [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return inspect.getdoc(self.transform) or ""


def module_pass(transform: Callable[..., IRModule]) -> Pass:
    """Make a pass of a function from module to module."""
    return Pass(transform.__name__, transform)


def function_pass(transform: Callable[..., Function]) -> Pass:
    """Make a pass of a function from function to function; it runs on every function of a module.
    Make a pass of a function from function to function; it runs on every function of a module."""

    def over_module(module: IRModule, **options: Any) -> IRModule:
        functions = {
            name: transform(value, **options) if isinstance(value, Function) else value
            for name, value in module.functions.items()
        }
        if all(functions[name] is value for name, value in module.functions.items()):
            return module
        return module.with_functions(functions)

    over_module.__doc__ = transform.__doc__
    over_module.__signature__ = inspect.signature(transform)  # type: ignore[attr-defined]
    return Pass(transform.__name__, over_module)


def Sequential(passes: Sequence[Pass], name: str = "sequential") -> Pass:
    """One pass that runs several, in order."""

    def run_all(module: IRModule) -> IRModule:
        """Run the passes in order."""
        for each in passes:
            module = each(module)
        return module

    return Pass(name, run_all)
