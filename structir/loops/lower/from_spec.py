"""From index signatures to stages: each statement becomes loops over its own axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import attrs

from structir.ir import dims
from structir.ir.dims import Dim, Sym
from structir.ir.dtype import is_float
from structir.ir.kernel import computed_in
from structir.loops.program.buffer import Buffer
from structir.loops.program.expression import (
    Entry,
    Expression,
    NoKernelError,
    Number,
    apply,
    axis_dim,
    cast,
    expression_of,
    load,
    number,
    position,
)
from structir.loops.program.stage import Guard, Running, Stage
from structir.projections import spec as specs
from structir.projections.monoid import MONOIDS, exact_sum_dtype
from structir.projections.scalar_expr import ScalarExpr
from structir.projections.spec import IndexSpec, Read, Statement, Write, scan_of
from structir.projections.values import widened

PICKING = frozenset({"argmax", "argmin"})


def stages_of(
    spec: IndexSpec, operands: Sequence[Buffer], origin: str
) -> tuple[list[Buffer], list[Stage]]:
    """Returns the results of a spec for these operands, and the stages that compute them."""
    if spec.whole:
        raise NoKernelError("the body sees whole axes")
    results = [Buffer(r.dims, _known(r.dtype), name="") for r in spec.results]
    lowering = SpecLowering(spec, operands, results, origin)
    stages = lowering.starts()
    for clause in spec.statements:
        for write in clause.writes:
            if 0 not in results[write.result].shape:  # no element of it may be read
                stages += ClauseLowering(lowering, clause, write).stages()
    rewritten = {stage.out for stage in stages if _writes_all(stage, stages)}
    return results, [x for x in stages if x.out not in rewritten or not _is_start(x, stages)]


def _writes_all(stage: Stage, stages: list[Stage]) -> bool:
    """Whether a map writes every element of its result after the stage that fills it."""
    if _is_start(stage, stages) or stage.reduce or not stage.direct:
        return False
    axes = map(dims.as_sym, stage.write)  # type: ignore[arg-type]
    sizes = [1 if axis is None else stage.extents[axis] for axis in axes]
    return sizes == list(stage.out.shape) and all(x.buffer is not stage.out for x in stage.loads)


def _is_start(stage: Stage, stages: list[Stage]) -> bool:
    return stage is next(x for x in stages if x.out is stage.out)


def _known(dtype: str | None) -> str:
    if dtype is None:
        raise NoKernelError("the dtype is only known at run time")
    return dtype


@attrs.frozen
class SpecLowering:
    """The common state of the statements of one spec."""

    spec: IndexSpec
    operands: Sequence[Buffer]
    results: Sequence[Buffer]
    origin: str

    def starts(self) -> list[Stage]:
        """Returns stages that initialise results that the statements do not cover."""
        added = []
        for k, buffer in enumerate(self.results):
            if self.spec.base is not None:
                source = self.operands[self.spec.base]
                added.append(self._filled(buffer, lambda at, s=source: load(s, at)))
            elif 0 in buffer.shape or not self._covered(k):
                dtype = computed_in(buffer.dtype)
                value = cast(number(self.spec.fill, _literal_dtype(self.spec.fill)), dtype)
                added.append(self.filled(buffer, value))
        return added

    def filled(self, buffer: Buffer, value: Expression) -> Stage:
        """Returns the stage that gives every element of a buffer one value."""
        return self._filled(buffer, lambda at: value)

    def _filled(self, buffer: Buffer, value: object) -> Stage:
        axes = [dims.as_sym(dims.sym(f"x{i}")) for i in range(len(buffer.shape))]
        known = [a for a in axes if a is not None]
        at = tuple(axis_dim(a) for a in known)
        body = value(at)  # type: ignore[operator]
        extents = dict(zip(known, buffer.shape, strict=True))
        return Stage(buffer, tuple(known), (), extents, body, at, origin=self.origin)

    def _covered(self, result: int) -> bool:
        """Whether the statements write every element of a result."""
        covered: Dim = 0
        for clause in self.spec.statements:
            for write in clause.writes:
                if write.result == result:
                    sure = write.unique and (clause.total or bool(clause.reduce))
                    sure = sure and all(e.inside and e.data is None for e in write.entries)
                    if not sure:
                        return False
                    covered = covered + prod(self.spec.extents[a] for a in clause.parallel)
        return dims.equal(covered, self.results[result].elements) is True


def _literal_dtype(value: float | int | bool) -> str:
    return {bool: "bool", int: "int64"}.get(type(value), "float64")


class ClauseLowering:
    """Lowers one write of one statement to a stage."""

    def __init__(self, lowering: SpecLowering, clause: Statement, write: Write) -> None:
        self.lowering, self.clause = lowering, clause
        outside = clause.reduce and not all(e.inside for e in write.entries)
        # Each term is tested where the total's index may be outside.
        self.write = attrs.evolve(write, unique=False) if outside else write
        self.extents: dict[Sym, Dim] = {}
        self.letters: dict[Sym, Dim] = {}
        self.axis_of: dict[Sym, Sym] = {}
        for letter in (*clause.parallel, *clause.reduce):
            self._declare(letter)
        self.guards: list[Guard] = []
        self.tests: list[Expression] = []
        self.of_nothing: Expression | None = None  # the result where the only point is absent
        self.may_read_nothing = False  # an axis without elements has no valid index
        self.out = lowering.results[write.result]
        self.values: dict[str, Expression] = {}
        self.dtypes = {r.name: lowering.operands[r.operand].dtype for r in clause.reads}

    def _declare(self, letter: Sym) -> None:
        """Gives an index variable its own axis; extent 1 needs no axis."""
        extent = self.lowering.spec.extents[letter]
        if extent == 1:
            self.letters[letter] = 0
            return
        axis = Sym(letter.name)
        self.letters[letter], self.axis_of[letter] = axis_dim(axis), axis
        self.extents[axis] = extent

    def axes(self, letters: tuple[Sym, ...]) -> tuple[Sym, ...]:
        """Returns the axes of index variables, without those of extent 1."""
        return tuple([self.axis_of[x] for x in letters if x in self.axis_of])

    def stages(self) -> list[Stage]:
        """Returns the stage of this write; an average is a sum and a division."""
        for read in sorted(self.clause.reads, key=_reads_data):
            self.values[read.name] = self._widened(read, self._load(read))
        for condition in self.clause.conditions:
            self._condition(condition)
        at = tuple([self._entry(e, self.out) for e in self.write.entries])
        if self.write.value is None:
            raise NoKernelError("the body is no expression at one point")
        body = expression_of(self.write.value, self.values, self.dtypes, self.letters)
        if self.clause.monoid in PICKING and not self.clause.reduce:
            body = number(0, self.out.dtype)  # the index of the only element
        running = self._running()
        if self.clause.reduce and self.clause.monoid == "mean":
            if self.out.dtype == "bool":
                return [self._stage(self.out, body, at, "any")]
            if not self._partial():
                return self._mean(body, at)
            if not is_float(self.out.dtype):
                return self._combined_in(self._mean_dtype(body), body, at, running)
        if self._changes_kind(body, at):
            own = "int64" if body.dtype == "bool" else body.dtype
            return self._combined_in(own, body, at, running)
        monoid = self.clause.monoid if self.clause.reduce or not self.write.unique else None
        if self.clause.reduce and monoid is None:
            monoid = "sum"
        stage = self._stage(self.out, body, at, monoid, running)
        absent = self.of_nothing
        return [stage] if absent is None else [self.lowering.filled(self.out, absent), stage]

    def _widened(self, read: Read, value: Expression) -> Expression:
        """Returns a term of a sum in the dtype of the sum, where it is converted before the sum."""
        own, out = self.dtypes[read.name], self.out.dtype
        adds = bool(self.clause.reduce) and self.clause.monoid in ("sum", "prod")
        if not (adds and widened(own, out)):
            return value
        self.dtypes[read.name] = out
        return cast(value, out)

    def _changes_kind(self, body: Expression, at: tuple[Entry, ...]) -> bool:
        """Whether terms are combined in another kind of number than the result's."""
        adds = bool(self.axes(self.clause.reduce)) and self.clause.monoid in ("sum", "prod")
        plain = self.write.unique and not any(isinstance(e, Expression) for e in at)
        return adds and plain and is_float(body.dtype) != is_float(self.out.dtype)

    def _combined_in(
        self, dtype: str, body: Expression, at: tuple[Entry, ...], running: Running | None
    ) -> list[Stage]:
        """Returns the reduction in another dtype, and its cast to the result's."""
        own = Buffer(self.out.shape, dtype)
        result, self.out = self.out, own
        stage = self._stage(own, body, at, self.clause.monoid, running)
        self.out = result
        axes = stage.parallel
        extents = {a: self.extents[a] for a in axes}
        value = cast(load(own, at), result.dtype)
        new_stage = Stage(result, axes, (), extents, value, at, origin=self.lowering.origin)
        return [stage, new_stage]

    def _partial(self) -> bool:
        return bool(self.guards or self.tests)

    def _stage(
        self,
        out: Buffer,
        body: Expression,
        at: tuple[Entry, ...],
        monoid: str | None,
        running: Running | None = None,
    ) -> Stage:
        of_one_point = bool(self.clause.reduce) and not self.axes(self.clause.reduce)
        bordered = of_one_point and self._is_bordered(at)
        if of_one_point and not bordered:
            self._test_the_only_point()
        exists: Expression | None = None
        for test in self.tests:
            exists = test if exists is None else apply("and", (exists, test), "bool")
        body = body if monoid in PICKING else self._in_result_dtype(body, monoid)
        reduce = self.axes(self.clause.reduce)
        around = self._missing(body, monoid) if bordered else None
        missing = None if exists is None else self._missing(body, monoid)
        if missing is not None and exists is not None and self._selectable(at):
            body, exists = apply("select", (exists, body, missing), body.dtype), None
        elif of_one_point and self.write.unique:
            self.of_nothing = missing
        if not reduce and self.write.unique:
            body = cast(number(0, "int64"), self.out.dtype) if monoid in PICKING else body
            monoid = None
        replaces = bool(reduce) and self.clause.monoid is None  # the element is overwritten
        return Stage(
            out,
            self.axes(self.clause.parallel),
            reduce,
            self.extents,
            body,
            at,
            monoid,
            () if running else tuple(self.guards),
            exists,
            self.write.unique or replaces,
            running,
            self.lowering.origin,
            otherwise=around,
        )

    def _is_bordered(self, at: tuple[Entry, ...]) -> bool:
        """Whether a value exists exactly within bounds of each axis where its reads exist, and a
        constant elsewhere."""
        steps = [dims.linear(g.value, a) for g in self.guards for a in self.axis_of.values()]
        even = all(step is not None and isinstance(step[0], int) for step in steps)
        plain = self.write.unique and not any(isinstance(e, Expression) for e in at)
        return bool(self.guards) and not self.tests and even and plain

    def _test_the_only_point(self) -> None:
        """Handles a reduction over index variables of extent 1: the value of one point, or of
        none."""
        zero = number(0, "int64")
        self.tests += [
            apply("ge", (position(guard.value, "int64"), zero), "bool") for guard in self.guards
        ]
        self.guards = []

    def _in_result_dtype(self, body: Expression, monoid: str | None) -> Expression:
        if self.clause.reduce and monoid in ("any", "all"):
            body = cast(body, "bool")
        return cast(body, self.out.dtype)

    def _selectable(self, at: tuple[Entry, ...]) -> bool:
        """Whether a point whose reads are absent can be computed and discarded."""
        plain = not any(isinstance(e, Expression) for e in at)
        return plain and self.write.unique and not self.guards and not self.may_read_nothing

    def _missing(self, body: Expression, monoid: str | None) -> Expression | None:
        """Returns the value of an absent point: the identity of the reduction, or the fill
        value."""
        if not self.clause.reduce:
            fill = self.lowering.spec.fill
            based = self.lowering.spec.base is not None
            return None if based else cast(number(fill, _literal_dtype(fill)), body.dtype)
        if not self.axes(self.clause.reduce):
            return number(MONOIDS[monoid or "sum"].of_nothing(body.dtype), body.dtype)
        if monoid is None or monoid in PICKING or monoid == "mean":
            return None
        return number(MONOIDS[monoid].identity(body.dtype), body.dtype)

    def _mean(self, body: Expression, at: tuple[Entry, ...]) -> list[Stage]:
        result, own = self.out, Buffer(self.out.shape, self._mean_dtype(body))
        self.out = own
        stage = self._stage(own, cast(body, own.dtype), at, "sum")
        self.out = result
        count = prod(self.extents[a] for a in self.axes(self.clause.reduce))
        divided = self._divided(load(own, at), cast(position(count, "int64"), own.dtype))
        axes = stage.parallel
        extents = {a: self.extents[a] for a in axes}
        value = cast(divided, result.dtype)
        new_stage = Stage(result, axes, (), extents, value, at, origin=self.lowering.origin)
        return [stage, new_stage]

    def _mean_dtype(self, body: Expression) -> str:
        """The dtype in which a mean is summed and divided."""
        if is_float(self.out.dtype):
            return computed_in(self.out.dtype)
        return body.dtype if is_float(body.dtype) else exact_sum_dtype(body.dtype)

    def _divided(self, over: Expression, under: Expression) -> Expression:
        if not is_float(over.dtype):
            return apply("quotient", (over, under), over.dtype)
        one = number(1.0, over.dtype)
        return apply("mul", (over, apply("div", (one, under), over.dtype)), over.dtype)

    def _load(self, read: Read) -> Expression:
        buffer = self.lowering.operands[read.operand]
        entries = [self._entry(e, buffer) for e in read.entries]  # indices of existing elements
        if buffer.origin == "constant" and buffer.data.size == 1:
            return number(
                buffer.data.reshape(()).astype(_plain(buffer.dtype)).item(),
                computed_in(buffer.dtype),
            )
        return load(buffer, tuple(entries))

    def _entry(self, entry: specs.AccessIndex, buffer: Buffer) -> Entry:
        """Returns an index over the stage's axes; with a guard or a test if it may leave its
        axis."""
        if entry.data is not None:
            return self._data_entry(entry)
        index = entry.index
        loose = entry.loose and not self._full(index, entry.size)
        bound_index = dims.substitute(entry.dim if loose else entry.index, self.letters)  # type: ignore[arg-type]
        if not entry.inside:
            self.guards.append(Guard(bound_index))
            self.guards.append(Guard(entry.size - 1 - bound_index))
        return bound_index

    def _full(self, index: Dim | ScalarExpr, size: Dim) -> bool:
        letter = None if isinstance(index, ScalarExpr) else dims.as_sym(index)
        return letter is not None and self.lowering.spec.extents.get(letter) == size

    def _data_entry(self, entry: specs.AccessIndex) -> Entry:
        point = entry.data
        assert point is not None
        self.may_read_nothing |= dims.at_least(entry.size, 1) is not True
        bound_index = cast(expression_of(point, self.values, self.dtypes, self.letters), "int64")
        if isinstance(bound_index, Number) and _is_inside(int(bound_index.value), entry.size):
            return int(bound_index.value)
        zero, size = number(0, "int64"), position(entry.size, "int64")
        last = position(entry.size - 1, "int64")
        self.tests.append(apply("ge", (bound_index, zero), "bool"))
        self.tests.append(apply("lt", (bound_index, size), "bool"))
        bounded = apply("min", (bound_index, last), "int64")
        return apply("max", (bounded, zero), "int64")

    def _condition(self, condition: specs.Condition) -> None:
        left = dims.substitute(condition.left, self.letters)
        right = dims.substitute(condition.right, self.letters)
        self.guards += _guards(condition.op, left, right)

    def _running(self) -> Running | None:
        scan = scan_of(self.lowering.spec, self.clause)
        if scan is None or scan.target not in self.axis_of or not self.axes(self.clause.reduce):
            return None
        plain = len(self.guards) == 1 and self.clause.monoid not in ("mean", *PICKING)
        return Running(self.axis_of[scan.target], scan.op) if plain else None


def _is_inside(index: int, size: Dim) -> bool:
    """Whether a constant index is proved to be inside of an axis."""
    return index >= 0 and dims.at_least(size, index + 1) is True


def _guards(op: str, left: Dim, right: Dim) -> list[Guard]:
    match op:
        case "le":
            return [Guard(right - left)]
        case "lt":
            return [Guard(right - left - 1)]
        case "ge":
            return [Guard(left - right)]
        case "gt":
            return [Guard(left - right - 1)]
        case "eq":
            return [Guard(right - left), Guard(left - right)]
    raise NoKernelError(f"points where {op} holds have no loop form")


def _plain(dtype: str) -> str:
    """Returns a dtype that represents Python's numbers exactly."""
    return "float64" if is_float(dtype) else dtype


def _reads_data(read: Read) -> bool:
    return any(e.data is not None for e in read.entries)
