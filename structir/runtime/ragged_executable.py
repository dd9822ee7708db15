"""Executables of modules with ragged tensors: compiled as functions of their parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn

import attrs

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.internal_functions import named_or_only_function, only_function
from structir.errors import ShapeMismatchError
from structir.interpret.argument_checks import match
from structir.interpret.argument_conversion import argument_value
from structir.interpret.scope import Activation
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Call, Function, Var, VarBinding
from structir.ir.module import IRModule
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.loops.program.expression import NoKernelError
from structir.loops.regions.region import RegionLowering
from structir.ops.ragged import check_ragged, check_same_rows, has_ragged_axis, label_of
from structir.ragged.boundary import (
    ORDERED,
    RowsCheck,
    Sources,
    TupleModule,
    as_tuples,
    share_rows,
)
from structir.ragged.module import is_ragged
from structir.ragged.row_groups import with_row_groups
from structir.rewriting.alias_removal import without_aliases
from structir.runtime.files import archive
from structir.runtime.tuple_parameters import TupleFunction

Value = Any
Join = Callable[[Value, Sequence[Value]], Value]  # of a result and the arguments


@attrs.frozen
class RaggedParameter:
    """A parameter that is one ragged tensor."""

    index: int
    position: int  # of the ragged axis
    ndim: int
    dtype: Any

    def accepts(self, value: Value) -> bool:
        """Returns whether a value is a ragged array of this dtype, ragged at this axis."""
        return (
            type(value) is RaggedArray
            and len(value.leading) == self.position
            and value.ndim == self.ndim
            and value.dtype == self.dtype
        )


class RaggedFunction:
    """A function of ragged tensors, called through a function of their parts."""

    def __init__(
        self,
        name: str,
        function: Function,
        checks: list[RowsCheck],
        sources: Sources,
        inner: Callable[..., Value],
        flat: Callable[..., Value] | None = None,
    ) -> None:
        self.name, self.params, self.inner, self.sources = name, function.params, inner, sources
        self.checks, self.result = checks, function.ret_struct_info
        self.join = joiner(self.result, sources)
        self.infos: list[Any] = [param.struct_info for param in self.params]
        self.tensors = [
            RaggedParameter(k, check_ragged(i), i.ndim, i.dtype and numpy_dtype(i.dtype))
            for k, i in enumerate(self.infos)
            if has_ragged_axis(i)
        ]
        own = {tensor.index for tensor in self.tensors}
        self.others = [k for k, i in enumerate(self.infos) if is_ragged(i) and k not in own]
        self.named = any([label_of(self.infos[t.index]) for t in self.tensors])
        self.defaults = partial(default_values, function)
        tuples = [k for k, i in enumerate(self.infos) if type(i) is not TensorStructInfo]
        self.flat = None if tuples else flat  # takes the parts themselves
        # the ragged parameters, the last one first, where a call needs no check but those of `flat`
        self.plain: list[int] | None = None
        if self.flat is not None and not self.named and not checks:
            self.plain = [tensor.index for tensor in reversed(self.tensors)]
        self.count = len(self.params)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        if self.plain is not None and not names and len(args) == self.count:
            fields = [*args]
            for k in self.plain:
                value = fields[k]
                if type(value) is not RaggedArray:
                    break
                fields[k : k + 1] = value.parts
            else:
                try:
                    return self.join(self.flat(*fields), args)  # type: ignore[misc]
                except ShapeMismatchError:
                    pass  # reported below, of the whole argument
        values, parts = self.parts(args, names)
        if self.flat is None:
            value = self.inner(*parts)
        else:
            fields = [v for p in parts for v in (p if type(p) is tuple else (p,))]
            value = self.flat(*fields)
        return self.join(value, values)

    def parts(
        self, args: tuple[Value, ...], names: dict[str, Value]
    ) -> tuple[list[Value], list[Value]]:
        """Returns the arguments, checked, and with tuples in place of ragged arrays."""
        if names or len(args) != len(self.params):
            args = arguments_of(self.name, self.params, args, names, self.defaults)
        values = list(args)
        unchecked = [t.index for t in self.tensors if not t.accepts(values[t.index])]
        for k in (*unchecked, *self.others):
            values[k] = argument_value(self.params[k], values[k], self.name)
            self._match([k], values)
        if self.named:
            self._match([t.index for t in self.tensors], values)
        for check in self.checks:
            first, second = values[check.first], values[check.second]
            if first.parts[1] is not second.parts[1]:
                rows = first.row_starts, first.row_limits, second.row_starts, second.row_limits
                check_same_rows(*rows, check.where)
        parts = list(values)
        for tensor in self.tensors:
            parts[tensor.index] = parts_of(values[tensor.index])
        for k in self.others:
            parts[k] = parts_of(values[k])
        return values, parts

    def _match(self, positions: list[int], values: list[Value]) -> None:
        declared = [
            (self.infos[k], values[k], f"{self.name}: parameter {self.params[k].name}")
            for k in positions
        ]
        match(declared, Activation({}, {}))


def parts_of(value: Value) -> Value:
    """Returns a value with tuples in place of ragged arrays."""
    if type(value) is RaggedArray:
        return value.parts
    return tuple(map(parts_of, value)) if isinstance(value, tuple) else value


def joiner(info: StructInfo, sources: Sources) -> Join:
    """Returns the function that puts ragged arrays in place of their parts in a result.

    `sources` has the number of the argument with the rows of a result of which only the values are
    computed, and ORDERED for a result whose rows need no check.
    """
    if has_ragged_axis(info):
        if sources is ORDERED:
            return lambda value, _: RaggedArray.from_ordered(*value)
        if sources is None:
            return lambda value, _: RaggedArray.from_limits(*value)
        return lambda value, args: args[sources].with_values(value)
    if isinstance(info, TupleStructInfo) and is_ragged(info):
        each = sources if isinstance(sources, tuple) else (None,) * len(info.fields)
        joins = [joiner(*pair) for pair in zip(info.fields, each, strict=True)]
        return lambda value, args: tuple([j(v, args) for j, v in zip(joins, value, strict=True)])
    return lambda value, _: value


class RaggedExecutable:
    """A compiled module with ragged tensors; it is called with `RaggedArray`s or lists of rows.

    Its other methods are those of the executable of the parts.
    """

    def __init__(self, tuples: TupleModule, executable: Any) -> None:
        self.tuples, self.executable = tuples, executable
        self._functions: dict[str, Callable[..., Value]] = {}

    @property
    def module(self) -> IRModule:
        """The program."""
        return self.tuples.original

    def __getitem__(self, name: str) -> Callable[..., Value]:
        """Returns a function of the module."""
        if name not in self._functions:
            self._functions[name] = self._function(name)
        return self._functions[name]

    def _function(self, name: str) -> Callable[..., Value]:
        inner, function = self.executable[name], self.tuples.original.functions.get(name)
        if not isinstance(function, Function):
            return inner  # type: ignore[no-any-return]
        infos = [function.ret_struct_info, *[p.struct_info for p in function.params]]
        if not any(map(is_ragged, infos)):
            return inner  # type: ignore[no-any-return]
        checks, sources = self.tuples.checks[name], self.tuples.sources.get(name)
        direct = getattr(self.executable, "direct", {}).get(name)
        flat = direct.flat.public if isinstance(direct, TupleFunction) else None
        return RaggedFunction(name, function, checks, sources, inner, flat)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[only_function(self.module)](*args, **names)

    def profile(self, /, *args: Value, name: str | None = None, **options: Any) -> Any:
        """Profiles calls of a function, by default `main` or the only public one."""
        name = named_or_only_function(self.module, name, 'exe.profile(..., name="{name}")')
        function = self[name]
        is_ragged_function = isinstance(function, RaggedFunction)
        parts = function.parts(args, {})[1] if is_ragged_function else args  # type: ignore[attr-defined]
        return self.executable.profile(*parts, name=name, **options)

    def save(self, path: archive.Path) -> None:
        """Writes the program and its machine code; `structir.load` returns the executable."""
        self.executable.save(path)
        archive.add_ragged_program(self.module, path)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an executable cannot be pickled: use `exe.save(path)` and `structir.load`")

    def __iter__(self) -> Any:
        return iter(self.module)

    def __repr__(self) -> str:
        return repr(self.executable)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def compile_ragged(
    lowered: IRModule, compile_tuples: Callable[[IRModule], Any], *, rows_together: bool
) -> Any:
    """Compiles a lowered module with ragged tensors.

    With `rows_together`, ops on the same rows become one loop over rows, which the CPU has.
    """
    tuples = tuple_module(lowered)
    module = with_row_groups(tuples.module, has_kernel) if rows_together else tuples.module
    return RaggedExecutable(tuples, compile_tuples(module))


def tuple_module(lowered: IRModule) -> TupleModule:
    """Returns a lowered module with tuples in place of ragged tensors."""
    tuples = as_tuples(lowered)
    functions = tuples.module.functions
    canonical = {
        name: without_aliases(function) if isinstance(function, Function) else function
        for name, function in functions.items()
    }
    tuples.module = tuples.module.with_functions(canonical)
    share_rows(tuples)
    return tuples


def with_ragged_tensors(lowered: IRModule, executable: Any) -> RaggedExecutable:
    """Returns an executable of the parts of ragged tensors, which a file holds, as one of these."""
    return RaggedExecutable(tuple_module(lowered), executable)


def has_kernel(call: Call) -> bool:
    """Returns whether the kernels of one row can run in a loop over rows."""
    try:
        info: Any = call.struct_info
        RegionLowering().add(VarBinding(Var("rows", info), call))
    except NoKernelError:
        return False
    return True
