"""Infers the rank of each axis pack (`*s`) from the ranks of the operands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from structir.opdef.index_expr import IndexExtent, IndexVar
from structir.opdef.notation import AxisIndex, OperandAccess
from structir.opdef.pack_systems import RankEquation, determined_ranks

Ranks = dict[str, int | None]


Fact = tuple[str, "int | None", "int | None"]  # a note, its operand, and its axis


@attrs.frozen
class Excerpt:
    """The part of a string argument with an error: columns `start` to `end` of `text`."""

    text: str
    start: int
    end: int


class InvalidCall(Exception):
    """A provably invalid call; `facts` are notes on operands and axes."""

    def __init__(
        self,
        message: str,
        facts: tuple[Fact, ...] = (),
        hint: str | None = None,
        code: str = "",
        excerpt: Excerpt | None = None,
    ) -> None:
        super().__init__(message)
        self.excerpt = excerpt
        self.message = message
        self.facts = facts
        self.hint = hint
        self.code = code


def infer_pack_ranks(
    accesses: Sequence[OperandAccess],
    ranks: Sequence[int | None],
    axes: Mapping[str, int],
    attribute_ranks: Mapping[str, int | None],
) -> Ranks:
    """Returns the rank of every axis pack, None where unknown.

    `axes` maps index variables to axis numbers, `attribute_ranks` shape attributes to ranks.
    """
    pack_ranks: Ranks = dict(attribute_ranks)
    sources: dict[str, int] = {}
    operands: list[tuple[int, OperandAccess, int]] = []
    for k, (access, rank) in enumerate(zip(accesses, ranks, strict=True)):
        if rank is None:
            for pack in access.packs:
                pack_ranks.setdefault(pack, None)
            continue
        _check_rank(k, access, rank)
        if axes and access.packs:
            position = _axis_position(access, axes)
            if position is not None:
                _bind_packs_around(k, access, rank, position, axes, pack_ranks, sources)
                continue
        operands.append((k, access, rank))
    _bind_strict_packs(operands, pack_ranks, sources)
    _bind_broadcasting_packs(accesses, ranks, operands, pack_ranks, frozenset(attribute_ranks))
    return pack_ranks


def _check_rank(k: int, access: OperandAccess, rank: int) -> None:
    if rank < access.fixed or (rank > access.fixed and not access.packs):
        bound = "at least " if access.packs else ""
        raise InvalidCall(
            f"{access.shown}: expected {bound}{axes_text(access.fixed)}, found {rank}",
            ((axes_text(rank), k, None),),
            code="E0304",
        )


def axes_text(count: int) -> str:
    """Returns `1 axis`, `2 axes`."""
    return f"{count} axis" if count == 1 else f"{count} axes"


def _axis_position(access: OperandAccess, axes: Mapping[str, int]) -> int | None:
    """Returns the position of an index variable whose axis is an attribute, or None."""
    for position, entry in enumerate(access.entries):
        if names_of(entry) & axes.keys():
            return position
    return None


def names_of(entry: AxisIndex) -> set[str]:
    """Returns the index variables that are, by themselves, the index or size of an axis."""
    names = {entry.index.name} if isinstance(entry.index, IndexVar) else set()
    return names | ({entry.size.name} if isinstance(entry.size, IndexExtent) else set())


def normal_axis(axis: int, rank: int, operand: str = "the operand") -> int:
    """Normalizes a possibly negative axis; raises InvalidCall where it is out of range."""
    if not -rank <= axis < rank:
        allowed = f"{-rank} to {rank - 1}" if rank else "no axis, as it is a scalar"
        raise InvalidCall(
            f"axis out of range for {operand}: expected {allowed}, found {axis}",
            (),
            f"write an axis from {-rank} to {rank - 1}" if rank else None,
            "E0203",
        )
    return axis % rank


def _bind_packs_around(
    k: int,
    access: OperandAccess,
    rank: int,
    position: int,
    axes: Mapping[str, int],
    pack_ranks: Ranks,
    sources: dict[str, int],
) -> None:
    """Binds the axis packs before and after an index variable whose axis is an attribute."""
    index_var = next(iter(names_of(access.entries[position]) & axes.keys()))
    axis = normal_axis(axes[index_var], rank, access.name)
    before, after = access.entries[:position], access.entries[position + 1 :]
    for part, count in ((before, axis), (after, rank - axis - 1)):
        packs = [e.pack for e in part if e.pack is not None]
        pack_rank = count - (len(part) - len(packs))
        if pack_rank < 0 or (pack_rank > 0 and not packs):
            raise InvalidCall(
                f"rank mismatch: expected axis {axes[index_var]} at {index_var} of {access.text}, "
                f"found {axes_text(rank)}",
                ((axes_text(rank), k, None),),
                code="E0304",
            )
        if packs:
            _bind_rank(k, access, packs[0], pack_rank, pack_ranks, sources)


def _bind_rank(
    k: int, access: OperandAccess, pack: str, count: int, pack_ranks: Ranks, sources: dict[str, int]
) -> None:
    expected = pack_ranks.get(pack)
    if expected is not None and expected != count:
        facts = [(f"*{pack} has {axes_text(expected)}", sources.get(pack), None)]
        facts.append((f"*{pack} has {axes_text(count)}", k, None))
        message = f"rank mismatch: expected {axes_text(expected)} for *{pack} of {access.text}"
        raise InvalidCall(f"{message}, found {count}", tuple(facts), code="E0304")
    pack_ranks[pack] = count
    sources.setdefault(pack, k)


def _bind_strict_packs(
    operands: list[tuple[int, OperandAccess, int]],
    pack_ranks: Ranks,
    sources: dict[str, int],
) -> None:
    """Binds packs without `~`: each is the only unknown pack of an operand of known rank."""
    pending = [item for item in operands if not _broadcasting_packs(item[1])]
    while pending:
        remaining = []
        for k, access, rank in pending:
            unknown = [pack for pack in access.packs if pack_ranks.get(pack) is None]
            other_axes = sum(pack_ranks.get(pack) or 0 for pack in access.packs)
            if len(unknown) > 1:
                remaining.append((k, access, rank))
            elif unknown:
                if rank - access.fixed - other_axes < 0:
                    least = axes_text(access.fixed + other_axes)
                    message = f"{access.shown}: expected at least {least}, found {rank}"
                    raise InvalidCall(message, ((axes_text(rank), k, None),), code="E0304")
                _bind_rank(
                    k, access, unknown[0], rank - access.fixed - other_axes, pack_ranks, sources
                )
            elif access.packs and access.fixed + other_axes != rank:
                pack = access.packs[-1]
                count = rank - access.fixed - other_axes + (pack_ranks[pack] or 0)
                _bind_rank(k, access, pack, count, pack_ranks, sources)
        if len(remaining) == len(pending):
            _bind_shared_packs(remaining, pack_ranks, sources)
            return
        pending = remaining


def _bind_shared_packs(
    operands: list[tuple[int, OperandAccess, int]], pack_ranks: Ranks, sources: dict[str, int]
) -> None:
    """Binds the packs that have one rank in all solutions of the operands' rank equations."""
    equations = [_rank_equation(access, rank, pack_ranks) for _, access, rank in operands]
    ranks = determined_ranks(equations)
    if ranks is None:
        terms = ", ".join(access.text for _, access, _ in operands)
        actual = " and ".join(str(rank) for _, _, rank in operands)
        facts = tuple((axes_text(rank), k, None) for k, _, rank in operands)
        message = f"rank mismatch: expected ranks that satisfy {terms}, found {actual}"
        raise InvalidCall(message, facts, code="E0304")
    for k, access, _ in operands:
        for pack in access.packs:
            if pack in ranks and pack_ranks.get(pack) is None:
                _bind_rank(k, access, pack, ranks[pack], pack_ranks, sources)


def _rank_equation(access: OperandAccess, rank: int, pack_ranks: Ranks) -> RankEquation:
    known = sum(pack_ranks.get(pack) or 0 for pack in access.packs)
    unknown = tuple([pack for pack in access.packs if pack_ranks.get(pack) is None])
    return RankEquation(unknown, rank - access.fixed - known)


def _broadcasting_packs(access: OperandAccess) -> list[str]:
    return [e.pack for e in access.entries if e.pack is not None and e.loose]


def _bind_broadcasting_packs(
    accesses: Sequence[OperandAccess],
    ranks: Sequence[int | None],
    operands: list[tuple[int, OperandAccess, int]],
    pack_ranks: Ranks,
    attribute_packs: frozenset[str],
) -> None:
    """Binds packs with `~` to the maximum rank; None where the rank of an operand is unknown."""
    for k, access, rank in operands:
        for pack in _broadcasting_packs(access):
            other_axes = sum(pack_ranks.get(r) or 0 for r in access.packs if r != pack)
            pack_rank = rank - access.fixed - other_axes
            if pack in attribute_packs:
                _check_target(k, access, rank, pack_rank, pack_ranks[pack])
            else:
                pack_ranks[pack] = max(pack_ranks.get(pack) or 0, pack_rank)
    for access, operand_rank in zip(accesses, ranks, strict=True):
        if operand_rank is None:
            for pack in _broadcasting_packs(access):
                pack_ranks[pack] = pack_ranks[pack] if pack in attribute_packs else None


def _check_target(
    k: int, access: OperandAccess, rank: int, pack_rank: int, limit: int | None
) -> None:
    if limit is not None and pack_rank > limit:
        message = f"{access.shown}: expected at most {axes_text(limit)}, as in the target shape"
        raise InvalidCall(f"{message}, found {rank}", ((axes_text(rank), k, None),), code="E0304")
