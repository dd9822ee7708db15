"""Functions with tuples of tensors as parameters, compiled as functions of the tensors in them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from structir.analysis.arguments import Defaults, arguments_of, check_call
from structir.interpret.argument_checks import match
from structir.interpret.argument_conversion import argument_value
from structir.interpret.scope import Activation
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.loops.regions.leaves import flatten, leaves_of
from structir.runtime.files.serialise import StoredFunction

Value = Any


class TupleFunction:
    """A function of tuples, called through a function of their fields."""

    def __init__(
        self,
        stored: StoredFunction,
        defaults: Defaults,
        make: Callable[[StoredFunction, Defaults], Any],
    ) -> None:
        self.stored, self.defaults = stored, defaults
        self.name, self.params, self.region = stored.name, stored.params, stored.region
        starts = [len(leaves_of(self.params[:k])) for k in range(len(self.params))]
        self._leaf_of = dict(enumerate(starts))  # the first leaf of each parameter
        donated = tuple([(self._leaf_of[k], result) for k, result in stored.donated])
        leaves = leaves_of(self.params)
        self.flat = make(attrs.evolve(stored, params=leaves, donated=donated), dict)
        declared = {param.name for param in self.params}
        self._options = [name for name in self.flat.call_options if name not in declared]
        self.entry = partial(self._call, self.flat.entry)
        self.public = partial(self._call, self.flat.public)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        return self._call(self.flat, *args, **names)  # in Python, where a profiler records kernels

    def _call(self, function: Callable[..., Value], /, *args: Value, **names: Value) -> Value:
        if not names and len(args) == len(self.params):
            return function(*self._fields(args))
        options = {name: names.pop(name) for name in self._options if name in names}
        args = arguments_of(self.name, self.params, args, names, self.defaults)
        return function(*self._fields(args), **options)

    def _fields(self, args: Sequence[Value]) -> list[Value]:
        """Returns the fields of the arguments of a call."""
        flat: list[Value] = []
        for param, value in zip(self.params, args, strict=True):
            if not _append_fields(param.struct_info, value, flat):
                return self._converted(args)
        return flat

    def _converted(self, args: Sequence[Value]) -> list[Value]:
        """Returns the fields of arguments of any accepted form; raises ShapeMismatchError for
        other arguments."""
        pairs = [*zip(self.params, args, strict=True)]
        values = [argument_value(param, value, self.name) for param, value in pairs]
        infos = [(p.struct_info, f"{self.name}: parameter {p.name}") for p in self.params]
        declared = [(info, v, where) for (info, where), v in zip(infos, values, strict=True)]
        match(declared, Activation({}, {}))
        return flatten(values)

    def donating(self, donated: Mapping[int, int], args: Sequence[Value]) -> Value:
        """Calls the function with donated arguments: `donated` maps their numbers to results."""
        check_call(self.name, self.params, args)
        leaves = {self._leaf_of[k]: result for k, result in donated.items()}
        return self.flat.donating(leaves, self._fields(args))


def _append_fields(info: StructInfo | None, value: Value, flat: list[Value]) -> bool:
    """Appends the fields of an argument; returns False for an argument of another form."""
    if not isinstance(info, TupleStructInfo):
        flat.append(value)
        return True
    if type(value) is dict and info.names is not None and len(value) == len(info.names):
        try:
            value = [value[name] for name in info.names]
        except KeyError:
            return False
    if type(value) not in (list, tuple) or len(value) != len(info.fields):
        return False
    return all([_append_fields(f, v, flat) for f, v in zip(info.fields, value, strict=True)])
