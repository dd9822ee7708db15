"""Executables of modules with ragged tensors: compiled as functions of their parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from structir.analysis.arguments import arguments_of, default_values
from structir.analysis.internal_functions import only_function
from structir.errors import StructIRError
from structir.backend.loops.from_point import NoKernelError
from structir.backend.region import RegionLowering
from structir.interpret.argument_checks import as_value, match
from structir.interpret.scope import Activation
from structir.ir.expr import Call, Function, Var, VarBinding
from structir.ir.module import IRModule
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.ops.ragged import check_same_rows, has_ragged_axis
from structir.ragged.boundary import RowsCheck, TupleModule, as_tuples
from structir.passes.canonicalise_bindings import canonicalise_bindings
from structir.ragged.module import is_ragged
from structir.ragged.row_groups import with_row_groups

Value = Any


class RaggedFunction:
    """A function of ragged tensors, called through a function of their parts."""

    def __init__(
        self, name: str, function: Function, checks: list[RowsCheck], inner: Callable[..., Value]
    ) -> None:
        self.name, self.params, self.inner = name, function.params, inner
        self.checks, self.result = checks, function.ret_struct_info
        self.infos: list[Any] = [param.struct_info for param in self.params]
        self.ragged = [is_ragged(info) for info in self.infos]
        self.named = any([getattr(a, "name", "") for i in self.infos for a in _axes(i)])
        self.defaults = partial(default_values, function)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        return parts_result(self.result, self.inner(*self.parts(args, names)))

    def parts(self, args: tuple[Value, ...], names: dict[str, Value]) -> list[Value]:
        """Returns the arguments with tuples in place of ragged arrays; checks these."""
        if names or len(args) != len(self.params):
            args = arguments_of(self.name, self.params, args, names, self.defaults)
        values = list(args)
        for k, info in enumerate(self.infos):
            if self.ragged[k] and not _is_plain(info, values[k]):
                values[k] = self._checked(k, values[k])
        if self.named:
            self._match([k for k, ragged in enumerate(self.ragged) if ragged], values)
        for check in self.checks:
            first, second = values[check.first], values[check.second]
            if first.offsets is not second.offsets or first.leading != second.leading:
                rows = first.row_starts, first.row_limits, second.row_starts, second.row_limits
                check_same_rows(*rows, check.where)
        return [_parts(value) for value in values]

    def _checked(self, k: int, value: Value) -> Value:
        value = as_value(self.infos[k], value)
        self._match([k], {k: value})
        return value

    def _match(self, positions: list[int], values: Any) -> None:
        declared = [
            (self.infos[k], values[k], f"{self.name}: parameter {self.params[k].name}")
            for k in positions
        ]
        match(declared, Activation({}, {}))


def _axes(info: StructInfo) -> Any:
    return (getattr(info, "axes", None) or ()) if has_ragged_axis(info) else ()


def _is_plain(info: Any, value: Value) -> bool:
    """Whether a value is a ragged array of the dtype and the ragged axis of a parameter."""
    if type(value) is not RaggedArray or not has_ragged_axis(info) or info.ndim != value.ndim:
        return False
    return value.shape.index(None) == len(value.leading) and value.dtype == info.dtype and (
        type(info.axes[len(value.leading)]) is not int
        and getattr(info.axes[len(value.leading)], "name", None) is not None
    )


def _parts(value: Value) -> Value:
    if type(value) is RaggedArray:
        return value.values, value.row_starts, value.row_limits
    return tuple(map(_parts, value)) if isinstance(value, tuple) else value


def parts_result(info: StructInfo, value: Value) -> Value:
    """Returns a result with ragged arrays in place of the tuples of their parts."""
    if has_ragged_axis(info):
        return RaggedArray.from_limits(*value)
    if isinstance(info, TupleStructInfo) and is_ragged(info):
        pairs = zip(info.fields, value, strict=True)
        return tuple([parts_result(field, item) for field, item in pairs])
    return value


class RaggedExecutable:
    """A compiled module with ragged tensors; it is called with `RaggedArray`s or lists of rows.

    Its other methods are those of the executable of the parts.
    """

    def __init__(self, tuples: TupleModule, executable: Any) -> None:
        self.tuples, self.executable = tuples, executable

    @property
    def module(self) -> IRModule:
        """The program."""
        return self.tuples.original

    def __getitem__(self, name: str) -> Callable[..., Value]:
        """Returns a function of the module."""
        inner, function = self.executable[name], self.tuples.original.functions[name]
        if not isinstance(function, Function):
            return inner  # type: ignore[no-any-return]
        infos = [function.ret_struct_info, *[p.struct_info for p in function.params]]
        if not any(map(is_ragged, infos)):
            return inner  # type: ignore[no-any-return]
        return RaggedFunction(name, function, self.tuples.checks[name], inner)

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Calls the only public function of the module."""
        return self[only_function(self.module)](*args, **names)

    def profile(self, /, *args: Value, name: str = "main", **options: Any) -> Any:
        """Profiles calls of a function."""
        function = self[name]
        parts = function.parts(args, {}) if isinstance(function, RaggedFunction) else args
        return self.executable.profile(*parts, name=name, **options)

    def save(self, path: Any) -> None:
        """Raises StructIRError: save the module, and compile it after loading."""
        message = "an executable with ragged tensors cannot be saved"
        hint = 'help: save the module: `structir.save(mod, "m.sir")`'
        raise StructIRError(f"{message}\n{hint}", code="E0736")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.executable, name)


def compile_ragged(lowered: IRModule, compile_tuples: Callable[[IRModule], Any]) -> Any:
    """Compiles a lowered module with ragged tensors."""
    tuples = as_tuples(lowered)
    grouped = with_row_groups(canonicalise_bindings.transform(tuples.module), has_kernel)
    return RaggedExecutable(tuples, compile_tuples(grouped))


def has_kernel(call: Call) -> bool:
    """Returns whether the kernels of one row can run in a loop over rows."""
    try:
        RegionLowering().add(VarBinding(Var("rows", call.struct_info), call))
    except NoKernelError:
        return False
    return True
