"""Functions within functions that are called again and again, as the body of a loop is: their
compiled regions one after the other, without what is the same at every call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from structir.backend.plan import recording
from structir.backend.program import RegionCall, arranged
from structir.interpret.machine import Frame
from structir.interpret.scope import Closure, Scope
from structir.ir.dims import Sym
from structir.ir.expr import (
    Constant,
    DataflowVar,
    Expr,
    Function,
    MatchCast,
    Tuple,
    TupleGetItem,
    Var,
)

Value = Any
Step = Callable[[dict[Var, Value], Mapping[Sym, int]], Value]
MOST_FORMS = 16  # shapes of arguments that a closure remembers as right


@attrs.frozen(eq=False)
class Straight:
    """A body without choices and without calls of what is not compiled: one step for each variable,
    then the result. The sizes of all that it makes follow from those of what it takes."""

    steps: tuple[tuple[Var, Step], ...]
    result: Step

    def __call__(self, values: dict[Var, Value], sizes: Mapping[Sym, int]) -> Value:
        """The result; `values` are those of the variables that the body sees."""
        for var, step in self.steps:
            values[var] = step(values, sizes)
        return self.result(values, sizes)


def straight(function: Function) -> Straight | None:
    """The body of a compiled function, if it is straight."""
    bindings = function.bindings()
    steps = [_step(b.value) for b in bindings]
    result = _step(function.body.body)
    made = [(b.var, s) for b, s in zip(bindings, steps, strict=True) if s is not None]
    if result is None or len(made) < len(steps) or _requires(bindings):
        return None
    return Straight(tuple(made), result)


def _requires(bindings: Sequence[Any]) -> bool:
    """Whether something is stated of sizes that is looked at anew at every call."""
    return any(isinstance(b, MatchCast) and not isinstance(b.value, Var) for b in bindings)


def _step(expr: Expr) -> Step | None:
    make = _STEPS.get(type(expr))
    return None if make is None else make(expr)


def _region(call: RegionCall) -> Step:
    region, inputs, shape = call.region, call.inputs, call.results
    if region.free_symbols:
        return lambda values, sizes: arranged(
            shape, region([np.asarray(values[v]) for v in inputs], sizes)
        )
    if shape == tuple(range(len(shape))):
        return lambda values, sizes: region.entry(*[values[v] for v in inputs])
    return lambda values, sizes: arranged(shape, region.entry(*[values[v] for v in inputs]))


def _variable(var: Var) -> Step:
    return lambda values, sizes: values[var]


def _constant(constant: Constant) -> Step:
    data = constant.data
    return lambda values, sizes: data


def _field(item: TupleGetItem) -> Step | None:
    whole, index = item.tuple_value, item.index
    return (lambda values, sizes: values[whole][index]) if isinstance(whole, Var) else None


def _tuple(expr: Tuple) -> Step | None:
    if all(isinstance(f, Var) for f in expr.fields):
        fields: Any = expr.fields
        return lambda values, sizes: tuple([values[f] for f in fields])
    made = [_step(f) for f in expr.fields]
    steps = [s for s in made if s is not None]
    if len(steps) < len(made):
        return None
    return lambda values, sizes: tuple([s(values, sizes) for s in steps])


_STEPS: dict[type, Callable[[Any], Step | None]] = {
    RegionCall: _region,
    Var: _variable,
    DataflowVar: _variable,
    Constant: _constant,
    TupleGetItem: _field,
    Tuple: _tuple,
}


class RepeatedCall:
    """How a closure with a straight body is called: the first call with arguments of some shapes
    checks everything, those after it only run."""

    def __init__(self, body: Straight, enter: Callable[..., Frame], run: Any) -> None:
        self.body, self.enter, self.run = body, enter, run
        self.forms: dict[Any, Mapping[Sym, int]] = {}
        self.captured: dict[Var, Value] = {}

    def __call__(self, me: Closure, args: tuple[Value, ...]) -> Value:
        key = tuple([(a.shape, a.dtype) if type(a) is np.ndarray else None for a in args])
        sizes = self.forms.get(key)
        if sizes is None or recording.get() is not None:
            return self._checked(me, args, key)
        values = self.captured.copy()
        values.update(zip(me.function.params, args, strict=True))
        return self.body(values, sizes)

    def _checked(self, me: Closure, args: tuple[Value, ...], key: Any) -> Value:
        frame = self.enter(me, args)
        scope: Scope = frame.scope
        made = self.run(frame)
        if None not in key and len(self.forms) < MOST_FORMS:
            self.forms[key] = dict(scope.sizes)
            self.captured = dict(me.outer.values) if me.outer is not None else {}
        return made
