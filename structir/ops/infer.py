"""The StructInfo of a call, from its op line: readings, plans and what is remembered of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

import attrs

from structir.errors import Diagnostic, Span, StructInfoError
from structir.ir import dims
from structir.ir.expr import Call, Expr, PrimValue, ShapeExpr, Var
from structir.ir.struct_info import (
    OBJECT,
    PrimStructInfo,
    ShapeStructInfo,
    StructInfo,
    TensorStructInfo,
    TupleStructInfo,
)
from structir.ops.complaint import complaint
from structir.ops.dtypes import bound_dtypes, result_dtype
from structir.ops.notation import Line, Missing, NotationError, read_line, with_members
from structir.ops.rows import Rejected, normal_axis
from structir.ops.signature import NOT_GIVEN
from structir.ops.sizes import UNKNOWN, Dims, Resolved, plan_of, resolved

if TYPE_CHECKING:
    from structir.ops.define import OpDefinition

MEMO_SIZE = 4096


@attrs.frozen
class Written:
    """What a line function gives: the line, its side conditions, and attributes it has worked
    out."""

    line: str
    where: str = ""
    on: str = ""
    attributes: Mapping[str, Any] = attrs.Factory(dict)


@attrs.frozen(eq=False)
class UnknownShape:
    """The value of a shape attribute that is only known at run time."""

    value: Expr
    ndim: int | None


@attrs.frozen(eq=False)
class Given:
    """What a call gives: the infos of its operands and its attributes, by the names of the
    signature."""

    op: str
    operands: Mapping[
        str, Any
    ]  # a TensorStructInfo, a tuple of them for a list, None where left out
    attributes: Mapping[str, Any]
    args: tuple[Expr, ...] = ()

    def __getitem__(self, name: str) -> Any:
        return self.attributes[name]

    def info(self, name: str) -> Any:
        """What is known of an operand."""
        return self.operands[name]

    def rank(self, name: str) -> int | None:
        """The number of axes of an operand; None where unknown."""
        info = self.operands[name]
        return None if info is None else info.ndim

    def dims(self, name: str) -> Dims | None:
        """The sizes of an operand; None where unknown."""
        info = self.operands[name]
        return None if info is None else known_dims(info)

    def ranks(self, name: str) -> tuple[int | None, ...]:
        """The ranks of a list of operands."""
        return tuple([info.ndim for info in self.operands[name]])

    def axis(self, name: str, rank: int) -> int:
        """An axis attribute, counted from the front and in range."""
        axis: int = self.attributes[name]
        return normal_axis(axis, rank, self.first)

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """An attribute of axes, counted from the front, in range and distinct; None means all."""
        value = self.attributes[name]
        if value is None:
            return tuple(range(rank))
        found = [
            normal_axis(a, rank, self.first)
            for a in ((value,) if isinstance(value, int) else value)
        ]
        if len(set(found)) != len(found):
            self.reject(f"{name} names an axis twice: {value}")
        return tuple(found)

    @property
    def first(self) -> str:
        """The name of the first operand."""
        return next(iter(self.operands), "the result")

    def reject(self, message: str, hint: str | None = None) -> NoReturn:
        """Say that the call is wrong."""
        raise Rejected(message, (), hint)


def known_dims(info: TensorStructInfo) -> Dims | None:
    """The sizes of a tensor: its own, or those of the shape variable that it has."""
    if type(info.dims) is tuple:
        return info.dims
    held = getattr(info.dims, "struct_info", None)
    return held.dims if isinstance(held, ShapeStructInfo) else None


@attrs.frozen(eq=False)
class Reading:
    """The line of a call, and where its operands stand among the arguments."""

    line: Line
    attributes: Mapping[str, Any]  # those that the line function has worked out
    paths: tuple[tuple[int, int | None], ...]  # argument, and member of a list
    at: tuple[tuple[str, str], ...] = ()  # letters, and the attributes that place them


# ---- what a call gives ----


def given_of(
    definition: OpDefinition, args: tuple[Expr, ...], attributes: Mapping[str, Any]
) -> Given:
    """The operands and attributes of a call by name, defaults filled in."""
    operands: dict[str, Any] = {}
    values: dict[str, Any] = {}
    position = 0
    for parameter in definition.signature.parameters:
        if not parameter.is_argument:
            values[parameter.name] = attributes.get(parameter.name, parameter.default)
            continue
        arg = args[position] if position < len(args) else NOT_GIVEN
        position += 1
        if parameter.kind is not None:
            values[parameter.name] = _value_of(arg, parameter.default)
        else:
            operands[parameter.name] = _operand_info(parameter.name, parameter.is_list, arg)
    return Given(definition.name, operands, values, args)


def _value_of(arg: Expr, default: Any) -> Any:
    """The value of a size or shape argument, as far as it is known."""
    if arg is NOT_GIVEN:
        return default
    if isinstance(arg, PrimValue):
        return arg.value
    if isinstance(arg, ShapeExpr):
        return arg.dims
    info = arg.struct_info
    if isinstance(info, ShapeStructInfo):
        return UnknownShape(arg, info.ndim) if info.dims is None else info.dims
    if isinstance(info, PrimStructInfo) and info.value is not None:
        return info.value
    return UNKNOWN


def _operand_info(name: str, is_list: bool, arg: Expr) -> Any:
    if arg is NOT_GIVEN:
        return () if is_list else None
    info = arg.struct_info
    if not is_list:
        return _tensor(name, info)
    if not isinstance(info, TupleStructInfo):
        raise Rejected(f"{name} must be a tuple of tensors, not {info}")
    return tuple([_tensor(f"{name}[{k}]", field) for k, field in enumerate(info.fields)])


def _tensor(name: str, info: StructInfo | None) -> TensorStructInfo | None:
    if type(info) is TensorStructInfo:
        return info
    if isinstance(info, PrimStructInfo):
        return TensorStructInfo((), info.dtype)
    if isinstance(info, TupleStructInfo) and not info.fields:
        return None
    hint = "R.match_cast states what a value is" if info is None or info == OBJECT else None
    raise Rejected(f"{name} must be a tensor, not {info or OBJECT}", (), hint)


# ---- the line of a call ----


def reading_of(definition: OpDefinition, given: Given) -> Reading:
    """The line of a call; remembered where it depends on ranks and attributes alone."""
    key = _reading_key(definition, given)
    known = definition.lines.get(key) if key is not None else None
    if known is None:
        known = _read(definition, given)
        if key is not None:
            definition.lines[key] = known
    found: Reading = known
    return found


def _reading_key(definition: OpDefinition, given: Given) -> Any:
    if definition.reads_sizes:
        return None
    ranks = tuple(
        [
            tuple([m.ndim for m in info]) if type(info) is tuple else (info and (info.ndim,))
            for info in given.operands.values()
        ]
    )
    if not callable(definition.line):
        return tuple([len(r) if r else 0 for r in ranks])
    if any(p.is_argument and p.kind is not None for p in definition.signature.parameters):
        return None
    return ranks, tuple(given.attributes.items())


def _read(definition: OpDefinition, given: Given) -> Reading:
    written = definition.line(given) if callable(definition.line) else definition.line
    if isinstance(written, str):
        written = Written(written)
    names = frozenset(given.attributes) | frozenset(written.attributes)
    where = ", ".join([c for c in (definition.where, written.where) if c])
    on = " and ".join([c for c in (definition.on, written.on) if c])
    line = read_line(written.line, where, on, names)
    counts = {name: len(info) for name, info in given.operands.items() if type(info) is tuple}
    line = with_members(line, counts)
    letters = [(letter, name) for letter, name in definition.at.items()]
    members = range(max(counts.values(), default=0))
    at = tuple([*letters, *[(f"{i}_{k}", name) for i, name in letters for k in members]])
    return Reading(line, written.attributes, _paths(definition, line), at)


def _paths(definition: OpDefinition, line: Line) -> tuple[tuple[int, int | None], ...]:
    arguments = definition.signature.arguments
    places = {p.name: (k, p.is_list) for k, p in enumerate(arguments)}
    paths: list[tuple[int, int | None]] = []
    for access in line.operands:
        if access.name in places and not places[access.name][1]:
            paths.append((places[access.name][0], None))
            continue
        name, _, member = access.name.rpartition("_")
        if name not in places:
            raise NotationError(f"{definition.name}: the line has an operand {access.name}")
        paths.append((places[name][0], int(member)))
    return tuple(paths)


# ---- deduction ----


def struct_info(
    definition: OpDefinition,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> StructInfo:
    """The StructInfo of a call's result; remembered for equal operands and attributes."""
    if definition.reads_values:
        return _deduced(definition, args, attributes, span)
    key: Any = tuple([_key_of(arg) for arg in args])
    if attributes:
        key = (key, tuple([(n, type(v), v) for n, v in attributes.items()]))
    known = definition.memo.get(key)
    if known is None:
        known = _deduced(definition, args, attributes, span)
        if len(definition.memo) >= MEMO_SIZE:
            definition.memo.clear()
        definition.memo[key] = known
    found: StructInfo = known
    return found


def _key_of(arg: Expr) -> Any:
    info = arg.struct_info
    kind = type(info)
    if kind is TensorStructInfo:
        return info
    if kind is PrimStructInfo and info.value is None and type(arg) is PrimValue:
        return info, arg.value
    if kind is ShapeStructInfo and info.dims is None:
        return info, arg
    return info


def _deduced(
    definition: OpDefinition,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> StructInfo:
    reading: Reading | None = None
    try:
        given = given_of(definition, args, attributes)
        hook = definition.hooks.get("struct_info")
        if hook is not None:
            stated: StructInfo = hook(given)
            return stated
        reading = reading_of(definition, given)
        return _of_line(reading, given)
    except Rejected as error:
        raise StructInfoError(
            complaint(definition.name, error, args, span, reading, definition.argument_names)
        ) from None


def _of_line(reading: Reading, given: Given) -> StructInfo:
    line = reading.line
    values = {**given.attributes, **reading.attributes}
    operands = _operands(reading, given)
    bound = _dtypes(line, operands, values)
    solved = _solved(reading, operands, values)
    infos = [_result(k, solved, operands, bound, values) for k in range(len(line.results))]
    if len(infos) == 1 and not line.results[0].many:
        return infos[0]
    return TupleStructInfo(tuple(infos))


def _operands(reading: Reading, given: Given) -> list[TensorStructInfo | None]:
    """The infos of the line's operands."""
    found: list[TensorStructInfo | None] = []
    for access in reading.line.operands:
        info = given.operands.get(access.name)
        if access.name not in given.operands:
            name, _, member = access.name.rpartition("_")
            info = given.operands[name][int(member)]
        if info is None and access.default is Missing.REQUIRED:
            raise Rejected(f"{access.name} must be given")
        found.append(info)
    return found


def _dtypes(
    line: Line, operands: list[TensorStructInfo | None], values: Mapping[str, Any]
) -> dict[str, str | None]:
    here = [k for k, info in enumerate(operands) if info is not None]
    accesses = [line.operands[k] for k in here]
    try:
        return bound_dtypes(accesses, [_dtype(operands[k]) for k in here], values)
    except Rejected as error:
        facts = tuple([(t, None if k is None else here[k], a) for t, k, a in error.facts])
        raise Rejected(error.message, facts, error.hint) from None


def _dtype(info: TensorStructInfo | None) -> str | None:
    return None if info is None else info.dtype


def _solved(
    reading: Reading,
    operands: list[TensorStructInfo | None],
    values: Mapping[str, Any],
) -> Resolved:
    sizes = tuple([None if info is None else known_dims(info) for info in operands])
    ranks = tuple(
        [
            len(own) if own is not None else None if info is None else info.ndim
            for own, info in zip(sizes, operands, strict=True)
        ]
    )
    present = tuple([info is not None for info in operands])
    stated = tuple(
        [
            (name, value.ndim if isinstance(value, UnknownShape) else len(value))
            for name, value in values.items()
            if isinstance(value, tuple | UnknownShape)
        ]
    )
    placed = [(letter, values[name]) for letter, name in reading.at]
    axes = tuple([(letter, axis) for letter, axis in placed if axis is not None])
    plan = plan_of(reading.line, ranks, present, axes, stated)
    return resolved(plan, sizes, values)


def _result(
    k: int,
    solved: Resolved,
    operands: list[TensorStructInfo | None],
    bound: dict[str, str | None],
    values: Mapping[str, Any],
) -> TensorStructInfo:
    access = solved.line.results[k]
    dtype = result_dtype(access, bound, values)
    entries = solved.results[k]
    if len(access.entries) == 1 and access.rows:
        shape = _kept_shape(access.rows[0], solved, operands, values)
        if shape is not None:
            return TensorStructInfo(shape, dtype, _ndim_of(shape, entries))
    if entries is None:
        return TensorStructInfo(None, dtype)
    sizes = solved.sizes(k)
    for axis, size in enumerate(sizes or ()):
        if isinstance(size, int) and size < 0:
            raise Rejected(f"axis {axis} of the result would have size {size}")
    return TensorStructInfo(sizes, dtype, len(entries))


def _ndim_of(shape: Any, entries: Any) -> int | None:
    info = shape.struct_info
    return (
        info.ndim
        if isinstance(info, ShapeStructInfo)
        else None
        if entries is None
        else len(entries)
    )


def _kept_shape(
    row: str, solved: Resolved, operands: list[TensorStructInfo | None], values: Mapping[str, Any]
) -> Any:
    """The shape variable of a result that is just a row: that of all operands that are just this
    row."""
    value = values.get(row)
    if type(value) is UnknownShape:
        return value.value if isinstance(value.value, Var) else None
    own = [
        info
        for access, info in zip(solved.line.operands, operands, strict=True)
        if info is not None and access.rows == (row,) and len(access.entries) == 1
    ]
    if not own or not isinstance(own[0].dims, Var) or known_dims(own[0]) is not None:
        return None
    return own[0].dims if all(info.dims is own[0].dims for info in own) else None


# ---- for the index view ----


def resolved_call(
    definition: OpDefinition,
    args: tuple[Expr, ...],
    attributes: Mapping[str, Any],
    span: Span | None,
) -> Resolved:
    """The line at a call. Operands of known rank whose sizes are not known get fresh symbols for
    them."""
    reading: Reading | None = None
    try:
        given = given_of(definition, args, attributes)
        given = attrs.evolve(given, operands={n: _sized(i) for n, i in given.operands.items()})
        reading = reading_of(definition, given)
        values = {**given.attributes, **reading.attributes}
        return _solved(reading, _operands(reading, given), values)
    except Rejected as error:
        raise StructInfoError(
            complaint(definition.name, error, args, span, reading, definition.argument_names)
        ) from None


def _sized(info: Any) -> Any:
    """The info of an operand, with symbols for sizes that are not known."""
    if type(info) is tuple:
        return tuple([_sized(member) for member in info])
    if info is None or info.ndim is None or known_dims(info) is not None:
        return info
    return TensorStructInfo(tuple([dims.sym(f"d{k}") for k in range(info.ndim)]), info.dtype)


def decomposed(definition: OpDefinition, body: Callable[..., Any], call: Call) -> Expr:
    """What a composite's body makes of a call's arguments."""
    values: dict[str, Any] = {}
    position = 0
    for parameter in definition.signature.parameters:
        if not parameter.is_argument:
            values[parameter.name] = call.attrs.get(parameter.name, parameter.default)
            continue
        arg = call.args[position] if position < len(call.args) else NOT_GIVEN
        position += 1
        if parameter.kind is not None:
            values[parameter.name] = _value_of(arg, parameter.default)
        elif parameter.is_list:
            values[parameter.name] = arg
        else:
            values[parameter.name] = None if arg is NOT_GIVEN else arg
    made = body(**values)
    if not isinstance(made, Expr):
        raise StructInfoError(
            Diagnostic("the parts of a composite must be an expression", call.span)
        )
    return made
