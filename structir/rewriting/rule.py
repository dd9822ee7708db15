"""`@rewrite`: a generator that yields a pattern and then its replacement."""

from __future__ import annotations

import inspect
import linecache
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import attrs

from structir.errors import Diagnostic, DiagnosticError, Source, Span, StructIRError
from structir.ir.expr import Constant, Expr
from structir.ir.op import Op
from structir.lazy import provided_module
from structir.rewriting.pattern_vars import (
    RECORDER,
    AttributeVar,
    CallPattern,
    ItemPattern,
    OpVar,
    ParallelVar,
    PatternVar,
)
from structir.system.locks import cached_property

proving = provided_module("rule proofs")
Generator = Callable[..., Iterator[Any]]
RULES: dict[str, Rule] = {}


class Parallel(tuple[Expr, ...]):
    """The annotation of a pattern variable for the operands in which parallel calls differ."""

    __slots__ = ()


@attrs.frozen(eq=False, slots=False, repr=False)
class Rule:
    """A rewrite rule: a generator that runs once for the pattern and once for every match."""

    name: str
    generator: Generator
    group: str | None = None  # the pass that contains the rule, if any
    tolerance: float = 1e-4

    def __repr__(self) -> str:
        return self.name

    def __call__(self, *_args: Any, **_options: Any) -> NoReturn:
        message = f"the rewrite {self.name} is no function of modules"
        raise TypeError(f'{message}; help: `passes.pipeline("{self.name}")(module)`')

    @property
    def doc(self) -> str:
        """Returns the docstring of the rule."""
        return inspect.getdoc(self.generator) or ""

    @cached_property
    def pattern_vars(self) -> dict[str, Any]:
        """Returns the pattern variable of each parameter."""
        hints = typing.get_type_hints(self.generator)
        names = inspect.signature(self.generator).parameters
        return {name: _pattern_var(name, hints.get(name, Expr)) for name in names}

    @cached_property
    def pattern_calls(self) -> tuple[Any, Sequence[Any]]:
        """Returns the pattern and its calls in order."""
        with RECORDER.recording() as trail:
            try:
                pattern = next(self.generator(**self.pattern_vars), None)
            except (TypeError, AttributeError) as error:  # such as `np.exp(x)` or `x.shape`
                if isinstance(error, StructIRError):
                    raise
                message = f"expected a pattern of calls, found code that raises {error}"
                raise self.error(message, "yield calls of ops: `R.exp(x)`") from error
        if not isinstance(pattern, CallPattern | ItemPattern):
            kind = "none" if pattern is None else "a single variable"
            message = f"expected a call of an op as the pattern, found {kind}"
            raise self.error(message, "yield a call first: `yield R.exp(x)`")
        return pattern, tuple(trail)

    def error(self, message: str, hint: str) -> DiagnosticError:
        """Returns an error of the declaration of the rule."""
        return DiagnosticError(invalid_rule(self.generator, message, hint))

    def replacements(self, bound: Mapping[str, Any]) -> Iterator[Any]:
        """Runs the generator for a match, of which each parameter is a matched value."""
        missing = [name for name in self.pattern_vars if name not in bound]
        if missing:
            message = f"the pattern does not mention {', '.join([f'`{n}`' for n in missing])}"
            hint = "use each parameter in the pattern, or remove it"
            raise self.error(message, hint)
        return self.generator(**bound)

    def prove(self, *programs: Any, most: int = 60) -> Any:
        """Proves that the replacement equals the pattern in programs in which the rule fires.

        Without programs, at most `most` are generated. Returns a `RuleProof`, which prints: proved,
        with the laws; or the programs that are not proved, and a side condition for all to be.
        """
        return proving.prove_rule(self, programs, most)

    @cached_property
    def parallel(self) -> ParallelVar | None:
        """Returns the parallel pattern variable, or None."""
        parallel_vars = (var for var in self.pattern_vars.values() if isinstance(var, ParallelVar))
        return next(parallel_vars, None)


def invalid_rule(function: Any, message: str, hint: str) -> Diagnostic:
    """Returns the diagnostic of an invalid declaration of a rule."""
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    number = code.co_firstlineno  # of the decorator
    line = lines[number - 1].rstrip() if number <= len(lines) else ""
    indent = len(line) - len(line.lstrip())
    span = Span(Source(code.co_filename, "".join(lines)), number, indent, number, len(line))
    return Diagnostic(f"{function.__name__}: {message}", span, hint=hint, code="E1133")


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
    """Declares a rewrite rule: a pass of its own name, and a part of the pass `group`.

        @rewrite(group="simplify")
        def double_negation(x: Expr) -> Iterator[Expr]:
            "Removes a double negation."
            yield negative(negative(x))
            yield x

    Parameters are pattern variables. `Expr` matches any value, `Constant` a compile-time constant,
    `Op` any op, and `Parallel` the operands of calls that differ only in this operand. Any other
    annotation matches an attribute; `x[0]` and `x["w"]` match fields of a tuple. The generator
    runs once with pattern variables to record the pattern, and again for each match with the
    matched values. If it ends before the second yield, nothing is rewritten.
    """

    def declare(function: Generator) -> Rule:
        if not inspect.isgeneratorfunction(function):
            hint = "yield the pattern, then its replacement: `yield R.exp(x)`"
            raise DiagnosticError(
                invalid_rule(function, "expected a generator, found no `yield`", hint)
            )
        rule = Rule(function.__name__, function, **options)
        RULES[rule.name] = rule
        return rule

    return declare if generator is None else declare(generator)


def rules_of(group: str) -> list[Rule]:
    """Returns the rules of a pass."""
    return [rule for rule in RULES.values() if rule.group == group]
