"""What a pass is: a function from program to program, with its keyword parameters as options; and
the context that it runs in."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

import attrs

from structir.errors import StructIRError
from structir.ir.collection import collection_paused
from structir.ir.expr import Function
from structir.ir.module import IRModule, as_module
from structir.passes import find_pass

Program = TypeVar("Program", IRModule, Function)
Fact = TypeVar("Fact")


@attrs.frozen(eq=False)
class Pass:
    """A transformation of modules; on a single function it gives a single function."""

    name: str
    transform: Callable[..., IRModule]
    options: Mapping[str, Any] = attrs.Factory(dict)
    aliases: tuple[str, ...] = ()  # short names for pipelines
    requires: tuple[str, ...] = ()  # passes that must have run on the module as it is
    preserves: tuple[str, ...] = ()  # passes and analyses whose work it leaves intact
    idempotent: Literal[True] | str = True  # or why a second run may change more
    tolerance: float = 1e-4  # how far results may move, relative to their size
    comparable: bool = True  # whether it should give the same results on the same inputs
    made_of: tuple[Pass, ...] = ()  # the passes that it runs, if it does nothing else

    def __call__(self, program: Program) -> Program:
        """The transformed program; what was given stays as it is."""
        if isinstance(program, IRModule):
            return _context().run(self, program)
        lone = as_module(program, f"the pass {self.name}")
        return _context().run(self, lone).functions["main"]  # type: ignore[return-value]

    def with_options(self, **options: Any) -> Pass:
        """The same pass under other options; raises StructIRError for one that it does not have."""
        known = {p.name: p for p in self.parameters()}
        for name, value in options.items():
            if name not in known:
                has = ", ".join(known) or "none"
                raise StructIRError(
                    f"the pass {self.name} has no option {name!r}; it has: {has}", code="E0611"
                )
            kind, word = PLAIN.get(known[name].annotation, (object, ""))
            if not isinstance(value, kind):
                raise StructIRError(f"{name} of the pass {self.name} is {word}, not {value!r}")
        return attrs.evolve(self, options={**self.options, **options})

    def parameters(self) -> list[inspect.Parameter]:
        """The options: keyword parameters of the function, with their annotations and defaults."""
        signature = inspect.signature(self.transform)
        return [p for p in signature.parameters.values() if p.kind is p.KEYWORD_ONLY]

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        return inspect.getdoc(self.transform) or ""

    def __str__(self) -> str:
        given = " ".join(f"{name}={_written(value)}" for name, value in self.options.items())
        return f"{self.name}{{{given}}}" if given else self.name


def _written(value: Any) -> str:
    """An option as a pipeline has it: words stand as they are, other texts in quotes."""
    bare = isinstance(value, str) and value.isidentifier() and value.lower() not in LITERAL_WORDS
    return value if bare else repr(value)


PLAIN = {"int": (int, "an integer"), "bool": (bool, "True or False"), "str": (str, "a text")}
LITERAL_WORDS = ("true", "false", "none")


@overload
def module_pass(transform: Callable[..., IRModule]) -> Pass: ...
@overload
def module_pass(**facts: Any) -> Callable[[Callable[..., IRModule]], Pass]: ...
def module_pass(transform: Any = None, **facts: Any) -> Any:
    """Make a pass of a function from module to module; `facts` are fields of `Pass`."""
    if transform is None:
        return lambda given: Pass(given.__name__, given, **facts)
    return Pass(transform.__name__, transform)


@overload
def function_pass(transform: Callable[..., Function]) -> Pass: ...
@overload
def function_pass(**facts: Any) -> Callable[[Callable[..., Function]], Pass]: ...
def function_pass(transform: Any = None, **facts: Any) -> Any:
    """Make a pass of a function from function to function; it runs on every function of a
    module. `facts` are fields of `Pass`."""
    if transform is None:
        return lambda given: Pass(given.__name__, over_module(given), **facts)
    return Pass(transform.__name__, over_module(transform))


def over_module(transform: Callable[..., Function]) -> Callable[..., IRModule]:
    """A function from function to function as one from module to module."""

    def transformed(module: IRModule, **options: Any) -> IRModule:
        functions = {
            name: transform(value, **options) if isinstance(value, Function) else value
            for name, value in module.functions.items()
        }
        if all(functions[name] is value for name, value in module.functions.items()):
            return module
        return module.with_functions(functions)

    transformed.__doc__, transformed.__module__ = transform.__doc__, transform.__module__
    transformed.__signature__ = inspect.signature(transform)  # type: ignore[attr-defined]
    return transformed


def Sequential(passes: Sequence[Pass], name: str = "sequential") -> Pass:
    """One pass that runs several, in order."""

    def run_all(module: IRModule) -> IRModule:
        """Run the passes in order."""
        for each in passes:
            module = each(module)
        return module

    return Pass(name, run_all, made_of=tuple(passes))


@attrs.define(eq=False)
class PassRun:
    """One run of one pass: `after` and `seconds` are filled in when it has ended."""

    applied: Pass
    before: IRModule
    depth: int
    start: float
    after: IRModule | None = None
    seconds: float = 0.0
    notes: list[str] = attrs.field(factory=list, init=False)  # what the pass tells of its work

    @property
    def changed(self) -> bool:
        """Whether the pass gave another module, and not only by passes that it is made of."""
        made = self.after is not None and self.after is not self.before
        return made and not self.applied.made_of


class Instrument:
    """Watches passes run. Subclasses override what they care for."""

    def begin(self, step: PassRun) -> None:
        """A pass is about to run."""

    def end(self, step: PassRun) -> None:
        """A pass has run."""


@attrs.define(eq=False)
class PassContext:
    """Where passes run: `with PassContext([Timing()]) as context: pipeline(module)`.

    It runs what a pass requires first, unless that has been done to this very module; and it
    remembers analyses until a pass changes what they are about.
    """

    instruments: Sequence[Instrument] = ()
    depth: int = attrs.field(default=0, init=False)
    running: list[PassRun] = attrs.field(factory=list, init=False)
    watched: float = attrs.field(default=0.0, init=False)  # seconds that instruments took
    latest: IRModule | None = attrs.field(default=None, init=False)
    done: set[str] = attrs.field(factory=set, init=False)  # passes whose work `latest` still shows
    facts: dict[str, Any] = attrs.field(factory=dict, init=False)  # analyses of `latest`

    def __enter__(self) -> PassContext:
        _ACTIVE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _ACTIVE.remove(self)

    def run(self, applied: Pass, module: IRModule) -> IRModule:
        """The module after the pass, seen by every instrument."""
        self._meet(module)
        for name in applied.requires:
            if name not in self.done:
                module = self.run(find_pass(name), module)
        step = PassRun(applied, module, self.depth, time.perf_counter())
        self._watch(step, Instrument.begin.__name__)
        self.running.append(step)
        self.depth += 1
        start = time.perf_counter() - self.watched
        try:
            with collection_paused():
                after = applied.transform(module, **applied.options)
        finally:
            self.depth -= 1
            self.running.pop()
        step.after, step.seconds = after, time.perf_counter() - self.watched - start
        self._leave(step, after)
        self._watch(step, Instrument.end.__name__)
        return after

    def analysis(self, of: Callable[[IRModule], Fact], module: IRModule) -> Fact:
        """What an analysis says of a module; worked out once for as long as it holds."""
        self._meet(module)
        name = of.__name__
        if name not in self.facts:
            self.facts[name] = of(module)
        fact: Fact = self.facts[name]
        return fact

    def _watch(self, step: PassRun, event: str) -> None:
        start = time.perf_counter()
        for instrument in self.instruments:
            getattr(instrument, event)(step)
        self.watched += time.perf_counter() - start

    def _meet(self, module: IRModule) -> None:
        if module is not self.latest:
            self.latest, self.done, self.facts = module, set(), {}

    def _leave(self, step: PassRun, after: IRModule) -> None:
        kept = step.applied.preserves
        # a pass made of others has changed nothing that they have not told of
        if step.before is self.latest and after is not step.before:
            self.done = {name for name in self.done if name in kept}
            self.facts = {name: fact for name, fact in self.facts.items() if name in kept}
            self.latest = after
        self._meet(after)
        self.done.add(step.applied.name)


_ACTIVE: list[PassContext] = []


def _context() -> PassContext:
    """The innermost context that is open; one without instruments where none is."""
    return _ACTIVE[-1] if _ACTIVE else PassContext()


def analysis(of: Callable[[IRModule], Fact], module: IRModule) -> Fact:
    """What an analysis says of a module, from the open context's memory."""
    return _context().analysis(of, module)


def note(text: str) -> None:
    """Say something of the work of the pass that runs; statistics and traces show it."""
    if _ACTIVE and _ACTIVE[-1].running:
        _ACTIVE[-1].running[-1].notes.append(text)
