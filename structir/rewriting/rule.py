"""`@rewrite`: a generator that yields a pattern and then its replacement."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import attrs

from structir.ir.expr import Constant, Expr
from structir.ir.op import Op
from structir.rewriting.pattern_vars import (
    RECORDER,
    AttributeVar,
    OpVar,
    ParallelVar,
    PatternVar,
)

Generator = Callable[..., Iterator[Any]]
RULES: dict[str, Rule] = {}


class Parallel(tuple[Expr, ...]):
    """Annotates a pattern variable for the operands that distinguish parallel calls."""

    __slots__ = ()


@attrs.frozen(eq=False, slots=False)
class Rule:
    """A rewrite rule: its pattern variables, and the generator that runs again for every match."""

    name: str
    generator: Generator
    group: str | None = None  # the pass, if any, that runs it among others
    tolerance: float = 1e-4

    @property
    def doc(self) -> str:
        """The docstring of the rule."""
        return inspect.getdoc(self.generator) or ""

    @cached_property
    def pattern_vars(self) -> dict[str, Any]:
        """The pattern variable of each parameter."""
        hints = typing.get_type_hints(self.generator)
        names = inspect.signature(self.generator).parameters
        return {name: _pattern_var(name, hints.get(name, Expr)) for name in names}

    @cached_property
    def pattern_calls(self) -> tuple[Any, Sequence[Any]]:
        """The pattern, and all its calls in order."""
        with RECORDER.recording() as trail:
            pattern = next(self.generator(**self.pattern_vars))
        return pattern, tuple(trail)

    @cached_property
    def parallel(self) -> ParallelVar | None:
        """The parallel pattern variable, if there is one."""
        parallel_vars = (var for var in self.pattern_vars.values() if isinstance(var, ParallelVar))
        return next(parallel_vars, None)


def _pattern_var(name: str, hint: Any) -> Any:
    build = _PATTERN_VARS.get(hint)
    return AttributeVar(name) if build is None else build(name)


_PATTERN_VARS: dict[Any, Callable[[str], Any]] = {
    Expr: PatternVar,
    Constant: lambda name: PatternVar(name, constant=True),
    Op: OpVar,
    Parallel: ParallelVar,
}


@typing.overload
def rewrite(generator: Generator) -> Rule: ...
@typing.overload
def rewrite(**options: Any) -> Callable[[Generator], Rule]: ...
def rewrite(generator: Any = None, **options: Any) -> Any:
    """Declares a rewrite. It becomes a pass of its name, and part of the pass `group`.

        @rewrite(group="simplify")
        def double_negation(x: Expr) -> Iterator[Expr]:
            "Two turns of the sign are none."
            yield negative(negative(x))
            yield x

    Parameters are holes: an `Expr` for any value, a `Constant` for one known when compiling, an
    `Op` for any op, `Parallel` for the operands of all calls that differ in it alone, and anything
    else for an attribute. The generator runs once with holes to learn the pattern, and on a match
    again with what was found; if it then ends before a second yield, nothing is rewritten.
    """

    def declare(function: Generator) -> Rule:
        rule = Rule(function.__name__, function, **options)
        RULES[rule.name] = rule
        return rule

    return declare if generator is None else declare(generator)


def rules_of(group: str) -> list[Rule]:
    """Returns the rules of a pass."""
    return [rule for rule in RULES.values() if rule.group == group]
