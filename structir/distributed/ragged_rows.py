"""Functions of ragged tensors in shards: consecutive rows, cut so that their elements balance."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import attrs

from structir.backend.compile import compile as compile_module
from structir.distributed.row_independence import DenseRows, dense_rows
from structir.distributed.sharded import Sharded
from structir.errors import Diagnostic, DiagnosticError, StructIRError
from structir.interpret.argument_checks import match
from structir.interpret.scope import Activation
from structir.ir.dims import Sym
from structir.ir.ragged_array import RaggedArray
from structir.lazy import lazy_module

np = lazy_module("numpy")
Value = Any


@attrs.frozen
class RowShard:
    """Consecutive rows: their range, the elements of ragged parameters, and the bytes received."""

    index: int
    start: int
    stop: int
    elements: int
    bytes_in: int


@attrs.frozen
class RowPlan:
    """A function split by rows."""

    name: str
    shards: tuple[RowShard, ...]

    def __str__(self) -> str:
        lines = [
            f"  rows {s.start} to {s.stop}: {s.elements} elements, {s.bytes_in} bytes in"
            for s in self.shards
        ]
        return "\n".join([f"{self.name}: {len(self.shards)} shards by rows", *lines])


@attrs.frozen(eq=False, slots=False)
class RowSharded(Sharded):
    """A function of ragged tensors that runs in shards of rows when called."""

    @cached_property
    def rows(self) -> DenseRows:
        """The dense form of the function."""
        return dense_rows(self.module, self.function)

    @cached_property
    def executable(self) -> Any:
        """The compiled module: each shard calls the function with its rows."""
        return compile_module(self.module)

    @property
    def workers(self) -> int:
        """The number of shards: that of the workers, or of a grid that cuts the first axis only."""
        grid = self.options["grid"]
        unused = [k for k in ("max_bytes", "model") if self.options[k] is not None]
        if self.options["reduce"] != 1 or any([parts != 1 for parts in (grid or ())[1:]]) or unused:
            message = f"{self.name}: ragged tensors are cut along the first axis only"
            hint = f"pass `workers={self.options['workers']}` and no other option"
            raise DiagnosticError(Diagnostic(message, self.function.span, hint=hint, code="E1122"))
        return grid[0] if grid else int(self.options["workers"])

    def plan(self, /, *args: Value, **names: Value) -> RowPlan:  # type: ignore[override]
        """Returns the ranges of rows for these arguments.

        Raises DiagnosticError where a row of the result requires other rows of the operands."""
        return self._row_plan(self.arguments(args, names))

    def _row_plan(self, values: tuple[Value, ...]) -> RowPlan:
        rows, scope, params = self.rows, Activation({}, {}), self.function.params
        match(
            [
                (p.struct_info, v, f"{self.name}: parameter {p.name}")
                for p, v in zip(params, values, strict=True)
            ],
            scope,
        )
        sizes = {s: size for s, size in scope.sizes.items() if isinstance(s, Sym)}
        ragged = [v for v in values if isinstance(v, RaggedArray)]
        blocks = balanced_blocks(ragged, self.workers)
        rows.check(sizes, blocks)
        return RowPlan(self.name, tuple([self._shard(k, b, values) for k, b in enumerate(blocks)]))

    def _shard(self, index: int, block: tuple[int, int], values: tuple[Value, ...]) -> RowShard:
        parts = self.parts(values, *block)
        ragged = [part for part in parts if isinstance(part, RaggedArray)]
        elements = sum([part.values.size for part in ragged])
        received = sum([part.offsets.nbytes + part.values.nbytes for part in ragged])
        received += sum([part.nbytes for part in parts if isinstance(part, np.ndarray)])
        return RowShard(index, *block, elements, received)

    def parts(self, values: tuple[Value, ...], start: int, stop: int) -> tuple[Value, ...]:
        """Returns the arguments of a shard: rows of the cut parameters, and the others whole."""
        pairs = zip(values, self.rows.sliced, strict=True)
        return tuple([row_range(v, start, stop) if cut else v for v, cut in pairs])

    def __call__(self, /, *args: Value, **names: Value) -> Value:
        """Computes the result, shard after shard in this process."""
        values = self.arguments(args, names)
        run = self.executable[self.name]
        shards = self._row_plan(values).shards
        results = [run(*self.parts(values, shard.start, shard.stop)) for shard in shards]
        if isinstance(results[0], tuple):
            return tuple([join_rows(fields) for fields in zip(*results, strict=True)])
        return join_rows(results)

    def on_dask(self, /, *args: Value, **names: Value) -> Value:
        """Raises DiagnosticError: ragged tensors are no Dask arrays."""
        message = f"{self.name}: shards of ragged tensors run in this process, not on Dask"
        hint = "call it: `shard(module, workers=4)(x)`, or pad the parameters"
        raise DiagnosticError(Diagnostic(message, self.function.span, hint=hint, code="E1122"))

    def compute(
        self, /, *args: Value, client: Any = None, progress: bool = False, **names: Value
    ) -> Value:
        """Raises DiagnosticError, as `on_dask` does."""
        return self.on_dask(*args, **names)


def balanced_blocks(ragged: Sequence[RaggedArray], workers: int) -> list[tuple[int, int]]:
    """Returns ranges of rows with about equal numbers of elements; at least one range."""
    if workers < 1:
        message = f"workers must be a positive integer, found {workers}"
        raise StructIRError(message, code="E0903")
    count = len(ragged[0])
    ends = np.zeros(count + 1, "int64")
    for array in ragged:
        per_row = max(array.values[:1].size, 1)
        ends += array.offsets[:: _rows_each(array)][: count + 1] * per_row
    wanted = int(ends[-1]) * np.arange(1, workers) / workers
    after = np.searchsorted(ends, wanted)
    before = np.maximum(after - 1, 0)
    nearer = np.where(wanted - ends[before] < ends[after] - wanted, before, after)
    bounds = sorted({0, count, *map(int, nearer)})
    return list(pairwise(bounds)) or [(0, count)]


def _rows_each(array: RaggedArray) -> int:
    """The number of ragged rows in each element of the first axis."""
    return max(int(np.prod(array.leading[1:])), 1)


def row_range(value: Value, start: int, stop: int) -> Value:
    """Returns a range of the first axis; of a ragged array, with a view of its values."""
    if not isinstance(value, RaggedArray):
        return value[start:stop]
    each = int(np.prod(value.leading[1:]))
    offsets = value.offsets[start * each : stop * each + 1]
    values = value.values[offsets[0] : offsets[-1]]
    return RaggedArray(values, offsets - offsets[0], (stop - start, *value.leading[1:]))


def join_rows(parts: Sequence[Value]) -> Value:
    """Returns the rows of all parts in order."""
    if not isinstance(parts[0], RaggedArray):
        return np.concatenate(parts)
    lengths = np.concatenate([np.diff(part.offsets) for part in parts])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    leading = (sum([len(part) for part in parts]), *parts[0].leading[1:])
    return RaggedArray(np.concatenate([part.values for part in parts]), offsets, leading)
