"""Estimates the cost of a block of bindings: kernels after fusion, bytes, operations, and time.

Kernels are formed as in a backend: values that are computed at the points of their users join
them, as `structir.projections.fusion` decides from index maps. Products keep their operands in
memory, and take elementwise users with them. The rates are those of one core of a present CPU; they
only order alternatives.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import prod
from typing import Any

import attrs

from structir.analysis.declaration import analysis
from structir.errors import DiagnosticError
from structir.ir.dims import Dim, Sym, evaluate
from structir.ir.dtype import numpy_dtype
from structir.ir.expr import Binding, Call, Constant, MatchCast, Tuple, TupleGetItem, Var
from structir.ir.op import Op
from structir.ir.struct_info import StructInfo, TensorStructInfo, TupleStructInfo
from structir.opdef.memo import memoize, spec_of
from structir.planning.storage import is_view_call
from structir.projections.fusion import FusionRelation, fusion
from structir.projections.scalar_expr import ScalarOp, walk
from structir.projections.spec import IndexSpec, Statement, product_of_reads

KERNEL = 1.5e-6  # seconds of a kernel
BYTES = 5e10  # bytes per second
SCALARS = 2e10  # elementwise operations per second
PRODUCTS = 8e10  # multiplications and additions of products per second
COPIES = 2.5e9  # elements per second of a copy in parts, such as a concatenation
HOST = 1e8  # points per second of a value without loops
WHOLE = 16  # operations of a point of an op over whole axes
SLOW = frozenset({"div", "sqrt", "rsqrt", "floordiv", "mod", "floormod"})
FAST = frozenset({"add", "sub", "mul", "neg", "max", "min", "abs", "select", "cast", "eq", "ne"})
FAST |= {"lt", "le", "gt", "ge", "and", "or", "not", "xor"}
MOST_ITEMS = 48  # calls in one kernel
EXACT = (FusionRelation.INLINE, FusionRelation.HOIST)
UNKNOWN = 64  # an unknown size

Sizes = Mapping[Sym, int]
Path = tuple[int, ...]


@attrs.frozen
class BlockCost:
    """The cost of a block: kernels, bytes that they read and write, operations, and seconds."""

    kernels: int
    bytes: int
    operations: int
    seconds: float


@attrs.frozen(eq=False)
class CallShape:
    """What the costs of calls of one structure depend on."""

    spec: IndexSpec | None
    rate: float  # operations per second
    is_view: bool
    is_product: bool
    is_map: bool
    is_copy: bool  # whether it moves elements without computing
    operations: tuple[tuple[Dim, int], ...]  # points, and operations of each
    # how reads of other calls depend on this one, by call and path
    relations: dict[tuple[CallShape, Path], list[FusionRelation]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class CostedCall:
    """A call that computes something: its operands in memory, and the kernel that it is part of."""

    call: Call
    shape: CallShape
    kernel: int
    inputs: dict[Any, tuple[int | None, StructInfo]]  # what it reads: the item that computes it
    reads: dict[int, list[tuple[int, ...]]]  # paths of operands, by the item that computes them
    views: set[int]  # the items that it reads under another shape


@analysis
def block_costs(
    bindings: Sequence[Binding], live: Collection[Var], sizes: Iterable[Sizes]
) -> list[BlockCost]:
    """Returns the costs of bindings at several sizes; `live` are the variables used afterwards."""
    kernels = _Kernels(bindings, live)
    return [kernels.cost(each) for each in sizes]


def call_seconds(call: Any, sizes: Sizes) -> float:
    """Returns an estimate for one call alone, without fusion."""
    if not isinstance(call, Call) or type(call.op) is not Op:
        return 0.0
    shape = memoize(call_shape, call)
    if shape.is_view:
        return 0.0
    moved = sum(bytes_of(info, sizes) for info in _tensor_infos(call))
    work = sum(_number(points, sizes) * each for points, each in shape.operations)
    return KERNEL + moved / BYTES + work / shape.rate


def _tensor_infos(call: Call) -> Iterator[StructInfo]:
    for part in (*call.args, call):
        yield from [part.struct_info] if part.struct_info is not None else []


def call_shape(call: Call) -> CallShape:
    """Returns what the cost of a call depends on."""
    spec = spec_of(call)
    if spec is None:
        infos = [i for i in _tensor_infos(call) if isinstance(i, TensorStructInfo)]
        dims = [prod(i.dims) for i in infos if isinstance(i.dims, tuple)]
        return CallShape(
            None, HOST, False, False, False, False, tuple([(size, 1) for size in dims])
        )
    if spec.whole or not spec.computes:
        work = tuple([(points, WHOLE) for points in _points(spec)])
        return CallShape(None, SCALARS, False, False, False, False, work)
    statements = spec.statements
    is_product = any(s.reduce and _multiplies(s) for s in statements)
    is_map = not any(s.reduce for s in statements)
    work = tuple([(points, _work(s)) for s, points in zip(statements, _points(spec), strict=True)])
    is_copy = is_map and all(_copies(s) for s in statements)
    rate = PRODUCTS if is_product else COPIES if is_copy and len(statements) > 1 else SCALARS
    return CallShape(spec, rate, is_view_call(call), is_product, is_map, is_copy, work)


def _points(spec: IndexSpec) -> list[Dim]:
    """Returns the number of points of each statement."""
    return [
        prod([spec.extents[index] for index in (*s.parallel, *s.reduce, *s.whole)])
        for s in spec.statements
    ]


def _multiplies(statement: Statement) -> bool:
    values = [write.value for write in statement.writes if write.value is not None]
    reads = [product_of_reads(value) for value in values]
    return any(each is not None and len(each) > 1 for each in reads)


def _copies(statement: Statement) -> bool:
    values = [write.value for write in statement.writes if write.value is not None]
    return not any(isinstance(node, ScalarOp) for value in values for node in walk(value))


def _work(statement: Statement) -> int:
    """Returns the operations of one point."""
    work = 1 if statement.reduce else 0
    for write in statement.writes:
        for node in walk(write.value) if write.value is not None else ():
            if isinstance(node, ScalarOp):
                work += 1 if node.fn in FAST else 2 if node.fn in SLOW else 5
    return max(work, 1)


def _number(dim: Dim, sizes: Sizes) -> int:
    """Returns the value of a size; one that is unknown counts as `UNKNOWN`."""
    try:
        return max(evaluate(dim, sizes), 0)
    except (DiagnosticError, KeyError, TypeError):
        return UNKNOWN


def bytes_of(info: StructInfo | None, sizes: Sizes) -> int:
    """Returns the bytes of a value at these sizes; unknown sizes count as `UNKNOWN`."""
    if isinstance(info, TupleStructInfo):
        return sum(bytes_of(field, sizes) for field in info.fields)
    if not isinstance(info, TensorStructInfo):
        return 0
    width = numpy_dtype(info.dtype).itemsize if info.dtype else 4
    if isinstance(info.dims, tuple):
        return _number(prod(info.dims), sizes) * width
    known = [axis for axis in info.axes or () if isinstance(axis, int)]
    unknown = (info.ndim or 2) if info.axes is None else len(info.axes) - len(known)
    elements: int = prod(known) * UNKNOWN**unknown
    return elements * width


class _Kernels:
    """The calls of a block as items, and the kernels that they form."""

    def __init__(self, bindings: Sequence[Binding], live: Collection[Var]) -> None:
        self.items: list[CostedCall] = []
        self.sources: dict[Any, Any] = {}  # what a variable is a view or a field of
        self.makers: dict[Any, int] = {}  # the item that computes a variable
        self.views: set[Any] = set()
        self.static: set[Any] = set()  # variables known at compile time
        self.kept: set[Any] = set()  # items that are read after the block
        self.readers: dict[int, list[int]] = {}
        self.members: dict[int, list[int]] = {}  # by kernel
        for binding in bindings:
            self._enter(binding)
        for var in live:
            self._keep(var)
        self._join()

    def _enter(self, binding: Binding) -> None:
        value, var = binding.value, binding.var
        if isinstance(binding, MatchCast) or not isinstance(value, Call):
            self.sources[var] = value if isinstance(value, Var | Tuple) else var
            if isinstance(value, TupleGetItem):
                self.sources[var] = self._field(value)
            if isinstance(value, Constant):
                self.static.add(var)
        elif type(value.op) is Op:
            self._enter_call(var, value)
        else:
            for operand in value.args:
                self._keep(operand)

    def _field(self, value: TupleGetItem) -> Any:
        source, _ = self._source(value.tuple_value)
        return source.fields[value.index] if isinstance(source, Tuple) else value.tuple_value

    def _enter_call(self, var: Var, call: Call) -> None:
        leaves = [leaf for k, arg in enumerate(call.args) for leaf in self._leaves(arg, (k,))]
        if leaves and all(isinstance(x, Constant) or x in self.static for x, _ in leaves):
            self.static.add(var)
            return
        shape = memoize(call_shape, call)
        if shape.is_view and leaves:
            self.sources[var] = leaves[0][0]
            self.views.add(var)
            return
        index = len(self.items)
        item = CostedCall(call, shape, index, {}, {}, set())
        self.items.append(item)
        self.makers[var] = index
        for leaf, path in leaves:
            source, is_view = self._source(leaf)
            maker = self.makers.get(source)
            item.inputs[leaf] = maker, leaf.struct_info
            if maker is None:
                continue
            item.reads.setdefault(maker, []).append(path)
            if is_view:
                item.views.add(maker)
            self.readers.setdefault(maker, []).append(index)

    def _leaves(self, operand: Any, path: Path = ()) -> Iterator[tuple[Any, Path]]:
        """Yields the variables and constants of an operand, with their paths."""
        if isinstance(operand, Tuple):
            for k, field in enumerate(operand.fields):
                yield from self._leaves(field, (*path, k))
        elif isinstance(operand, Var):
            source, _ = self._source(operand)
            if isinstance(source, Tuple):
                yield from self._leaves(source, path)
            else:
                yield operand, path
        elif isinstance(operand, Constant):
            yield operand, path

    def _source(self, var: Any) -> tuple[Any, bool]:
        """Returns what a variable is an alias or a view of, and whether it is a view."""
        is_view = False
        while isinstance(var, Var) and self.sources.get(var, var) is not var:
            is_view |= var in self.views
            var = self.sources[var]
        return var, is_view

    def _keep(self, value: Any) -> None:
        for leaf, _ in self._leaves(value):
            maker = self.makers.get(self._source(leaf)[0])
            if maker is not None:
                self.kept.add(maker)

    # Kernels

    def _join(self) -> None:
        """Joins items with the items that they read, where one kernel can compute both."""
        members = self.members = {index: [index] for index in range(len(self.items))}
        for index, item in enumerate(self.items):
            for maker in item.reads:
                if self.items[maker].kernel == item.kernel or maker in item.views:
                    continue
                first, second = members[self.items[maker].kernel], members[item.kernel]
                if len(first) + len(second) <= MOST_ITEMS and self._may_join(maker, index):
                    together = sorted([*first, *second])
                    if not self._is_cyclic(together):
                        members[together[0]] = together
                        for member in together:
                            self.items[member].kernel = together[0]

    def _may_join(self, maker: int, reader: int) -> bool:
        """Returns whether the points of a value are those of its reader, and both are loops."""
        producer, consumer = self.items[maker], self.items[reader]
        if producer.shape.spec is None or consumer.shape.spec is None:
            return False
        products = [
            sum(self.items[member].shape.is_product for member in self.members[each.kernel])
            for each in (producer, consumer)
        ]
        if consumer.shape.is_product:  # a transposed operand is read in place
            is_read_once = len(self.readers[maker]) == 1 and maker not in self.kept
            return producer.shape.is_copy and is_read_once and not products[0]
        if all(products) or (products[0] and not consumer.shape.is_map):
            return False
        relations = list(_relations(producer.shape, consumer.shape, consumer.reads[maker]))
        if products[0]:
            return relations == [FusionRelation.INLINE]
        return bool(relations) and all(
            each in EXACT or (each is FusionRelation.WINDOW and not consumer.shape.is_map)
            for each in relations
        )

    def _is_cyclic(self, together: list[int]) -> bool:
        """Returns whether a path leaves the items and comes back."""
        inside = set(together)
        todo = [r for index in together for r in self.readers.get(index, ()) if r not in inside]
        seen: set[int] = set()
        while todo:
            index = todo.pop()
            if index in inside:
                return True
            if index not in seen and index < together[-1]:
                seen.add(index)
                todo += self.readers.get(index, ())
        return False

    def cost(self, sizes: Sizes) -> BlockCost:
        """Returns the cost of all kernels at these sizes."""
        moved, operations, seconds = 0, 0, 0.0
        kernels: dict[int, list[int]] = {}
        for index, item in enumerate(self.items):
            kernels.setdefault(item.kernel, []).append(index)
        for kernel in kernels.values():
            kernel_bytes = self._bytes(kernel, sizes)
            moved += kernel_bytes
            seconds += KERNEL + kernel_bytes / BYTES
            for index in kernel:
                shape = self.items[index].shape
                work = sum(_number(n, sizes) * each for n, each in shape.operations)
                operations += work
                seconds += work / shape.rate
        return BlockCost(len(kernels), moved, operations, seconds)

    def _bytes(self, kernel: list[int], sizes: Sizes) -> int:
        """Returns what a kernel reads from others and writes for others."""
        inside, reads = set(kernel), dict[Any, StructInfo]()
        moved = 0
        for index in kernel:
            item = self.items[index]
            for leaf, (maker, info) in item.inputs.items():
                if maker not in inside:
                    reads[leaf] = info
            is_read = any(reader not in inside for reader in self.readers.get(index, ()))
            if is_read or index in self.kept:
                moved += bytes_of(item.call.struct_info, sizes)
        return moved + sum(bytes_of(info, sizes) for info in reads.values())


def _relations(
    producer: CallShape, consumer: CallShape, paths: Iterable[Path]
) -> Iterator[FusionRelation]:
    """Yields how each read of a producer by a consumer depends on it."""
    for path in paths:
        key = consumer, path
        if key not in producer.relations:
            producer.relations[key] = list(_read_relations(producer, consumer, path))
        yield from producer.relations[key]


def _read_relations(
    producer: CallShape, consumer: CallShape, path: Path
) -> Iterator[FusionRelation]:
    one, two = producer.spec, consumer.spec
    assert one is not None and two is not None
    if len(one.statements) != 1 or len(one.statements[0].writes) != 1:
        yield FusionRelation.BARRIER
        return
    statement = one.statements[0]
    for user in two.statements:
        for read in user.reads:
            if two.operands[read.operand].path == path:
                yield fusion(one, (statement, statement.writes[0]), two, (user, read)).relation
