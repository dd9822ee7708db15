"""Passes as functions from program to program with keyword parameters as options, and their
context."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin, overload

import attrs

from structir.errors import Diagnostic, PassError, StructIRError
from structir.interrupts import collection_paused
from structir.ir.expr import Function
from structir.ir.kernel import Kernel
from structir.ir.module import IRModule, as_module
from structir.ir.node import ShownAsText
from structir.passes import find_pass

Program = TypeVar("Program", IRModule, Function)
Fact = TypeVar("Fact")


@attrs.frozen
class AtLeast:
    """The least value of a numeric option."""

    least: int


NonNegative = Annotated[int, AtLeast(0)]
Positive = Annotated[int, AtLeast(1)]
Fraction = Annotated[float, AtLeast(0)]


@attrs.frozen(eq=False, repr=False)
class Pass(ShownAsText):
    """A transformation of modules; applied to a function, it returns a function."""

    name: str
    transform: Callable[..., IRModule]
    options: Mapping[str, Any] = attrs.Factory(dict)
    aliases: tuple[str, ...] = ()  # short names for pipelines
    requires: tuple[str, ...] = ()  # passes that must have run on the current module
    preserves: tuple[str, ...] = ()  # passes and analyses that stay valid after this one
    idempotent: Literal[True] | str = True  # True, or the reason why a second run may change more
    tolerance: float = 1e-4  # permitted difference of results, relative to their size
    comparable: bool = True  # whether results are expected to be equal on the same inputs
    made_of: tuple[Pass, ...] = ()  # its sub-passes, if it consists of nothing else

    def __call__(self, program: Program) -> Program:
        """Returns the transformed program; the argument is unchanged."""
        if isinstance(program, IRModule):
            return _context().run(self, program)
        lone = as_module(program, f"the pass {self.name}")
        return _context().run(self, lone).functions["main"]  # type: ignore[return-value]

    def with_options(self, *values: Any, **options: Any) -> Pass:
        """Returns this pass with other options, by name or in the order of the parameters.

        Raises StructIRError for an unknown option.
        """
        parameters = {p.name: p for p in self.parameters()}
        if any(isinstance(value, IRModule | Function | Kernel) for value in values):
            camel = self.name.title().replace("_", "")
            message = f"{self.name}: expected options, found a program"
            raise StructIRError(f"{message}; help: `passes.{camel}()(module)`", code="E0611")
        if len(values) > len(parameters):
            message = f"expected at most {len(parameters)} options, found {len(values)}"
            raise StructIRError(f"{self.name}: {message}", code="E0611")
        options |= dict(zip(parameters, values, strict=False))
        for name, value in options.items():
            if name not in parameters:
                available = ", ".join(parameters) or "none"
                raise StructIRError(
                    f"{self.name}: unknown option {name!r}; available: {available}", code="E0611"
                )
            options[name] = _checked_option(self.name, parameters[name], value)
        return attrs.evolve(self, options={**self.options, **options})

    def parameters(self) -> list[inspect.Parameter]:
        """Returns the options: keyword parameters of the function, with types and defaults.

        A type that is a name of its module, such as a `Literal`, is looked up.
        """
        names = getattr(inspect.unwrap(self.transform), "__globals__", {})
        signature = inspect.signature(self.transform)
        options = [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]
        return [p.replace(annotation=names.get(p.annotation, p.annotation)) for p in options]

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return inspect.getdoc(self.transform) or ""

    def __str__(self) -> str:
        options = " ".join(
            f"{name}={_format_option(value)}" for name, value in self.options.items()
        )
        return f"{self.name}{{{options}}}" if options else self.name


def _format_option(value: Any) -> str:
    """Returns an option in pipeline syntax: identifiers unquoted, other strings in quotes."""
    bare = isinstance(value, str) and value.isidentifier() and value.lower() not in LITERAL_WORDS
    return value if bare else repr(value)


PLAIN: dict[str, tuple[Any, str]] = {
    "int": (int, "an integer"),
    "float": ((int, float), "a number"),
    "bool": (bool, "True or False"),
    "str": (str, "a string"),
    "Mapping": (Mapping, "a dict"),
    "None": (type(None), "None"),
}
LITERAL_WORDS = ("true", "false", "none")


def _checked_option(name: str, parameter: inspect.Parameter, value: Any) -> Any:
    """Returns an option, with lists and dicts converted to pipeline syntax.

    Raises StructIRError if its type does not match the annotation, or it is less than the least
    value.
    """
    choices = get_args(parameter.annotation)
    if get_origin(parameter.annotation) is Literal and value not in choices:
        expected = " or ".join(map(repr, choices))
        raise StructIRError(
            f"{name}: {parameter.name}: expected {expected}, found {value!r}", code="E0611"
        )
    classes, expected = _kinds(parameter.annotation)
    if str in classes and not isinstance(value, classes):
        value = _as_text(value)
    is_unexpected_bool = type(value) is bool and bool not in classes
    if classes and (not isinstance(value, classes) or is_unexpected_bool):
        message = f"{name}: {parameter.name}: expected {expected}, found {value!r}"
        raise StructIRError(
            f"{message}; help: name the option: `{parameter.name}=...`", code="E0611"
        )
    for limit in getattr(parameter.annotation, "__metadata__", ()):
        if not value >= limit.least:  # NaN is no valid value either
            message = f"{name}: {parameter.name}: expected {expected} of at least {limit.least}, "
            hint = f"help: omit the option for the default `{parameter.name}={parameter.default}`"
            raise StructIRError(f"{message}found {value!r}; {hint}", code="E0611")
    return value


def _kinds(annotation: Any) -> tuple[tuple[type, ...], str]:
    """Returns the classes of an annotation and their names for messages; empty if one is
    unknown."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    text = getattr(annotation, "__name__", str(annotation))  # a string if it is not evaluated
    kinds = [PLAIN.get(kind.partition("[")[0].strip()) for kind in text.split("|")]
    known = [kind for kind in kinds if kind is not None]
    if len(known) < len(kinds):
        return (), ""
    nouns = [noun for kind, noun in known if kind is not type(None)]
    return tuple([kind for kind, _ in known]), " or ".join(nouns)


def _as_text(value: Any) -> Any:
    """Returns a list of names, a dict of sizes or a path as text; other values unchanged."""
    if isinstance(value, Mapping):
        return " ".join(f"{key}={item}" for key, item in value.items())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, list | tuple | set | frozenset):
        items = [_as_text(item) for item in value]
        separator = "; " if any(isinstance(item, Mapping) for item in value) else " "
        return separator.join(items) if all(isinstance(item, str) for item in items) else value
    return value


@overload
def module_pass(transform: Callable[..., IRModule]) -> Pass: ...
@overload
def module_pass(**facts: Any) -> Callable[[Callable[..., IRModule]], Pass]: ...
def module_pass(transform: Any = None, **facts: Any) -> Any:
    """Declares a pass from a function from module to module; `facts` are fields of `Pass`."""
    if transform is None:
        return lambda function: _new_pass(function, function, facts)
    return _new_pass(transform, transform, {})


@overload
def function_pass(transform: Callable[..., Function]) -> Pass: ...
@overload
def function_pass(**facts: Any) -> Callable[[Callable[..., Function]], Pass]: ...
def function_pass(transform: Any = None, **facts: Any) -> Any:
    """Declares a pass from a function from function to function, which is applied to each function
    of a module.

    `facts` are fields of `Pass`.
    """
    if transform is None:
        return lambda function: _new_pass(function, over_module(function), facts)
    return _new_pass(transform, over_module(transform), {})


def _new_pass(function: Any, transform: Any, facts: Mapping[str, Any]) -> Pass:
    """Returns a pass; raises StructIRError if the function or a fact is not one of a pass."""
    name = getattr(function, "__name__", repr(function))
    fields = [field.name for field in attrs.fields(Pass) if field.name not in ("name", "transform")]
    if unknown := sorted(facts.keys() - set(fields)):
        message = f"{name}: unknown fact {unknown[0]!r} of a pass; available: {', '.join(fields)}"
        raise StructIRError(message, code="E0611")
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    required = [kind for kind in kinds if kind not in (kind.KEYWORD_ONLY, kind.VAR_KEYWORD)]
    if len(required) != 1:
        message = f"{name}: expected one parameter, the program, found {len(required)}"
        raise StructIRError(
            f"{message}; help: options follow `*`: `def {name}(program, *, limit: int = 8)`",
            code="E0611",
        )
    return Pass(name, transform, **facts)


def over_module(transform: Callable[..., Function]) -> Callable[..., IRModule]:
    """Lifts a function from function to function to one from module to module."""

    def transformed(module: IRModule, **options: Any) -> IRModule:
        functions = {
            name: transform(value, **options) if isinstance(value, Function) else value
            for name, value in module.functions.items()
        }
        for value in functions.values():
            _check_result(transform.__name__, (Function, Kernel), value)
        return module.with_functions(functions)

    transformed.__doc__, transformed.__module__ = transform.__doc__, transform.__module__
    transformed.__signature__ = inspect.signature(transform)  # type: ignore[attr-defined]
    transformed.__wrapped__ = transform  # type: ignore[attr-defined]
    return transformed


def _check_result(name: str, expected: type | tuple[type, ...], result: Any) -> None:
    """Raises PassError if a pass does not return a program, for example without `return`."""
    if not isinstance(result, expected):
        noun = "an IRModule" if expected is IRModule else "a Function"
        message = f"{name}: expected {noun} as the result of the pass, found {_kind(result)}"
        hint = "return the program, also where the pass changes nothing"
        raise PassError(Diagnostic(message, hint=hint, code="E0602"))


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def Sequential(passes: Sequence[Pass], name: str = "sequential") -> Pass:
    """Returns one pass that runs several in order."""
    _check_items("Sequential", "passes", passes, Pass, "DeadCodeElimination")

    def run_all(module: IRModule) -> IRModule:
        """Runs the passes in order."""
        for each in passes:
            module = each(module)
        return module

    return Pass(name, run_all, made_of=tuple(passes))


def _check_items(owner: str, noun: str, items: Any, kind: type, example: str) -> None:
    """Raises StructIRError if the items are no sequence of this kind, such as passes."""
    if not isinstance(items, Sequence) or not all(isinstance(item, kind) for item in items):
        message = f"{owner}: expected a list of {noun}, found {items!r}"
        help_line = f"help: `passes.{owner}([passes.{example}()])`"
        raise StructIRError(f"{message}; {help_line}", code="E0611")


@attrs.define(eq=False)
class PassRun:
    """One run of one pass; `after` and `seconds` are set when it has ended."""

    applied: Pass
    before: IRModule
    depth: int
    start: float
    after: IRModule | None = None
    seconds: float = 0.0
    notes: list[str] = attrs.field(factory=list, init=False)  # remarks of the pass about its work

    @property
    def changed(self) -> bool:
        """Whether the pass itself changed the module; a pass made of sub-passes does not."""
        is_new = self.after is not None and self.after is not self.before
        return is_new and not self.applied.made_of


class Instrument:
    """An observer of passes. Subclasses override the events they need."""

    def begin(self, step: PassRun) -> None:
        """Runs before a pass."""

    def end(self, step: PassRun) -> None:
        """Runs after a pass."""

    def __call__(self, *_args: Any, **_options: Any) -> NoReturn:
        kind = type(self).__name__
        message = f"{kind} is an instrument, which observes passes"
        raise TypeError(f"{message}; help: `with passes.PassContext([passes.{kind}()]): ...`")


@attrs.define(eq=False)
class PassContext:
    """The context of a pipeline: `with PassContext([Timing()]) as context: pipeline(module)`.

    It first runs the passes that a pass requires, unless they are still valid for the module, and
    memoizes analyses until a pass invalidates them.
    """

    instruments: Sequence[Instrument] = ()
    depth: int = attrs.field(default=0, init=False)
    running: list[PassRun] = attrs.field(factory=list, init=False)
    watched: float = attrs.field(default=0.0, init=False)  # seconds spent in instruments
    latest: IRModule | None = attrs.field(default=None, init=False)
    valid_passes: set[str] = attrs.field(factory=set, init=False)  # for `latest`
    facts: dict[str, Any] = attrs.field(factory=dict, init=False)  # memoized analyses of `latest`

    def __attrs_post_init__(self) -> None:
        _check_items("PassContext", "instruments", self.instruments, Instrument, "Timing")

    def __enter__(self) -> PassContext:
        _ACTIVE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _ACTIVE.remove(self)

    def run(self, applied: Pass, module: IRModule) -> IRModule:
        """Returns the module after the pass and notifies every instrument."""
        self._set_latest(module)
        for name in applied.requires:
            if name not in self.valid_passes:
                module = self.run(find_pass(name), module)
        step = PassRun(applied, module, self.depth, time.perf_counter())
        self._notify(step, Instrument.begin.__name__)
        self.running.append(step)
        self.depth += 1
        start = time.perf_counter() - self.watched
        try:
            with collection_paused():
                after = applied.transform(module, **applied.options)
            _check_result(applied.name, IRModule, after)
        finally:
            self.depth -= 1
            self.running.pop()
        step.after, step.seconds = after, time.perf_counter() - self.watched - start
        self._record_result(step, after)
        self._notify(step, Instrument.end.__name__)
        return after

    def analysis(self, of: Callable[[IRModule], Fact], module: IRModule) -> Fact:
        """Returns the result of an analysis of a module, memoized while it is valid."""
        self._set_latest(module)
        name = of.__name__
        if name not in self.facts:
            self.facts[name] = of(module)
        fact: Fact = self.facts[name]
        return fact

    def _notify(self, step: PassRun, event: str) -> None:
        start = time.perf_counter()
        for instrument in self.instruments:
            getattr(instrument, event)(step)
        self.watched += time.perf_counter() - start

    def _set_latest(self, module: IRModule) -> None:
        if module is not self.latest:
            self.latest, self.valid_passes, self.facts = module, set(), {}

    def _record_result(self, step: PassRun, after: IRModule) -> None:
        preserved = step.applied.preserves
        # changes by sub-passes were recorded when those ended
        if step.before is self.latest and after is not step.before:
            self.valid_passes = {name for name in self.valid_passes if name in preserved}
            self.facts = {name: fact for name, fact in self.facts.items() if name in preserved}
            self.latest = after
        self._set_latest(after)
        self.valid_passes.add(step.applied.name)


_ACTIVE: list[PassContext] = []


def _context() -> PassContext:
    """Returns the innermost open context, or one without instruments."""
    return _ACTIVE[-1] if _ACTIVE else PassContext()


def analysis(of: Callable[[IRModule], Fact], module: IRModule) -> Fact:
    """Returns the result of an analysis of a module, memoized by the open context."""
    return _context().analysis(of, module)


def named_functions(module: IRModule, text: str) -> list[str]:
    """Returns the functions that an option lists; raises StructIRError for an unknown one."""
    names = text.replace(",", " ").split()
    for name in names:
        module[name]
    return names


def note(text: str) -> None:
    """Adds a remark about the running pass, for statistics and traces."""
    if _ACTIVE and _ACTIVE[-1].running:
        _ACTIVE[-1].running[-1].notes.append(text)
