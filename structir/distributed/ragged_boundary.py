"""Functions of ragged tensors as functions of their parts: values, row starts and row limits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.analysis.axes import axes_of
from structir.distributed.known_values import without_sizes
from structir.errors import Diagnostic, DiagnosticError, ShapeMismatchError
from structir.interpret.argument_checks import match
from structir.interpret.argument_conversion import argument_value, as_value
from structir.interpret.scope import Activation
from structir.ir import dims
from structir.ir.axes import AnySize, size_in
from structir.ir.dims import Dim, as_dim, as_sym
from structir.ir.expr import Function, Var
from structir.ir.module import IRModule
from structir.ir.node import replace
from structir.ir.ragged_array import RaggedArray
from structir.ir.struct_info import StructInfo, TupleStructInfo
from structir.lazy import lazy_module
from structir.ops.ragged import check_ragged, check_same_rows, has_ragged_axis
from structir.passes.lower_ragged import lower_ragged
from structir.ragged.boundary import RowsCheck, Sources
from structir.ragged.module import is_ragged
from structir.runtime.ragged_executable import joiner, parts_of, tuple_module

np = lazy_module("numpy")
Value = Any
Path = tuple[int, ...]


@attrs.frozen(eq=False)
class RaggedBoundary:
    """The ragged parameters and results of a function, and the checks of its arguments.

    `params` are the original parameters; `sources` gives the parameters with the rows of results.
    """

    name: str
    params: tuple[Var, ...]
    result: StructInfo
    checks: Sequence[RowsCheck]
    sources: Sources

    @property
    def ragged_axis(self) -> int | None:
        """The position of the ragged axis of the first result; None of a dense one."""
        first: Any = self.result
        while isinstance(first, TupleStructInfo) and first.fields:
            first = first.fields[0]
        return check_ragged(first) if has_ragged_axis(first) else None

    def arguments(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Returns the arguments, checked, with parts in place of ragged tensors.

        Arguments that are parts already are returned unchanged."""
        converted = [
            argument_value(p, v, self.name, _with_arrays)
            for p, v in zip(self.params, values, strict=True)
        ]
        whole = [k for k, v in enumerate(converted) if _has_arrays(v)]
        match(
            [
                (p.struct_info, converted[k], f"{self.name}: parameter {p.name}")
                for k, p in enumerate(self.params)
                if k in whole
            ],
            Activation({}, {}),
        )
        parts = tuple(map(parts_of, converted))
        for check in self.checks:
            (_, *rows), (_, *others) = parts[check.first], parts[check.second]
            check_same_rows(rows[0], rows[1], others[0], others[1], check.where)
        return parts

    def argument(self, position: int, value: Value) -> Value:
        """Returns one argument, with parts in place of ragged tensors."""
        return parts_of(argument_value(self.params[position], value, self.name, _with_arrays))

    def check_dense_result(self) -> None:
        """Raises DiagnosticError for ragged results, which are no Dask arrays."""
        if is_ragged(self.result):
            message = f"on_dask: expected dense results of {self.name}, found {self.result}"
            hint = "compute it: `sharded.compute(x, client=client)` returns ragged arrays"
            span = self.params[0].span if self.params else None
            raise DiagnosticError(Diagnostic(message, span, hint=hint, code="E1127"))

    def joined(self, value: Value, arguments: Sequence[Value]) -> Value:
        """Returns a result with ragged arrays; `arguments` are those of the call, as parts."""
        if not is_ragged(self.result):
            return value
        pairs = zip(self.params, arguments, strict=True)
        arrays = [
            RaggedArray.from_limits(*v) if has_ragged_axis(p.struct_info) else v for p, v in pairs
        ]
        return joiner(self.result, self.sources)(value, arrays)


def _with_arrays(info: StructInfo, value: Value) -> Value:
    """Returns an argument with ragged arrays in place of lists of rows."""
    if not is_ragged(info):
        return as_value(info, value)
    fields = info.fields if isinstance(info, TupleStructInfo) else ()
    if fields and isinstance(value, tuple | list) and len(value) == len(fields):
        return tuple([_with_arrays(f, v) for f, v in zip(fields, value, strict=True)])
    return value if _are_parts(info, value) else as_value(info, value)


def _are_parts(info: StructInfo, value: Value) -> bool:
    return has_ragged_axis(info) and type(value) is tuple and len(value) == 3


def _has_arrays(value: Value) -> bool:
    if isinstance(value, tuple):
        return any(map(_has_arrays, value))
    return isinstance(value, RaggedArray)


def with_parts(module: IRModule, name: str) -> tuple[IRModule, RaggedBoundary | None]:
    """Returns a module whose functions take the parts of ragged tensors, and the boundary of one;
    a module without ragged tensors is returned unchanged."""
    original = module.functions[name]
    lowered = lower_ragged(module)
    if lowered is module and not _is_boundary(original):
        return module, None
    tuples = tuple_module(lowered)
    if not _is_boundary(original):
        return tuples.module, None
    assert isinstance(original, Function)
    checks, sources = tuples.checks[name], tuples.sources.get(name)
    result: Any = original.ret_struct_info
    dense: Any = tuples.module.functions[name]
    dense = replace(dense, ret_struct_info=without_sizes(dense.body.body.struct_info))
    module = tuples.module.with_functions({**tuples.module.functions, name: dense})
    return module, RaggedBoundary(name, original.params, result, checks, sources)


def _is_boundary(function: Any) -> bool:
    infos = [function.ret_struct_info, *[p.struct_info for p in function.params]]
    return any(map(is_ragged, infos))


def rows_of_arguments(
    function: Function, boundary: RaggedBoundary, arguments: Sequence[Value]
) -> dict[str, tuple[int, ...]]:
    """Returns the row lengths of ragged parameters, by their names in a plan."""
    lengths: dict[str, tuple[int, ...]] = {}
    for k, name, path, _ in ragged_tensors(function, boundary):
        value: Any = arguments[k]
        for index in path:
            value = value[index]
        lengths[name] = tuple((value[2] - value[1]).reshape(-1).tolist())
    return lengths


def ragged_tensors(
    function: Function, boundary: RaggedBoundary
) -> Iterator[tuple[int, str, Path, Any]]:
    """Yields each ragged tensor of the parameters: the number of the parameter, the name in a plan,
    the path into the parameter, and the StructInfo of its parts."""
    params = function.params[: len(boundary.params)]  # without those of other values
    for k, (param, original) in enumerate(zip(params, boundary.params, strict=True)):
        for path, info in _ragged_fields(original.struct_info, param.struct_info, ()):
            yield k, param.name + "".join([f"[{index}]" for index in path]), path, info


def _ragged_fields(original: Any, parts: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if has_ragged_axis(original):
        yield path, parts
    elif isinstance(original, TupleStructInfo):
        for k, (field, own) in enumerate(zip(original.fields, parts.fields, strict=True)):
            yield from _ragged_fields(field, own, (*path, k))


def with_row_lengths(
    function: Function, boundary: RaggedBoundary | None, sizes: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns sizes with the row lengths of each ragged parameter as a flat tuple, and with the
    dims that follow from them.

    Raises DiagnosticError where row lengths are missing, and ShapeMismatchError where they do not
    match the sizes."""
    complete = dict(sizes)
    tensors = [] if boundary is None else list(ragged_tensors(function, boundary))
    by_total: dict[Any, tuple[int, ...]] = {}
    for _, name, _, info in tensors:
        if name in sizes:
            total = _sizes_in(info.fields[0])[0]
            by_total[total] = _bind_lengths(complete, name, info, sizes[name])
    for k, name, _, info in tensors:
        lengths = by_total.get(_sizes_in(info.fields[0])[0])
        if lengths is None:
            raise _missing(boundary.params[k], name)  # type: ignore[union-attr]
        complete[name] = lengths
    return complete


def _bind_lengths(sizes: dict[str, Any], name: str, info: Any, value: Any) -> tuple[int, ...]:
    """Adds the sizes that row lengths determine; returns the lengths of all rows in order."""
    total, leading = _sizes_in(info.fields[0])[0], _sizes_in(info.fields[1])
    lengths = np.asarray(value, "int64")
    flat = tuple(lengths.reshape(-1).tolist())
    shape = [_number(dim, sizes) for dim in leading]
    if lengths.ndim == 1 and None not in shape and prod(shape) == len(flat):  # type: ignore[arg-type]
        lengths = lengths.reshape(shape)
    if lengths.ndim != len(leading) or min(flat, default=0) < 0:
        expected = f"row lengths along {len(leading)} axes"
        raise _mismatch(name, expected, f"an array of shape {lengths.shape}")
    for dim, size in [*zip(leading, lengths.shape, strict=True), (total, sum(flat))]:
        symbol = None if dim is None else as_sym(dim)
        if symbol is not None:
            sizes.setdefault(symbol.name, size)
        number = _number(dim, sizes)
        if number is not None and number != size:
            raise _mismatch(name, f"size {number} of `{dim}`", f"{size} from the row lengths")
    if [_number(dim, sizes) for dim in leading].count(None) > 1:
        raise _mismatch(name, "names of the sizes before the rows", str(info.fields[1]))
    return flat


def _sizes_in(info: Any) -> list[Dim | None]:
    """Returns the size of each axis; None if it is unknown."""
    sizes = map(size_in, axes_of(info) or ())
    return [None if isinstance(size, AnySize) else size for size in sizes]


def _number(dim: Dim | None, sizes: Mapping[str, Any]) -> int | None:
    """Returns the value of a dim; None if it is unknown, or sizes are missing."""
    if dim is None:
        return None
    numbers = {s: sizes[s.name] for s in dims.syms(as_dim(dim)) if s.name in sizes}
    known = len(numbers) == len(dims.syms(as_dim(dim)))
    return dims.evaluate(as_dim(dim), numbers) if known else None


def _mismatch(name: str, expected: str, actual: str) -> ShapeMismatchError:
    message = f"sizes of `{name}`: expected {expected}, found {actual}"
    return ShapeMismatchError(message, code="E0731")


def _missing(param: Var, name: str) -> DiagnosticError:
    message = f"plan: expected the row lengths of `{name}`, found {param.struct_info}"
    hint = f'pass the length of each row: `sizes={{"{name}": [3, 1, 2]}}`'
    return DiagnosticError(Diagnostic(message, param.span, hint=hint, code="E0220"))


def row_arrays(function: Function, sizes: Mapping[str, Any]) -> dict[Any, Any]:
    """Returns the starts and limits of ragged parameters whose row lengths are among the sizes, by
    key in a program; `function` takes the parts."""
    arrays: dict[Any, Any] = {}
    for param in function.params:
        for path, info in _tuples(param.struct_info, ()):
            name = param.name + "".join([f"[{index}]" for index in path])
            if isinstance(sizes.get(name), tuple):
                numbers = [_number(dim, sizes) for dim in _sizes_in(info.fields[1])]
                shape = [-1 if number is None else number for number in numbers]
                offsets = np.concatenate([[0], np.cumsum(sizes[name], dtype="int64")])
                for k, side in ((1, offsets[:-1]), (2, offsets[1:])):
                    arrays[param, (*path, k)] = side.astype("int64").reshape(shape)
    return arrays


def _tuples(info: Any, path: Path) -> Iterator[tuple[Path, TupleStructInfo]]:
    if isinstance(info, TupleStructInfo):
        yield path, info
        for k, field in enumerate(info.fields):
            yield from _tuples(field, (*path, k))
