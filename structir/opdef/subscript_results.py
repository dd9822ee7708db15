"""Completes subscripts with the ranks and sizes that only the result of a call determines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import attrs

from structir.errors import DiagnosticError
from structir.ir.dims import Dim, equal
from structir.ir.expr import Call
from structir.ir.node import replace
from structir.ir.struct_info import TensorStructInfo
from structir.opdef.ocannl_subscripts import ARROW, parse_specification
from structir.opdef.pack_systems import RankEquation, determined_ranks, rank_solutions
from structir.opdef.subscript_conditions import check_names, parse_conditions
from structir.opdef.subscript_signature import (
    axis_size,
    size_text,
    with_merged_packs,
    with_pack_axes,
    with_ranks,
)
from structir.opdef.subscripts import (
    WHERE,
    Axis,
    FixedIndex,
    NamedAxis,
    RowAxes,
    SizedAxis,
    Subscripts,
    Term,
    names_of,
    parse_subscripts,
    with_merged_parts,
)

MAX_SOLUTIONS = 200  # assignments of ranks to packs that sizes decide between


def parsed_subscripts(text: str, count: int) -> Subscripts:
    """Parses subscripts with names of axes, or a specification of OCANNL."""
    parse = parse_specification if ARROW in text else parse_subscripts
    parsed = attrs.evolve(parse(text.partition(WHERE)[0], count), where=parse_conditions(text))
    check_names(text, parsed)
    return with_merged_parts(parsed)


def with_result(call: Call, result: TensorStructInfo, of_form: bool) -> Call | None:
    """Returns the call with the ranks and sizes that its result determines; None without any.

    With `of_form`, different symbolic sizes are axes of different row variables of the program.
    """
    operands = getattr(call.args[0], "fields", ())
    parsed = with_ranks(parsed_subscripts(call.attrs["subscripts"], len(operands)))
    infos = [operand.struct_info for operand in operands]
    expanded = _with_ranks_of(parsed, [*infos, result], of_form)
    completed = _with_sizes_of(call, expanded, result)
    if completed is parsed:
        return None
    written = _with_subscripts(call, completed)
    try:
        written.op.definition.deduce(written)  # type: ignore[attr-defined]
    except DiagnosticError:  # the StructInfo has sizes that subscripts cannot state
        return None
    return written


def _with_subscripts(call: Call, subscripts: Subscripts) -> Call:
    return replace(call, attrs={**call.attrs, "subscripts": str(subscripts)})


def _with_ranks_of(subscripts: Subscripts, infos: list[Any], of_form: bool) -> Subscripts:
    """Returns subscripts with axes for the packs whose ranks the operands leave open."""
    original, subscripts = subscripts, with_merged_packs(subscripts)
    ranks = [getattr(info, "ndim", None) for info in infos]
    packs = {a.name: a.loose for term in subscripts.terms for a in term if isinstance(a, RowAxes)}
    if not packs or None in ranks or any(packs.values()):
        return original
    equations = [
        _rank_equation(t, rank or 0) for t, rank in zip(subscripts.terms, ranks, strict=True)
    ]
    known = determined_ranks(equations[:-1])
    if known is None or known.keys() == packs.keys():
        return original
    solutions = list(islice(rank_solutions(equations, tuple(packs)), MAX_SOLUTIONS + 1))
    accepted = ((True, None), (True,)) if of_form else ((True, None),)
    solution = None
    if len(solutions) <= MAX_SOLUTIONS:
        solution = _fitting(subscripts, solutions, infos, accepted)
    return original if solution is None else with_pack_axes(subscripts, solution)


def _fitting(
    subscripts: Subscripts,
    solutions: list[dict[str, int]],
    infos: list[Any],
    accepted: tuple[tuple[bool | None, ...], ...],
) -> dict[str, int] | None:
    """Returns the ranks that may fit the sizes, by the first of these criteria that all but one
    meaning of the subscripts fail; or None."""
    expanded = [with_pack_axes(subscripts, ranks) for ranks in solutions]
    fits = [_fits(each, infos) for each in expanded]
    for criterion in accepted:
        fitting = [k for k, fit in enumerate(fits) if fit in criterion]
        if fitting and len({_renamed(expanded[k]) for k in fitting}) == 1:
            return solutions[fitting[0]]
    return None


def _renamed(subscripts: Subscripts) -> str:
    """Returns subscripts of single axes with numbers for names; otherwise their text."""
    axes = [axis for term in subscripts.terms for axis in term]
    if subscripts.where or not all([type(axis) is NamedAxis for axis in axes]):
        return str(subscripts)
    numbers = {str(axis): k for k, axis in enumerate(dict.fromkeys(map(str, axes)))}
    terms = [" ".join([str(numbers[str(axis)]) for axis in term]) for term in subscripts.terms]
    return ";".join(terms)


def _fits(subscripts: Subscripts, infos: list[Any]) -> bool | None:
    """Returns whether axes have the sizes of their names; None where that is undecided."""
    known = [(t, i.dims) for t, i in zip(subscripts.terms, infos, strict=True) if _has_dims(i)]
    axes = [pair for term, dims in known for pair in zip(term, dims, strict=True)]
    sizes: dict[str, Dim] = {}
    for axis, dim in axes:
        if isinstance(axis, NamedAxis):
            sizes.setdefault(axis.name, dim)
    fits: bool | None = True if len(known) == len(infos) else None
    for axis, dim in axes:
        size = axis_size(axis, sizes)
        is_equal = True if size is None else equal(size, dim)
        if is_equal is False:
            return False
        fits = fits if is_equal else None
    return fits


def _has_dims(info: Any) -> bool:
    return type(info.dims) is tuple


def _rank_equation(term: Term, rank: int) -> RankEquation:
    packs = tuple([axis.name for axis in term if isinstance(axis, RowAxes)])
    return RankEquation(packs, rank - len(term) + len(packs))


def _with_sizes_of(call: Call, subscripts: Subscripts, result: TensorStructInfo) -> Subscripts:
    """Returns subscripts with the sizes of result axes that no operand determines."""
    dims = result.dims
    if type(dims) is not tuple:
        return subscripts
    definition: Any = call.op.definition  # type: ignore[attr-defined]
    extents: Any = {}
    for candidate in (_with_subscripts(call, subscripts), call):
        try:
            extents = definition.resolve(candidate).extents
            break
        except DiagnosticError:  # new axes of the result have no size yet
            continue
    axes = list(subscripts.result)
    where = list(subscripts.where)
    for position, dim in _aligned(subscripts.result, dims):
        if type(dim) is int:
            axes[position] = _with_size(axes[position], dim, extents, where)
    if axes == list(subscripts.result) and tuple(where) == subscripts.where:
        return subscripts
    return attrs.evolve(subscripts, result=tuple(axes), where=tuple(where))


def _aligned(term: Term, dims: tuple[Any, ...]) -> Iterator[tuple[int, Any]]:
    """Yields the positions of axes before the first pack and after the last one, with dims."""
    packs = [k for k, axis in enumerate(term) if isinstance(axis, RowAxes)]
    if not packs:
        yield from enumerate(dims)
        return
    yield from ((k, dims[k]) for k in range(packs[0]))
    after = len(term) - packs[-1] - 1
    yield from ((len(term) - k, dims[-k]) for k in range(after, 0, -1))


def _with_size(axis: Axis, size: int, extents: Any, where: list[str]) -> Axis:
    """Returns an axis with its size; the size of an expression becomes a condition."""
    if isinstance(axis, NamedAxis) and axis.name == "_":
        return SizedAxis(size, axis.columns)
    if isinstance(axis, FixedIndex) and axis.size is None:
        return FixedIndex(axis.index, size, axis.columns)
    condition = f"{size_text(axis)} == {size}"
    if condition not in where and not all(name in extents for name in names_of(axis)):
        where.append(condition)
    return axis
