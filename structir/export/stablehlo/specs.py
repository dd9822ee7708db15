"""Calls of ops as StableHLO operations, derived from their index specs.

Reads become slices, broadcasts or gathers; values elementwise operations; sums of products of two
reads `dot_general`, other reductions `reduce`, running ones `reduce_window`; writes broadcasts,
updates of slices or scatters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import prod

from structir.export.stablehlo.accesses import (
    OPS,
    HloView,
    loaded,
    scattered,
    store_slice,
    store_whole,
    unpacked_entries,
)
from structir.export.stablehlo.block import INDEX, HloBlock, HloRegion
from structir.export.stablehlo.elements import HloElement, LoopGrid, dtype_of_kind
from structir.export.stablehlo.scalars import ScalarLowering
from structir.export.stablehlo.tensors import HloTensor, integers
from structir.export.stablehlo.windows import WindowedRead, convolved, pooled, windowed
from structir.ir.dims import Sym
from structir.ir.dtype import is_float, is_int
from structir.projections.monoid import MONOIDS, exact_sum_dtype
from structir.projections.spec import (
    Condition,
    IndexSpec,
    Read,
    Statement,
    Write,
    product_of_reads,
    scan_of,
)
from structir.projections.values import WEAK_INT, computing_dtype, widened

PAIRS = {"argmax": "GT", "argmin": "LT"}
ZERO = HloElement(None, (), WEAK_INT, 0)


def lowered(block: HloBlock, spec: IndexSpec, operands: Sequence[HloTensor]) -> list[HloTensor]:
    """Returns the results of a spec for these operands."""
    lowering = HloSpecLowering(block, spec, operands)
    for statement in spec.statements:
        lowering.statement(statement)
    return [lowering.initial(k) for k in range(len(spec.results))]


class HloSpecLowering:
    """The lowering of one call: its operands, and the results so far."""

    def __init__(self, block: HloBlock, spec: IndexSpec, operands: Sequence[HloTensor]) -> None:
        self.block, self.spec, self.operands = block, spec, operands
        self.results: list[HloTensor | None] = [None] * len(spec.results)

    def statement(self, statement: Statement) -> None:
        """Writes the operations of one statement."""
        order = (*statement.parallel, *statement.reduce)
        grid = LoopGrid(self.block, order, self.spec.extents)
        if self._over_windows(grid, statement):
            return
        views: dict[str, HloView] = {}
        for read in sorted(statement.reads, key=_order_of_read):
            values = {name: view.element for name, view in views.items()}
            views[read.name] = loaded(grid, self.operands[read.operand], read.entries, values)
        exists = reduce(grid.both, [v.exists for v in views.values()], None)
        for condition in statement.conditions:
            exists = grid.both(exists, _holds(grid, condition))
        for write in statement.writes:
            view = self._combined(grid, statement, write, views, exists)
            self._store(grid, statement, write, view, views)

    def _over_windows(self, grid: LoopGrid, statement: Statement) -> bool:
        """Writes a convolution or a pooling; returns whether the statement is one."""
        value = statement.writes[0].value
        names = None if value is None else product_of_reads(value)
        if names is None or statement.conditions or len(statement.writes) > 1:
            return False
        if len({*names}) != len(names) or len(names) != len(statement.reads):
            return False
        reads = [statement.read(name) for name in names]
        unpack = len(reads) > 1
        operands = [self.operands[r.operand] for r in reads]
        pairs = [
            (r, windowed(grid, x, r.entries, statement, unpack))
            for r, x in zip(reads, operands, strict=True)
        ]
        total = self.spec.results[statement.writes[0].result].dtype or "float32"
        result: HloElement | None = None
        if len(pairs) == 1 and pairs[0][1] is not None:
            kind = self.operands[reads[0].operand].dtype
            kind = total if widened(kind, total) else computing_dtype(kind)
            result = None if kind == "bool" else pooled(grid, pairs[0][1], statement, kind)
        elif len(pairs) == 2 and statement.monoid == "sum":
            result = self._convolution(grid, statement, pairs)
        if result is None:
            return False
        self._store(grid, statement, statement.writes[0], HloView(result), {})
        return True

    def _convolution(
        self,
        grid: LoopGrid,
        statement: Statement,
        pairs: Sequence[tuple[Read, WindowedRead | None]],
    ) -> HloElement | None:
        """Returns the convolution of a windowed read with the other, or None."""
        ordered = sorted(pairs, key=lambda pair: pair[1] is None)
        (_, windows), (read, none) = ordered
        if windows is None or none is not None:
            return None
        weight = self.operands[read.operand]
        view = loaded(grid, weight, read.entries, {})
        kind = computing_dtype(weight.dtype)
        same = windows.operand.dtype == weight.dtype
        if view.exists is not None or not same or not is_float(kind):
            return None
        element = HloElement(grid.tensor(view.element, kind), view.element.axes, kind)
        return convolved(grid, windows, element, statement)

    # ---- values

    def _combined(
        self,
        grid: LoopGrid,
        statement: Statement,
        write: Write,
        views: Mapping[str, HloView],
        exists: HloElement | None,
    ) -> HloView:
        """Returns the values of a write over the parallel index variables."""
        assert write.value is not None
        reads = self._widened(grid, statement, write, views)
        if statement.monoid == "sum" and statement.reduce:
            product = self._product(grid, statement, write, views, reads, exists)
            if product is not None:
                return HloView(product)
        value = ScalarLowering(grid, reads).value(write.value)
        monoid = statement.monoid or "sum"
        if not statement.reduce and monoid not in PAIRS:
            return HloView(value, exists)
        scanned = self._scanned(grid, statement, value, monoid, views)
        if scanned is not None:
            return HloView(scanned)
        return HloView(_reduced(grid, statement, value, exists, monoid))

    def _widened(
        self, grid: LoopGrid, statement: Statement, write: Write, views: Mapping[str, HloView]
    ) -> dict[str, HloElement]:
        """Returns the reads; terms of a sum in its dtype, where they are converted before it."""
        total = self.spec.results[write.result].dtype
        elements = {name: view.element for name, view in views.items()}
        if total is None or not statement.reduce or statement.monoid not in ("sum", "prod"):
            return elements
        return {
            name: HloElement(grid.tensor(e, total), e.axes, total) if widened(e.kind, total) else e
            for name, e in elements.items()
        }

    def _product(
        self,
        grid: LoopGrid,
        statement: Statement,
        write: Write,
        views: Mapping[str, HloView],
        reads: Mapping[str, HloElement],
        exists: HloElement | None,
    ) -> HloElement | None:
        """Returns a sum of products of two reads as a `dot_general`, or None."""
        assert write.value is not None
        names = product_of_reads(write.value)
        if names is None or len(names) != 2 or names[0] == names[1] or statement.conditions:
            return None
        kinds = {computing_dtype(reads[name].kind) for name in names}
        others = [v.exists for name, v in views.items() if name not in names]
        if len(kinds) != 1 or "bool" in kinds or any(mask is not None for mask in others):
            return None
        kind = kinds.pop()
        a, b = [_zero_where_absent(grid, views[n].exists, reads[n], kind) for n in names]
        summed = {*statement.reduce}
        if summed - ({*a.axes} & {*b.axes}):
            return None
        return _dot(grid, a, b, summed, kind)

    def _scanned(
        self,
        grid: LoopGrid,
        statement: Statement,
        value: HloElement,
        monoid: str,
        views: Mapping[str, HloView],
    ) -> HloElement | None:
        """Returns running combinations along one axis of constant size, or None."""
        scan = scan_of(self.spec, statement)
        if scan is None or len(statement.reduce) != 1 or monoid not in MONOIDS or monoid in PAIRS:
            return None
        (source,) = statement.reduce
        count = grid.extents[source]
        unconditional = all([view.exists is None for view in views.values()])
        if not isinstance(count, int) or count < 1 or monoid == "mean" or not unconditional:
            return None
        value, dtype = _combinable(grid, value, monoid)
        axes = _with(value.axes, statement.reduce)
        x = grid.spread(value, axes, dtype)
        axis = axes.index(source)
        inner = [[0, 0]] * len(axes)
        widths = {"le": [count - 1, 0], "lt": [count, -1], "ge": [0, count - 1], "gt": [-1, count]}
        inner[axis] = widths[scan.op]
        window = [count if k == axis else 1 for k in range(len(axes))]
        attributes = {
            "window_dimensions": integers(window),
            "padding": f"dense<{inner}> : tensor<{len(axes)}x2xi64>",
        }
        start = self.block.number(MONOIDS[monoid].identity(dtype), dtype)
        region = self.block.combining(OPS[MONOIDS[monoid].combine], dtype)
        result = self.block.emit("reduce_window", [x, start], x.dims, dtype, attributes, [region])
        target = tuple([scan.target if a == source else a for a in axes])
        return HloElement(result, target, dtype)

    # ---- results

    def initial(self, number: int) -> HloTensor:
        """Returns a result so far: the fill, or the operand that it starts from."""
        result = self.results[number]
        if result is None:
            info = self.spec.results[number]
            dtype = info.dtype or "float32"
            grid = LoopGrid(self.block)
            if self.spec.base is None:
                result = grid.filled(self.spec.fill, dtype, info.dims)
            else:
                base = self.operands[self.spec.base]
                offset = len(info.dims) - base.rank
                axes = range(offset, len(info.dims))
                result = self.block.convert(grid.broadcast(base, axes, info.dims), dtype)
            self.results[number] = result
        return result

    def _store(
        self,
        grid: LoopGrid,
        statement: Statement,
        write: Write,
        view: HloView,
        views: Mapping[str, HloView],
    ) -> None:
        number, info = write.result, self.spec.results[write.result]
        dtype = info.dtype or "float32"
        axes = unpacked_entries(grid, write.entries)
        result = store_whole(grid, axes, view.element, dtype)
        if result is not None and (write.unique or statement.monoid is None):
            if view.exists is not None:
                mask = store_whole(grid, axes, view.exists, "bool")
                assert mask is not None
                before = grid.reshape(self.initial(number), [entry.size for entry in axes])
                result = self.block.select(mask, result, before)
            self.results[number] = grid.reshape(result, info.dims)
            return
        target = grid.reshape(self.initial(number), [entry.size for entry in axes])
        result = None
        if write.unique and view.exists is None:
            result = store_slice(grid, target, axes, view.element)
        if result is None:
            reads = {name: each.element for name, each in views.items()}
            monoid = None if write.unique else statement.monoid
            result = scattered(grid, target, axes, view, reads, statement.parallel, monoid)
        self.results[number] = grid.reshape(result, info.dims)


def _order_of_read(read: Read) -> bool:
    return any([entry.data is not None for entry in read.entries])


def _holds(grid: LoopGrid, condition: Condition) -> HloElement:
    return grid.compare(condition.op, grid.index(condition.left), grid.index(condition.right))


def _zero_where_absent(
    grid: LoopGrid, exists: HloElement | None, element: HloElement, kind: str
) -> HloElement:
    element = HloElement(grid.tensor(element, kind), element.axes, kind)
    return element if exists is None else grid.select(exists, element, ZERO, kind)


def _dot(grid: LoopGrid, a: HloElement, b: HloElement, summed: set[Sym], kind: str) -> HloElement:
    """Returns the sum of a product over index variables of both factors."""
    assert a.tensor is not None and b.tensor is not None
    batch = [
        axis for axis in grid.order if axis in a.axes and axis in b.axes and axis not in summed
    ]
    inner = [axis for axis in grid.order if axis in summed]
    rows = [axis for axis in a.axes if axis not in b.axes]
    columns = [axis for axis in b.axes if axis not in a.axes]
    numbers = (
        f"#stablehlo.dot<lhs_batching_dimensions = {[a.axes.index(x) for x in batch]}, "
        f"rhs_batching_dimensions = {[b.axes.index(x) for x in batch]}, "
        f"lhs_contracting_dimensions = {[a.axes.index(x) for x in inner]}, "
        f"rhs_contracting_dimensions = {[b.axes.index(x) for x in inner]}>"
    )
    axes = (*batch, *rows, *columns)
    attributes = {"dot_dimension_numbers": numbers}
    shape = grid.shape(axes)
    tensor = grid.block.emit("dot_general", [a.tensor, b.tensor], shape, kind, attributes)
    return HloElement(tensor, axes, kind)


def _with(axes: tuple[Sym, ...], others: Sequence[Sym]) -> tuple[Sym, ...]:
    """Returns index variables followed by those of others that are not among them."""
    return (*axes, *[axis for axis in others if axis not in axes])


def _combinable(grid: LoopGrid, value: HloElement, monoid: str) -> tuple[HloElement, str]:
    """Returns a value in the dtype in which a monoid combines it: booleans are counted."""
    dtype = dtype_of_kind(value.kind)
    if monoid in ("any", "all"):
        dtype = "bool"
    elif dtype == "bool" and monoid in ("sum", "prod", "mean"):
        dtype = "int64"
    elif is_int(dtype) and monoid == "mean":
        dtype = exact_sum_dtype(dtype)
    return grid.apply(lambda x: x, [value], dtype), dtype


def _reduced(
    grid: LoopGrid,
    statement: Statement,
    value: HloElement,
    exists: HloElement | None,
    monoid: str,
) -> HloElement:
    """Returns a value combined over the reduction variables."""
    is_truth_value = dtype_of_kind(value.kind) == "bool"
    value, dtype = _combinable(grid, value, monoid)
    identity = HloElement(None, (), dtype, MONOIDS[monoid].identity(dtype))
    if exists is not None:
        value = grid.select(exists, value, identity, dtype)
    axes = _with(value.axes, statement.reduce)
    kept = tuple([axis for axis in axes if axis not in statement.reduce])
    x = grid.spread(value, axes, dtype)
    over = [k for k, axis in enumerate(axes) if axis in statement.reduce]
    if monoid in PAIRS:
        return HloElement(_first_extreme(grid, x, over, axes, statement, monoid), kept, INDEX)
    region = grid.block.combining(OPS[MONOIDS[monoid].combine], dtype)
    total = reduction(grid.block, x, grid.tensor(identity, dtype), over, region)
    result = HloElement(total, kept, dtype)
    if monoid != "mean":
        return result
    return _mean(grid, statement, result, exists, "float64" if is_truth_value else dtype)


def reduction(
    block: HloBlock, x: HloTensor, start: HloTensor, axes: Sequence[int], region: HloRegion
) -> HloTensor:
    """Returns a tensor reduced over axes."""
    shape = [d for k, d in enumerate(x.dims) if k not in axes]
    attributes = {"dimensions": integers(axes)}
    return block.emit("reduce", [x, start], shape, x.dtype, attributes, [region])


def _mean(
    grid: LoopGrid,
    statement: Statement,
    total: HloElement,
    exists: HloElement | None,
    dtype: str,
) -> HloElement:
    """Returns a sum divided by the number of existing points, in a dtype."""
    if exists is None:
        count = grid.index(prod(grid.shape(statement.reduce)))
    else:
        ones = grid.apply(lambda x: x, [exists], INDEX)
        count = _reduced(grid, statement, ones, None, "sum")
    if not is_float(dtype_of_kind(total.kind)):  # integers have no NaN for an empty mean
        count = grid.binary("maximum", count, _one())
    count = HloElement(grid.tensor(count, dtype), count.axes, dtype)
    return grid.binary("divide", total, count, dtype)


def _one() -> HloElement:
    return HloElement(None, (), WEAK_INT, 1)


def _first_extreme(
    grid: LoopGrid,
    x: HloTensor,
    over: Sequence[int],
    axes: Sequence[Sym],
    statement: Statement,
    monoid: str,
) -> HloTensor:
    """Returns the row-major index of the first greatest or least element; NaNs come first."""
    block, dtype = grid.block, x.dtype
    linear = ZERO
    for axis in statement.reduce:
        scaled = grid.binary("multiply", linear, grid.index(grid.extents[axis]))
        linear = grid.binary("add", scaled, grid.counter(axis))
    numbers = grid.spread(linear, axes, INDEX)

    def better(inner: HloBlock, args: list[HloTensor]) -> list[HloTensor]:
        a, i, b, j = args
        before = inner.compare(PAIRS[monoid], a, b)
        same = inner.compare("EQ", a, b)
        if is_float(dtype):
            absent = [inner.compare("NE", value, value) for value in (a, b)]
            alone = inner.same("and", absent[0], inner.same("not", absent[1]))
            before = inner.same("or", before, alone)
            same = inner.same("or", same, inner.same("and", *absent))
        earlier = inner.same("and", same, inner.compare("LT", i, j))
        first = inner.same("or", before, earlier)
        return [inner.select(first, a, b), inner.select(first, i, j)]

    infos = [((), dtype), ((), INDEX)]
    region = block.region([*infos, *infos], better)
    starts = [block.number(MONOIDS[monoid].identity(dtype), dtype), block.number(0, INDEX)]
    shape = [d for k, d in enumerate(x.dims) if k not in over]
    results = [(shape, dtype), (shape, INDEX)]
    attributes = {"dimensions": integers(list(over))}
    return block.emit_many("reduce", [x, numbers, *starts], results, attributes, [region])[1]
